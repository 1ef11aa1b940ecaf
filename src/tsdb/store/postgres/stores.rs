//! The servers of a store, as its operator sees them: which there are, and which take new datasets.
//!
//! Addresses are kept without passwords, which each service has from its own environment or password file.

pub mod remove;

use std::{str::FromStr, sync::Arc};

use db::postgres::{
    DatabaseUrl, DatabaseUrlError,
    connections::{Connections, Snapshot},
    fault::unsigned,
};
use derive_more::Display;
use futures::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use model::dataset::DatasetId;
use sqlx::PgConnection;
use task::causes::chain;

use self::remove::Occupation;
use super::{
    CHECK, CONNECTIONS, PostgresStore, Result, StoreError,
    servers::{self, Server},
    tables,
};

/// Whether a server takes new datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
pub enum StoreState {
    /// It takes its share of them.
    #[display("open")]
    Open,
    /// It takes none, and keeps those that it has.
    #[display("full")]
    Full,
    /// It takes none, and those that it has are to be moved away.
    #[display("drained")]
    Drained,
}

/// A text names no state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read the state of a store: open, full or drained")]
pub struct StoreStateError;

impl FromStr for StoreState {
    type Err = StoreStateError;

    fn from_str(text: &str) -> Result<Self, StoreStateError> {
        match text {
            "open" => Ok(Self::Open),
            "full" => Ok(Self::Full),
            "drained" => Ok(Self::Drained),
            _ => Err(StoreStateError),
        }
    }
}

/// One server of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedStore {
    /// What it is called; the one with the catalog is `first`.
    pub name: String,
    /// Its address, without a password; empty for the one with the catalog.
    pub url: String,
    /// Whether it takes new datasets.
    pub state: StoreState,
    /// How many datasets it has.
    pub n_datasets: u64,
    /// Why it cannot be used now; `None` if it can.
    pub fault: Option<String>,
}

/// Why a change of a store's servers is refused; then nothing is changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServersRefusal {
    /// The address has a password, which the catalog would show to everybody who reads it.
    #[error(
        "keep a store's address with a password in it; leave it out, and have each service find it in PGPASSWORD or the file that PGPASSFILE names, ~/.pgpass by default"
    )]
    Password,
    /// The text is no address.
    #[error(transparent)]
    Url(#[from] DatabaseUrlError),
    /// Another server has the name.
    #[error("call a store {name}: another one has this name")]
    NameTaken {
        /// The name in use.
        name: String,
    },
    /// There is no server of this name.
    #[error("find the store {name}; list those that there are")]
    Unknown {
        /// The name that none has.
        name: String,
    },
    /// The dataset is on its way to another server.
    #[error("move dataset {dataset}, which is being moved to another store; finish that first")]
    Moving {
        /// The dataset on its way.
        dataset: DatasetId,
    },
    /// The move of the dataset was cancelled.
    #[error(
        "move dataset {dataset}, whose move was cancelled; begin again once what was copied of it is removed"
    )]
    Cancelled {
        /// The dataset, which stays where it is.
        dataset: DatasetId,
    },
    /// The dataset is not on its way.
    #[error("cancel the move of dataset {dataset}, which is not being moved")]
    NotMoving {
        /// The dataset that is where it is to be.
        dataset: DatasetId,
    },
    /// The move can only be finished.
    #[error(
        "cancel the move of dataset {dataset}, which is in its last step; finish it, then move the dataset back"
    )]
    Fenced {
        /// The dataset on its way.
        dataset: DatasetId,
    },
    /// The server that is to be removed has something.
    #[error("remove the store {name}, which {by}")]
    Occupied {
        /// The name of the server.
        name: String,
        /// What it has.
        by: Occupation,
    },
    /// The server that is to be removed does not say what it has.
    #[error(
        "ask the store {name} what it has: {reason}; remove it with --lost if it is lost for good"
    )]
    Unanswered {
        /// The name of the server.
        name: String,
        /// Why it cannot be asked.
        reason: String,
    },
    /// The database has a catalog of its own, or belongs to another store.
    #[error("add a database that has datasets, or that another store has added; name an empty one")]
    InUse,
    /// The database is a further server of a store, and has no catalog.
    #[error(
        "serve a database that belongs to another one, which has the catalog; name that one with --store"
    )]
    Member,
}

impl PostgresStore {
    /// The servers, the one with the catalog first. Blocks.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn stores(&self) -> Result<Vec<ListedStore>> {
        let servers = Arc::clone(&self.servers);
        self.run(async move {
            servers.refresh().await?;
            let mut all = servers
                .first()
                .connections
                .read(Snapshot::Transaction, |c| list(c).boxed())
                .await?;
            let further = servers.further();
            let tries = join_all(further.iter().map(|server| try_server(server))).await;
            for (server, fault) in further.iter().zip(tries) {
                if let Some(listed) = all.iter_mut().find(|listed| listed.name == server.name) {
                    listed.fault = fault;
                }
            }
            Ok(all)
        })
    }

    /// Adds the database at `url`, which is empty or was added before, as a server called `name` that takes
    /// new datasets. Its tables are made if they are missing.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Servers`] if the address, the name or the database is not fit.
    pub fn add_store(&self, name: &str, url: &str) -> BoxFuture<'_, Result<()>> {
        let (servers, name, url) = (Arc::clone(&self.servers), name.to_owned(), url.to_owned());
        let runtime = servers.runtime();
        let add = async move {
            let address: DatabaseUrl = url.parse().map_err(ServersRefusal::from)?;
            if DatabaseUrl::has_password(&url) {
                return Err(ServersRefusal::Password.into());
            }
            let further = Connections::new(&address, CONNECTIONS, runtime);
            let open = further.write(|c| {
                async move { Ok::<_, StoreError>(tables::SCHEMA.open(c).await?) }.boxed()
            });
            let era = open.await?;
            let first = servers.first();
            let first_era = first.era;
            if era == first_era {
                return Err(ServersRefusal::InUse.into());
            }
            further.write(move |c| check_free(c, first_era).boxed()).await?;
            // It takes datasets once it knows whose it is.
            let place = insert(first, &name, &url, era).await?;
            further.write(move |c| join(c, first_era, place).boxed()).await?;
            set_state(first, name, StoreState::Open).await?;
            servers.refresh().await
        };
        self.in_turn(None, add, |()| {})
    }

    /// Changes whether a server takes new datasets.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Servers`] if there is no server of this name.
    pub fn set_store_state(&self, name: &str, state: StoreState) -> BoxFuture<'_, Result<()>> {
        let (servers, name) = (Arc::clone(&self.servers), name.to_owned());
        let set = async move { set_state(servers.first(), name, state).await };
        self.in_turn(None, set, |()| {})
    }
}

