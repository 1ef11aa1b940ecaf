//! What services learn of the commits of others: the newest ones, and those on record in the feed.

use db::postgres::fault::unsigned;
use model::{dataset::DatasetId, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{Result, StoreError, head::check_place};
use crate::{
    span::Span,
    store::{Commit, Heads, Removal},
};

/// How often a tag was taken away, and of a dataset number, newest commit and place.
type FoundHead = (i64, Option<i64>, Option<i64>, Option<i64>);

/// The newest commits of those of the datasets that are there, in one statement; and the others that have
/// their rows on another server, with its number.
pub(super) async fn heads(
    c: &mut PgConnection,
    datasets: &[i64],
) -> Result<(Heads, Vec<(DatasetId, i64)>)> {
    let found: Vec<FoundHead> = sqlx::query_as(
        "SELECT w.n, h.dataset, h.revision, h.place FROM withdrawn w
         LEFT JOIN head h ON h.dataset = ANY($1)",
    )
    .bind(datasets)
    .fetch_all(c)
    .await?;
    let mut heads = Heads::default();
    let mut remote = Vec::new();
    for (n_withdrawn, dataset, revision, place) in found {
        heads.n_withdrawn = n_withdrawn;
        match (dataset.and_then(DatasetId::new), revision, place) {
            (Some(dataset), _, Some(place)) => remote.push((dataset, place)),
            (Some(dataset), Some(revision), None) => {
                heads.revisions.insert(dataset, unsigned(revision)?);
            }
            _ => {}
        }
    }
    Ok((heads, remote))
}

/// What the feed says of a commit that removed the rows of a span.
const SPAN: &str = "span";

/// What it says of one that let go of old rows.
const OLD: &str = "old";

/// A commit, if there is one: its number, first row, rows, what it removed, and from when to when; whether
/// columns have the names that they had then; and where its dataset is.
type Found = (
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<bool>,
    Option<i64>,
    i64,
);

/// The commits of a dataset after one, at most `limit`, in their order.
///
/// # Errors
/// [`StoreError::NoDataset`], or [`StoreError::Moved`] if another server has the dataset.
pub(super) async fn list(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: u64,
    limit: usize,
) -> Result<Vec<Commit>> {
    let found: Vec<Found> = sqlx::query_as(
        "SELECT f.revision, f.first_row_id, f.rows, f.removed, f.removed_first, f.removed_last,
             f.revision > h.renamed_after, h.place, h.generation FROM head h
         LEFT JOIN feed f ON f.dataset = h.dataset AND f.revision > $2
         WHERE h.dataset = $1 ORDER BY f.revision LIMIT $3",
    )
    .bind(dataset.get())
    .bind(after.cast_signed())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(c)
    .await?;
    if found.is_empty() {
        return Err(StoreError::NoDataset { dataset });
    }
    let mut commits = Vec::with_capacity(found.len());
    for (revision, first_row, n_rows, removed, from, to, is_after, place, generation) in found {
        check_place(dataset, place, generation)?;
        if let (Some(revision), Some(first_row), Some(n_rows)) = (revision, first_row, n_rows) {
            let (revision, n_rows) = (unsigned(revision)?, unsigned(n_rows)?);
            let removal = removed.and_then(|removed| read_removal(&removed, from.zip(to)));
            let has_same_columns = is_after.unwrap_or_default();
            commits.push(Commit { revision, first_row, n_rows, removal, has_same_columns });
        }
    }
    Ok(commits)
}

/// What the feed calls a removal.
pub(super) const fn removal_name(removal: Removal) -> &'static str {
    match removal {
        Removal::Span(_) => SPAN,
        Removal::Old => OLD,
    }
}

fn read_removal(name: &str, bounds: Option<(i64, i64)>) -> Option<Removal> {
    match (name, bounds) {
        (OLD, None) => Some(Removal::Old),
        (SPAN, Some((first, last))) => Some(Removal::Span(Span {
            first: Timestamp::from_micros(first),
            last: Timestamp::from_micros(last),
        })),
        _ => None,
    }
}
