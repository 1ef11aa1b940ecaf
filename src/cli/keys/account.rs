//! `triptych keys account`: manages accounts.

use std::collections::HashMap;

use accounts::{AccountId, AccountName, AccountRecord, Accounts, Scope};
use anyhow::{Context as _, ensure};
use clap::Subcommand;
use model::count::counted;
use wire::accounts::AccountsBody;

use super::{FormatFlags, KeysFile, format_seconds, password};
use crate::cli::output::{Column, print, print_body, show, table_of, tell};

/// Subcommands of `keys account`.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Create an account. The password is prompted for, or is the first line of standard input
    Add {
        /// User name or e-mail address
        name: AccountName,
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        format: FormatFlags,
    },
    /// List the accounts: number, creation, valid keys, name
    List {
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        format: FormatFlags,
    },
    /// Change the password of an account, and end its sessions. The password is read as by `add`
    Password {
        /// Name of the account
        name: AccountName,
        #[command(flatten)]
        file: KeysFile,
    },
    /// Delete an account with its sessions, and revoke its keys for good
    Remove {
        /// Name of the account
        name: AccountName,
        /// Confirm: deleted accounts cannot be recovered
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        file: KeysFile,
    },
}

/// Runs a subcommand of `keys account`.
///
/// # Errors
/// If the accounts cannot be read or written, or the account does not exist.
pub(super) async fn run(command: AccountCommand) -> anyhow::Result<()> {
    match command {
        AccountCommand::Add { name, file, format } => {
            let accounts = file.open_or_create().await?;
            let password = password::read_new(&name)?;
            let account = accounts
                .register(name, password)
                .await
                .context("cannot create the account")?
                .account;
            show(format.json, &account.body(), |_| {
                format!("{} is account {}", account.name, account.id.get())
            })
        }
        AccountCommand::List { file, format } => list(&file.open().await?, format).await,
        AccountCommand::Password { name, file } => {
            let accounts = file.open().await?;
            id(&accounts, name.clone()).await?;
            let changed = accounts.set_password(name.clone(), password::read_new(&name)?).await;
            let changed = changed.context("cannot change the password")?;
            let n_sessions = changed.ok_or_else(|| missing(&name))?;
            print(&format!("changed; {} ended", counted(n_sessions, "session")))
        }
        AccountCommand::Remove { name, yes, file } => {
            let accounts = file.open().await?;
            id(&accounts, name.clone()).await?;
            let shown = name.as_str();
            ensure!(yes, "deleting account {shown} was not confirmed\nhint: pass --yes");
            let removed = accounts.remove_account(name.clone()).await;
            let removed = removed.context("cannot delete the account")?;
            let n_keys = removed.ok_or_else(|| missing(&name))?;
            print(&format!("deleted; {} revoked", counted(n_keys, "key")))
        }
    }
}

async fn list(accounts: &Accounts, format: FormatFlags) -> anyhow::Result<()> {
    let people = accounts.accounts().await.context("cannot list accounts")?;
    if format.json {
        let accounts = people.iter().map(AccountRecord::body).collect();
        return print_body(&AccountsBody { accounts });
    }
    if people.is_empty() {
        tell("no accounts; `triptych keys account add NAME` creates one");
        return Ok(());
    }
    let mut n_keys: HashMap<AccountId, usize> = HashMap::new();
    for key in accounts.list_keys(Scope::All).await.context("cannot list keys")? {
        if let Some(account) = key.account.filter(|_| key.revoked_at.is_none()) {
            *n_keys.entry(account).or_default() += 1;
        }
    }
    let columns: [Column<'_, AccountRecord>; 4] = [
        ("ID", &|account| account.id.get().to_string()),
        ("CREATED", &|account| format_seconds(account.created_at)),
        ("KEYS", &|account| n_keys.get(&account.id).copied().unwrap_or(0).to_string()),
        ("NAME", &|account| account.name.clone()),
    ];
    print(&table_of(&people, &columns))
}

/// Returns the number of the account called `name`.
///
/// # Errors
/// If there is no such account, or the accounts cannot be read.
pub(super) async fn id(accounts: &Accounts, name: AccountName) -> anyhow::Result<AccountId> {
    let found = accounts.account(name.clone()).await.context("cannot read the account")?;
    found.map(|account| account.id).ok_or_else(|| missing(&name))
}

fn missing(name: &AccountName) -> anyhow::Error {
    anyhow::anyhow!(
        "account {} does not exist\nhint: `triptych keys account list` lists all accounts",
        name.as_str()
    )
}
