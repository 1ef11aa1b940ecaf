//! What services learn of the commits of others: the newest ones, and those on record.

use db::postgres::fault::unsigned;
use model::dataset::DatasetId;
use sqlx::PgConnection;

use super::{
    Result,
    head::{OLD, SPAN},
    time::Time,
};
use crate::{
    span::Span,
    store::{Commit, Heads, Removal},
};

/// Commits that one step forgets at most.
const STEP_COMMITS: i64 = 10_000;

/// How often a tag was taken away, and a dataset's number and newest commit.
type FoundHead = (i64, Option<i64>, Option<i64>);

/// The newest commits of those of the datasets that exist.
pub(super) async fn heads(c: &mut PgConnection, datasets: &[i64]) -> Result<Heads> {
    let found: Vec<FoundHead> = sqlx::query_as(
        "SELECT w.n, d.id, d.revision FROM datasets.withdrawals w
         LEFT JOIN datasets.datasets d ON d.id = ANY($1)",
    )
    .bind(datasets)
    .fetch_all(c)
    .await?;
    let mut heads = Heads::default();
    for (n_withdrawn, dataset, revision) in found {
        heads.n_withdrawn = n_withdrawn;
        if let Some((dataset, revision)) = dataset.and_then(DatasetId::new).zip(revision) {
            heads.revisions.insert(dataset, unsigned(revision)?);
        }
    }
    Ok(heads)
}

/// A commit: its number, kind, last row and rows, from when to when, and true if the columns have the names
/// that they had then.
type Found = (i64, String, i64, i64, Option<Time>, Option<Time>, bool);

/// The commits of a dataset after one, at most `limit`, in their order.
pub(super) async fn list(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: u64,
    limit: usize,
) -> Result<Vec<Commit>> {
    let found: Vec<Found> = sqlx::query_as(
        "SELECT f.revision, f.kind, f.last_row, f.n_rows, f.first_ts, f.last_ts,
             f.revision > d.renamed_after
         FROM datasets.commits f JOIN datasets.datasets d ON d.id = f.dataset
         WHERE f.dataset = $1 AND f.revision > $2 ORDER BY f.revision LIMIT $3",
    )
    .bind(dataset.get())
    .bind(after.cast_signed())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(c)
    .await?;
    let commit = |(revision, kind, last_row, n_rows, first, last, has_same_columns): Found| {
        Ok(Commit {
            revision: unsigned(revision)?,
            first_row: last_row - n_rows + 1,
            n_rows: unsigned(n_rows)?,
            removal: removal(&kind, first.zip(last)),
            has_same_columns,
        })
    };
    found.into_iter().map(commit).collect()
}

fn removal(kind: &str, bounds: Option<(Time, Time)>) -> Option<Removal> {
    match (kind, bounds) {
        (OLD, _) => Some(Removal::Old),
        (SPAN, Some((Time(first), Time(last)))) => Some(Removal::Span(Span { first, last })),
        _ => None,
    }
}

/// Forgets some commits of more than a day ago: a replica that was away for longer reads the rows
/// instead. Returns true if there may be more.
pub(super) async fn trim(c: &mut PgConnection) -> Result<bool> {
    let gone = sqlx::query(
        "DELETE FROM datasets.commits WHERE (dataset, revision) IN (
             SELECT dataset, revision FROM datasets.commits
             WHERE at < now() - interval '24 hours' ORDER BY at LIMIT $1)",
    )
    .bind(STEP_COMMITS)
    .execute(c)
    .await?;
    Ok(gone.rows_affected() > 0)
}
