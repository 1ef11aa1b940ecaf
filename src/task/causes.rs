//! Errors with their sources.

use std::error::Error;
use std::iter::successors;

/// Iterates over an error and its sources.
pub fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// Formats an error and its sources as `error: cause: cause of the cause`.
///
/// A source is omitted if the text before it already ends with it, since many libraries include the
/// source in the text of an error.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("store is unavailable")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn error_chain_contains_all_sources() {
        let error = Outer(std::io::Error::other("disk is full"));
        assert_eq!(chain(&error), "store is unavailable: disk is full");
    }

    #[test]
    fn error_chain_omits_a_source_with_the_same_text() {
        let error = Outer(std::io::Error::other("store is unavailable"));
        assert_eq!(chain(&error), "store is unavailable");
    }
}
