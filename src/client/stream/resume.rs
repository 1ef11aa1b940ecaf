//! Follows a dataset without gaps or duplicates, even if connections are lost.
//!
//! If the service sends event ids, the stream resumes after the latest id, including late and corrected
//! rows. Otherwise, or if the service no longer knows the id, the rows between the latest delivered row
//! and the start of the replay are read in pages. In this case, late rows that arrived while the
//! connection was lost are missed.

use model::dataset::DatasetId;
use model::page::{Limit, REPLAY_ROWS, ROWS_MAX};
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use std::convert::Infallible;
use std::time::Duration;
use task::backoff::Backoff;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use wire::datasets::{
    Deletion, EVENT_CONNECTED, EVENT_CORRECTION, EVENT_DATA, EVENT_DELETION, EVENT_HEARTBEAT,
    EVENT_RESET,
};
use wire::paths;

use super::{
    BATCH_ROWS_MAX, Connection, Follow, Lost, RecentRows, Sse, StreamEvent, reconnect, row,
};
use crate::datasets::{Datasets, NamedRow, RowsQuery, comma_separated};
use crate::error::ClientError;
use crate::transport::parse;

/// Smallest difference between two timestamps.
const STEP: Duration = Duration::from_micros(1);

/// State of a reader, from which its stream resumes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumeFrom {
    /// Latest timestamp that the reader has. All later rows are delivered, even rows before the replay.
    /// `None` to start with the replay.
    pub newest: Option<Timestamp>,
    /// Id of the last event that the reader received.
    pub last_event_id: Option<String>,
    /// Treatment of rows in the first replay that are at or before `newest`.
    pub repeats: Repeats,
    /// Names of the columns to read. Empty for all.
    pub columns: Vec<String>,
    /// True to also receive deletions, and to receive corrections in separate batches.
    pub changes: bool,
}

/// Treatment of rows that the reader may already have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// The rows are omitted.
    #[default]
    Skip,
    /// The rows are delivered, since they may have been corrected. The reader replaces its own rows with
    /// them.
    Deliver,
}

/// Rows of a dataset that is being followed, and the event id from which a stream resumes after them.
#[derive(Debug, Clone, PartialEq)]
pub struct RowBatch {
    /// Rows in the order of arrival. Rows that were read in pages are in the order of their timestamps.
    pub rows: Vec<NamedRow>,
    /// Event id of the last row, if the service sends ids.
    pub last_event_id: Option<String>,
    /// Kind of the rows.
    pub kind: BatchKind,
}

/// Kind of a batch of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// New rows. Includes corrections if [`ResumeFrom::changes`] is false.
    Rows,
    /// Rows that replaced stored rows.
    Corrections,
    /// Deletion of the stored rows from `start` to `end`. The batch has no rows.
    Deletion {
        /// First deleted timestamp. `None` if all rows up to `end` were deleted.
        start: Option<Timestamp>,
        /// Last deleted timestamp, inclusive.
        end: Timestamp,
    },
}

/// An event of a dataset that is being followed.
pub type RowEvent = StreamEvent<RowBatch>;

/// Returns true if a service refused a stream because it does not support [`ResumeFrom::changes`].
#[must_use]
pub fn refuses_changes(why: &ClientError) -> bool {
    matches!(why, ClientError::Refused { status: 400, message } if message.contains("changes"))
}

/// Sends the rows of `dataset` to `events`, starting after the state `resume_from`, until the receiver
/// is dropped.
///
/// If the queue is full, this function waits, and so does the service. Dropping the future closes the
/// connection.
pub async fn follow(
    datasets: Datasets,
    dataset: DatasetId,
    resume_from: ResumeFrom,
    events: Sender<RowEvent>,
) {
    let recent = RecentRows::default();
    reconnect(Reader { datasets, dataset, resume_from, recent }, events).await;
}

struct Reader {
    datasets: Datasets,
    dataset: DatasetId,
    resume_from: ResumeFrom,
    recent: RecentRows,
}

/// State of a connection while its first rows are received.
struct ConnectionStart {
    /// True if the connection resumed after the last event, so it has no replay.
    is_resumed: bool,
    n_rows: usize,
    /// Timestamp of the previous row. The rows of the replay are in ascending order.
    last: Option<Timestamp>,
}

impl Follow for Reader {
    type Item = RowBatch;

    // Empty, so that the connection is retried after every status: the dataset may be created or become
    // visible later.
    const NOT_SERVED: &'static [u16] = &[];

