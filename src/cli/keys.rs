//! `triptych keys`: API keys and accounts of the services on this machine, API keys that this program
//! sends, and private keys of nodes.

mod account;
mod limits;
mod password;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use ::tui::profiles::NO_PROFILE;
use accounts::server::{self, ServerOptions};
use accounts::{AccountId, AccountName, AccountRecord, Accounts, KeyRecord, Scope, SignUp};
use anyhow::{Context as _, anyhow, bail, ensure};
use clap::{Args, Subcommand};
use cluster::identity::Identity;
use db::postgres::DatabaseUrl;
use model::key::{ApiKey, KeyId};
use model::timestamp::Timestamp;
use serde_json::json;
use stack::data_dir::DataDir;
use stack::running::find_running;
use stack::start::KEY_VARIABLE;
use task::clock::Clock;
use task::group::Group;
use web::host_names::HostName;
use wire::accounts::{KeyWithSecret, KeysBody, Secret};

use self::account::AccountCommand;
use self::limits::LimitFlags;
use crate::cli::copy_tables::{self, CopyFlags};
use crate::cli::gate::PortalFlags;
use crate::cli::output::{Column, print, print_body, table_of, tell};
use crate::cli::own_files::{connect_accounts, open_accounts};
use crate::cli::secret::Keys;
use crate::cli::stop;

/// Name of the file with the private key in a directory that `keys node` writes.
const PRIVATE_FILE: &str = "priv.bin";

/// The subcommands of `keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it. It cannot be printed again later, since only its hash is stored
    Create {
        /// Purpose of the key
        name: String,
        /// Account of the key [default: none. The key is then an operator's: it creates topics and
        /// reads their secrets]
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
        /// Store the key for the commands and services of this user, as `keys store` does, instead
        /// of printing it
        #[arg(long, conflicts_with = "json")]
        store: bool,
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        format: FormatFlags,
    },
    /// List the keys: number, state, beginning, creation, last use, account, name
    List {
        /// Only keys of this account
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
        #[command(flatten)]
        file: KeysFile,
        #[command(flatten)]
        format: FormatFlags,
    },
    /// Change the name of a key
    Rename {
        #[command(flatten)]
        key: OneKey,
        /// Purpose of the key
        name: String,
    },
    /// Give a key a new secret, which is printed only now. The old secret stops working, and the
    /// key keeps what it owns
    Renew {
        #[command(flatten)]
        key: OneKey,
        #[command(flatten)]
        format: FormatFlags,
    },
    /// Revoke a key for good
    Revoke(OneKey),
    /// Show or set the limits of a key
    Limits {
        #[command(flatten)]
        limits: LimitFlags,
        #[command(flatten)]
        key: OneKey,
        #[command(flatten)]
        format: FormatFlags,
    },
    /// Manage accounts: people who create their own keys
    #[command(subcommand)]
    Account(AccountCommand),
    /// Show or set whether anyone can sign up
    SignUp {
        /// open or closed [default: show the setting]
        #[arg(value_name = "open|closed")]
        sign_up: Option<SignUp>,
        #[command(flatten)]
        file: KeysFile,
    },
    /// Copy accounts, keys and sessions to another store: files on this machine, or PostgreSQL
    /// databases
    Copy(CopyFlags),
    /// Serve accounts and their portal only, without datasets
    Serve(ServeCommand),
    /// Store the API key that this program sends to the services of a profile
    Store(ProfileFlag),
    /// Remove the stored API key of a profile
    Forget(ProfileFlag),
    /// Print where the API key of a profile is stored
    Where(ProfileFlag),
    /// Create the private key of a cluster node, and print its peer id
    Node {
        /// Directory for priv.bin, pub.bin, pubkey.txt, identity and peerid.txt. An existing key is
        /// not replaced
        #[arg(long, short, value_name = "DIR")]
        output: PathBuf,
    },
}

/// Location of the accounts: a directory on this machine, or a database.
#[derive(Debug, Args)]
pub(crate) struct KeysFile {
    /// The services' data directory [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// PostgreSQL database that the services use with `--store`, instead of a directory
    #[arg(long, env = "TRIPTYCH_STORE", hide_env_values = true, value_name = "URL")]
    database: Option<DatabaseUrl>,
}

