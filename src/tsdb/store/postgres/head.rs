//! The state of a dataset that writes lock, and the records of commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use db::postgres::fault::unsigned;
use model::block::Block;
use model::dataset::{Column, DatasetId, Dtype};
use model::timestamp::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow as _, PgConnection};

use super::time::Time;
use super::{Result, StoreError};
use crate::catalog::VALUE_COLUMN;
use crate::rollup::Fold;
use crate::span::just_before;
use crate::store::{Appended, Commit, Heads, Removed};

/// Locks the state until the end of the transaction. The column that compares `xmin` is true if the
/// returned columns of the dataset belong to the same state. They may be older if the statement waited
/// for another writer.
const LOCK: &str = "SELECT revision, last_row, latest, kept_from, metadata ->> $2,
     ARRAY(SELECT CASE WHEN deleted_at IS NULL THEN name ELSE '' END
         FROM datasets.columns WHERE dataset = $1 ORDER BY position),
     ARRAY(SELECT dtype FROM datasets.columns WHERE dataset = $1 ORDER BY position),
     xmin = (SELECT xmin FROM datasets.datasets WHERE id = $1), removed, archived_until,
     newest_archived
     FROM datasets.datasets WHERE id = $1 FOR NO KEY UPDATE";

/// Columns of [`LOCK`].
type Locked = (
    i64,
    i64,
    Option<Time>,
    Option<Time>,
    Option<String>,
    Vec<String>,
    Vec<String>,
    Option<bool>,
    i64,
    Option<Time>,
    Option<Time>,
);

/// Saves the state and records the commit.
const COMMIT: &str = "WITH saved AS (
         UPDATE datasets.datasets SET revision = $2, last_row = $3, latest = $4, kept_from = $5,
             updated_at = coalesce($6, updated_at), removed = $12, newest_archived = $13
         WHERE id = $1
     )
     INSERT INTO datasets.commits
         (dataset, revision, last_row, kind, n_rows, first_ts, last_ts, late)
     VALUES ($1, $2, $3, $7, $8, $9, $10, $11)";

/// State of a dataset, read while its record is locked.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) dataset: DatasetId,
    pub(super) revision: u64,
    last_row: i64,
    pub(super) latest: Option<Timestamp>,
    pub(super) kept_from: Option<Timestamp>,
    /// Revision of the latest commit that removed rows.
    pub(super) removed: u64,
    /// End of the latest month that was ever archived.
    pub(super) archived_until: Option<Timestamp>,
    /// Timestamp of the latest archived row.
    pub(super) newest_archived: Option<Timestamp>,
    /// Types of its columns, including deleted columns.
    pub(super) dtypes: Vec<Dtype>,
    /// Columns that are folded into buckets. `None` if the dataset has no buckets.
    pub(super) fold: Option<Fold>,
}

/// Kind of a commit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// Adds rows. `is_after` is true if they come after all earlier rows.
    Rows { rows: &'a Block, is_after: bool },
    /// Removes rows, or stores a part of a copy that has no rows.
    Other,
}

impl Head {
    /// Locks a dataset for the rest of the transaction.
    ///
    /// # Errors
    /// [`StoreError::NoDataset`].
    pub(super) async fn lock(c: &mut PgConnection, dataset: DatasetId) -> Result<Self> {
        let locked = Self::read_locked(c, dataset).await?;
        // As the lock is held now, another read sees all earlier commits.
        if locked.7 == Some(true) {
            Self::new(dataset, locked)
        } else {
            Self::new(dataset, Self::read_locked(c, dataset).await?)
        }
    }

    async fn read_locked(c: &mut PgConnection, dataset: DatasetId) -> Result<Locked> {
        let row: Option<PgRow> =
            sqlx::query(LOCK).bind(dataset.get()).bind(VALUE_COLUMN).fetch_optional(c).await?;
        Ok(Locked::from_row(&row.ok_or(StoreError::NoDataset { dataset })?)?)
    }

    fn new(dataset: DatasetId, locked: Locked) -> Result<Self> {
        let (revision, last_row, latest, kept_from, value_column, names, dtypes, ..) = locked;
        let dtypes = dtypes.iter().map(|text| dtype(text)).collect::<Result<Vec<_>>>()?;
        let column = |(name, dtype)| Column {
            id: 0,
            dataset_id: dataset,
            name,
            dtype,
            created_at: Timestamp::default(),
        };
        let columns: Vec<Column> =
            names.into_iter().zip(dtypes.iter().copied()).map(column).collect();
        let metadata: BTreeMap<String, String> =
            value_column.map(|name| (VALUE_COLUMN.to_owned(), name)).into_iter().collect();
        Ok(Self {
            dataset,
            revision: unsigned(revision)?,
            last_row,
            latest: latest.map(|Time(at)| at),
            kept_from: kept_from.map(|Time(at)| at),
            removed: unsigned(locked.8)?,
            archived_until: locked.9.map(|Time(at)| at),
            newest_archived: locked.10.map(|Time(at)| at),
            fold: Fold::for_dataset(&columns, &metadata),
            dtypes,
        })
    }

