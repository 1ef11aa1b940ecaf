//! State of each dataset, which the writer maintains.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use rusqlite::{Connection, params};

use super::series::SeriesId;
use super::{Result, StoreError, chunks, singles};
use crate::span::Span;
use crate::store::row_changes::{self, RowChange};
use crate::store::session::ready;
use crate::store::state::State;

/// State of a dataset in SQLite, which the writer maintains.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) state: State,
    pub(super) n_fresh: usize,
    pub(super) n_late: usize,
    /// Number that changes whenever a chunk of the dataset is removed.
    pub(super) layout: i64,
}

impl Progress {
    pub(super) fn read(connection: &Connection, dataset: DatasetId) -> Result<Self> {
        let timestamp = |micros: Option<i64>| micros.map(Timestamp::from_micros);
        let found = connection.find(
            "SELECT revision, newest, kept_from, n_fresh, n_late, layout, archived_until,
                 newest_archived, removed FROM progress
             WHERE dataset = ?1",
            [dataset.get()],
            |row| {
                let state = State {
                    revision: row.get(0)?,
                    newest: timestamp(row.get(1)?),
                    kept_from: timestamp(row.get(2)?),
                    archived_until: timestamp(row.get(6)?),
                    newest_archived: timestamp(row.get(7)?),
                    removed: row.get(8)?,
                };
                let (n_fresh, n_late) = (row.get(3)?, row.get(4)?);
                Ok(Self { state, n_fresh, n_late, layout: row.get(5)? })
            },
        )?;
        found.ok_or(StoreError::NoDataset { dataset })
    }

    pub(super) fn save(&self, connection: &Connection, dataset: DatasetId) -> Result<()> {
        let state = &self.state;
        connection.run(
            "UPDATE progress SET revision = ?2, newest = ?3, kept_from = ?4, n_fresh = ?5,
             n_late = ?6, archived_until = ?7, newest_archived = ?8, removed = ?9 WHERE dataset = ?1",
            params![
                dataset.get(),
                state.revision,
                state.newest.map(Timestamp::micros),
                state.kept_from.map(Timestamp::micros),
                self.n_fresh,
                self.n_late,
                state.archived_until.map(Timestamp::micros),
                state.newest_archived.map(Timestamp::micros),
                state.removed
            ],
        )?;
        Ok(())
    }

    /// Records a commit that removed the rows of `span` and reads the timestamp of the latest row again.
    pub(super) fn note_removal(
        &mut self,
        connection: &Connection,
        dataset: DatasetId,
        span: Span,
    ) -> Result<()> {
        let state = &mut self.state;
        state.revision += 1;
        state.removed = state.revision;
        state.newest = newest(connection, dataset)?.max(state.newest_archived);
        let change = RowChange::removal(state.revision, last_row(connection)?, span);
        ready(row_changes::record(&mut &*connection, dataset, &change))
    }

    /// Counts the rows of the tail again, to replace the upper bounds with exact numbers.
    pub(super) fn recount(&mut self, connection: &Connection, dataset: DatasetId) -> Result<()> {
        let series = SeriesId::rows(dataset);
        let end = chunks::end(connection, series)?;
        let late = Span { first: Timestamp::MIN, last: end.unwrap_or(Timestamp::MIN) };
        self.n_late = singles::count(connection, series, late)?;
        self.n_fresh = singles::count(connection, series, Span::ALL)? - self.n_late;
        Ok(())
    }
}

/// Returns the timestamp of the latest stored row of a dataset.
pub(super) fn newest(connection: &Connection, dataset: DatasetId) -> Result<Option<Timestamp>> {
    let in_tail: Option<i64> =
        connection.value("SELECT max(t) FROM tail WHERE dataset = ?1", [dataset.get()])?;
    let in_tail = in_tail.map(Timestamp::from_micros);
    Ok(in_tail.max(chunks::end(connection, SeriesId::rows(dataset))?))
}

/// Returns the latest row number of all datasets.
pub(super) fn last_row(connection: &Connection) -> Result<i64> {
    Ok(connection.value("SELECT value FROM counters WHERE name = 'row'", [])?)
}

/// Returns the revision of a dataset.
pub(super) fn revision(connection: &Connection, dataset: DatasetId) -> Result<u64> {
    Ok(Progress::read(connection, dataset)?.state.revision)
}

/// Sets the update time of a dataset.
pub(super) fn touch(connection: &Connection, dataset: DatasetId, now: Timestamp) -> Result<()> {
    connection
        .run("UPDATE datasets SET updated_at = ?2 WHERE id = ?1", [dataset.get(), now.micros()])?;
    Ok(())
}
