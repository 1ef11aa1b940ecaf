//! `triptych datasets stores`: the PostgreSQL servers of a store, which of them take new datasets, and
//! where their old rows are.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use db::postgres::DatabaseUrl;
use model::count::counted;
use serde_json::json;
use tokio::task::spawn_blocking;
use tsdb::store::{
    objects::{ColdUrl, Objects},
    postgres::{
        PostgresStore,
        stores::{ListedStore, StoreState, remove::RemovedServer},
    },
};

use crate::cli::output::{print, print_body, tell};

/// Where the catalog of a store is.
#[derive(Debug, Clone, Args)]
pub(super) struct CatalogFlags {
    /// The database that has the catalog, as the services have it: `postgres://user@host/name`
    #[arg(long, env = "TRIPTYCH_STORE", hide_env_values = true, value_name = "URL", global = true)]
    store: Option<DatabaseUrl>,
}

/// The flags of `datasets stores`.
#[derive(Debug, Args)]
pub(crate) struct StoresCommand {
    #[command(flatten)]
    catalog: CatalogFlags,
    #[command(subcommand)]
    action: Option<StoresAction>,
}

/// What is done with the servers.
#[derive(Debug, Clone, Subcommand)]
enum StoresAction {
    /// List the servers: name, state, datasets and address, and why one cannot be used
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Add an empty database, which then gets its share of the new datasets
    Add {
        /// Its address as every service reaches it, without a password: `postgres://user@host/name`
        url: String,
        /// What to call it
        #[arg(long, value_name = "NAME")]
        name: String,
    },
    /// Change whether a server takes new datasets
    State {
        /// The server's name
        name: String,
        /// `open`: it takes new datasets; `full`: it does not; `drained`: nor is it to keep what it has
        state: StoreState,
    },
    /// Take a server that has no datasets out of the catalog
    Remove {
        /// The server's name
        name: String,
        /// It is lost for good: do not ask it what moves have left there
        #[arg(long)]
        lost: bool,
    },
    /// Take the objects below a prefix on S3 over from another database, which is then not to use it: a
    /// clone of this one, or the one that this was restored from
    Own {
        /// The bucket and the prefix, as for `datasets serve --cold`
        #[arg(value_name = "URL")]
        cold: ColdUrl,
    },
}

impl CatalogFlags {
    /// Opens the store. Blocks.
    ///
    /// # Errors
    /// If its address is not named, or it cannot be opened.
    pub(super) fn open(&self) -> anyhow::Result<PostgresStore> {
        let url = self.store.as_ref().context(
            "find the database that has the catalog: name it with --store, or in TRIPTYCH_STORE",
        )?;
        PostgresStore::open(url).with_context(|| format!("open {url}"))
    }
}

/// Lists or changes the servers.
///
/// # Errors
/// If the store cannot be opened or changed.
pub(super) async fn run(command: StoresCommand) -> anyhow::Result<()> {
    let StoresCommand { catalog, action } = command;
    spawn_blocking(move || act(&catalog, action)).await?
}

/// Does what is asked for. Blocks.
fn act(catalog: &CatalogFlags, action: Option<StoresAction>) -> anyhow::Result<()> {
    let store = catalog.open()?;
    match action.unwrap_or(StoresAction::List { json: false }) {
        StoresAction::List { json: true } => {
            print_body(&store.stores()?.iter().map(body_of).collect::<Vec<_>>())
        }
        StoresAction::List { json: false } => {
            store.stores()?.iter().try_for_each(|listed| print(&line_of(listed)))
        }
        StoresAction::Add { url, name } => {
            futures::executor::block_on(store.add_store(&name, &url))?;
            tell(&format!("the store {name} takes new datasets"));
            Ok(())
        }
        StoresAction::State { name, state } => {
            futures::executor::block_on(store.set_store_state(&name, state))?;
            tell(&format!("the store {name} is {state}"));
            Ok(())
        }
        StoresAction::Remove { name, lost } => {
            let server = if lost { RemovedServer::Lost } else { RemovedServer::Reachable };
            futures::executor::block_on(store.remove_store(&name, server))?;
            tell(&format!("the store {name} is removed; services stop using it within seconds"));
            Ok(())
        }
        StoresAction::Own { cold } => {
            store.own(&Objects::open(&cold).context("open the bucket for old rows")?)?;
            tell(&format!("this database owns {cold}"));
            Ok(())
        }
    }
}

/// A server as a line for people: `eu2  open  12 datasets  postgres://triptych@eu2/triptych`.
fn line_of(ListedStore { name, url, state, n_datasets, fault }: &ListedStore) -> String {
    let line = format!("{name}  {state}  {}  {url}", counted(*n_datasets, "dataset"));
    let fault = fault.as_ref().map(|fault| format!("  failed to {fault}")).unwrap_or_default();
    format!("{}{fault}", line.trim_end())
}

fn body_of(ListedStore { name, url, state, n_datasets, fault }: &ListedStore) -> serde_json::Value {
    let state = state.to_string();
    json!({"name": name, "url": url, "state": state, "datasets": n_datasets, "error": fault})
}
