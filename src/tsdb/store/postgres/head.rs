//! The state of a dataset, which its writers lock and save.

use std::collections::BTreeMap;

use db::postgres::fault::unsigned;
use model::{
    block::Block,
    dataset::{Column, DatasetId, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};
use sqlx::PgConnection;

use super::{Result, StoreError, chunks, tail, texts};
use crate::{
    catalog::VALUE_COLUMN,
    rollup::Fold,
    span::Span,
    store::{
        Appended, Sight,
        series::{self, ALL, SETTLED, SeriesId},
    },
};

/// What a reader sees of the state of a dataset.
#[derive(Debug, Clone)]
pub(super) struct HeadState {
    pub(super) revision: u64,
    pub(super) newest: Option<Timestamp>,
    pub(super) kept_from: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
}

impl HeadState {
    /// Reads the state of a dataset.
    ///
    /// # Errors
    /// [`StoreError::NoDataset`], or [`StoreError::Moved`] if another server has the dataset.
    pub(super) async fn read(c: &mut PgConnection, dataset: DatasetId) -> Result<Self> {
        type Found = (i64, Option<i64>, Option<i64>, i64, Option<i64>, i64);
        let sql = "SELECT revision, newest, kept_from, updated_at, place, generation
             FROM head WHERE dataset = $1";
        let found: Option<Found> =
            sqlx::query_as(sql).bind(dataset.get()).fetch_optional(c).await?;
        let found = found.ok_or(StoreError::NoDataset { dataset })?;
        let (revision, newest, kept_from, updated_at, place, generation) = found;
        check_place(dataset, place, generation)?;
        Ok(Self {
            revision: unsigned(revision)?,
            newest: newest.map(Timestamp::from_micros),
            kept_from: kept_from.map(Timestamp::from_micros),
            updated_at: Timestamp::from_micros(updated_at),
        })
    }

    /// Puts it in the place of an old state.
    pub(super) fn put_in(self, sight: &mut Sight) {
        sight.revision = self.revision;
        sight.newest = self.newest;
        sight.dataset.updated_at = self.updated_at;
    }
}

/// The state of a dataset whose row of `head` is locked until the transaction ends.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) dataset: DatasetId,
    pub(super) revision: u64,
    /// The number of the transaction that changed the row last. A change of anything of a dataset
    /// changes the row, too, so that all is as it was as long as this and `revision` are.
    pub(super) changed_by: i64,
    /// The number of its moves between servers.
    pub(super) generation: i64,
    /// The last row number given.
    pub(super) last_row: i64,
    pub(super) newest: Option<Timestamp>,
    pub(super) kept_from: Option<Timestamp>,
    /// Rows of the tail after the last chunk, about.
    pub(super) n_fresh: usize,
    /// Rows of the tail before the end of the last chunk, about.
    pub(super) n_late: usize,
    /// Buckets written since they were last packed.
    pub(super) n_loose: usize,
    /// The end of the last chunk of rows.
    pub(super) chunks_end: Option<Timestamp>,
    /// Whether some are in objects.
    pub(super) has_objects: bool,
    /// The ends of the last chunks of buckets, of each of [`SETTLED`].
    bucket_ends: Vec<Option<i64>>,
    /// A block of the dataset's columns without rows.
    pub(super) empty: Block,
    /// How rows fold into buckets; none if nothing in them is a number.
    pub(super) fold: Option<Fold>,
    /// When it was last changed.
    pub(super) updated_at: Timestamp,
}

/// The numbers of a row of `head`, from `revision` to `n_loose`, and the time of the last change and the
/// transaction that made it, and the last three where the dataset is.
type Numbers = (i64, i64, Option<i64>, Option<i64>, i64, i64, i64, i64, i64, Option<i64>, i64);

/// Fails unless a dataset is on this server, by `place` and `generation` of its state.
///
/// # Errors
/// [`StoreError::Moved`].
pub(super) fn check_place(dataset: DatasetId, place: Option<i64>, generation: i64) -> Result<()> {
    match place {
        None => Ok(()),
        Some(place) => Err(StoreError::Moved { dataset, place, generation }),
    }
}

/// The ends of the chunks of rows, of those in objects, and of buckets, the column to fold, and the names and types of all
/// columns.
type Facts = (Option<i64>, Option<i64>, Vec<Option<i64>>, Option<String>, Vec<String>, Vec<String>);

