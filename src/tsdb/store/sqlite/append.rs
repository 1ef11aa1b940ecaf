//! Appends and removes rows and updates their buckets, in one transaction.
//!
//! Few rows are written to the tail, many rows directly to chunks. Once the tail has enough rows that
//! come after the last chunk, they become a chunk. Late rows remain in the tail, which takes precedence
//! over chunks. If the tail has many late rows, they are merged into their chunks in small steps between
//! writes.

use std::borrow::Cow;

use db::statement::Statements as _;
use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::chunks::{self, CHUNK_ROWS, CHUNK_ROWS_MIN};
use super::progress::{self, Progress};
use super::series::{SeriesId, bucket_end};
use super::{Result, buckets, catalog, scan, singles, tables};
use crate::archive::month::Month;
use crate::span::{Order, Span, just_before};
use crate::store::archived::Beneath;
use crate::store::row_changes::{self, RowChange};
use crate::store::session::ready;
use crate::store::state::Place;
use crate::store::{AppendMode, Appended, PageRead, Removed, records};

/// Number of late rows in the tail of a dataset at which the store begins to merge them into chunks.
/// Until then, every read merges the late rows, which costs reads little and saves writers much. The
/// index `progress_late` contains the same number.
const LATE_ROWS_MAX: usize = 2048;

/// Number of late rows that are merged into chunks in one step, for which writers wait. Each row can be
/// in a different chunk, which takes 0.2 ms.
const LATE_ROWS_STEP: usize = 8;

/// Number of late rows in the tail at which each append starts to also merge late rows, twice as many as
/// it adds. This limits the size of the tail.
const LATE_ROWS_LIMIT: usize = 262_144;

/// Minimum number of late rows per affected chunk for which an append rewrites the chunks directly,
/// instead of writing the rows to the tail.
const LATE_ROWS_PER_CHUNK: usize = 64;

/// Appends `rows`, sorted by unique timestamp. Assigns their row numbers and, unless they are copies,
/// their creation times.
pub(super) fn append(
    connection: &Connection,
    dataset: DatasetId,
    rows: &mut Block,
    mode: AppendMode,
    now: Timestamp,
    beneath: Option<&Beneath>,
) -> Result<Appended> {
    // Columns can be added after the rows were parsed.
    let columns = catalog::columns(connection, dataset)?;
    rows.widen(&columns.iter().map(|(_, dtype)| *dtype).collect::<Vec<_>>());
    if mode == AppendMode::Merge {
        fill(connection, dataset, rows, beneath)?;
    }
    if mode != AppendMode::Copy {
        rows.created = vec![now; rows.len()];
    }
    let mut progress = Progress::read(connection, dataset)?;
    let n = rows.len();
    let (Some(first), Some(last)) = (rows.times.first().copied(), rows.times.last().copied())
    else {
        return Ok(progress.state.appended(n));
    };
    let Place { is_after, n_folded } = progress.state.place(rows, mode)?;
    let fold = catalog::fold_of(connection, dataset, &columns)?;
    if !is_after {
        let until = progress.state.archived_until;
        ready(records::check_beneath(&mut &*connection, dataset, first, until, beneath))?;
    }
    let beneath = beneath.map(|beneath| &beneath.rows);
    // Computes the buckets before anything is written, while SQLite can still copy chunks directly from
    // the file.
    let kept_from = progress.state.kept_from;
    let touch = |fold| buckets::touched(connection, dataset, fold, rows, beneath, kept_from);
    let touched = fold.filter(|_| !is_after).map(touch).transpose()?;
    let late = rows.times.get(..progress.state.newest.map_or(0, |newest| rows.first_after(newest)));
    let late = late.unwrap_or_default();
    let held = match &touched {
        Some(touched) => touched.held.clone(),
        None => chunks::find_times(connection, SeriesId::rows(dataset), late)?,
    };
    let mut stored = singles::find_times(connection, dataset, late)?;
    stored.extend(&held);
    stored.extend(beneath.filter(|_| !is_after).into_iter().flat_map(|beneath| &beneath.times));
    stored.sort_unstable();
    rows.ids = numbers(connection, n)?;
    put(connection, dataset, rows, &held, &mut progress)?;
    match (touched, fold) {
        (Some(touched), _) => touched.put(connection, dataset)?,
        (None, Some(fold)) if n_folded == 0 => buckets::extend(connection, dataset, fold, rows)?,
        // Skips the first rows, which the copied buckets already include.
        (None, Some(fold)) => {
            buckets::extend(connection, dataset, fold, &rows.part(n_folded..rows.len()))?;
        }
        (None, None) => {}
    }
    if progress.n_late >= LATE_ROWS_LIMIT {
        settle_late(connection, dataset, &mut progress, LATE_ROWS_STEP.max(n.saturating_mul(2)))?;
    }
    progress.state.revision += 1;
    progress.state.newest = progress.state.newest.max(Some(last));
    if let Some(change) = RowChange::replacement(progress.state.revision, rows, &stored) {
        ready(row_changes::record(&mut &*connection, dataset, &change))?;
    }
    progress.save(connection, dataset)?;
    progress::touch(connection, dataset, now)?;
    Ok(progress.state.appended(n))
}

