//! State of a dataset, which every write locks, and the records of its commits.

use std::sync::Arc;

use db::postgres::fault::unsigned;
use model::block::Block;
use model::dataset::{DatasetId, Dtype, VALUE_COLUMN};
use model::timestamp::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::time::Time;
use super::{Result, StoreError};
use crate::rollup::Fold;
use crate::span::{Span, just_before};
use crate::store::row_changes::{self, RowChange};
use crate::store::session::{Row, Session as _};
use crate::store::state::State;
use crate::store::{Commit, Heads};

/// Reads the state of a dataset and locks it until the end of the transaction. If the statement waited
/// for another writer, it can return the columns from before that write together with the state after it.
/// The comparison of `xmin` detects this: its result is false.
const LOCK: &str = "SELECT revision, last_row, latest, kept_from, metadata ->> $2,
     ARRAY(SELECT CASE WHEN deleted_at IS NULL THEN name ELSE '' END
         FROM datasets.columns WHERE dataset = $1 ORDER BY position),
     ARRAY(SELECT dtype FROM datasets.columns WHERE dataset = $1 ORDER BY position),
     xmin = (SELECT xmin FROM datasets.datasets WHERE id = $1), removed, archived_until,
     newest_archived
     FROM datasets.datasets WHERE id = $1 FOR NO KEY UPDATE";

/// Saves the state of a dataset and records a commit.
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
    pub(super) state: State,
    last_row: i64,
    /// Types of the columns of the dataset, including deleted columns.
    pub(super) dtypes: Vec<Dtype>,
    /// Columns that are folded into buckets. `None` if the dataset has no buckets.
    pub(super) fold: Option<Fold>,
}

/// Kind of change that a commit makes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// Adds rows. `is_after` is true if they come after all earlier rows.
    Rows { rows: &'a Block, is_after: bool },
    /// Removes the rows of a span.
    Removal(Span),
    /// Changes a copy without adding rows.
    Other,
}

impl Head {
    /// Locks a dataset until the end of the transaction and reads its state.
    ///
    /// # Errors
    /// [`StoreError::NoDataset`].
    pub(super) async fn lock(c: &mut PgConnection, dataset: DatasetId) -> Result<Self> {
        let mut locked = read_locked(c, dataset).await?;
        // The first read can mix old and new values if it waited for the lock. With the lock held, a
        // second read sees all earlier commits.
        if locked.try_get::<Option<bool>, _>(7)? != Some(true) {
            locked = read_locked(c, dataset).await?;
        }
        let [names, dtypes]: [Vec<String>; 2] = [locked.try_get(5)?, locked.try_get(6)?];
        let dtypes = dtypes.iter().map(|text| dtype(text)).collect::<Result<Vec<_>>>()?;
        let columns: Vec<(&str, Dtype)> =
            names.iter().map(String::as_str).zip(dtypes.iter().copied()).collect();
        let value_column: Option<&str> = locked.try_get(4)?;
        let fold = Fold::choose(&columns, value_column);
        let time = |idx| locked.try_get::<Option<Time>, _>(idx).map(|time| time.map(|Time(at)| at));
        let state = State {
            revision: unsigned(locked.try_get(0)?)?,
            newest: time(2)?,
            kept_from: time(3)?,
            removed: unsigned(locked.try_get(8)?)?,
            archived_until: time(9)?,
            newest_archived: time(10)?,
        };
        Ok(Self { dataset, state, last_row: locked.try_get(1)?, dtypes, fold })
    }

    /// Reads the timestamp of the latest row after rows were removed.
    pub(super) async fn read_latest(&mut self, c: &mut PgConnection) -> Result<()> {
        let sql = "SELECT max(ts) FROM datasets.rows WHERE dataset = ?1";
        let stored = c.all(sql, &[&self.dataset.get()], |row| row.get::<Option<Time>>(0)).await?;
        let newest = stored.into_iter().flatten().next().map(|Time(at)| at);
        self.state.newest = newest.max(self.state.newest_archived);
        Ok(())
    }