impl Head {
    /// Locks the state of a dataset and reads it.
    ///
    /// # Errors
    /// [`StoreError::NoDataset`], or [`StoreError::Moved`] if another server has the dataset.
    pub(super) async fn lock(c: &mut PgConnection, dataset: DatasetId) -> Result<Self> {
        let sql = "SELECT revision, last_row, newest, kept_from, n_fresh, n_late, n_loose,
             updated_at, xmin::text::bigint, place, generation FROM head WHERE dataset = $1 FOR NO KEY UPDATE";
        let found: Option<Numbers> =
            sqlx::query_as(sql).bind(dataset.get()).fetch_optional(&mut *c).await?;
        let found = found.ok_or(StoreError::NoDataset { dataset })?;
        let (revision, last_row, newest, kept_from, n_fresh, n_late, n_loose, ..) = found;
        let (.., updated_at, changed_by, place, generation) = found;
        check_place(dataset, place, generation)?;
        // In a statement of its own: one that waits for a lock sees everything else as it was before.
        let (hot_end, cold_end, bucket_ends, value_column, names, dtypes): Facts = sqlx::query_as(
            "SELECT (SELECT max(t_last) FROM chunks WHERE dataset = $1 AND resolution = 0),
             (SELECT max(t_last) FROM segments WHERE dataset = $1 AND resolution = 0),
             ARRAY(SELECT (SELECT max(t_last) FROM chunks WHERE dataset = $1 AND resolution = r)
                 FROM unnest($3::bigint[]) WITH ORDINALITY AS settled (r, place) ORDER BY place),
             (SELECT value FROM metadata WHERE dataset = $1 AND field = $2),
             ARRAY(SELECT name FROM columns WHERE dataset = $1 ORDER BY ordinal),
             ARRAY(SELECT dtype FROM columns WHERE dataset = $1 ORDER BY ordinal)",
        )
        .bind(dataset.get())
        .bind(VALUE_COLUMN)
        .bind(SETTLED.map(series::code))
        .fetch_one(c)
        .await?;
        let dtypes: Vec<Dtype> =
            dtypes.iter().map(|dtype| texts::dtype(dtype)).collect::<Result<_>>()?;
        let column = |(name, dtype): (String, &Dtype)| Column {
            id: 0,
            dataset_id: dataset,
            name: texts::shown_name(name),
            dtype: *dtype,
            created_at: Timestamp::default(),
        };
        let columns: Vec<Column> = names.into_iter().zip(&dtypes).map(column).collect();
        let metadata = value_column.map(|value| (VALUE_COLUMN.to_owned(), value));
        let fold = Fold::for_dataset(&columns, &BTreeMap::from_iter(metadata));
        Ok(Self {
            dataset,
            revision: unsigned(revision)?,
            changed_by,
            generation,
            last_row,
            newest: newest.map(Timestamp::from_micros),
            kept_from: kept_from.map(Timestamp::from_micros),
            n_fresh: unsigned(n_fresh)?,
            n_late: unsigned(n_late)?,
            n_loose: unsigned(n_loose)?,
            chunks_end: hot_end.max(cold_end).map(Timestamp::from_micros),
            has_objects: cold_end.is_some(),
            bucket_ends,
            empty: Block::new(&dtypes),
            fold,
            updated_at: Timestamp::from_micros(updated_at),
        })
    }

    /// Whether nothing of the dataset was changed between this state and `other`.
    pub(super) const fn is_same(&self, other: &Self) -> bool {
        self.revision == other.revision
            && self.changed_by == other.changed_by
            && self.generation == other.generation
    }

    /// Whether it never had rows.
    pub(super) const fn is_empty(&self) -> bool {
        self.newest.is_none() && self.kept_from.is_none()
    }

    /// What the commit that led to this state appended.
    pub(super) fn appended(&self, rows: &Block) -> Appended {
        let n_rows = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        Appended { n_rows, revision: self.revision }
    }

    pub(super) const fn rows(&self) -> SeriesId {
        SeriesId::rows(self.dataset)
    }

    /// The end of the last chunk of buckets.
    pub(super) fn bucket_end(&self, resolution: Resolution) -> Option<Timestamp> {
        let place = SETTLED.iter().position(|settled| *settled == resolution)?;
        self.bucket_ends.get(place).copied()?.map(Timestamp::from_micros)
    }

    /// Notes that buckets up to the one that starts at `end` are in chunks.
    pub(super) fn set_bucket_end(&mut self, resolution: Resolution, end: Timestamp) {
        let place = SETTLED.iter().position(|settled| *settled == resolution);
        if let Some(known) = place.and_then(|place| self.bucket_ends.get_mut(place)) {
            *known = Some(end.micros());
        }
    }

    /// The first timestamp after all chunks.
    pub(super) fn fresh_from(&self) -> Timestamp {
        let after = |end: Timestamp| Timestamp::from_micros(end.micros().saturating_add(1));
        self.chunks_end.map_or(Timestamp::MIN, after)
    }

    /// Gives new rows their numbers and creation times.
    pub(super) fn number(&mut self, rows: &mut Block, now: Timestamp) {
        let n = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        rows.ids = (self.last_row + 1..=self.last_row + n).collect();
        rows.created = vec![now; rows.len()];
        self.last_row += n;
    }

    /// Saves how much there is to pack, which is no commit. The row is locked.
    pub(super) async fn save_counts(&self, c: &mut PgConnection) -> Result<()> {
        let saved = sqlx::query(
            "UPDATE head SET n_fresh = $2, n_late = $3, n_loose = $4
             WHERE dataset = $1 AND generation = $5 AND place IS NULL",
        )
        .bind(self.dataset.get())
        .bind(count(self.n_fresh))
        .bind(count(self.n_late))
        .bind(count(self.n_loose))
        .bind(self.generation)
        .execute(c)
        .await?;
        if saved.rows_affected() > 0 { Ok(()) } else { Err(sqlx::Error::RowNotFound.into()) }
    }

    /// Looks at the rows themselves for what follows from them: after some were removed.
    pub(super) async fn recount(&mut self, c: &mut PgConnection) -> Result<()> {
        self.chunks_end = chunks::end(c, self.rows()).await?;
        let fresh = Span { first: self.fresh_from(), last: Timestamp::MAX };
        self.n_fresh = tail::count(c, self.dataset, fresh).await?;
        self.n_late = tail::count(c, self.dataset, ALL).await? - self.n_fresh;
        self.newest = tail::newest(c, self.dataset).await?.max(self.chunks_end);
        Ok(())
    }
}

/// A number of records as the database has it.
pub(super) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
