//! Keys and accounts as people read them: columns of text.

use std::fmt::Write as _;

use accounts::{AccountId, AccountRecord, KeyRecord};
use model::timestamp::Timestamp;

/// A table of keys, with the names of their accounts.
pub(super) fn of_keys(keys: &[KeyRecord], people: &[AccountRecord]) -> String {
    let owner = |id: Option<AccountId>| {
        let found = id.and_then(|id| people.iter().find(|account| account.id == id));
        found.map_or("-", |account| account.name.as_str())
    };
    let rows = keys.iter().map(|key| {
        let state = if key.revoked_at.is_some() { "revoked" } else { "valid" };
        let prefix = key.prefix.as_ref().map_or("UP-…".to_owned(), |prefix| format!("{prefix}…"));
        let used = key.used_at.map_or("never".to_owned(), seconds);
        let created = seconds(key.created_at);
        let owner = owner(key.account).to_owned();
        [key.id.to_string(), state.to_owned(), prefix, created, used, owner, key.name.clone()]
    });
    let head = ["ID", "STATE", "KEY", "CREATED", "LAST USED", "ACCOUNT", "NAME"];
    aligned(head.map(str::to_owned), rows.collect())
}

/// A table of accounts, with how many good keys each has.
pub(super) fn of_accounts(people: &[AccountRecord], n_keys: impl Fn(AccountId) -> usize) -> String {
    let rows = people.iter().map(|account| {
        let created = seconds(account.created_at);
        [
            account.id.get().to_string(),
            created,
            n_keys(account.id).to_string(),
            account.name.clone(),
        ]
    });
    aligned(["ID", "CREATED", "KEYS", "NAME"].map(str::to_owned), rows.collect())
}

/// A moment to the second.
fn seconds(moment: Timestamp) -> String {
    Timestamp::from_seconds(moment.seconds()).to_string()
}

/// Columns as wide as what is in them; the last one is not filled up.
fn aligned<const N: usize>(head: [String; N], rows: Vec<[String; N]>) -> String {
    let lines: Vec<[String; N]> = std::iter::once(head).chain(rows).collect();
    let mut text = String::new();
    for line in &lines {
        for (column, cell) in line.iter().enumerate() {
            let widths = lines.iter().filter_map(|line| line.get(column));
            let width = widths.map(|cell| cell.chars().count()).max().unwrap_or(0);
            // Writing to a string cannot fail.
            if column + 1 < N {
                write!(text, "{cell:<width$}  ").unwrap_or_default();
            } else {
                writeln!(text, "{cell}").unwrap_or_default();
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let text = aligned(row(["ID", "B", "NAME"]), vec![row(["1", "näch", "x"])]);
        assert_eq!(text, "ID  B     NAME\n1   näch  x\n");
    }
}
