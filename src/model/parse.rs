//! Error of parsing the types of this crate.

/// Maximum length of the text that is shown in an error, in characters.
const SHOWN_CHARS: usize = 80;

/// Error for a text that cannot be parsed as a type of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct ParseError {
    text: String,
    wanted: &'static str,
}

impl ParseError {
    /// Creates the error for `text`. `wanted` describes a valid text: a noun with its article.
    #[must_use]
    pub fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.chars().take(SHOWN_CHARS).collect(), wanted }
    }
}

/// Implements access to and parsing of a text that must satisfy `$is_valid`.
macro_rules! checked_text {
    ($name:ident, $is_valid:expr, $wanted:literal) => {
        impl $name {
            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::parse::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if $is_valid(text) {
                    Ok(Self(text.into()))
                } else {
                    Err($crate::parse::ParseError::new(text, $wanted))
                }
            }
        }
    };
}

/// Implements access to and parsing of a number that must be at least 1.
macro_rules! positive_number {
    ($name:ident($kind:ty), $wanted:literal) => {
        impl $name {
            /// Returns the value for `number`, if it is at least 1.
            #[must_use]
            pub const fn new(number: $kind) -> Option<Self> {
                if number > 0 { Some(Self(number)) } else { None }
            }

            /// Returns the number, which is at least 1.
            #[must_use]
            pub const fn get(self) -> $kind {
                self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::parse::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let number = text.parse().ok().and_then(Self::new);
                number.ok_or_else(|| $crate::parse::ParseError::new(text, $wanted))
            }
        }
    };
}

/// Defines `new` and `get` of an id of stored rows.
#[macro_export]
macro_rules! row_id {
    ($name:ident) => {
        impl $name {
            /// Returns the id with this `number`, which must come from [`Self::get`].
            #[must_use]
            pub const fn new(number: i64) -> Self {
                Self(number)
            }

            /// Returns the number of the id.
            #[must_use]
            pub const fn get(self) -> i64 {
                self.0
            }
        }
    };
}

pub(crate) use checked_text;
pub(crate) use positive_number;
