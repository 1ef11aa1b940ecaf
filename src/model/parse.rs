//! Why a text is none of the words of this room.

/// How much of a text an error shows, in characters: what is longer is no word but a mistake.
const SHOWN_CHARS: usize = 80;

/// A text that was to be one of the words of this room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{text}` as {wanted}")]
pub struct ParseError {
    text: String,
    wanted: &'static str,
}

impl ParseError {
    pub(crate) fn new(text: &str, wanted: &'static str) -> Self {
        Self { text: text.chars().take(SHOWN_CHARS).collect(), wanted }
    }
}

/// Gives a text that is checked when it is read its two functions: `$is_fit` says what it may be.
macro_rules! checked_text {
    ($name:ident, $is_fit:expr, $wanted:literal) => {
        impl $name {
            /// The text, which was found fit when it was read.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::parse::ParseError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                if $is_fit(text) {
                    Ok(Self(text.into()))
                } else {
                    Err($crate::parse::ParseError::new(text, $wanted))
                }
            }
        }
    };
}

/// Gives a number that is 1 or more its functions.
macro_rules! positive_number {
    ($name:ident($kind:ty), $wanted:literal) => {
        impl $name {
            /// Returns `number` as such a one, if it is 1 or more.
            #[must_use]
            pub const fn new(number: $kind) -> Option<Self> {
                if number > 0 { Some(Self(number)) } else { None }
            }

            /// The number, 1 or more.
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

pub(crate) use {checked_text, positive_number};
