//! Records of archived files, as SQL statements for all engines.

use std::time::Duration;

use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::archived::{
    ArchiveCommit, ArchivedDeletion, ArchivedFile, ArchivedMonth, Beneath, FileState,
};
use super::session::{Row, Session};
use super::state::State;
use super::time::Time;
use super::{Result, StoreError, series};
use crate::archive::month::Month;
use crate::span::Span;

/// Returns the starts of the months that contain the first and the last timestamp of a span.
fn months_of(span: Span) -> (Time, Time) {
    (Time(Month::of(span.first).start()), Time(Month::of(span.last).start()))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Reads a file and its state from a record.
fn file_of(row: &Row<'_>) -> Result<(ArchivedFile, FileState)> {
    let time = |idx| row.get(idx).map(|Time(at)| at);
    let number = |idx| Ok::<u64, StoreError>(row.get_unsigned(idx)?.unwrap_or_default());
    let file = ArchivedFile {
        month: Month::of(time(0)?),
        stamp: row.get(1)?,
        key: row.get(2)?,
        n_rows: number(3)?,
        n_bytes: number(4)?,
        sha256: row.get(5)?,
        tail_bytes: number(6)?,
        tail_crc: row.get_unsigned(7)?.unwrap_or_default(),
        rows: Span { first: time(8)?, last: time(9)? },
        last_row: row.get(10)?,
        columns: row.get(11)?,
        written: time(12)?,
    };
    Ok((file, row.get(13)?))
}

/// Returns the archived months that overlap a span.
pub(super) async fn months<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    span: Span,
) -> Result<Vec<ArchivedMonth>> {
    let (first, last) = months_of(span);
    let sql = "SELECT month, stamp, key, n_rows, n_bytes, sha256, tail_bytes, tail_crc, first_ts,
             last_ts, last_row, columns, written, state
         FROM datasets.archived WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state < 2
         ORDER BY month, state DESC, changed";
    let files = s.all(sql, &[&dataset.get(), &first, &last], file_of).await?;
    let sql = "SELECT month, first_ts, last_ts FROM datasets.archived_cuts
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 ORDER BY month, first_ts, last_ts";
    let cut = |row: &Row<'_>| {
        let time = |idx| row.get(idx).map(|Time(at)| at);
        Ok((Month::of(time(0)?), Span { first: time(1)?, last: time(2)? }))
    };
    let cuts = s.all(sql, &[&dataset.get(), &first, &last], cut).await?;
    Ok(ArchivedMonth::group(files, cuts))
}

/// Returns true if the store has a record of any archived file.
pub(super) async fn has_any<S: Session>(s: &mut S) -> Result<bool> {
    let found = s.all("SELECT 1 FROM datasets.archived LIMIT 1", &[], |_| Ok(()));
    Ok(!found.await?.is_empty())
}

/// Returns the key of the file that was put into effect last, or `None` if no file is in effect.
pub(super) async fn key_in_effect<S: Session>(s: &mut S) -> Result<Option<String>> {
    let sql = "SELECT key FROM datasets.archived WHERE state = 1 ORDER BY changed DESC LIMIT 1";
    Ok(s.all(sql, &[], |row| row.get(0)).await?.pop())
}

/// Returns true if a month that overlaps a span has a file in effect.
pub(super) async fn has_files<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    span: Span,
) -> Result<bool> {
    Ok(!stamps(s, dataset, span).await?.is_empty())
}

/// Returns the stamps of the files that are in effect for the months of a span.
async fn stamps<S: Session>(s: &mut S, dataset: DatasetId, span: Span) -> Result<Vec<i64>> {
    let (first, last) = months_of(span);
    let sql = "SELECT stamp FROM datasets.archived
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state = 1 ORDER BY month";
    s.all(sql, &[&dataset.get(), &first, &last], |row| row.get(0)).await
}

/// Checks an append of rows from `first` on. The append needs up-to-date archived rows in `beneath`,
/// unless all of its buckets come after `archived_until`, the end of the last month that was ever
/// archived.
pub(super) async fn check_beneath<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    first: Timestamp,
    archived_until: Option<Timestamp>,
    beneath: Option<&Beneath>,
) -> Result<()> {
    if let Some(beneath) = beneath {
        return check_stamps(s, dataset, beneath).await;
    }
    let start = Resolution::FiveMinutes.bucket_start(first);
    let is_after = archived_until.is_none_or(|until| until <= start);
    if is_after { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset }) }
}

/// Checks that `beneath` was read from the files that are in effect now.
async fn check_stamps<S: Session>(s: &mut S, dataset: DatasetId, beneath: &Beneath) -> Result<()> {
    let is_same = stamps(s, dataset, beneath.span).await? == beneath.stamps;
    if is_same { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset }) }
}

