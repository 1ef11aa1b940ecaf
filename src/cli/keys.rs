//! `triptych keys`: API keys and accounts of the services on this machine, and keys of nodes.

mod account;
mod limits;
mod node;
mod stored_key;
mod table;

use std::path::PathBuf;

use ::tui::profiles::NO_PROFILE;
use accounts::{
    AccountName, Accounts, Scope, SignUp,
    server::{self, ServerOptions},
};
use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use db::postgres::DatabaseUrl;
use model::key::{ApiKey, KeyId};
use stack::{data_dir::DataDir, running::find_running};
use task::{clock::Clock, group::Group};
use web::host_names::HostName;
use wire::accounts::{KeyWithSecret, KeysBody, Secret};

use self::{account::AccountCommand, limits::LimitFlags, stored_key::WhoseKey};
use crate::cli::{
    copy_tables::{self, CopyFlags},
    gate::PortalFlags,
    output::{print, print_body, tell},
    own_files::{connect_accounts, open_accounts},
    stop,
};

/// The subcommands of `keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it, this once: only its hash is kept
    Create {
        /// What the key is for
        name: String,
        /// The account it is to belong to [default: none; operators alone manage it]
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
        /// Keep it for the commands and services of this user, as `keys store` does, in place of
        /// printing it
        #[arg(long, conflicts_with = "json")]
        store: bool,
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        form: Form,
    },
    /// List the keys: number, state, beginning, creation, last use, account, name
    List {
        /// The keys of one account only
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        form: Form,
    },
    /// Call a key something else
    Rename {
        #[command(flatten)]
        key: OneKey,
        /// What it is for
        name: String,
    },
    /// Give a key a new secret and print it, this once; the old one stops working, and what the key
    /// owns stays its own
    Renew {
        #[command(flatten)]
        key: OneKey,
        #[command(flatten)]
        form: Form,
    },
    /// Revoke a key for good
    Revoke(OneKey),
    /// Show a key's own limits, or set them
    Limits {
        #[command(flatten)]
        limits: LimitFlags,
        #[command(flatten)]
        key: OneKey,
        #[command(flatten)]
        form: Form,
    },
    /// Manage accounts: people who make their own keys
    #[command(subcommand)]
    Account(AccountCommand),
    /// Say whether anyone may sign up, or show it
    SignUp {
        /// open or closed [default: show which it is]
        #[arg(value_name = "open|closed")]
        sign_up: Option<SignUp>,
        #[command(flatten)]
        file: KeysFile,
    },
    /// Copy accounts, keys and sessions to another store: files on this machine, or PostgreSQL databases
    Copy(CopyFlags),
    /// Serve accounts and their page alone, without datasets
    Serve(ServeCommand),
    /// Keep the API key that this program shows to the services of a profile
    Store(WhoseKey),
    /// Forget that key
    Forget(WhoseKey),
    /// Say where that key is kept
    Where(WhoseKey),
    /// Make the private key of a cluster node, and print its peer id
    Node {
        /// The folder to write to: priv.bin, pub.bin, pubkey.txt, identity, peerid.txt. One that
        /// holds a key already is left as it is
        #[arg(long, short, value_name = "DIR")]
        output: PathBuf,
    },
}

/// Where the accounts are stored: a folder of this machine, or a database.
#[derive(Debug, Args)]
pub(crate) struct KeysFile {
    /// The services' data folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The PostgreSQL database of services with this `--store`, in place of a folder
    #[arg(long, env = "TRIPTYCH_STORE", hide_env_values = true, value_name = "URL")]
    database: Option<DatabaseUrl>,
}

/// How to print.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Form {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The number of a key, of which accounts.
#[derive(Debug, Args)]
pub(crate) struct OneKey {
    /// The key's number, as `list` shows it
    #[arg(value_parser = number)]
    id: i64,
    #[command(flatten)]
    file: KeysFile,
}

/// The flags of `keys serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Where to serve; `:8083` means port 8083 on every interface
    #[arg(long, default_value = "127.0.0.1:8083", value_name = "ADDRESS")]
    listen: String,
    #[command(flatten)]
    file: KeysFile,
    #[command(flatten)]
    portal: PortalFlags,
    /// Take the last address in X-Forwarded-For for the caller's. Only for a service that nobody
    /// but a proxy can reach
    #[arg(long)]
    behind_proxy: bool,
    /// A name under which accounts are reached, beside localhost and addresses. Requests that name
    /// another host are refused: a web page may have sent them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    host_name: Vec<HostName>,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

impl KeysFile {
    /// Opens the accounts, and makes them if they are missing.
    async fn open_or_create(self) -> anyhow::Result<Accounts> {
        match self.database {
            Some(url) => connect_accounts(&url, false, Clock::system()).await,
            None => open_accounts(&DataDir::of_services(self.data_dir)?, Clock::system()).await,
        }
    }

    /// Opens the accounts that are there: to look into a file that was made just now would hide a
    /// folder that is misspelled.
    async fn open(self) -> anyhow::Result<Accounts> {
        match self.database {
            Some(url) => connect_accounts(&url, false, Clock::system()).await,
            None => open_accounts(&DataDir::with_accounts(self.data_dir)?, Clock::system()).await,
        }
    }

    /// Which services a new key is for, and which it is not for.
    fn scope_text(&self) -> anyhow::Result<String> {
        let services = match &self.database {
            Some(url) => format!("the key is for services with `--store` {url}"),
            None => format!(
                "the key is for `datasets serve` and `inference serve` with their data in {}",
                DataDir::of_services(self.data_dir.clone())?.folder().display()
            ),
        };
        Ok(match find_running().and_then(|stack| stack.datasets) {
            None => services,
            Some(datasets) => format!(
                "{services}, not for the local stack that runs at {datasets}: commands find the key \
                 of that one by themselves where no other is configured"
            ),
        })
    }
}

