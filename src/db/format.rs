//! Formats of stores, which are numbers that increase with each change of the tables, and the upgrades
//! between them.
//!
//! A store of an older format is upgraded in one transaction when it is opened to write. A service that
//! has it open reads the format in each of its writes and fails them from then on. A store that is newer
//! than the program, or older than the first upgrade, is rejected.

use rusqlite::Connection;

/// Upgrade of the tables of a file from one format to the next.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// SQL statements.
    Sql(&'static str),
    /// Code, for a change that statements cannot express, such as one of the bytes of chunks.
    Code(fn(&Connection) -> rusqlite::Result<()>),
}

impl Step {
    pub(crate) fn run(self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::Sql(statements) => connection.execute_batch(statements),
            Self::Code(change) => change(connection),
        }
    }
}

/// Returns the part of `steps` that leads from format `found` to `known`, the format after the last
/// step. Returns `None` if there is no such part.
pub(crate) fn steps_from<S>(steps: &[S], found: i64, known: i64) -> Option<&[S]> {
    let n_missing = usize::try_from(known.checked_sub(found)?).ok()?;
    steps.get(steps.len().checked_sub(n_missing)?..)
}

/// Returns advice about a store of format `found` that a program of format `known` rejects.
#[must_use]
pub const fn advice(found: i64, known: i64) -> &'static str {
    if found > known {
        "run the version that raised it, or restore the backup made before"
    } else {
        "export the data with the version that wrote it and import them into a new store"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_formats_within_the_steps_can_be_upgraded() {
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