/// Records the span of a deletion as a cut of the months that it overlaps. Updates the `state` of the
/// dataset, which the caller saves.
pub(super) async fn cut<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    span: Span,
    ArchivedDeletion { stamp, beneath, newest_archived, .. }: &ArchivedDeletion,
    state: &mut State,
) -> Result<()> {
    check_stamps(s, dataset, beneath).await?;
    state.newest_archived = *newest_archived;
    let (first, last) = months_of(span);
    let sql = "UPDATE datasets.archived SET stamp = ?4
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state = 1";
    s.run(sql, &[&dataset.get(), &first, &last, stamp]).await?;
    let sql = "INSERT INTO datasets.archived_cuts (dataset, month, first_ts, last_ts)
         SELECT DISTINCT dataset, month, ?4, ?5 FROM datasets.archived
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state < 2 ON CONFLICT DO NOTHING";
    let ends = (Time(span.first), Time(span.last));
    s.run(sql, &[&dataset.get(), &first, &last, &ends.0, &ends.1]).await.map(drop)
}

/// Prunes the archived months that end before `before`, and returns the number of their rows. If there
/// are none, returns `None`, and the caller prunes the stored rows before `before`. For this, `before` is
/// moved back to the start of its bucket, or of its month if this month is archived. Updates the `state`
/// of the dataset, which the caller saves.
pub(super) async fn prune<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    before: &mut Timestamp,
    state: &mut State,
) -> Result<Option<u64>> {
    // Only whole buckets are pruned: a bucket that has lost some of its rows could not be computed
    // again.
    *before = Resolution::FiveMinutes.bucket_start(*before);
    if state.archived_until.is_none() {
        return Ok(None);
    }
    let month = Month::of(*before);
    let sql = format!(
        "UPDATE datasets.archived SET state = 2, changed = {}
         WHERE dataset = ?1 AND month < ?2 AND state = 1 RETURNING n_rows, last_ts",
        S::NOW
    );
    let file = |row: &Row<'_>| {
        let Time(last) = row.get(1)?;
        Ok((row.get_unsigned(0)?.unwrap_or(0), last))
    };
    let until = Time(month.start());
    let files: Vec<(u64, Timestamp)> = s.all(&sql, &[&dataset.get(), &until], file).await?;
    if files.is_empty() {
        // The stored rows of an archived month remain, since the archived rows that they replace would
        // otherwise reappear.
        if has_files(s, dataset, month.span()).await? {
            *before = month.start();
        }
        return Ok(None);
    }
    let sql = "DELETE FROM datasets.archived_cuts WHERE dataset = ?1 AND month < ?2";
    s.run(sql, &[&dataset.get(), &until]).await?;
    let ends = files.iter().map(|(_, last)| series::bucket_end(Resolution::FiveMinutes, *last));
    state.kept_from = state.kept_from.max(ends.max());
    state.newest_archived.take_if(|newest| *newest < month.start());
    Ok(Some(files.iter().map(|(n, _)| n).sum()))
}

/// Marks all files of a deleted dataset for deletion.
pub(super) async fn doom<S: Session>(s: &mut S, dataset: DatasetId) -> Result<()> {
    s.run("DELETE FROM datasets.archived_cuts WHERE dataset = ?1", &[&dataset.get()]).await?;
    let now = S::NOW;
    let sql = format!("UPDATE datasets.archived SET state = 2, changed = {now} WHERE dataset = ?1");
    s.run(&sql, &[&dataset.get()]).await.map(drop)
}

/// Implements [`Engine::lease_archive`](super::engine::Engine::lease_archive) for both engines.
pub(super) async fn lease<S: Session>(s: &mut S, holder: i64, length: Duration) -> Result<bool> {
    let (now, microsecond) = (S::NOW, S::MICROSECOND);
    let sql = format!(
        "INSERT INTO datasets.archive_lease AS l (id, holder, until)
         VALUES (1, ?1, {now} + ?2 * {microsecond})
         ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until = excluded.until
         WHERE l.holder = ?1 OR l.until <= {now}"
    );
    Ok(s.run(&sql, &[&holder, &micros(length)]).await? == 1)
}

/// Returns true if `holder` has the lease, and then keeps other processes from getting it until the end
/// of the transaction.
async fn has_lease<S: Session>(s: &mut S, holder: i64) -> Result<bool> {
    let sql = "SELECT holder FROM datasets.archive_lease".to_owned() + S::FOR_SHARE;
    let found = s.all(&sql, &[], |row| row.get::<i64>(0));
    Ok(found.await? == [holder])
}

