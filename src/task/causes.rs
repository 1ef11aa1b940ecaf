//! Formats an error with its sources.

use std::error::Error;

/// An error and all its causes, as one text: `what failed: why: why that`. A cause that the text ends
/// with already, as errors of libraries often do, is not repeated.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("open the store")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn an_error_is_formatted_with_its_sources() {
        let error = Outer(std::io::Error::other("the disk is full"));
        assert_eq!(chain(&error), "open the store: the disk is full");
    }

    #[test]
    fn a_cause_that_its_error_repeats_is_not_repeated_again() {
        let error = Outer(std::io::Error::other("open the store"));
        assert_eq!(chain(&error), "open the store");
    }
}