/// Flags that select the format of the output.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct FormatFlags {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// The number of a key, and the location of the accounts with that key.
#[derive(Debug, Args)]
pub(crate) struct OneKey {
    /// Number of the key, as `list` prints it
    #[arg(value_parser = number)]
    id: i64,
    #[command(flatten)]
    file: KeysFile,
}

/// Profile with which an API key is stored.
#[derive(Debug, Args)]
pub(crate) struct ProfileFlag {
    /// Profile in the configuration file [default: the key used without a profile]
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME", default_value = NO_PROFILE)]
    #[arg(hide_default_value = true)]
    profile: String,
}

/// Flags of `keys serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Address to serve at; `:8083` means port 8083 on all interfaces
    #[arg(long, default_value = "127.0.0.1:8083", value_name = "ADDRESS")]
    listen: String,
    #[command(flatten)]
    file: KeysFile,
    #[command(flatten)]
    portal: PortalFlags,
    /// Use the last address in X-Forwarded-For as the caller's. Only for a service that is reached
    /// through a proxy and in no other way
    #[arg(long)]
    behind_proxy: bool,
    /// Name of the service's host, in addition to names without a dot, the name of this machine and
    /// IP addresses. Requests that name another host are rejected, since a web page may have sent
    /// them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    host_name: Vec<HostName>,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

impl KeysFile {
    /// Opens the accounts, which are created if they are missing.
    async fn open_or_create(self) -> anyhow::Result<Accounts> {
        match self.database {
            Some(url) => connect_accounts(&url, false, Clock::system()).await,
            None => open_accounts(&DataDir::of_services(self.data_dir)?, Clock::system()).await,
        }
    }

    /// Opens existing accounts. A missing accounts file is an error, so that a misspelled directory is
    /// noticed.
    async fn open(self) -> anyhow::Result<Accounts> {
        match self.database {
            Some(url) => connect_accounts(&url, false, Clock::system()).await,
            None => open_accounts(&DataDir::with_accounts(self.data_dir)?, Clock::system()).await,
        }
    }

    /// Describes the services at which a new key is valid.
    fn scope_text(&self) -> anyhow::Result<String> {
        let running = find_running();
        let services = if let Some(url) = &self.database {
            format!("the key is for services with `--store` {url}")
        } else {
            let data_dir = DataDir::locate(self.data_dir.clone())?;
            let of_stack = running.as_ref().and_then(|stack| stack.folder.canonicalize().ok());
            if of_stack.is_some() && data_dir.folder().canonicalize().ok() == of_stack {
                return Ok("the key is for the running local stack".to_owned());
            }
            format!(
                "the key is for `datasets serve` and `inference serve` with their data in {}",
                data_dir.folder().display()
            )
        };
        Ok(match running.and_then(|stack| stack.addresses.datasets) {
            None => services,
            Some(datasets) => format!(
                "{services}, not for the running local stack at {datasets}: commands find its key themselves if no \
                 other is configured"
            ),
        })
    }
}

impl OneKey {
    async fn open(self) -> anyhow::Result<(KeyId, Accounts)> {
        Ok((KeyId::new(self.id), self.file.open().await?))
    }
}

/// Returns the error about a key that does not exist.
fn no_key(id: KeyId) -> anyhow::Error {
    anyhow!("key {id} does not exist or is revoked\nhint: `triptych keys list` lists all keys")
}