/// Implements [`Engine::announce_file`](super::engine::Engine::announce_file) for both engines.
pub(super) async fn announce<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    file: ArchivedFile,
    holder: i64,
) -> Result<bool> {
    if !has_lease(s, holder).await? {
        return Ok(false);
    }
    let month = Time(file.month.start());
    // Cancels pending deletions of old files of the month, since the new file can have the same key.
    let sql = "DELETE FROM datasets.archived WHERE dataset = ?1 AND month = ?2 AND state = 2";
    s.run(sql, &[&dataset.get(), &month]).await?;
    let sql = format!(
        "INSERT INTO datasets.archived (dataset, month, stamp, state, changed, key, n_rows, n_bytes,
             sha256, tail_bytes, tail_crc, first_ts, last_ts, last_row, columns, written)
         VALUES (?1, ?2, ?3, 0, {}, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        S::NOW
    );
    s.run(
        &sql,
        &[
            &dataset.get(),
            &month,
            &file.stamp,
            &file.key,
            &file.n_rows.cast_signed(),
            &file.n_bytes.cast_signed(),
            &file.sha256,
            &file.tail_bytes.cast_signed(),
            &i64::from(file.tail_crc),
            &Time(file.rows.first),
            &Time(file.rows.last),
            &file.last_row,
            &file.columns,
            &Time(file.written),
        ],
    )
    .await?;
    Ok(true)
}

/// Puts an announced file into effect for its month, and removes the records of the month's other files.
/// Without a file, marks the files of the month for deletion. Updates the `state` of the dataset, which
/// the caller saves. Returns false without a change if the lease is lost, rows were removed since the
/// file was written, or the file was not announced.
pub(super) async fn put_into_effect<S: Session>(
    s: &mut S,
    ArchiveCommit { dataset, month, stamp, revision, .. }: &ArchiveCommit,
    holder: i64,
    state: &mut State,
) -> Result<bool> {
    if state.removed > *revision || !has_lease(s, holder).await? {
        return Ok(false);
    }
    let (dataset, start, now) = (dataset.get(), Time(month.start()), S::NOW);
    if let Some(stamp) = stamp {
        let sql = format!(
            "UPDATE datasets.archived SET state = 1, changed = {now}
             WHERE dataset = ?1 AND month = ?2 AND stamp = ?3 AND state = 0 RETURNING last_ts"
        );
        let mut found = s.all(&sql, &[&dataset, &start, stamp], |row| row.get(0)).await?;
        let Some(Time(last)) = found.pop() else { return Ok(false) };
        let sql = "DELETE FROM datasets.archived WHERE dataset = ?1 AND month = ?2 AND stamp <> ?3";
        s.run(sql, &[&dataset, &start, stamp]).await?;
        state.archived_until = state.archived_until.max(Some(month.next().start()));
        state.newest_archived = state.newest_archived.max(Some(last));
    } else {
        let sql = format!(
            "UPDATE datasets.archived SET state = 2, changed = {now}
             WHERE dataset = ?1 AND month = ?2"
        );
        s.run(&sql, &[&dataset, &start]).await?;
    }
    let sql = "DELETE FROM datasets.archived_cuts WHERE dataset = ?1 AND month = ?2";
    s.run(sql, &[&dataset, &start]).await?;
    Ok(true)
}

/// Implements [`Engine::doomed_file`](super::engine::Engine::doomed_file) for both engines.
pub(super) async fn doomed<S: Session>(
    s: &mut S,
    grace: Duration,
) -> Result<Option<(DatasetId, Month, String)>> {
    let sql = format!(
        "SELECT dataset, month, key FROM datasets.archived doomed
         WHERE state <> 1 AND changed <= {now} - ?1 * {microsecond} AND NOT EXISTS (
             SELECT 1 FROM datasets.archived other
             WHERE other.dataset = doomed.dataset AND other.key = doomed.key AND (other.state = 1
                 OR other.changed > {now} - ?1 * {microsecond}))
         LIMIT 1",
        now = S::NOW,
        microsecond = S::MICROSECOND
    );
    let file = |row: &Row<'_>| {
        let Time(month) = row.get(1)?;
        Ok((DatasetId::new(row.get(0)?), Month::of(month), row.get(2)?))
    };
    let found = s.all(&sql, &[&micros(grace)], file).await?.pop();
    Ok(found.and_then(|(dataset, month, key)| Some((dataset?, month, key))))
}

/// Implements [`Engine::forget_file`](super::engine::Engine::forget_file) for both engines.
pub(super) async fn forget<S: Session>(s: &mut S, dataset: DatasetId, key: String) -> Result<()> {
    let sql = "DELETE FROM datasets.archived WHERE dataset = ?1 AND key = ?2 AND state <> 1";
    s.run(sql, &[&dataset.get(), &key]).await.map(drop)
}
