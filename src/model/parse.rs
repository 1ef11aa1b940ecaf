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