/// Runs a subcommand of `keys`.
///
/// # Errors
/// If the accounts cannot be read or written, or a key or account does not exist.
pub(crate) async fn run(command: KeysCommand) -> anyhow::Result<()> {
    match command {
        KeysCommand::Create { name, account, store, file, format } => {
            let scope_text = file.scope_text()?;
            let accounts = file.open_or_create().await?;
            let owner = match account {
                None => None,
                Some(account) => Some(account::id(&accounts, account).await?),
            };
            let created = accounts.create_account_key(owner, &name).await;
            let (id, secret) = created.context("cannot create a key")?;
            let stored = if store { store_key(NO_PROFILE, &secret) } else { Ok(()) };
            // Also printed if it could not be stored, since the secret cannot be read again.
            if !store || stored.is_err() {
                print_secret(&accounts, id, &secret, format).await?;
            }
            stored?;
            tell(&scope_text);
            Ok(())
        }
        KeysCommand::List { account, file, format } => {
            list(&file.open().await?, account, format).await
        }
        KeysCommand::Rename { key, name } => {
            let (id, accounts) = key.open().await?;
            let renamed = accounts.rename_key(Scope::All, id, &name).await;
            ensure!(renamed.context("cannot rename the key")?, no_key(id));
            tell(&format!("key {id} is now called {name}"));
            Ok(())
        }
        KeysCommand::Renew { key, format } => {
            let (id, accounts) = key.open().await?;
            let secret = accounts.renew(Scope::All, id).await.context("cannot renew the key")?;
            print_secret(&accounts, id, &secret.ok_or_else(|| no_key(id))?, format).await
        }
        KeysCommand::Revoke(key) => {
            let (id, accounts) = key.open().await?;
            let revoked = accounts.revoke_key(Scope::All, id).await;
            ensure!(revoked.context("cannot revoke the key")?, no_key(id));
            tell(&format!("revoked key {id}"));
            Ok(())
        }
        KeysCommand::Limits { key, limits, format } => {
            let (id, accounts) = key.open().await?;
            limits::run(&accounts, id, limits, format).await
        }
        KeysCommand::Account(command) => account::run(command).await,
        KeysCommand::SignUp { sign_up, file } => {
            show_or_set_sign_up(&file.open().await?, sign_up).await
        }
        KeysCommand::Copy(flags) => {
            copy_tables::run(flags, Accounts::copied_tables(), DataDir::accounts).await
        }
        KeysCommand::Serve(command) => serve(command).await,
        KeysCommand::Store(ProfileFlag { profile }) => {
            let text = password::read_secret("API key: ")?;
            store_key(&profile, &text.trim().parse().context("invalid API key")?)
        }
        KeysCommand::Forget(ProfileFlag { profile }) => forget_key(&profile),
        KeysCommand::Where(ProfileFlag { profile }) => match Keys::of_user()?.find(&profile)? {
            Some(found) => print(&format!("the key of {profile} is {}", found.place)),
            None => print(&format!("no key of {profile} is stored")),
        },
        KeysCommand::Node { output } => create_node_key(&output),
    }
}

async fn show_or_set_sign_up(accounts: &Accounts, sign_up: Option<SignUp>) -> anyhow::Result<()> {
    let Some(sign_up) = sign_up else {
        let sign_up = accounts.sign_up().await.context("cannot read the setting of sign-up")?;
        return print(&sign_up.to_string());
    };
    accounts.set_sign_up(sign_up).await.context("cannot change the setting of sign-up")?;
    tell(&format!("sign-up is now {sign_up}"));
    Ok(())
}

async fn list(
    accounts: &Accounts,
    account: Option<AccountName>,
    format: FormatFlags,
) -> anyhow::Result<()> {
    let scope = match account {
        None => Scope::All,
        Some(account) => Scope::Of(account::id(accounts, account).await?),
    };
    let keys = accounts.list_keys(scope).await.context("cannot list keys")?;
    if format.json {
        return print_body(&KeysBody { keys: keys.iter().map(KeyRecord::body).collect() });
    }
    if keys.is_empty() {
        tell("no keys; `triptych keys create NAME` creates one");
        return Ok(());
    }
    let people = accounts.accounts().await.context("cannot list accounts")?;
    print(&keys_table(&keys, &people))
}

