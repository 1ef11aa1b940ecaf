//! Keys and accounts as people read them: columns of text.

use accounts::{AccountId, AccountRecord, KeyRecord};
use model::timestamp::Timestamp;

use crate::cli::output::table;

/// A table of keys, with the names of their accounts.
pub(super) fn of_keys(keys: &[KeyRecord], people: &[AccountRecord]) -> String {
    let owner = |id: Option<AccountId>| {
        let found = id.and_then(|id| people.iter().find(|account| account.id == id));
        found.map_or("-", |account| account.name.as_str())
    };
    let rows = keys.iter().map(|key| {
        let state = if key.revoked_at.is_some() { "revoked" } else { "valid" };
        let prefix = key.prefix.as_ref().map_or("UP-…".to_owned(), |prefix| format!("{prefix}…"));
        let used = key.used_at.map_or("never".to_owned(), format_seconds);
        let created = format_seconds(key.created_at);
        let owner = owner(key.account).to_owned();
        vec![key.id.to_string(), state.to_owned(), prefix, created, used, owner, key.name.clone()]
    });
    let head = ["ID", "STATE", "KEY", "CREATED", "LAST USED", "ACCOUNT", "NAME"];
    table(&head, &rows.collect::<Vec<_>>(), &[])
}

/// A table of accounts, with how many good keys each has.
pub(super) fn of_accounts(people: &[AccountRecord], n_keys: impl Fn(AccountId) -> usize) -> String {
    let rows = people.iter().map(|account| {
        let created = format_seconds(account.created_at);
        vec![
            account.id.get().to_string(),
            created,
            n_keys(account.id).to_string(),
            account.name.clone(),
        ]
    });
    table(&["ID", "CREATED", "KEYS", "NAME"], &rows.collect::<Vec<_>>(), &[])
}

/// A timestamp to the second.
fn format_seconds(timestamp: Timestamp) -> String {
    Timestamp::from_seconds(timestamp.seconds()).to_string()
}
