//! Appending rows: where they go, and the buckets that follow them, in one transaction.
//!
//! A few rows go to the tail, many go to chunks at once. When enough rows of the tail come after the
//! last chunk they become a chunk. Late rows stay in the tail, which wins over the chunks, until
//! there are very many of them; then each append also lays some of them over their chunks, so that
//! no single one pays for all.

use model::{dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    StoreError, buckets, catalog,
    chunks::{self, CHUNK_ROWS},
    tail,
};
use crate::{block::Block, query::Span, rollup::Fold, store::Appended};

/// Late rows that the tail holds before some are laid over their chunks. A read takes them all into
/// account, so it costs reads little and spares writers much.
const LATE_ROWS_MAX: usize = 8192;

/// Late rows laid over chunks with each append once there are too many, or twice as many as the
/// append has itself.
const LATE_ROWS_STEP: usize = 64;

/// What the writer knows of a dataset.
#[derive(Debug, Clone, Copy)]
struct Progress {
    revision: u64,
    newest: Option<Timestamp>,
    kept_from: Option<Timestamp>,
    n_fresh: usize,
    n_late: usize,
}

/// Appends `rows`, in order and one at a moment, and fills in their numbers and creation moments.
pub(super) fn append(
    connection: &Connection,
    dataset: DatasetId,
    rows: &mut Block,
    now: Timestamp,
) -> Result<Appended, StoreError> {
    let mut progress = progress(connection, dataset)?;
    let n = rows.len();
    let n_rows = u64::try_from(n).unwrap_or(u64::MAX);
    let (Some(first), Some(last)) = (rows.times.first().copied(), rows.times.last().copied())
    else {
        return Ok(Appended { n_rows, revision: progress.revision });
    };
    if let Some(kept_from) = progress.kept_from
        && first < kept_from
    {
        return Err(StoreError::LetGo { kept_from });
    }
    rows.ids = numbers(connection, n)?;
    rows.created = vec![now; n];
    let chunks_end = chunks::end(connection, dataset)?;
    if n < CHUNK_ROWS {
        let n_late = tail::put(connection, dataset, rows, chunks_end)?;
        progress.n_late += n_late;
        progress.n_fresh += n - n_late;
    } else {
        progress.n_fresh = put_many(connection, dataset, rows, chunks_end)?;
    }
    let fold = fold(connection, dataset)?;
    if fold != Fold::Nothing {
        if progress.newest.is_none_or(|newest| newest < first) {
            buckets::extend(connection, dataset, fold, rows)?;
        } else {
            buckets::refold(connection, dataset, fold, &rows.times)?;
        }
    }
    seal(connection, dataset, &mut progress, rows)?;
    progress.revision += 1;
    progress.newest = progress.newest.max(Some(last));
    save(connection, dataset, &progress)?;
    connection
        .prepare_cached("UPDATE datasets SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![dataset.get(), now.micros()])?;
    Ok(Appended { n_rows, revision: progress.revision })
}

/// Lets go of rows before `before`, at most about `limit_rows`.
pub(super) fn prune(
    connection: &Connection,
    dataset: DatasetId,
    before: Timestamp,
    limit_rows: usize,
) -> Result<u64, StoreError> {
    let mut progress = progress(connection, dataset)?;
    // Whole buckets only: what is left of one could not be folded again.
    let before = Resolution::FiveMinutes.bucket_start(before);
    let mut n_gone = chunks::remove_before(connection, dataset, before, limit_rows)?;
    // Rows of the tail that lie over a chunk go when it does, not before.
    let left = chunks::ending_from(connection, dataset, Timestamp::MIN)?;
    let bound = left.map_or(before, |left| left.span.first.min(before));
    let old = Span { first: Timestamp::MIN, last: Timestamp::from_micros(bound.micros() - 1) };
    let empty = Block::new(&catalog::dtypes(connection, dataset)?);
    n_gone += tail::take(connection, dataset, old, usize::MAX, empty)?.len();
    if n_gone > 0 {
        progress.kept_from = progress.kept_from.max(Some(before));
        progress.newest = newest(connection, dataset)?;
        save(connection, dataset, &progress)?;
    }
    Ok(u64::try_from(n_gone).unwrap_or(u64::MAX))
}

/// The moment of the newest row.
pub(super) fn newest(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Option<Timestamp>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT max(t) FROM tail WHERE dataset = ?1")?;
    let in_tail: Option<i64> = statement.query_row([dataset.get()], |row| row.get(0))?;
    let in_tail = in_tail.map(Timestamp::from_micros);
    Ok(in_tail.max(chunks::end(connection, dataset)?))
}

/// The number of the dataset's last commit.
pub(super) fn revision(connection: &Connection, dataset: DatasetId) -> Result<u64, StoreError> {
    Ok(progress(connection, dataset)?.revision)
}

/// Puts many rows into chunks, together with the rows of the tail that lie among them or after the
/// last chunk; how many are left in the tail after the last chunk.
fn put_many(
    connection: &Connection,
    dataset: DatasetId,
    rows: &Block,
    chunks_end: Option<Timestamp>,
) -> Result<usize, StoreError> {
    let first = rows.times.first().copied().unwrap_or_default();
    let fresh_from =
        chunks_end.map_or(Timestamp::MIN, |end| Timestamp::from_micros(end.micros() + 1));
    let span = Span { first: first.min(fresh_from), last: Timestamp::MAX };
    let under = tail::take(connection, dataset, span, usize::MAX, rows.empty_like())?;
    let merged = under.merged(rows);
    let n_late = merged.first_not_before(fresh_from);
    if n_late > 0 {
        chunks::overlay(connection, dataset, &merged.part(0..n_late))?;
    }
    let fresh = merged.part(n_late..merged.len());
    let n_sealed = chunks::append(connection, dataset, &fresh)?;
    let left = fresh.part(n_sealed..fresh.len());
    tail::put(connection, dataset, &left, None)?;
    Ok(left.len())
}

/// Makes a chunk of the rows after the last one, and lays late rows over theirs, where there are
/// enough of them.
fn seal(
    connection: &Connection,
    dataset: DatasetId,
    progress: &mut Progress,
    appended: &Block,
) -> Result<(), StoreError> {
    let end = chunks::end(connection, dataset)?;
    let fresh_from = end.map_or(Timestamp::MIN, |end| Timestamp::from_micros(end.micros() + 1));
    if progress.n_fresh >= CHUNK_ROWS {
        let fresh = Span { first: fresh_from, last: Timestamp::MAX };
        progress.n_fresh = tail::count(connection, dataset, fresh)?;
        if progress.n_fresh >= CHUNK_ROWS {
            let rows = tail::take(connection, dataset, fresh, CHUNK_ROWS, appended.empty_like())?;
            progress.n_fresh -= chunks::append(connection, dataset, &rows)?;
        }
    }
    if progress.n_late >= LATE_ROWS_MAX
        && let Some(end) = end
    {
        let late = Span { first: Timestamp::MIN, last: end };
        progress.n_late = tail::count(connection, dataset, late)?;
        if progress.n_late >= LATE_ROWS_MAX {
            let step = LATE_ROWS_STEP.max(appended.len().saturating_mul(2));
            let rows = tail::take(connection, dataset, late, step, appended.empty_like())?;
            chunks::overlay(connection, dataset, &rows)?;
            progress.n_late -= rows.len();
        }
    }
    Ok(())
}

/// Takes the next `n` row numbers.
fn numbers(connection: &Connection, n: usize) -> Result<Vec<i64>, StoreError> {
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let last: i64 = connection
        .prepare_cached(
            "UPDATE counters SET value = value + ?1 WHERE name = 'row' RETURNING value",
        )?
        .query_row([n], |row| row.get(0))?;
    Ok((last - n + 1..=last).collect())
}

fn fold(connection: &Connection, dataset: DatasetId) -> Result<Fold, StoreError> {
    let columns = catalog::columns(connection, dataset)?;
    Ok(Fold::of(&columns, &catalog::metadata(connection, dataset)?))
}

fn progress(connection: &Connection, dataset: DatasetId) -> Result<Progress, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT revision, newest, kept_from, n_fresh, n_late FROM progress WHERE dataset = ?1",
    )?;
    let moment = |micros: Option<i64>| micros.map(Timestamp::from_micros);
    let progress = statement.query_row([dataset.get()], |row| {
        Ok(Progress {
            revision: row.get(0)?,
            newest: moment(row.get(1)?),
            kept_from: moment(row.get(2)?),
            n_fresh: row.get(3)?,
            n_late: row.get(4)?,
        })
    });
    progress.optional()?.ok_or(StoreError::NoDataset { dataset })
}

fn save(
    connection: &Connection,
    dataset: DatasetId,
    progress: &Progress,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "UPDATE progress SET revision = ?2, newest = ?3, kept_from = ?4, n_fresh = ?5,
             n_late = ?6 WHERE dataset = ?1",
        )?
        .execute(params![
            dataset.get(),
            progress.revision,
            progress.newest.map(Timestamp::micros),
            progress.kept_from.map(Timestamp::micros),
            progress.n_fresh,
            progress.n_late
        ])?;
    Ok(())
}