/// Formats keys as a table, with the names of their accounts.
fn keys_table(keys: &[KeyRecord], people: &[AccountRecord]) -> String {
    let owner = |id: Option<AccountId>| {
        let found = id.and_then(|id| people.iter().find(|account| account.id == id));
        found.map_or("-", |account| account.name.as_str())
    };
    let columns: [Column<'_, KeyRecord>; 7] = [
        ("ID", &|key| key.id.to_string()),
        ("STATE", &|key| if key.revoked_at.is_some() { "revoked" } else { "valid" }.to_owned()),
        ("KEY", &|key| format!("{}…", key.prefix.as_deref().unwrap_or("UP-"))),
        ("CREATED", &|key| format_seconds(key.created_at)),
        ("LAST USED", &|key| key.used_at.map_or("never".to_owned(), format_seconds)),
        ("ACCOUNT", &|key| owner(key.account).to_owned()),
        ("NAME", &|key| key.name.clone()),
    ];
    table_of(keys, &columns)
}

/// Formats a timestamp without the fraction of the second.
fn format_seconds(timestamp: Timestamp) -> String {
    Timestamp::from_seconds(timestamp.seconds()).to_string()
}

/// Prints the secret of a key: as text only the secret, for scripts, and as JSON with the other
/// properties of the key.
async fn print_secret(
    accounts: &Accounts,
    id: KeyId,
    secret: &ApiKey,
    format: FormatFlags,
) -> anyhow::Result<()> {
    if !format.json {
        return print(secret.reveal());
    }
    let api_key = Secret::from(secret);
    let record = accounts.key(Scope::All, id).await.context("cannot read the key");
    match record.and_then(|record| record.ok_or_else(|| no_key(id))) {
        Ok(record) => print_body(&KeyWithSecret { key: record.body(), api_key }),
        Err(error) => {
            // The secret cannot be read again.
            print_body(&json!({ "id": id.get(), "api_key": api_key }))?;
            Err(error)
        }
    }
}

async fn serve(command: ServeCommand) -> anyhow::Result<()> {
    let _log = command.process.log("accounts", None)?;
    let (group, accounts) = (Group::default(), command.file.open_or_create().await?);
    accounts.start_maintenance(&group);
    let addresses = crate::cli::gate::addresses(command.behind_proxy);
    let hosts = command.host_name.into_iter().collect();
    let router = command.portal.router(accounts.clone(), addresses, hosts)?;
    let options = ServerOptions { listen: command.listen, addresses };
    server::start(options, router, accounts, &group)
        .await
        .context("cannot start serving accounts")?;
    command.process.run(&group).await
}

/// Creates the private key of a node in `folder` and prints its peer id. Fails if the directory already
/// has a key.
fn create_node_key(folder: &Path) -> anyhow::Result<()> {
    let private = folder.join(PRIVATE_FILE);
    if private.exists() {
        let folder = folder.display();
        let identity = Identity::load(&private);
        let identity =
            identity.with_context(|| format!("{folder} already has a key, which is unreadable"))?;
        bail!("{folder} already has the key of {}", identity.peer_id());
    }
    let identity = Identity::random();
    identity.write_keyforge(folder).context("cannot write the key")?;
    print(&identity.peer_id().to_string())
}

/// Stores `key` for `profile` and prints the place.
fn store_key(profile: &str, key: &ApiKey) -> anyhow::Result<()> {
    let stored = Keys::of_user()?.store(profile, key)?;
    let note = stored.note.map_or_else(String::new, |note| format!(" ({note})"));
    if profile == NO_PROFILE && find_running().is_some() {
        tell(
            "commands now use this key and the services on ports 8081 and 8082, instead of the running \
             stack; `triptych keys forget` undoes this",
        );
    }
    print(&format!("the key of {profile} is {}{note}", stored.place))
}

fn forget_key(profile: &str) -> anyhow::Result<()> {
    let was_stored = Keys::of_user()?.forget(profile)?;
    let is_set = std::env::var_os(KEY_VARIABLE).is_some() && std::io::stdout().is_terminal();
    let note = if is_set { format!("; {KEY_VARIABLE} is still set") } else { String::new() };
    print(&if was_stored {
        format!("removed the key of {profile}{note}")
    } else {
        format!("no key of {profile} was stored{note}")
    })
}

fn number(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "expected a key's number, as `triptych keys list` prints it")
}
