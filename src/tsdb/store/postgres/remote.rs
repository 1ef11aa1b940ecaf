//! What the catalog does not know of datasets on further servers: their states, and their writers' batches.

use std::{collections::BTreeMap, sync::Arc};

use db::postgres::{connections::Snapshot, fault::unsigned};
use futures::{FutureExt as _, future::join_all};
use model::{
    dataset::{Dataset, DatasetId},
    idempotency::IdempotencyKey,
    key::KeyId,
    timestamp::Timestamp,
};

use super::{
    CHECK, PostgresStore, Result, StoreError, batches, commits,
    head::HeadState,
    servers::{Server, Servers},
};
use crate::store::{
    Heads,
    batch::{Batch, StoredBatch},
};

impl PostgresStore {
    /// The state of a dataset that the catalog has on another server.
    pub(super) fn read_remote_state(&self, dataset: DatasetId, place: i64) -> Result<HeadState> {
        self.servers.note(dataset, place);
        self.read_at(dataset, |server| {
            self.fetch(&server.connections, move |c| HeadState::read(c, dataset).boxed())
        })
    }

    /// Puts the times of the last changes into a listing, of those datasets that are on other servers. One
    /// that is lost leaves them as the catalog has them.
    pub(super) fn date_changes(&self, datasets: &mut [Dataset]) -> Result<()> {
        if self.servers.further().is_empty() || datasets.is_empty() {
            return Ok(());
        }
        let servers = Arc::clone(&self.servers);
        let ids: Vec<i64> = datasets.iter().map(|dataset| dataset.id.get()).collect();
        let found = self.run(async move {
            let read = servers.first().connections.read(Snapshot::Statement, |c| {
                let sql = "SELECT dataset, place FROM head
                     WHERE dataset = ANY($1) AND place IS NOT NULL";
                let places = sqlx::query_as(sql).bind(ids.clone());
                async move { Ok::<Vec<(i64, i64)>, StoreError>(places.fetch_all(c).await?) }.boxed()
            });
            let mut by_place: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
            for (dataset, place) in read.await? {
                by_place.entry(place).or_default().push(dataset);
            }
            read_remote_numbers(&servers, by_place, "updated_at").await
        })?;
        let found: BTreeMap<i64, i64> = found.into_iter().collect();
        for dataset in datasets {
            if let Some(updated_at) = found.get(&dataset.id.get()) {
                dataset.updated_at = Timestamp::from_micros(*updated_at);
            }
        }
        Ok(())
    }
}

/// A number of the states of datasets, `column`, by the servers that have them; those of servers that are
/// lost, and datasets that are being moved, are left out.
async fn read_remote_numbers(
    servers: &Servers,
    by_place: BTreeMap<i64, Vec<i64>>,
    column: &'static str,
) -> Result<Vec<(i64, i64)>> {
    let mut reads = Vec::with_capacity(by_place.len());
    for (place, datasets) in by_place {
        let Some(server) = servers.find(place).await? else { continue };
        reads.push(read_numbers(server, datasets, column));
    }
    let mut all = Vec::new();
    for found in join_all(reads).await {
        all.extend(found?.unwrap_or_default());
    }
    Ok(all)
}

async fn read_numbers(
    server: Arc<Server>,
    datasets: Vec<i64>,
    column: &'static str,
) -> Result<Option<Vec<(i64, i64)>>> {
    let read = server.connections.read(Snapshot::Statement, |c| {
        let sql =
            format!("SELECT dataset, {column} FROM head WHERE dataset = ANY($1) AND place IS NULL");
        let numbers = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(datasets.clone());
        async move { Ok::<Vec<(i64, i64)>, StoreError>(numbers.fetch_all(c).await?) }.boxed()
    });
    server.ask(read).await
}

/// The newest commits of those of the datasets that are there.
pub(super) async fn heads(servers: &Servers, datasets: Vec<i64>) -> Result<Heads> {
    let read = servers.first().connections.read(Snapshot::Statement, |c| {
        let datasets = datasets.clone();
        async move { commits::heads(c, &datasets).await }.boxed()
    });
    let (mut heads, remote) = read.await?;
    let mut by_place: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (dataset, place) in remote {
        heads.unknown.insert(dataset);
        by_place.entry(place).or_default().push(dataset.get());
    }
    for (dataset, revision) in read_remote_numbers(servers, by_place, "revision").await? {
        if let Some(dataset) = DatasetId::new(dataset) {
            heads.unknown.remove(&dataset);
            heads.revisions.insert(dataset, unsigned(revision)?);
        }
    }
    Ok(heads)
}

/// The batch that `writer` calls `key`, on any of the servers that can be reached.
pub(super) async fn find_batch(
    servers: &Servers,
    writer: KeyId,
    key: &IdempotencyKey,
) -> Result<Option<StoredBatch>> {
    let find = async |server: &Server| {
        let find = server.connections.read_here(Snapshot::LockedStatement, |c| {
            let key = key.clone();
            async move { batches::find(c, writer, &key).await }.boxed()
        });
        find.await
    };
    let further = servers.further();
    let finds = join_all(further.iter().map(|server| server.ask(find(server))));
    let (first, others) = futures::join!(find(servers.first()), finds);
    if let Some(found) = first? {
        return Ok(Some(found));
    }
    for found in others {
        if let Some(found) = found?.flatten() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether one of some batches is stored.
pub(super) async fn is_any_stored(servers: &Servers, batches: &[Batch]) -> Result<bool> {
    for Batch { id, .. } in batches {
        if find_batch(servers, id.writer, &id.key).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The names of the further servers that do not answer, or take no writes.
pub(super) async fn lost_servers(servers: &Servers) -> Vec<String> {
    let check = async |server: &Server| {
        let check = server.ask(server.connections.check::<StoreError>(CHECK));
        let is_lost = !matches!(check.await, Ok(Some(())));
        is_lost.then(|| server.name.clone())
    };
    let further = servers.further();
    join_all(further.iter().map(|server| check(server))).await.into_iter().flatten().collect()
}