/// Why a server cannot be used; `None` if it can.
async fn try_server(server: &Server) -> Option<String> {
    let tried = server.connections.check::<StoreError>(CHECK).await;
    tried.err().map(|error| chain(&error))
}

async fn list(c: &mut PgConnection) -> Result<Vec<ListedStore>> {
    let sql = "SELECT coalesce(place, 0), count(*) FROM head GROUP BY 1";
    let counts: Vec<(i64, i64)> = sqlx::query_as(sql).fetch_all(&mut *c).await?;
    let mut all = Vec::new();
    for (place, name, url, state, _) in servers::records(c).await? {
        let n = counts.iter().find(|count| count.0 == place).map_or(0, |count| count.1);
        let state = state.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        all.push(ListedStore { name, url, state, n_datasets: unsigned(n)?, fault: None });
    }
    Ok(all)
}

/// Checks that a database is of no other store.
async fn check_free(c: &mut PgConnection, first_era: i64) -> Result<()> {
    let sql = "SELECT (SELECT first_era FROM member), EXISTS (SELECT FROM datasets)
             OR (SELECT count(*) > 1 FROM stores)";
    let (owner, is_used): (Option<i64>, bool) = sqlx::query_as(sql).fetch_one(c).await?;
    let is_free = owner.map_or(!is_used, |owner| owner == first_era);
    if is_free { Ok(()) } else { Err(ServersRefusal::InUse.into()) }
}

/// Adds a server, or gives one that was added its new name and address; its number.
async fn insert(first: &Server, name: &str, url: &str, era: i64) -> Result<i64> {
    let mut transaction = first.connections.begin_write().await?;
    let inserted = async {
        let c = &mut *transaction;
        let sql = "SELECT id, era FROM stores WHERE name = $1 OR era = $2";
        let found: Vec<(i64, i64)> =
            sqlx::query_as(sql).bind(name).bind(era).fetch_all(&mut *c).await?;
        let taken = || ServersRefusal::NameTaken { name: name.to_owned() };
        let id: Option<i64> = match found.as_slice() {
            [] => {
                let sql = "INSERT INTO stores (name, url, state, era) VALUES ($1, $2, 'full', $3)
                     ON CONFLICT DO NOTHING RETURNING id";
                sqlx::query_scalar(sql).bind(name).bind(url).bind(era).fetch_optional(c).await?
            }
            [(id, found)] if *found == era => {
                let sql = "UPDATE stores SET name = $2, url = $3 WHERE id = $1";
                sqlx::query(sql).bind(id).bind(name).bind(url).execute(c).await?;
                Some(*id)
            }
            _ => None,
        };
        Ok(id.ok_or_else(taken)?)
    };
    let inserted = inserted.await;
    transaction.finish(inserted).await
}

/// Notes on a further server whose it is, unless another store did or made it its own meanwhile.
pub(super) async fn join(c: &mut PgConnection, first_era: i64, place: i64) -> Result<()> {
    sqlx::query("LOCK TABLE member IN EXCLUSIVE MODE").execute(&mut *c).await?;
    check_free(c, first_era).await?;
    // One that was removed while it was lost is a new server.
    for sql in [
        "UPDATE member SET place = $2 WHERE first_era = $1",
        "INSERT INTO member (first_era, place) SELECT $1, $2
         WHERE NOT EXISTS (SELECT FROM member)",
    ] {
        sqlx::query(sql).bind(first_era).bind(place).execute(&mut *c).await?;
    }
    Ok(())
}

async fn set_state(first: &Server, name: String, state: StoreState) -> Result<()> {
    let unknown = ServersRefusal::Unknown { name: name.clone() };
    let set = first.connections.write_once(move |c| {
        let sql = "UPDATE stores SET state = $2 WHERE name = $1";
        let set = sqlx::query(sql).bind(name).bind(state.to_string());
        async move { Ok::<_, StoreError>(set.execute(c).await?.rows_affected()) }.boxed()
    });
    if set.await? > 0 { Ok(()) } else { Err(unknown.into()) }
}

/// Checks that a database has a catalog.
pub(super) async fn check_first(c: &mut PgConnection) -> Result<()> {
    let sql = "SELECT EXISTS (SELECT FROM member)";
    let is_member: bool = sqlx::query_scalar(sql).fetch_one(c).await?;
    if is_member { Err(ServersRefusal::Member.into()) } else { Ok(()) }
}
