//! `triptych keys account`: accounts, as operators manage them.

use std::collections::HashMap;

use accounts::{AccountId, AccountName, Accounts, Scope};
use anyhow::{Context as _, ensure};
use clap::Subcommand;
use model::count::counted;
use wire::accounts::AccountsBody;

use super::{Form, KeysFile, table};
use crate::cli::{
    output::{print, print_body, tell},
    password,
};

/// The subcommands of `keys account`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Make an account. The password is asked for, or is the first line of standard input
    Add {
        /// A user name or an e-mail address
        name: AccountName,
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        form: Form,
    },
    /// List the accounts: number, creation, good keys, name
    List {
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        form: Form,
    },
    /// Give an account another password, and end its sessions. Asked for as by `add`
    Password {
        /// The name of the account
        name: AccountName,
        #[command(flatten)]
        file: KeysFile,
    },
    /// Delete an account with its sessions, and revoke its keys for good
    Remove {
        /// The name of the account
        name: AccountName,
        /// Do it without asking
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        file: KeysFile,
    },
}

/// Runs a subcommand of `keys account`.
///
/// # Errors
/// If the accounts file fails, or there is no such account.
pub(super) async fn run(command: AccountCommand) -> anyhow::Result<()> {
    match command {
        AccountCommand::Add { name, file, form } => {
            let accounts = file.open_or_create().await?;
            let password = password::ask_new(&name)?;
            let account =
                accounts.register(name, password).await.context("make the account")?.account;
            if form.json {
                return print_body(&account.body());
            }
            print(&format!("{} is account {}", account.name, account.id.get()))
        }
        AccountCommand::List { file, form } => list(&file.open().await?, form).await,
        AccountCommand::Password { name, file } => {
            let accounts = file.open().await?;
            id(&accounts, name.clone()).await?;
            let changed = accounts.set_password(name.clone(), password::ask_new(&name)?).await;
            let changed = changed.context("change the password")?;
            let changed = changed.ok_or_else(|| none(&name))?;
            print(&format!("changed; {} ended", counted(changed, "session")))
        }
        AccountCommand::Remove { name, yes, file } => {
            let accounts = file.open().await?;
            id(&accounts, name.clone()).await?;
            let deleting = format!("delete account {} and revoke its keys", name.as_str());
            ensure!(yes, "{deleting} without being sure: add --yes");
            let removed = accounts.remove_account(name.clone()).await;
            let n_keys = removed.context("delete the account")?.ok_or_else(|| none(&name))?;
            print(&format!("deleted; {} revoked", counted(n_keys, "key")))
        }
    }
}

async fn list(accounts: &Accounts, form: Form) -> anyhow::Result<()> {
    let people = accounts.accounts().await.context("list the accounts")?;
    if form.json {
        let accounts = people.iter().map(accounts::AccountRecord::body).collect();
        return print_body(&AccountsBody { accounts });
    }
    if people.is_empty() {
        tell("there are no accounts; `triptych keys account add NAME` makes one");
        return Ok(());
    }
    let mut n_keys: HashMap<AccountId, usize> = HashMap::new();
    for key in accounts.list_keys(Scope::All).await.context("list the keys")? {
        if let Some(account) = key.account.filter(|_| key.revoked_at.is_none()) {
            *n_keys.entry(account).or_default() += 1;
        }
    }
    print(&table::of_accounts(&people, |id| n_keys.get(&id).copied().unwrap_or(0)))
}

/// The number of the account called `name`.
///
/// # Errors
/// If there is none, or the file fails.
pub(super) async fn id(accounts: &Accounts, name: AccountName) -> anyhow::Result<AccountId> {
    let found = accounts.account(name.clone()).await.context("look for the account")?;
    found.map(|account| account.id).ok_or_else(|| none(&name))
}

fn none(name: &AccountName) -> anyhow::Error {
    anyhow::anyhow!(
        "find account {}: `triptych keys account list` shows those there are",
        name.as_str()
    )
}
