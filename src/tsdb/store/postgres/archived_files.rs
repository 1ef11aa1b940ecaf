//! Archived months as an append or a deletion meets them, in its own transaction.

use model::{dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{Result, StoreError, head::Head, time::bounds};
use crate::{
    archive::month::Month,
    span::Span,
    store::archived::{Beneath, RowDeletion},
};

/// Checks that an append of late rows comes with the archived rows beneath them.
pub(super) async fn check_beneath(
    c: &mut PgConnection,
    head: &Head,
    first: Timestamp,
    beneath: Option<&Beneath>,
) -> Result<()> {
    if let Some(beneath) = beneath {
        return check_stamps(c, head.dataset, beneath).await;
    }
    let start = Resolution::FiveMinutes.bucket_start(first);
    let is_after = head.archived_until.is_none_or(|until| until <= start);
    if is_after { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset: head.dataset }) }
}

/// Checks that the archived rows of a write are those of the files in effect.
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

/// Leaves all files of a deleted dataset to be deleted.
pub(super) async fn doom(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    for sql in [
        "DELETE FROM datasets.archived_cuts WHERE dataset = $1",
        "UPDATE datasets.archived SET state = 2, changed = now() WHERE dataset = $1",
    ] {
        sqlx::query(sql).bind(dataset.get()).execute(&mut *c).await?;
    }
    Ok(())
}

/// The starts of the months at the ends of a span.
pub(super) const fn months_of(span: Span) -> Span {
    Span { first: Month::of(span.first).start(), last: Month::of(span.last).start() }
}
