//! What services learn of the commits of others: the newest ones, and those on record in the feed.

use db::postgres::fault::unsigned;
use model::dataset::DatasetId;
use sqlx::PgConnection;

use super::{Result, StoreError, head::check_place};
use crate::store::{Commit, Heads};

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

/// A commit, if there is one, and where its dataset is.
type Found = (Option<i64>, Option<i64>, Option<i64>, Option<i64>, i64);

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
        "SELECT f.revision, f.first_row_id, f.rows, h.place, h.generation FROM head h
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
    for (revision, first_row, n_rows, place, generation) in found {
        check_place(dataset, place, generation)?;
        if let (Some(revision), Some(first_row), Some(n_rows)) = (revision, first_row, n_rows) {
            let (revision, n_rows) = (unsigned(revision)?, unsigned(n_rows)?);
            commits.push(Commit { revision, first_row, n_rows });
        }
    }
    Ok(commits)
}