    /// Looks up the timestamp of the latest remaining row.
    pub(super) async fn read_latest(&mut self, c: &mut PgConnection) -> Result<()> {
        let sql = "SELECT max(ts) FROM datasets.rows WHERE dataset = $1";
        let stored: Option<Time> =
            sqlx::query_scalar(sql).bind(self.dataset.get()).fetch_one(c).await?;
        self.latest = stored.map(|Time(at)| at).max(self.newest_archived);
        Ok(())
    }

    /// Assigns numbers to new rows.
    pub(super) fn number(&mut self, rows: &mut Block) {
        let first = self.last_row + 1;
        rows.ids = (first..).take(rows.len()).collect();
        self.last_row = rows.ids.last().copied().unwrap_or(self.last_row);
    }

    /// Returns true if the dataset never had rows.
    pub(super) fn is_empty(&self) -> bool {
        self.latest.or(self.kept_from).is_none()
    }

    /// Returns the latest timestamp that an existing bucket may contain.
    pub(super) fn buckets_end(&self) -> Option<Timestamp> {
        let pruned = self.kept_from.map(just_before);
        self.latest.max(pruned)
    }

    /// Returns the result of an append of `rows`.
    pub(super) fn appended(&self, rows: &Block) -> Appended {
        Appended { n_rows: u64::try_from(rows.len()).unwrap_or(u64::MAX), revision: self.revision }
    }

    /// Returns the result of a removal of `n_rows`.
    pub(super) const fn removed(&self, n_rows: u64) -> Removed {
        Removed { n_rows, revision: self.revision }
    }

    /// Records a commit and saves the state. Sets the time of the dataset's last change to `updated_at`;
    /// `None` leaves it unchanged.
    pub(super) async fn commit(
        &mut self,
        c: &mut PgConnection,
        change: Change<'_>,
        updated_at: Option<Timestamp>,
    ) -> Result<()> {
        self.revision += 1;
        if !matches!(change, Change::Rows { .. }) {
            self.removed = self.revision;
        }
        let (kind, times, late) = match change {
            Change::Rows { rows, is_after } => {
                let late = || rows.times.iter().copied().map(Time).collect::<Vec<_>>();
                ("rows", rows.times.as_slice(), (!is_after).then(late))
            }
            Change::Other => ("other", &[][..], None),
        };
        sqlx::query(COMMIT)
            .bind(self.dataset.get())
            .bind(self.revision.cast_signed())
            .bind(self.last_row)
            .bind(self.latest.map(Time))
            .bind(self.kept_from.map(Time))
            .bind(updated_at.map(Time))
            .bind(kind)
            .bind(i64::try_from(times.len()).unwrap_or(i64::MAX))
            .bind(times.first().copied().map(Time))
            .bind(times.last().copied().map(Time))
            .bind(late)
            .bind(self.removed.cast_signed())
            .bind(self.newest_archived.map(Time))
            .execute(c)
            .await?;
        Ok(())
    }
}

/// Parses the stored name of a column type.
pub(super) fn dtype(text: &str) -> Result<Dtype> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)).into())
}

/// Maximum number of commits that one step forgets.
const STEP_COMMITS: i64 = 10_000;

/// Number of tag removals, id and revision of a dataset.
type FoundHead = (i64, Option<i64>, Option<i64>);

/// Returns the latest revisions of `datasets`, skipping missing datasets.
pub(super) async fn list_heads(c: &mut PgConnection, datasets: Arc<[i64]>) -> Result<Heads> {
    let found: Vec<FoundHead> = sqlx::query_as(
        "SELECT w.n, d.id, d.revision FROM datasets.withdrawals w
         LEFT JOIN datasets.datasets d ON d.id = ANY($1)",
    )
    .bind(&*datasets)
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

/// Returns the commits of a dataset with revisions above `after`, in order and at most `limit`.
pub(super) async fn list_commits(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: u64,
    limit: usize,
) -> Result<Vec<Commit>> {
    let found: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT revision, last_row - n_rows + 1, n_rows FROM datasets.commits
        WHERE dataset = $1 AND revision > $2 ORDER BY revision LIMIT $3",
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

/// Forgets some commits that are older than a day. A replica that was disconnected for longer reads the
/// rows instead. Returns true if there may be more.
pub(super) async fn trim_commits(c: &mut PgConnection) -> Result<bool> {
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