    /// Assigns row numbers to new rows.
    pub(super) fn number(&mut self, rows: &mut Block) {
        let first = self.last_row + 1;
        rows.ids = (first..).take(rows.len()).collect();
        self.last_row = rows.ids.last().copied().unwrap_or(self.last_row);
    }

    /// Returns an upper bound of the timestamps in existing buckets. `None` if there are no buckets.
    pub(super) fn buckets_end(&self) -> Option<Timestamp> {
        let pruned = self.state.kept_from.map(just_before);
        self.state.newest.max(pruned)
    }

    /// Records a commit and saves the state. Sets the update time of the dataset to `updated_at`; `None`
    /// leaves it unchanged.
    pub(super) async fn commit(
        &mut self,
        c: &mut PgConnection,
        change: Change<'_>,
        updated_at: Option<Timestamp>,
    ) -> Result<()> {
        let state = &mut self.state;
        state.revision += 1;
        if !matches!(change, Change::Rows { .. }) {
            state.removed = state.revision;
        }
        let (kind, times, late) = match change {
            Change::Rows { rows, is_after } => {
                let late = || rows.times.iter().copied().map(Time).collect::<Vec<_>>();
                ("rows", rows.times.as_slice(), (!is_after).then(late))
            }
            Change::Removal(_) | Change::Other => ("other", &[][..], None),
        };
        sqlx::query(COMMIT)
            .bind(self.dataset.get())
            .bind(state.revision.cast_signed())
            .bind(self.last_row)
            .bind(state.newest.map(Time))
            .bind(state.kept_from.map(Time))
            .bind(updated_at.map(Time))
            .bind(kind)
            .bind(i64::try_from(times.len()).unwrap_or(i64::MAX))
            .bind(times.first().copied().map(Time))
            .bind(times.last().copied().map(Time))
            .bind(late)
            .bind(state.removed.cast_signed())
            .bind(state.newest_archived.map(Time))
            .execute(&mut *c)
            .await?;
        if let Change::Removal(span) = change {
            let change = RowChange::removal(self.state.revision, self.last_row, span);
            row_changes::record(c, self.dataset, &change).await?;
        }
        Ok(())
    }
}

async fn read_locked(c: &mut PgConnection, dataset: DatasetId) -> Result<PgRow> {
    let locked = sqlx::query(LOCK).bind(dataset.get()).bind(VALUE_COLUMN).fetch_optional(c);
    locked.await?.ok_or(StoreError::NoDataset { dataset })
}

/// Parses the stored name of a column type.
pub(super) fn dtype(text: &str) -> Result<Dtype> {
    text.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)).into())
}

/// Maximum number of records of commits that one step removes.
const STEP_COMMITS: i64 = 10_000;

/// Record of a query: number of removed tags, and the id and the revision of a dataset.
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
    let sql = "SELECT revision, n_rows, last_row - n_rows + 1 FROM datasets.commits
         WHERE dataset = ?1 AND revision > ?2 ORDER BY revision LIMIT ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let commit = |row: &Row<'_>| {
        let number = |idx| Ok::<u64, StoreError>(row.get_unsigned(idx)?.unwrap_or_default());
        Ok(Commit { revision: number(0)?, n_rows: number(1)?, first_row: row.get(2)? })
    };
    c.all(sql, &[&dataset.get(), &after.cast_signed(), &limit], commit).await
}

/// Removes some records of commits that are older than a day. A replica that was disconnected for longer
/// reads the rows instead. Returns true if there can be more such records.
pub(super) async fn trim_commits(c: &mut PgConnection) -> Result<bool> {
    let sql = "DELETE FROM datasets.commits WHERE (dataset, revision) IN (
         SELECT dataset, revision FROM datasets.commits
         WHERE at < now() - interval '24 hours' ORDER BY at LIMIT ?1)";
    Ok(c.run(sql, &[&STEP_COMMITS]).await? > 0)
}
