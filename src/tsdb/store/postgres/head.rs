//! The state of a dataset, which a writer locks, and the commit that ends each write.

use std::collections::BTreeMap;

use db::postgres::fault::unsigned;
use model::{
    block::Block,
    dataset::{Column, DatasetId, Dtype},
    timestamp::Timestamp,
};
use sqlx::{FromRow as _, PgConnection, postgres::PgRow};

use super::{Result, StoreError, time::Time};
use crate::{
    catalog::VALUE_COLUMN,
    rollup::Fold,
    span::Span,
    store::{Appended, Removal, Removed},
};

/// Locks the state until the transaction ends. The column of `xmin` is true if the columns were read as of the
/// same state: if the statement waited for another writer, they may be older.
const LOCK: &str = "SELECT revision, last_row, latest, kept_from, metadata ->> $2,
     ARRAY(SELECT CASE WHEN deleted_at IS NULL THEN name ELSE '' END
         FROM datasets.columns WHERE dataset = $1 ORDER BY position),
     ARRAY(SELECT dtype FROM datasets.columns WHERE dataset = $1 ORDER BY position),
     xmin = (SELECT xmin FROM datasets.datasets WHERE id = $1), removed, archived_until,
     newest_archived
     FROM datasets.datasets WHERE id = $1 FOR NO KEY UPDATE";

/// What [`LOCK`] returns.
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

/// The state of a dataset whose row is locked.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) dataset: DatasetId,
    pub(super) revision: u64,
    last_row: i64,
    pub(super) latest: Option<Timestamp>,
    pub(super) kept_from: Option<Timestamp>,
    /// Revision of the last commit that removed rows.
    pub(super) removed: u64,
    /// End of the last month that was ever archived.
    pub(super) archived_until: Option<Timestamp>,
    /// Timestamp of the newest archived row.
    pub(super) newest_archived: Option<Timestamp>,
    /// The types of its columns, with the deleted ones.
    pub(super) dtypes: Vec<Dtype>,
    /// How rows make buckets; `None` if they do not.
    pub(super) fold: Option<Fold>,
}

/// What a commit did.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// It stored rows, all after others or not.
    Rows { rows: &'a Block, is_after: bool },
    /// It removed rows.
    Removal(Removal),
    /// It wrote a part of a copy without rows.
    Copy,
}

impl Head {
    /// Locks a dataset for the rest of the transaction.
    ///
    /// # Errors
    /// [`StoreError::NoDataset`].
    pub(super) async fn lock(c: &mut PgConnection, dataset: DatasetId) -> Result<Self> {
        let locked = Self::read_locked(c, dataset).await?;
        // While the lock is held, another look sees all that was committed before.
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

    /// Looks up the newest row that is left.
    pub(super) async fn read_latest(&mut self, c: &mut PgConnection) -> Result<()> {
        let sql = "SELECT max(ts) FROM datasets.rows WHERE dataset = $1";
        let stored: Option<Time> =
            sqlx::query_scalar(sql).bind(self.dataset.get()).fetch_one(c).await?;
        self.latest = stored.map(|Time(at)| at).max(self.newest_archived);
        Ok(())
    }

    /// Numbers new rows.
    pub(super) fn number(&mut self, rows: &mut Block) {
        let first = self.last_row + 1;
        rows.ids = (first..).take(rows.len()).collect();
        self.last_row = rows.ids.last().copied().unwrap_or(self.last_row);
    }

    /// Returns true if the dataset never had rows.
    pub(super) fn is_empty(&self) -> bool {
        self.latest.or(self.kept_from).is_none()
    }

    /// The last timestamp at which there may be a bucket.
    pub(super) fn buckets_end(&self) -> Option<Timestamp> {
        let pruned = self.kept_from.map(|from| Timestamp::from_micros(from.micros() - 1));
        self.latest.max(pruned)
    }

    /// The result of an append of `rows`.
    pub(super) fn appended(&self, rows: &Block) -> Appended {
        Appended { n_rows: u64::try_from(rows.len()).unwrap_or(u64::MAX), revision: self.revision }
    }

    /// The result of a removal of `n_rows`.
    pub(super) const fn removed(&self, n_rows: u64) -> Removed {
        Removed { n_rows, revision: self.revision }
    }

    /// Counts one commit more, and saves the state with it. The dataset was last changed at
    /// `updated_at`; `None` leaves that unchanged.
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
        let (kind, rows, span) = match change {
            Change::Rows { rows, .. } => {
                let ends = rows.times.first().copied().zip(rows.times.last().copied());
                ("rows", rows.len(), ends.map(|(first, last)| Span { first, last }))
            }
            Change::Removal(Removal::Span(span)) => (SPAN, 0, Some(span)),
            Change::Removal(Removal::Old) => (OLD, 0, None),
            Change::Copy => ("copy", 0, None),
        };
        let late: Option<Vec<Time>> = match change {
            Change::Rows { rows, is_after: false } => {
                Some(rows.times.iter().copied().map(Time).collect())
            }
            _ => None,
        };
        sqlx::query(COMMIT)
            .bind(self.dataset.get())
            .bind(self.revision.cast_signed())
            .bind(self.last_row)
            .bind(self.latest.map(Time))
            .bind(self.kept_from.map(Time))
            .bind(updated_at.map(Time))
            .bind(kind)
            .bind(i64::try_from(rows).unwrap_or(i64::MAX))
            .bind(span.map(|span| Time(span.first)))
            .bind(span.map(|span| Time(span.last)))
            .bind(late)
            .bind(self.removed.cast_signed())
            .bind(self.newest_archived.map(Time))
            .execute(c)
            .await?;
        Ok(())
    }
}

/// The kind of a commit that removed the rows of a span.
pub(super) const SPAN: &str = "span";

/// The kind of a commit that removed old rows.
pub(super) const OLD: &str = "old";

/// The type that is stored as this text.
pub(super) fn dtype(text: &str) -> Result<Dtype> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)).into())
}
