//! Sealing: the oldest chunks of a dataset become a segment.
//!
//! The object is on record before it is written, so that none is left without one. The transaction that
//! makes the segment takes place only if the dataset was not moved since, and has precisely these
//! chunks: a chunk never changes, so that the object has what they have.

use std::{error::Error, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use db::postgres::connections::{Connections, Snapshot};
use futures::FutureExt as _;
use model::dataset::DatasetId;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use uuid::Uuid;

use super::{Sealing, cold_error, key_of, owner::Claimant, segments};
use crate::store::{
    objects::ObjectError,
    postgres::{
        Result, StoreError,
        catalog::dataset_id,
        head::Head,
        place::{At, Extent, Place},
    },
    series::SeriesId,
};

/// Chunks of a segment at most: its index is read as a whole.
const CHUNKS_MAX: usize = 1024;

/// Bytes of a segment from which on no more chunks are added: it is in memory while it is made.
const BYTES_MAX: i64 = 16 << 20;

/// Old chunks of a dataset that are looked at: as many as several segments. Most of them are next to each
/// other.
const OLD_MAX: i64 = 16 * 1024;

/// A service that writes an object of a dataset keeps others from doing the same work until it was not
/// heard of for so long, in microseconds.
const ABANDONED_AFTER_MICROS: i64 = 60 * 1_000_000;

/// How often a service says that it goes on writing an object: some times before it is taken for lost.
const TOUCH_EVERY: Duration = Duration::from_secs(10);

/// How often the prefix is claimed again while there is more to seal.
const CLAIM_EVERY: Duration = Duration::from_secs(30);

/// Chunks that become a segment.
#[derive(Debug)]
struct Run {
    dataset: DatasetId,
    generation: i64,
    object: Uuid,
    /// As they will be in the object.
    places: Vec<Place>,
}

/// A chunk's number, timestamps, rows, last row number, and the bytes of its times and its body.
type Sized = (i64, i64, i64, i64, i64, i64, i64);

/// Makes segments of all chunks that are old enough.
///
/// # Errors
/// [`StoreError`] of the database. What fails with the objects is left for the next time.
pub(in super::super) async fn seal_all(
    connections: &Connections,
    claimant: Claimant<'_>,
) -> Result<()> {
    let sealing = claimant.sealing;
    // Also where there is nothing to seal: the older a clone is, the less it has of the claims.
    let mut claimed_at = Instant::now();
    if !claimant.claim().await? {
        return Ok(());
    }
    let mut after = 0;
    while let Some((dataset, generation)) = next_dataset(connections, sealing, after).await? {
        after = dataset.get();
        while let Some(run) = next_run(connections, sealing, dataset, generation).await? {
            if claimed_at.elapsed() > CLAIM_EVERY {
                claimed_at = Instant::now();
                if !claimant.claim().await? {
                    return Ok(());
                }
            }
            match seal(connections, sealing, run).await {
                Ok(true) => {}
                // Another service did, or changed the chunks.
                Ok(false) | Err(StoreError::Moved { .. } | StoreError::NoDataset { .. }) => break,
                Err(error @ StoreError::Cold { .. }) => {
                    let error = &error as &dyn Error;
                    warn!(error, "sealing waits: an object of dataset {dataset} was not written");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// The next dataset that has chunks to seal, after number `after`, and its generation.
async fn next_dataset(
    connections: &Connections,
    sealing: &Sealing,
    after: i64,
) -> Result<Option<(DatasetId, i64)>> {
    let n_most = sealing.options.n_hot_chunks.saturating_add(sealing.options.n_chunks_min.max(1));
    let n_most = i64::try_from(n_most).unwrap_or(i64::MAX);
    let find = connections.read_here(Snapshot::Statement, |c| {
        async move {
            let sql = "SELECT dataset, generation FROM head
                 WHERE dataset > $1 AND place IS NULL AND EXISTS (
                     SELECT FROM chunks WHERE dataset = head.dataset AND resolution = 0
                     ORDER BY t_last DESC OFFSET $2 - 1 LIMIT 1)
                 ORDER BY dataset LIMIT 1";
            let find = sqlx::query_as(sql).bind(after).bind(n_most).fetch_optional(c);
            Ok::<Option<(i64, i64)>, StoreError>(find.await?)
        }
        .boxed()
    });
    let found = find.await?;
    found.map(|(dataset, generation)| Ok((dataset_id(dataset)?, generation))).transpose()
}

/// The oldest run of chunks of a dataset that are old enough, between two segments; none that is too
/// short.
async fn next_run(
    connections: &Connections,
    sealing: &Sealing,
    dataset: DatasetId,
    generation: i64,
) -> Result<Option<Run>> {
    let n_hot = i64::try_from(sealing.options.n_hot_chunks).unwrap_or(i64::MAX);
    let find =
        connections.read_here(Snapshot::Transaction, |c| old_chunks(c, dataset, n_hot).boxed());
    let (chunks, ends) = find.await?;
    // How many segments end before a chunk tells between which two it is.
    let gap = |chunk: &Sized| ends.partition_point(|end| *end < chunk.1);
    let long = |run: &&[Sized]| run.len() >= sealing.options.n_chunks_min.max(1);
    let Some(run) = chunks.chunk_by(|a, b| gap(a) == gap(b)).find(long) else { return Ok(None) };
    let object = Uuid::new_v4();
    let (mut places, mut offset) = (Vec::new(), 0);
    for (id, first, last, n, last_row, n_times, n_body) in run.iter().take(CHUNKS_MAX).copied() {
        if offset >= BYTES_MAX {
            break;
        }
        let extent = Extent { object, last_row, offset, n_times, n_body };
        places.push(Place::new((id, first, last, n), At::Object(extent))?);
        offset += extent.n_bytes();
    }
    Ok(Some(Run { dataset, generation, object, places }))
}

/// The chunks of a dataset without the newest `n_hot`, and the ends of its segments, oldest first.
async fn old_chunks(
    c: &mut PgConnection,
    dataset: DatasetId,
    n_hot: i64,
) -> Result<(Vec<Sized>, Vec<i64>)> {
    let chunks = sqlx::query_as(
        "SELECT id, t_first, t_last, n, last_row, octet_length(times)::bigint,
             octet_length(body)::bigint
         FROM chunks WHERE dataset = $1 AND resolution = 0 AND t_last <= (
             SELECT t_last FROM chunks WHERE dataset = $1 AND resolution = 0
             ORDER BY t_last DESC OFFSET $2 LIMIT 1)
         ORDER BY t_last LIMIT $3",
    )
    .bind(dataset.get())
    .bind(n_hot)
    .bind(OLD_MAX)
    .fetch_all(&mut *c)
    .await?;
    let sql = "SELECT t_last FROM segments WHERE dataset = $1 AND resolution = 0 ORDER BY t_last";
    let ends = sqlx::query_scalar(sql).bind(dataset.get()).fetch_all(c).await?;
    Ok((chunks, ends))
}

/// Makes a segment of chunks; whether they were still there.
async fn seal(connections: &Connections, sealing: &Sealing, run: Run) -> Result<bool> {
    let Some(bytes) = read(connections, &run).await? else { return Ok(false) };
    let sha256 = Sha256::digest(&bytes).to_vec();
    let n_bytes = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
    let (object, dataset) = (run.object, run.dataset);
    let run = Arc::new(run);
    let staged = Arc::clone(&run);
    let stage =
        connections.write(|c| async move { stage(c, &staged, n_bytes, sha256).await }.boxed());
    if !stage.await? {
        return Ok(false);
    }
    let done = match put(connections, sealing, &run, bytes).await {
        Ok(()) => connections.write(|c| async move { commit(c, &run).await }.boxed()).await,
        Err(error) => Err(cold_error(dataset, error)),
    };
    if !matches!(done, Ok(true)) {
        // It may be written all the same, and its segment made: then it is not staged any more.
        let let_go = connections.write(|c| let_go(c, object).boxed());
        // Else its segment may have been made, and moved to another server.
        let is_lost = !let_go.await? && matches!(done, Ok(false));
        if is_lost
            && let Err(error) = sealing.options.objects.delete(&key_of(dataset, object)).await
        {
            let error = &error as &dyn Error;
            warn!(error, "object {object} of dataset {dataset} is not on record");
        }
    }
    done
}

/// The bytes of chunks one after another; none if some are gone.
async fn read(connections: &Connections, run: &Run) -> Result<Option<Bytes>> {
    let ids: Vec<i64> = run.places.iter().map(|place| place.id).collect();
    let read = connections.read_here(Snapshot::Statement, |c| {
        let ids = ids.clone();
        async move {
            let sql = "SELECT times, body FROM chunks WHERE id = ANY($1) ORDER BY t_last";
            let read = sqlx::query_as(sql).bind(ids).fetch_all(c);
            Ok::<Vec<(Vec<u8>, Vec<u8>)>, StoreError>(read.await?)
        }
        .boxed()
    });
    let chunks = read.await?;
    let is_all = chunks.len() == run.places.len();
    Ok(is_all.then(|| {
        let parts = chunks.into_iter().flat_map(|(times, body)| [times, body]);
        parts.collect::<Vec<_>>().concat().into()
    }))
}

/// Puts an object on record that will be written, unless another service is about to write one of the
/// dataset, or it was moved; whether it did. The lock has a move find the record, and take it along.
async fn stage(c: &mut PgConnection, run: &Run, n_bytes: i64, sha256: Vec<u8>) -> Result<bool> {
    if Head::lock(c, run.dataset).await?.generation != run.generation {
        return Ok(false);
    }
    let sql = "WITH now AS (SELECT (extract(epoch FROM now()) * 1000000)::bigint AS at)
         INSERT INTO objects (id, dataset, bytes, sha256, state, at)
         SELECT $2::uuid, $1, $3, $4, 'staged', at FROM now WHERE NOT EXISTS (
             SELECT FROM objects o
             WHERE o.dataset = $1 AND o.state = 'staged' AND o.at > now.at - $5)";
    let staged = sqlx::query(sql)
        .bind(run.dataset.get())
        .bind(run.object.to_string())
        .bind(n_bytes)
        .bind(sha256)
        .bind(ABANDONED_AFTER_MICROS)
        .execute(c)
        .await?;
    Ok(staged.rows_affected() > 0)
}

/// Writes an object, and has other services know meanwhile that this one is at it.
async fn put(
    connections: &Connections,
    sealing: &Sealing,
    run: &Run,
    bytes: Bytes,
) -> Result<(), ObjectError> {
    let key = key_of(run.dataset, run.object);
    let mut put = pin!(sealing.options.objects.put(&key, bytes));
    loop {
        if let Ok(done) = timeout(TOUCH_EVERY, &mut put).await {
            return done;
        }
        if let Err(error) = connections.write(|c| touch(c, run.object).boxed()).await {
            let error = &error as &dyn Error;
            debug!(error, "another service may write the same rows as object {key}");
        }
    }
}

async fn touch(c: &mut PgConnection, object: Uuid) -> Result<()> {
    let sql = "UPDATE objects SET at = (extract(epoch FROM now()) * 1000000)::bigint
         WHERE id = $1::uuid AND state = 'staged'";
    sqlx::query(sql).bind(object.to_string()).execute(c).await?;
    Ok(())
}

/// Makes the segment of an object that was written, in place of its chunks; whether they were still
/// there, all of them and nothing between.
async fn commit(c: &mut PgConnection, run: &Run) -> Result<bool> {
    let (Some(first), Some(last)) = (run.places.first(), run.places.last()) else {
        return Ok(false);
    };
    let head = Head::lock(c, run.dataset).await?;
    let ids: Vec<i64> = run.places.iter().map(|place| place.id).collect();
    let n_chunks = i64::try_from(ids.len()).unwrap_or(i64::MAX);
    let sql = "SELECT count(*) FILTER (WHERE id = ANY($4)) = $5 AND count(*) = $5
             AND NOT EXISTS (SELECT FROM segments WHERE dataset = $1 AND resolution = 0
                 AND t_last >= $2 AND t_first <= $3)
         FROM chunks WHERE dataset = $1 AND resolution = 0 AND t_last >= $2 AND t_first <= $3";
    let is_there: bool = sqlx::query_scalar(sql)
        .bind(run.dataset.get())
        .bind(first.span.first.micros())
        .bind(last.span.last.micros())
        .bind(&ids)
        .bind(n_chunks)
        .fetch_one(&mut *c)
        .await?;
    if !is_there || head.generation != run.generation {
        return Ok(false);
    }
    let sql =
        "UPDATE objects SET state = 'live', at = (extract(epoch FROM now()) * 1000000)::bigint
         WHERE id = $1::uuid AND state = 'staged'";
    let live = sqlx::query(sql).bind(run.object.to_string()).execute(&mut *c).await?;
    if live.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query("DELETE FROM chunks WHERE id = ANY($1)").bind(ids).execute(&mut *c).await?;
    segments::insert(c, SeriesId::rows(run.dataset), run.object, &run.places).await?;
    Ok(true)
}

/// Notes that an object has no segment, unless it has; whether it is on record, as it is until it was
/// staged for too long.
async fn let_go(c: &mut PgConnection, object: Uuid) -> Result<bool> {
    let sql =
        "UPDATE objects SET state = 'dead', at = (extract(epoch FROM now()) * 1000000)::bigint
         WHERE id = $1::uuid AND state = 'staged'";
    sqlx::query(sql).bind(object.to_string()).execute(&mut *c).await?;
    let sql = "SELECT EXISTS (SELECT FROM objects WHERE id = $1::uuid)";
    Ok(sqlx::query_scalar(sql).bind(object.to_string()).fetch_one(c).await?)
}
