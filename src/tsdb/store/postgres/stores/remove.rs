//! Taking a server out of the catalog: one that has nothing that the store needs.
//!
//! The row of the server is locked meanwhile. Whatever puts a dataset or a move there locks the row, too,
//! and finds it gone: see `lock_stores`.

use std::{error::Error, sync::Arc};

use db::postgres::{connections::Snapshot, fault::unsigned};
use derive_more::Display;
use futures::{FutureExt as _, future::BoxFuture};
use model::count::counted;
use sqlx::PgConnection;
use task::causes::chain;
use tracing::warn;

use super::{
    super::{
        PostgresStore, Result, StoreError, delete,
        servers::{FIRST, Server, Servers},
    },
    ServersRefusal,
};

/// What is known of a server that is to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovedServer {
    /// It can be asked what it has.
    Reachable,
    /// It is lost for good: what it has of cancelled moves is given up.
    Lost,
}

/// Why a server cannot be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
pub enum Occupation {
    /// It has the catalog.
    #[display("has the catalog of all")]
    Catalog,
    /// The catalog names it as the server of datasets.
    #[display("has {}; move them to another one", counted(*_0, "dataset"))]
    Datasets(u64),
    /// Datasets are on their way from or to it.
    #[display("has {} from or to it; finish or cancel them", counted(*_0, "move"))]
    Moves(u64),
    /// It has what a creation, a move or a deletion left of datasets.
    #[display("has what is left of {}, which services remove; try again", counted(*_0, "dataset"))]
    Copies(u64),
    /// It knows of objects outside of the database that nothing refers to.
    #[display("is to delete {} on S3, which services do; try again", counted(*_0, "object"))]
    Objects(u64),
}

impl PostgresStore {
    /// Takes the server called `name` out of the catalog. Other services stop using it within seconds.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Servers`] if there is no such server, or it has something.
    pub fn remove_store(&self, name: &str, server: RemovedServer) -> BoxFuture<'_, Result<()>> {
        let (servers, name) = (Arc::clone(&self.servers), name.to_owned());
        let work = async move {
            servers.refresh().await?;
            let further = servers.further().into_iter().find(|further| further.name == name);
            if let (Some(further), RemovedServer::Reachable) = (&further, server) {
                // Else what was moved away a second ago keeps it from being removed.
                let free = async {
                    while further.connections.write(|c| delete::step(c).boxed()).await? {}
                    Ok(())
                };
                free.await.map_err(|error| unanswered(&name, error))?;
            }
            let mut transaction = servers.first().connections.begin_write().await?;
            let removed = remove(&mut transaction, &servers, &name, server).await;
            transaction.finish(removed).await?;
            if let (Some(further), RemovedServer::Reachable) = (&further, server) {
                release(&servers, further).await;
            }
            servers.refresh().await
        };
        self.in_turn(None, work, |()| {})
    }
}

/// Locks the rows of servers that get datasets, which are not removed until the end of the transaction; the
/// first of them that was removed.
pub(in super::super) async fn lock_stores(
    c: &mut PgConnection,
    places: &[i64],
) -> Result<Option<i64>> {
    let places: Vec<i64> = places.iter().copied().filter(|place| *place != FIRST).collect();
    if places.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT id FROM stores WHERE id = ANY($1) ORDER BY id FOR KEY SHARE";
    let found: Vec<i64> = sqlx::query_scalar(sql).bind(&places).fetch_all(c).await?;
    Ok(places.into_iter().find(|place| !found.contains(place)))
}

async fn remove(
    c: &mut PgConnection,
    servers: &Servers,
    name: &str,
    server: RemovedServer,
) -> Result<()> {
    let sql = "SELECT id FROM stores WHERE name = $1 FOR UPDATE";
    let place: Option<i64> = sqlx::query_scalar(sql).bind(name).fetch_optional(&mut *c).await?;
    let unknown = || ServersRefusal::Unknown { name: name.to_owned() };
    let place = place.ok_or_else(unknown)?;
    let occupied = |by| Err(ServersRefusal::Occupied { name: name.to_owned(), by }.into());
    if place == FIRST {
        return occupied(Occupation::Catalog);
    }
    if server == RemovedServer::Lost {
        let sql = "DELETE FROM moves WHERE target = $1 AND step = 'cancel'";
        sqlx::query(sql).bind(place).execute(&mut *c).await?;
    }
    // In one statement: a move ends by a new place, and then the end of its record.
    let sql = "SELECT (SELECT count(*) FROM head WHERE place = $1),
         (SELECT count(*) FROM moves WHERE source = $1 OR target = $1)";
    let (n_datasets, n_moves): (i64, i64) =
        sqlx::query_as(sql).bind(place).fetch_one(&mut *c).await?;
    if n_datasets > 0 {
        return occupied(Occupation::Datasets(unsigned(n_datasets)?));
    }
    if n_moves > 0 {
        return occupied(Occupation::Moves(unsigned(n_moves)?));
    }
    if server == RemovedServer::Reachable {
        let further = servers.find(place).await?.ok_or_else(unknown)?;
        if let Some(by) = look(&further).await.map_err(|error| unanswered(name, error))? {
            return occupied(by);
        }
    }
    sqlx::query("DELETE FROM stores WHERE id = $1").bind(place).execute(c).await?;
    Ok(())
}

/// What a server has that no dataset of the catalog needs.
async fn look(server: &Server) -> Result<Option<Occupation>> {
    let read = server.connections.read_here(Snapshot::Statement, |c| {
        let sql = "SELECT (SELECT count(*) FROM datasets) + (SELECT count(*) FROM doomed),
             (SELECT count(*) FROM objects)";
        let counts = sqlx::query_as(sql);
        async move { Ok::<(i64, i64), StoreError>(counts.fetch_one(c).await?) }.boxed()
    });
    Ok(match read.await? {
        (0, 0) => None,
        (0, n_objects) => Some(Occupation::Objects(unsigned(n_objects)?)),
        (n_copies, _) => Some(Occupation::Copies(unsigned(n_copies)?)),
    })
}

/// Has a database that was removed belong to no store, unless it was added again.
async fn release(servers: &Servers, server: &Server) {
    let (first_era, place) = (servers.first().era, server.place);
    let release = server.connections.write_once(move |c| {
        let sql = "DELETE FROM member WHERE first_era = $1 AND place = $2";
        let release = sqlx::query(sql).bind(first_era).bind(place);
        async move { Ok::<_, StoreError>(release.execute(c).await.map(drop)?) }.boxed()
    });
    if let Err(error) = release.await {
        let error = &error as &dyn Error;
        warn!(error, "failed to tell the server {} that it was removed", server.name);
    }
}

/// Nothing is removed, since a server does not say what it has.
fn unanswered(name: &str, error: StoreError) -> StoreError {
    if error.is_server_lost() {
        let reason = chain(&error);
        return ServersRefusal::Unanswered { name: name.to_owned(), reason }.into();
    }
    error
}