/// Stores rows. Late rows, which do not come after the last chunk, are merged into chunks if there are
/// many of them for each affected chunk, otherwise they are written to the tail. Other rows are written
/// to the tail until there are enough for a chunk. `held` has the sorted timestamps of `rows` at which
/// chunks already have rows.
pub(super) fn put(
    connection: &Connection,
    dataset: DatasetId,
    rows: &Block,
    held: &[Timestamp],
    progress: &mut Progress,
) -> Result<()> {
    let series = SeriesId::rows(dataset);
    let end = chunks::end(connection, series)?;
    let (fresh_from, empty) = (chunks::fresh_from(end), rows.empty_like());
    let n_late = end.map_or(0, |end| rows.first_after(end));
    let late = rows.part(0..n_late);
    if let (Some(first), Some(last)) = (late.times.first(), late.times.last()) {
        let n_chunks_max = n_late / LATE_ROWS_PER_CHUNK;
        let span = Span { first: *first, last: *last };
        if n_late >= CHUNK_ROWS_MIN
            && chunks::are_within(connection, series, &late.times, n_chunks_max)?
            // Limits the memory for the rows of the tail.
            && singles::count(connection, series, span)? <= n_late.max(LATE_ROWS_MAX)
        {
            let under = singles::take(connection, series, span, usize::MAX, empty.clone())?;
            chunks::overlay(connection, series, &under.merge(&late))?;
        } else {
            progress.n_late += singles::put_rows(connection, dataset, &late, end, held)?;
        }
    }
    let mut fresh = match n_late {
        0 => Cow::Borrowed(rows),
        _ => Cow::Owned(rows.part(n_late..rows.len())),
    };
    let n_before = progress.n_fresh;
    progress.n_fresh += fresh.len();
    if fresh.len() >= CHUNK_ROWS_MIN || progress.n_fresh >= CHUNK_ROWS {
        if n_before > 0 {
            let span = Span { first: fresh_from, last: Timestamp::MAX };
            let under = singles::take(connection, series, span, usize::MAX, empty)?;
            fresh = Cow::Owned(under.merge(&fresh));
        }
        if fresh.len() >= CHUNK_ROWS_MIN {
            progress.n_fresh = 0;
            return chunks::append(connection, series, &fresh);
        }
        progress.n_fresh = fresh.len();
    }
    singles::put_rows(connection, dataset, &fresh, None, &[]).map(drop)
}

/// Fills in missing values of new rows from the stored rows at the same timestamps.
fn fill(
    connection: &Connection,
    dataset: DatasetId,
    rows: &mut Block,
    beneath: Option<&Beneath>,
) -> Result<()> {
    let empty = rows.empty_like();
    let archived = beneath.map_or(&empty, |beneath| &beneath.rows);
    let mut row_idx = 0;
    while let (Some(first), Some(last)) = (rows.times.get(row_idx), rows.times.last()) {
        // Reads the stored rows from the first to the last remaining new row, about a chunk at a time.
        let span = Span { first: *first, last: *last };
        let page = PageRead::raw(span, Order::Ascending, CHUNK_ROWS);
        let under = scan::page(connection, SeriesId::rows(dataset), &page)?;
        let read_until = *under.times.last().unwrap_or(last);
        let here = Span { last: read_until, ..span }.indices(&archived.times);
        rows.fill(&archived.part(here).merge(&under));
        row_idx = rows.first_after(read_until);
    }
    Ok(())
}