    async fn follow_once(
        &mut self,
        events: &Sender<RowEvent>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost> {
        let transport = self.datasets.transport.clone();
        let mut call = transport.get(paths::ROWS_STREAM).query(&[("dataset", self.dataset.get())]);
        call = call.query(&[("columns", comma_separated(&self.resume_from.columns))]);
        call = call.query(&[("changes", self.resume_from.changes.then_some(true))]);
        let is_resumed = self.resume_from.last_event_id.is_some();
        if let Some(id) = &self.resume_from.last_event_id {
            call = call.after_event(id);
        }
        let mut connection = Connection::open(call).await?;
        let mut start = ConnectionStart { is_resumed, n_rows: 0, last: None };
        let mut event = None;
        loop {
            if event.is_none() {
                event = Some(connection.next().await?);
            }
            let is_correction = event.as_ref().is_some_and(|event| event.event == EVENT_CORRECTION);
            let (name, kind) = if is_correction {
                (EVENT_CORRECTION, BatchKind::Corrections)
            } else {
                (EVENT_DATA, BatchKind::Rows)
            };
            let mut rows = Vec::new();
            let mut end = Ok(());
            // Consecutive rows of this kind that have already arrived are delivered as one batch.
            while let Some(data) = event.take_if(|event| event.event == name) {
                end = self.take(&data, &mut start, &mut rows, events).await;
                if end.is_err() || rows.len() >= BATCH_ROWS_MAX {
                    break;
                }
                match ready(&mut connection).await {
                    Ok(next) => event = next,
                    Err(why) => end = Err(why.into()),
                }
            }
            // Delivers the rows that arrived before the connection was lost.
            self.give(rows, kind, events).await?;
            end?;
            match event.as_ref().map(|event| event.event.as_str()) {
                // The row begins the next batch.
                Some(EVENT_DATA | EVENT_CORRECTION) => continue,
                Some(EVENT_CONNECTED) => {
                    backoff.reset();
                    events.send(StreamEvent::Connected).await?;
                }
                Some(EVENT_RESET) => {
                    start.is_resumed = false;
                    self.resume_from.last_event_id = None;
                    events.send(StreamEvent::Reset).await?;
                }
                Some(EVENT_HEARTBEAT) => events.send(StreamEvent::Heartbeat).await?,
                _ => {}
            }
            if let Some(deletion) = event.take().filter(|event| event.event == EVENT_DELETION) {
                self.give_deletion(deletion, events).await?;
            }
        }
    }
}

impl Reader {
    /// Handles a received row. If it is the first row of a connection, first reads the rows between it
    /// and the latest delivered row.
    async fn take(
        &mut self,
        event: &Sse,
        start: &mut ConnectionStart,
        rows: &mut Vec<NamedRow>,
        events: &Sender<RowEvent>,
    ) -> Result<(), Lost> {
        let row = row(event)?;
        if start.n_rows == 0
            && !start.is_resumed
            && let Some(newest) = self.resume_from.newest
            && row.timestamp > newest
        {
            self.fill(newest, row.timestamp, events).await?;
        }
        let is_replay = start.is_replay(row.timestamp);
        let is_had = self.resume_from.newest.is_some_and(|newest| row.timestamp <= newest);
        let is_skipped = is_replay && is_had && self.resume_from.repeats == Repeats::Skip;
        if !event.id.is_empty() {
            self.resume_from.last_event_id = Some(event.id.clone());
        }
        if self.recent.add(&row) && !is_skipped {
            rows.push(row);
        }
        Ok(())
    }

    /// Reads and delivers the rows that are later than `newest` and earlier than `end`.
    async fn fill(
        &mut self,
        newest: Timestamp,
        end: Timestamp,
        events: &Sender<RowEvent>,
    ) -> Result<(), Lost> {
        let mut query = RowsQuery {
            end: Some(end - STEP),
            after: Some(newest),
            ..RowsQuery::oldest(self.dataset, Resolution::Raw, Limit::clamp(ROWS_MAX))
        };
        if newest + STEP >= end {
            return Ok(());
        }
        loop {
            let page = self.datasets.rows_of(&query, &self.resume_from.columns).await?;
            let mut rows = page.rows.into_rows();
            rows.retain(|row| self.recent.add(row));
            self.give(rows, BatchKind::Rows, events).await?;
            let Some(next) = page.next else { return Ok(()) };
            query.after = Some(next);
        }
    }

    async fn give(
        &mut self,
        rows: Vec<NamedRow>,
        kind: BatchKind,
        events: &Sender<RowEvent>,
    ) -> Result<(), Lost> {
        let Some(newest) = rows.iter().map(|row| row.timestamp).max() else { return Ok(()) };
        self.resume_from.newest = self.resume_from.newest.max(Some(newest));
        let last_event_id = self.resume_from.last_event_id.clone();
        Ok(events.send(StreamEvent::Item(RowBatch { rows, last_event_id, kind })).await?)
    }

    async fn give_deletion(&mut self, event: Sse, events: &Sender<RowEvent>) -> Result<(), Lost> {
        let deletion: Deletion = parse(event.data.as_bytes(), "a deletion")?;
        let time =
            |text: &str| text.parse().map_err(|error| ClientError::shape("a deletion", error));
        let start = deletion.start.as_deref().map(time).transpose()?;
        let end = time(&deletion.end)?;
        let is_deleted = |at: Timestamp| at <= end && start.is_none_or(|start| at >= start);
        // Forgets the deleted rows. Otherwise a row that is inserted again with the same values would be
        // dropped as a duplicate.
        self.recent.0.retain(|at, _| !is_deleted(*at));
        if self.resume_from.newest.is_some_and(is_deleted) {
            self.resume_from.newest = start.map(|start| start - Duration::from_micros(1));
        }
        if !event.id.is_empty() {
            self.resume_from.last_event_id = Some(event.id);
        }
        let last_event_id = self.resume_from.last_event_id.clone();
        let kind = BatchKind::Deletion { start, end };
        Ok(events.send(StreamEvent::Item(RowBatch { rows: vec![], last_event_id, kind })).await?)
    }
}

impl ConnectionStart {
    /// Counts a row. Returns true if the row may belong to the replay, which has few rows in ascending
    /// order.
    fn is_replay(&mut self, timestamp: Timestamp) -> bool {
        self.n_rows = self.n_rows.saturating_add(1);
        let ascends = self.last.is_none_or(|last| last < timestamp);
        self.last = Some(timestamp);
        if !ascends {
            self.n_rows = REPLAY_ROWS + 1;
        }
        !self.is_resumed && self.n_rows <= REPLAY_ROWS
    }
}

/// Returns the next event if it has already arrived. Does not wait.
async fn ready(connection: &mut Connection) -> Result<Option<Sse>, ClientError> {
    match timeout(Duration::ZERO, connection.next()).await {
        Ok(event) => event.map(Some),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
