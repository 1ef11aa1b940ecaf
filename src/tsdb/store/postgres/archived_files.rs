//! Records of the archive in writes of rows.

use db::postgres::fault::unsigned;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use sqlx::PgConnection;

use super::head::{Change, Head};
use super::time::{Time, bounds};
use super::{Result, StoreError};
use crate::archive::month::Month;
use crate::span::Span;
use crate::store::archived::{Beneath, RowDeletion};
use crate::store::{Removal, series};

/// Length of the buckets that are folded from rows.
const FINEST: Resolution = Resolution::FiveMinutes;

/// Checks that an append of late rows includes the archived rows beneath them.
pub(super) async fn check_beneath(
    c: &mut PgConnection,
    head: &Head,
    first: Timestamp,
    beneath: Option<&Beneath>,
) -> Result<()> {
    if let Some(beneath) = beneath {
        return check_stamps(c, head.dataset, beneath).await;
    }
    let start = FINEST.bucket_start(first);
    let is_after = head.archived_until.is_none_or(|until| until <= start);
    if is_after { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset: head.dataset }) }
}

/// Checks that the archived rows of a write are from the files in effect.
pub(super) async fn check_stamps(
    c: &mut PgConnection,
    dataset: DatasetId,
    Beneath { span, stamps, .. }: &Beneath,
) -> Result<()> {
    let (first, last) = bounds(months_of(*span));
    let sql = "SELECT stamp FROM datasets.archived
         WHERE dataset = $1 AND month BETWEEN $2 AND $3 AND state = 1 ORDER BY month";
    let found: Vec<i64> =
        sqlx::query_scalar(sql).bind(dataset.get()).bind(first).bind(last).fetch_all(c).await?;
    if found == *stamps { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset }) }
}

/// Records the span of a deletion in the months that it touches.
pub(super) async fn cut(
    c: &mut PgConnection,
    dataset: DatasetId,
    RowDeletion { span, stamp, .. }: &RowDeletion,
) -> Result<()> {
    let (first, last) = bounds(months_of(*span));
    let sql = "UPDATE datasets.archived SET stamp = $4
         WHERE dataset = $1 AND month BETWEEN $2 AND $3 AND state = 1";
    sqlx::query(sql)
        .bind(dataset.get())
        .bind(first)
        .bind(last)
        .bind(stamp)
        .execute(&mut *c)
        .await?;
    let (first_row, last_row) = bounds(*span);
    let sql = "INSERT INTO datasets.archived_cuts (dataset, month, first_ts, last_ts)
         SELECT DISTINCT dataset, month, $4::timestamptz, $5::timestamptz FROM datasets.archived
         WHERE dataset = $1 AND month BETWEEN $2 AND $3 AND state < 2 ON CONFLICT DO NOTHING";
    sqlx::query(sql)
        .bind(dataset.get())
        .bind(first)
        .bind(last)
        .bind(first_row)
        .bind(last_row)
        .execute(c)
        .await?;
    Ok(())
}

/// Prunes the archived months that end before `before`, in a separate commit. Returns the number of
/// their rows, or `None` if there are no such months.
pub(super) async fn prune(
    c: &mut PgConnection,
    head: &mut Head,
    before: Timestamp,
) -> Result<Option<u64>> {
    let start = Month::of(before).start();
    let files: Vec<(i64, Time)> = sqlx::query_as(
        "UPDATE datasets.archived SET state = 2, changed = now()
         WHERE dataset = $1 AND month < $2 AND state = 1 RETURNING n_rows, last_ts",
    )
    .bind(head.dataset.get())
    .bind(Time(start))
    .fetch_all(&mut *c)
    .await?;
    if files.is_empty() {
        return Ok(None);
    }
    let sql = "DELETE FROM datasets.archived_cuts WHERE dataset = $1 AND month < $2";
    sqlx::query(sql).bind(head.dataset.get()).bind(Time(start)).execute(&mut *c).await?;
    let mut n_rows = 0_u64;
    for (n, Time(last)) in files {
        n_rows = n_rows.saturating_add(unsigned(n)?);
        head.kept_from = head.kept_from.max(Some(series::bucket_end(FINEST, last)));
    }
    head.newest_archived = head.newest_archived.filter(|newest| *newest >= start);
    head.read_latest(c).await?;
    head.commit(c, Change::Removal(Removal::Old), None).await?;
    Ok(Some(n_rows))
}

/// Returns true if a month that touches a span has a file in effect.
pub(super) async fn has_files(
    c: &mut PgConnection,
    dataset: DatasetId,
    span: Span,
) -> Result<bool> {
    let (first, last) = bounds(months_of(span));
    let sql = "SELECT EXISTS (SELECT FROM datasets.archived
         WHERE dataset = $1 AND month BETWEEN $2 AND $3 AND state = 1)";
    let query = sqlx::query_scalar(sql).bind(dataset.get()).bind(first).bind(last);
    Ok(query.fetch_one(c).await?)
}

/// Marks all files of a deleted dataset for deletion.
pub(super) async fn doom(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    for sql in [
        "DELETE FROM datasets.archived_cuts WHERE dataset = $1",
        "UPDATE datasets.archived SET state = 2, changed = now() WHERE dataset = $1",
    ] {
        sqlx::query(sql).bind(dataset.get()).execute(&mut *c).await?;
    }
    Ok(())
}

/// Returns the starts of the months at the ends of a span.
pub(super) const fn months_of(span: Span) -> Span {
    Span { first: Month::of(span.first).start(), last: Month::of(span.last).start() }
}