/// Removes rows before `before`, at most about `limit_rows`.
pub(super) fn prune(
    connection: &Connection,
    dataset: DatasetId,
    mut before: Timestamp,
    limit_rows: usize,
) -> Result<Removed> {
    let mut progress = Progress::read(connection, dataset)?;
    let state = &mut progress.state;
    if let Some(n_rows) = ready(records::prune(&mut &*connection, dataset, &mut before, state))? {
        let last = just_before(Month::of(before).start());
        progress.note_removal(connection, dataset, Span { first: Timestamp::MIN, last })?;
        progress.save(connection, dataset)?;
        return Ok(progress.state.removed(n_rows));
    }
    let series = SeriesId::rows(dataset);
    let (mut n_gone, in_chunks) = chunks::remove_before(connection, series, before, limit_rows)?;
    // A row in the tail that replaces a row of a chunk is not removed before the chunk, since the
    // replaced row would reappear.
    let left = chunks::ending_from(connection, series, Timestamp::MIN)?;
    let bound = left.map_or(before, |left| left.span.first.min(before));
    let old = Span { first: Timestamp::MIN, last: just_before(bound) };
    let sql = "SELECT max(t) FROM tail WHERE dataset = ?1 AND t < ?2";
    let in_tail: Option<i64> = connection.value(sql, [dataset.get(), bound.micros()])?;
    n_gone += singles::count(connection, series, old)?;
    singles::remove(connection, series, old)?;
    if let Some(newest_gone) = in_chunks.max(in_tail.map(Timestamp::from_micros)) {
        // Appends are rejected only before the end of the last bucket that lost a row, which can be
        // long before `before`. If a row with a wrong date made `before` too late, correct rows would
        // otherwise be rejected.
        let end = bucket_end(Resolution::FiveMinutes, newest_gone);
        progress.state.kept_from = progress.state.kept_from.max(Some(end.min(before)));
        progress.note_removal(connection, dataset, old)?;
        progress.save(connection, dataset)?;
    }
    Ok(progress.state.removed(u64::try_from(n_gone).unwrap_or(u64::MAX)))
}

/// Merges some late rows of a dataset that has many of them. Returns false if there is no such dataset.
pub(super) fn settle_some(connection: &Connection) -> Result<bool> {
    let sql = "SELECT dataset FROM progress WHERE n_late >= 2048 LIMIT 1";
    let found = connection.find(sql, [], tables::dataset_id)?;
    let Some(dataset) = found else { return Ok(false) };
    let mut progress = Progress::read(connection, dataset)?;
    settle_late(connection, dataset, &mut progress, LATE_ROWS_STEP)?;
    progress.save(connection, dataset)?;
    Ok(true)
}

/// Merges at most `step` late rows into their chunks. `n_late` is an upper bound. If few late rows
/// remain, sets it to their exact number.
fn settle_late(
    connection: &Connection,
    dataset: DatasetId,
    progress: &mut Progress,
    step: usize,
) -> Result<()> {
    let series = SeriesId::rows(dataset);
    let Some(end) = chunks::end(connection, series)? else {
        progress.n_late = 0;
        return Ok(());
    };
    let late = Span { first: Timestamp::MIN, last: end };
    let empty = scan::empty(connection, series)?;
    let rows = singles::take(connection, series, late, step, empty)?;
    chunks::overlay(connection, series, &rows)?;
    progress.n_late = progress.n_late.saturating_sub(rows.len());
    if rows.len() < step || progress.n_late < LATE_ROWS_MAX {
        progress.n_late = singles::count(connection, series, late)?;
    }
    Ok(())
}

/// Allocates row numbers for the next `n` rows.
fn numbers(connection: &Connection, n: usize) -> Result<Vec<i64>> {
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let sql = "UPDATE counters SET value = value + ?1 WHERE name = 'row' RETURNING value";
    let last: i64 = connection.value(sql, [n])?;
    Ok((last - n + 1..=last).collect())
}
