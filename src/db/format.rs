//! Formats of stores and the upgrades between them. A format is a number that increases with each change
//! of the tables.
//!
//! A store of an older format is upgraded in one transaction when it is opened for writing. Services
//! that already have the store open check the format in each writing transaction, so that their writes
//! fail after an upgrade. A store is rejected if its format is newer than the format of the program, or
//! older than the first upgrade accepts.

/// Tables have a format that this version of the program cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} has format {found}, expected {known}; {}", self.advice())]
pub struct FormatError {
    /// Name of the store, such as `accounts file`.
    pub name: String,
    /// Format of the tables.
    pub found: i64,
    /// Format that this version of the program uses.
    pub known: i64,
}

impl FormatError {
    const fn advice(&self) -> &'static str {
        if self.found > self.known {
            "run the version that raised it, or restore the backup made before"
        } else {
            "a service upgrades it at its start unless it is too old: then export the data with the \
             version that wrote it"
        }
    }
}

/// Returns the steps that upgrade the store `name` from format `found` to format `known`, the result of
/// the last step. Without steps, `found` must be equal to `known`.
///
/// # Errors
/// [`FormatError`] if there are no such steps.
pub(crate) fn steps_from<'s>(
    name: &str,
    steps: &'s [&'static str],
    found: i64,
    known: i64,
) -> Result<&'s [&'static str], FormatError> {
    let n_missing = known.checked_sub(found).and_then(|n| usize::try_from(n).ok());
    let n_skipped = n_missing.and_then(|n| steps.len().checked_sub(n));
    let missing = n_skipped.and_then(|n| steps.get(n..));
    missing.ok_or_else(|| FormatError { name: name.to_owned(), found, known })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_formats_with_an_upgrade_step_can_be_upgraded() {
        let steps = ["7 to 8", "8 to 9"];
        let check = |found, want: Option<&[&str]>| {
            assert_eq!(steps_from("store", &steps, found, 9).ok(), want, "from {found}");
        };
        check(7, Some(&["7 to 8", "8 to 9"]));
        check(8, Some(&["8 to 9"]));
        check(9, Some(&[]));
        for unknown in [i64::MIN, -1, 0, 6, 10, i64::MAX] {
            check(unknown, None);
        }
    }
}
