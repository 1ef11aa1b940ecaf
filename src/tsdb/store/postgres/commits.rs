//! What services learn of the commits of others: the newest ones, and those on record in the feed.

use std::collections::HashMap;

use db::postgres::fault::unsigned;
use model::dataset::DatasetId;
use sqlx::PgConnection;

use super::Result;
use crate::store::{Commit, Heads};

/// The newest commits of those of the datasets that are there, in one statement.
pub(super) async fn heads(c: &mut PgConnection, datasets: &[i64]) -> Result<Heads> {
    let found: Vec<(i64, Option<i64>, Option<i64>)> = sqlx::query_as(
        "SELECT w.n, h.dataset, h.revision FROM withdrawn w
         LEFT JOIN head h ON h.dataset = ANY($1)",
    )
    .bind(datasets)
    .fetch_all(c)
    .await?;
    let mut heads = Heads { n_withdrawn: 0, revisions: HashMap::new() };
    for (n_withdrawn, dataset, revision) in found {
        heads.n_withdrawn = n_withdrawn;
        if let (Some(dataset), Some(revision)) = (dataset.and_then(DatasetId::new), revision) {
            heads.revisions.insert(dataset, unsigned(revision)?);
        }
    }
    Ok(heads)
}

/// The commits of a dataset after one, at most `limit`, in their order.
pub(super) async fn list(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: u64,
    limit: usize,
) -> Result<Vec<Commit>> {
    let found: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT revision, first_row_id, rows FROM feed WHERE dataset = $1 AND revision > $2
         ORDER BY revision LIMIT $3",
    )
    .bind(dataset.get())
    .bind(after.cast_signed())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(c)
    .await?;
    let commit = |(revision, first_row, n_rows)| {
        Ok(Commit { revision: unsigned(revision)?, first_row, n_rows: unsigned(n_rows)? })
    };
    found.into_iter().map(commit).collect()
}
