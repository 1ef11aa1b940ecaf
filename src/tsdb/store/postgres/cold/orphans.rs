//! Objects that no server has on record: those that were written after the backup of a database that was
//! restored, or by a service that was paused until the record was gone. They get a record, as if nothing
//! referred to them since now, and are deleted after the grace period like others.
//!
//! The server that has a dataset has the records of all its objects, of a dataset that is being moved the
//! one whose state says that it is there. Both are looked at in one statement. What a creation left on
//! another server says so, too, but the catalog names that one.

use std::{collections::BTreeMap, error::Error};

use db::postgres::connections::Connections;
use futures::FutureExt as _;
use model::dataset::DatasetId;
use sqlx::PgConnection;
use tracing::{info, warn};
use uuid::Uuid;

use super::owner::Claimant;
use crate::store::{
    objects::StoredObject,
    postgres::{
        Result, StoreError,
        servers::{FIRST, Servers},
    },
};

/// Objects that are looked up at a time: as many as a server lists in one answer.
const PAGE: usize = 1_000;

/// An object's dataset, id and length in bytes.
type Stored = (i64, String, i64);

/// Puts the objects on record that no server has on record.
///
/// # Errors
/// [`StoreError`]. What fails with the objects is left for the next time.
pub(in super::super) async fn adopt(servers: &Servers, claimant: Claimant<'_>) -> Result<()> {
    if !claimant.claim().await? {
        return Ok(());
    }
    let objects = &claimant.sealing.options.objects;
    let mut after = None;
    loop {
        let page = match objects.list("", after.as_deref(), PAGE).await {
            Ok(page) => page,
            Err(error) => {
                let error = &error as &dyn Error;
                warn!(error, "objects of {objects} that are not on record wait");
                return Ok(());
            }
        };
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.key.clone());
        let stored: Vec<Stored> = page.iter().filter_map(parse).collect();
        for (place, stored) in by_place(claimant.first, stored).await? {
            let Some(server) = servers.find(place).await? else { continue };
            let n_adopted = put_on_record(&server.connections, place == FIRST, stored).await?;
            if n_adopted > 0 {
                info!("{n_adopted} objects of {objects} were not on record; deleting them later");
            }
        }
    }
}

/// The object of a dataset; `None` for any other.
fn parse(object: &StoredObject) -> Option<Stored> {
    let (dataset, id) = object.key.split_once('/')?;
    let (dataset, id): (DatasetId, Uuid) = (dataset.parse().ok()?, id.parse().ok()?);
    Some((dataset.get(), id.to_string(), i64::try_from(object.n_bytes).ok()?))
}

/// Objects by the server that has their dataset; the first one for those of none. Written, so that no
/// standby answers. Those of a dataset whose number was not given yet are left out: they are of a catalog
/// that is newer than this one, which was restored.
async fn by_place(first: &Connections, stored: Vec<Stored>) -> Result<BTreeMap<i64, Vec<Stored>>> {
    let datasets: Vec<i64> = stored.iter().map(|object| object.0).collect();
    let find = first.write_once(move |c| {
        let sql = "SELECT DISTINCT o.id, coalesce(h.place, 0) FROM unnest($1::bigint[]) AS o (id)
             LEFT JOIN head h ON h.dataset = o.id
             WHERE o.id < (SELECT last_value + is_called::integer FROM datasets_id_seq)";
        let find = sqlx::query_as(sql).bind(datasets);
        async move { Ok::<Vec<(i64, i64)>, StoreError>(find.fetch_all(c).await?) }.boxed()
    });
    let places: BTreeMap<i64, i64> = find.await?.into_iter().collect();
    let mut found: BTreeMap<i64, Vec<Stored>> = BTreeMap::new();
    for object in stored {
        if let Some(place) = places.get(&object.0) {
            found.entry(*place).or_default().push(object);
        }
    }
    Ok(found)
}

/// Puts objects of datasets that a server has on record there, or on the first one those of datasets that
/// are in no catalog; how many were not.
async fn put_on_record(
    connections: &Connections,
    is_first: bool,
    stored: Vec<Stored>,
) -> Result<u64> {
    let put = connections.write_once(move |c| put(c, is_first, stored).boxed());
    put.await
}

async fn put(c: &mut PgConnection, is_first: bool, stored: Vec<Stored>) -> Result<u64> {
    let sql = "INSERT INTO objects (id, dataset, bytes, sha256, state, at)
         SELECT o.id::uuid, o.dataset, o.bytes, '', 'dead',
             (extract(epoch FROM now()) * 1000000)::bigint
         FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS o (dataset, id, bytes)
         WHERE NOT EXISTS (SELECT FROM objects r WHERE r.id = o.id::uuid) AND (
             EXISTS (SELECT FROM head h WHERE h.dataset = o.dataset AND h.place IS NULL)
             OR $4 AND NOT EXISTS (SELECT FROM datasets d WHERE d.id = o.dataset))
         ON CONFLICT DO NOTHING";
    let adopted = sqlx::query(sql)
        .bind(stored.iter().map(|object| object.0).collect::<Vec<_>>())
        .bind(stored.iter().map(|object| object.1.clone()).collect::<Vec<_>>())
        .bind(stored.iter().map(|object| object.2).collect::<Vec<_>>())
        .bind(is_first)
        .execute(c)
        .await?;
    Ok(adopted.rows_affected())
}
