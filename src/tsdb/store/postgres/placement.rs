//! On which server a dataset is, from its creation to its end.
//!
//! A dataset on a further server is in the catalog of the first one like any other. The further server
//! has a copy of what its rows are read and written by: its columns, the column to fold, and its state.
//! The copy is committed first, so that no dataset is seen before it can be used. What was left of one
//! whose creation or deletion was interrupted in between is removed by maintenance.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use futures::FutureExt as _;
use model::{
    dataset::{Dataset, DatasetId},
    timestamp::Timestamp,
};
use sqlx::PgConnection;
use tracing::warn;

use super::{
    Result, StoreError, catalog, delete,
    servers::{FIRST, Server, Servers, choose},
    stores::{ServersRefusal, remove::lock_stores},
};
use crate::catalog::{NewDataset, VALUE_COLUMN};

/// How old a dataset of a further server is before it is looked for in the catalog: far longer than its
/// creation takes.
const ORPHAN_MICROS: i64 = 3_600 * 1_000_000;

/// Datasets of a further server that are looked for in the catalog at a time.
const ORPHANS_STEP: i64 = 1_000;

/// A dataset with the number that it gets.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) id: DatasetId,
    pub(super) new: NewDataset,
}

/// The servers that take new datasets, and numbers for `n` of them; unless another store has added the
/// first one since it was opened, which would take them for its own, and for left over.
async fn take_numbers(c: &mut PgConnection, n: usize) -> Result<(Vec<i64>, Vec<DatasetId>)> {
    let sql = "SELECT ARRAY(SELECT id FROM stores WHERE state = 'open' ORDER BY id),
         ARRAY(SELECT nextval('datasets_id_seq') FROM generate_series(1, $1)),
         EXISTS (SELECT FROM member)";
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let (open, ids, is_member): (Vec<i64>, Vec<i64>, bool) =
        sqlx::query_as(sql).bind(n).fetch_one(c).await?;
    if is_member {
        return Err(ServersRefusal::Member.into());
    }
    Ok((open, ids.into_iter().map(catalog::dataset_id).collect::<Result<_>>()?))
}

/// Creates datasets, all or none, each on one of the servers that take new ones.
pub(super) async fn create(
    servers: &Servers,
    all: Vec<NewDataset>,
    now: Timestamp,
) -> Result<Vec<Dataset>> {
    let n = all.len();
    let take = servers.first().connections.write_once(move |c| take_numbers(c, n).boxed());
    let (open, ids) = take.await?;
    let all = ids.into_iter().zip(all).map(|(id, new)| Numbered { id, new }).collect();
    create_numbered(servers, all, open, now).await
}

/// Creates a dataset with the number of another store's, at `now`. Removes what is left of a deleted one
/// of this number first.
pub(super) async fn create_copy(servers: &Servers, new: Numbered, now: Timestamp) -> Result<()> {
    let take = servers.first().connections.write_once(|c| take_numbers(c, 0).boxed());
    let (open, _) = take.await?;
    let further = servers.further().into_iter().filter(|server| open.contains(&server.place));
    for server in further.chain([Arc::clone(servers.first())]) {
        match delete::finish(&server.connections, new.id).await {
            // Another one gets the dataset.
            Err(error) if error.is_server_lost() && server.place != FIRST => {}
            done => done?,
        }
    }
    create_numbered(servers, vec![new], open, now).await.map(drop)
}

async fn create_numbered(
    servers: &Servers,
    all: Vec<Numbered>,
    mut open: Vec<i64>,
    now: Timestamp,
) -> Result<Vec<Dataset>> {
    loop {
        let mut by_place: BTreeMap<i64, Vec<Numbered>> = BTreeMap::new();
        for numbered in &all {
            by_place.entry(choose(numbered.id, &open)).or_default().push(numbered.clone());
        }
        // A server that cannot be reached, or was removed meanwhile, gets none.
        let gone = match insert_copies(servers, &by_place, now).await? {
            Some(lost) => lost,
            None => match list(servers, &all, &by_place, now).await {
                Ok(Listing::Created(created)) => return Ok(created),
                Ok(Listing::Removed(place)) => {
                    remove_copies(servers, &by_place).await;
                    place
                }
                Err(error) => {
                    // Where nobody knows whether they were created, maintenance looks.
                    if !matches!(error, StoreError::Unreachable(_)) {
                        remove_copies(servers, &by_place).await;
                    }
                    return Err(error);
                }
            },
        };
        open.retain(|place| *place != gone);
    }
}

/// Outcome of entering new datasets in the catalog.
#[derive(Debug)]
enum Listing {
    Created(Vec<Dataset>),
    /// Nothing was entered: the server of this number was removed.
    Removed(i64),
}

/// Enters datasets in the catalog, each with the server that has its copy.
async fn list(
    servers: &Servers,
    all: &[Numbered],
    by_place: &BTreeMap<i64, Vec<Numbered>>,
    now: Timestamp,
) -> Result<Listing> {
    let places: Vec<i64> = by_place.keys().copied().collect();
    let place_of: BTreeMap<DatasetId, i64> = by_place
        .iter()
        .flat_map(|(place, all)| all.iter().map(|numbered| (numbered.id, *place)))
        .collect();
    let all = all.to_vec();
    let write = servers.first().connections.write(|c| {
        async move {
            if let Some(removed) = lock_stores(c, &places).await? {
                return Ok(Listing::Removed(removed));
            }
            let mut created = Vec::with_capacity(all.len());
            for Numbered { id, new } in &all {
                let place = place_of.get(id).copied().filter(|place| *place != FIRST);
                created.push(catalog::insert(c, new, *id, place, now).await?);
            }
            Ok::<_, StoreError>(Listing::Created(created))
        }
        .boxed()
    });
    write.await
}