impl OneKey {
    async fn open(self) -> anyhow::Result<(KeyId, Accounts)> {
        Ok((KeyId::new(self.id), self.file.open().await?))
    }
}

/// What to say where there is no key of that number to do `what` with.
fn no_key(what: &str, id: KeyId) -> anyhow::Error {
    anyhow::anyhow!(
        "{what} key {id}: there is none of that number that is not revoked (`triptych keys list` \
         shows all)"
    )
}

/// Runs a subcommand of `keys`.
///
/// # Errors
/// If the accounts cannot be read or written, or there is no such key or account.
pub(crate) async fn run(command: KeysCommand) -> anyhow::Result<()> {
    match command {
        KeysCommand::Create { name, account, store, file, form } => {
            let scope_text = file.scope_text()?;
            let accounts = file.open_or_create().await?;
            let owner = match account {
                None => None,
                Some(account) => Some(account::id(&accounts, account).await?),
            };
            let created = accounts.create_account_key(owner, &name).await;
            let (id, secret) = created.context("create a key")?;
            if store {
                stored_key::keep(NO_PROFILE, &secret)?;
            } else {
                print_secret(&accounts, id, &secret, form).await?;
            }
            tell(&scope_text);
            Ok(())
        }
        KeysCommand::List { account, file, form } => list(&file.open().await?, account, form).await,
        KeysCommand::Rename { key, name } => {
            let (id, accounts) = key.open().await?;
            let renamed = accounts.rename_key(Scope::All, id, &name).await;
            ensure!(renamed.context("rename the key")?, no_key("rename", id));
            tell(&format!("key {id} is called {name} now"));
            Ok(())
        }
        KeysCommand::Renew { key, form } => {
            let (id, accounts) = key.open().await?;
            let secret = accounts.renew(Scope::All, id).await.context("renew the key")?;
            print_secret(&accounts, id, &secret.ok_or_else(|| no_key("renew", id))?, form).await
        }
        KeysCommand::Revoke(key) => {
            let (id, accounts) = key.open().await?;
            let revoked = accounts.revoke_key(Scope::All, id).await;
            ensure!(revoked.context("revoke the key")?, no_key("revoke", id));
            tell(&format!("key {id} opens nothing any more"));
            Ok(())
        }
        KeysCommand::Limits { key, limits, form } => {
            let (id, accounts) = key.open().await?;
            limits::run(&accounts, id, limits, form).await
        }
        KeysCommand::Account(command) => account::run(command).await,
        KeysCommand::SignUp { sign_up, file } => {
            switch(&file.open_or_create().await?, sign_up).await
        }
        KeysCommand::Copy(flags) => {
            copy_tables::run(flags, Accounts::copied_tables(), DataDir::accounts).await
        }
        KeysCommand::Serve(command) => serve(command).await,
        KeysCommand::Store(whose) => stored_key::store(&whose),
        KeysCommand::Forget(whose) => stored_key::forget(&whose),
        KeysCommand::Where(whose) => stored_key::place(&whose),
        KeysCommand::Node { output } => print(&node::new(&output)?.peer_id().to_string()),
    }
}

/// Says whether anyone may sign up, or shows it.
async fn switch(accounts: &Accounts, sign_up: Option<SignUp>) -> anyhow::Result<()> {
    let Some(sign_up) = sign_up else {
        return print(&accounts.sign_up().await.context("read the switch")?.to_string());
    };
    accounts.set_sign_up(sign_up).await.context("switch sign-up")?;
    tell(&format!("sign-up is {sign_up} now"));
    Ok(())
}

async fn list(accounts: &Accounts, account: Option<AccountName>, form: Form) -> anyhow::Result<()> {
    let scope = match account {
        None => Scope::All,
        Some(account) => Scope::Of(account::id(accounts, account).await?),
    };
    let keys = accounts.list_keys(scope).await.context("list the keys")?;
    if form.json {
        return print_body(&KeysBody {
            keys: keys.iter().map(accounts::KeyRecord::body).collect(),
        });
    }
    if keys.is_empty() {
        tell("there are no such keys; `triptych keys create NAME` makes one");
        return Ok(());
    }
    let people = accounts.accounts().await.context("list the accounts")?;
    print(&table::of_keys(&keys, &people))
}

/// Prints a key's secret: alone, so that a script can take it, or with all that is known of the key.
async fn print_secret(
    accounts: &Accounts,
    id: KeyId,
    secret: &ApiKey,
    form: Form,
) -> anyhow::Result<()> {
    if !form.json {
        return print(secret.reveal());
    }
    let record = accounts.key(Scope::All, id).await.context("read the key")?;
    let record = record.with_context(|| format!("read key {id}: it is gone"))?;
    print_body(&KeyWithSecret { key: record.body(), api_key: Secret::from(secret) })
}

async fn serve(command: ServeCommand) -> anyhow::Result<()> {
    let _log = command.process.log("accounts", None)?;
    let (group, accounts) = (Group::default(), command.file.open_or_create().await?);
    accounts.start_maintenance(&group);
    let addresses = crate::cli::gate::addresses(command.behind_proxy);
    let hosts = command.host_name.into_iter().collect();
    let router = command.portal.router(accounts, addresses, hosts)?;
    let options = ServerOptions { listen: command.listen, addresses };
    server::start(options, router, &group).await.context("start serving accounts")?;
    let stopped = stop::wait_for_stop(command.process.stop_events()).await;
    group.shutdown().await;
    stopped
}

fn number(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "a key's number, as `triptych keys list` shows it")
}
