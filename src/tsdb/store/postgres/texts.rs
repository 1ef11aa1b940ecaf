//! Texts of the catalog as its tables have them.

use model::dataset::Dtype;

use super::Result;

/// What the stored name of a deleted column starts with. No other name contains it, as a control
/// character.
const DELETED: char = '\t';

/// A text to look for, which may be any: the database has none with a zero, and none of ours contains the
/// control character in its place.
pub(super) fn sought(text: &str) -> String {
    text.replace('\0', "\u{1}")
}

/// The type that is stored as this text.
pub(super) fn dtype(text: &str) -> Result<Dtype> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)).into())
}

/// The name of a column as others see it: empty for a deleted one.
pub(super) fn shown_name(name: String) -> String {
    if name.starts_with(DELETED) { String::new() } else { name }
}