/// Makes what further servers have of new datasets; a server that cannot be reached, if there is one.
async fn insert_copies(
    servers: &Servers,
    by_place: &BTreeMap<i64, Vec<Numbered>>,
    now: Timestamp,
) -> Result<Option<i64>> {
    for (place, all) in by_place.iter().filter(|(place, _)| **place != FIRST) {
        let Some(server) = servers.find(*place).await? else { return Ok(Some(*place)) };
        let all = all.clone();
        let write = server.connections.write(move |c| {
            async move {
                for Numbered { id, new } in all {
                    insert_copy(c, id, new, now).await?;
                }
                Ok::<_, StoreError>(())
            }
            .boxed()
        });
        match write.await {
            Ok(()) => {}
            Err(error) if error.is_server_lost() || matches!(error, StoreError::Full) => {
                warn!(
                    error = &error as &dyn Error,
                    "failed to create a dataset on the server {}", server.name
                );
                remove_copies(servers, by_place).await;
                return Ok(Some(*place));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Makes what a further server has of a dataset without rows. Its name is its number, since the names
/// of datasets are unique in the catalog alone; it is as old as it is here.
pub(super) async fn insert_copy(
    c: &mut PgConnection,
    id: DatasetId,
    mut new: NewDataset,
    now: Timestamp,
) -> Result<()> {
    new.name = id.to_string();
    new.description.clear();
    new.metadata.retain(|field, _| field == VALUE_COLUMN);
    new.tags.clear();
    new.owner = None;
    catalog::insert(c, &new, id, None, now).await?;
    let sql = "UPDATE datasets SET created_at = (extract(epoch FROM now()) * 1000000)::bigint
         WHERE id = $1";
    sqlx::query(sql).bind(id.get()).execute(c).await?;
    Ok(())
}

/// Removes what further servers have of datasets whose creation failed. Where that fails, too,
/// maintenance does it.
async fn remove_copies(servers: &Servers, by_place: &BTreeMap<i64, Vec<Numbered>>) {
    for (place, all) in by_place.iter().filter(|(place, _)| **place != FIRST) {
        let Ok(Some(server)) = servers.find(*place).await else { continue };
        for Numbered { id, .. } in all {
            // Written, so that no standby answers, which may not have a new one.
            let first = &servers.first().connections;
            let look = first.write_once(|c| catalog::is_listed(c, *id).boxed());
            // Else it was there before, and has rows.
            if matches!(look.await, Ok(false)) {
                remove(&server, *id).await;
            }
        }
    }
}

/// Removes what a further server has of a dataset that is in no catalog; at the latest maintenance does.
async fn remove(server: &Server, id: DatasetId) {
    let removed = server.connections.write(|c| delete::dataset(c, id).boxed()).await;
    if let Err(error) = removed {
        let error = &error as &dyn Error;
        warn!(error, "failed to remove dataset {id} from the server {}", server.name);
    }
}

/// Deletes a dataset wherever it is; whether there was one. It is out of the catalog first.
pub(super) async fn delete(servers: &Servers, id: DatasetId) -> Result<bool> {
    let deleted = servers.first().connections.write(|c| delete::dataset(c, id).boxed()).await?;
    let Some(place) = deleted else { return Ok(false) };
    if let Some(place) = place
        && let Ok(Some(server)) = servers.find(place).await
    {
        remove(&server, id).await;
    }
    servers.note(id, FIRST);
    Ok(true)
}

/// Removes the datasets of further servers that are in no catalog.
pub(super) async fn remove_orphans(servers: &Servers) -> Result<()> {
    servers.refresh().await?;
    for server in servers.further() {
        let mut after = 0;
        while let Some(last) = remove_some_orphans(servers, &server, after).await? {
            after = last;
        }
    }
    Ok(())
}

/// Looks at the next old datasets of a further server; the last one's number if there were some.
async fn remove_some_orphans(
    servers: &Servers,
    server: &Server,
    after: i64,
) -> Result<Option<i64>> {
    let (first_era, place) = (servers.first().era, server.place);
    let old = server.connections.write_once(move |c| {
        // Its address may lead to a server of another store by now.
        let sql = "SELECT id FROM datasets
             WHERE id > $1 AND created_at < (extract(epoch FROM now()) * 1000000)::bigint - $2
                 AND EXISTS (SELECT FROM member WHERE first_era = $4 AND place = $5)
             ORDER BY id LIMIT $3";
        let old = sqlx::query_scalar(sql).bind(after).bind(ORPHAN_MICROS).bind(ORPHANS_STEP);
        let old = old.bind(first_era).bind(place);
        async move { Ok::<Vec<i64>, StoreError>(old.fetch_all(c).await?) }.boxed()
    });
    let old = old.await?;
    let Some(last) = old.last().copied() else { return Ok(None) };
    // Written, so that no standby answers, which may not have a new dataset. A number that was not given
    // yet is one of a catalog that is newer than this one, which was restored.
    let orphans = servers.first().connections.write_once(|c| {
        let sql = "SELECT o.id FROM unnest($1::bigint[]) AS o (id)
             WHERE o.id < (SELECT last_value + is_called::integer FROM datasets_id_seq)
                 AND NOT EXISTS (SELECT FROM datasets d WHERE d.id = o.id)";
        let orphans = sqlx::query_scalar(sql).bind(old);
        async move { Ok::<Vec<i64>, StoreError>(orphans.fetch_all(c).await?) }.boxed()
    });
    for id in orphans.await? {
        let id = catalog::dataset_id(id)?;
        warn!("dataset {id} on the server {} is in no catalog; removing it", server.name);
        remove(server, id).await;
    }
    Ok(Some(last))
}
