//! An error with all its causes, for the log line of who handles it.

use std::{error::Error, fmt::Write as _};

/// The texts of `error` and of what caused it, in one line.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // Writing to a text cannot fail.
        write!(text, ": {cause}").unwrap_or_default();
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InferenceError, ReadError};

    #[test]
    fn every_cause_is_told() {
        let error = ReadError::Failed(InferenceError::Stopped);
        assert_eq!(causes(&error), "read the network: finish before the program stopped");
    }
}
