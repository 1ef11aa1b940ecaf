//! Formats of stores and the upgrades between them. A format is a number that increases with each change
//! of the tables.
//!
//! A store of an older format is upgraded in one transaction when it is opened for writing. Services
//! that already have the store open check the format in each writing transaction, so that their writes
//! fail after an upgrade. A store is rejected if its format is newer than the format of the program, or
//! older than the first upgrade accepts.

/// Returns the steps that upgrade from format `found` to format `known`, the result of the last step.
/// Returns `None` if there are no such steps.
pub(crate) fn steps_from<'s>(
    steps: &'s [&'static str],
    found: i64,
    known: i64,
) -> Option<&'s [&'static str]> {
    let n_missing = usize::try_from(known.checked_sub(found)?).ok()?;
    steps.get(steps.len().checked_sub(n_missing)?..)
}

/// Returns advice for a store in format `found`, which a program with format `known` rejects.
#[must_use]
pub const fn advice(found: i64, known: i64) -> &'static str {
    if found > known {
        "run the version that raised it, or restore the backup made before"
    } else {
        "a service upgrades it at its start unless it is too old: then export the data with the version \
         that wrote it"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_formats_with_an_upgrade_step_can_be_upgraded() {
        let steps = ["7 to 8", "8 to 9"];
        let check = |found, want: Option<&[&str]>| {
            assert_eq!(steps_from(&steps, found, 9), want, "from {found}");
        };
        check(7, Some(&["7 to 8", "8 to 9"]));
        check(8, Some(&["8 to 9"]));
        check(9, Some(&[]));
        for unknown in [i64::MIN, -1, 0, 6, 10, i64::MAX] {
            check(unknown, None);
        }
    }
}
