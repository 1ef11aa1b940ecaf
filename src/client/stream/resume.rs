//! Follows a dataset without gaps or repeats, across reconnections.
//!
//! Where the service gives its events ids, a line that was lost goes on after the last of them, with
//! late and corrected rows. Where it does not, or no longer knows the id, the rows between the newest
//! one given and the first of the replay are asked for; rows that came meanwhile at earlier
//! timestamps are missed, which such a service gives no way to detect.

use model::{
    dataset::DatasetId,
    page::{Limit, REPLAY_ROWS, ROWS_MAX},
    resolution::Resolution,
    timestamp::Timestamp,
};
use std::{convert::Infallible, time::Duration};
use task::backoff::Backoff;
use tokio::{sync::mpsc::Sender, time::timeout};
use wire::{
    datasets::{EVENT_CONNECTED, EVENT_DATA, EVENT_HEARTBEAT, EVENT_RESET},
    paths,
};

use super::{
    BATCH_ROWS_MAX, Follow, Line, Lost, RecentRows, SILENCE_MAX, Sse, StreamEvent, reconnect, row,
};
use crate::{
    datasets::{Datasets, NamedRow, RowsQuery},
    error::ClientError,
};

/// The smallest step of a timestamp.
const STEP: Duration = Duration::from_micros(1);

/// What the reader of a stream has already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResumeFrom {
    /// The newest timestamp; later rows are wanted, also those before the replay. None: the replay is
    /// enough.
    pub newest: Option<Timestamp>,
    /// The id of the last event that was taken.
    pub last_event_id: Option<String>,
    /// Whether rows of the first replay up to `newest` are delivered.
    pub repeats: Repeats,
}

/// What to do with rows that the reader may already have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// They are left out.
    #[default]
    Skip,
    /// They are given: the reader puts rows in their place, and they may be corrected.
    Give,
}

/// Rows of a followed dataset, and what to remember for going on after the last of them.
#[derive(Debug, Clone, PartialEq)]
pub struct RowBatch {
    /// In the order in which they came, those between two lines by timestamp.
    pub rows: Vec<NamedRow>,
    /// The id of the last one's event, where the service gives any.
    pub last_event_id: Option<String>,
}

/// What happens while a dataset is followed.
pub type RowEvent = StreamEvent<RowBatch>;

/// Follows `dataset` from where its reader is, until nobody listens any more.
///
/// Full, the queue makes this wait, and the service in turn. Dropping it closes the line.
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

/// How far into the start of a line its events are.
struct LineStart {
    /// Whether the line went on where the one before ended: then it has no replay.
    is_resumed: bool,
    n_rows: usize,
    /// The timestamp of the row before, in the replay's ascending order.
    last: Option<Timestamp>,
}

impl Follow for Reader {
    type Item = RowBatch;

    // A dataset may be there again, or be seen by the key.
    const NOT_SERVED: &'static [u16] = &[];

    async fn follow_once(
        &mut self,
        events: &Sender<RowEvent>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost> {
        let transport = self.datasets.transport.clone();
        let mut call = transport.get(paths::ROWS_STREAM).query(&[("dataset", self.dataset.get())]);
        let is_resumed = self.resume_from.last_event_id.is_some();
        if let Some(id) = &self.resume_from.last_event_id {
            call = call.after_event(id);
        }
        let mut line = Line::open(call).await?;
        let mut start = LineStart { is_resumed, n_rows: 0, last: None };
        loop {
            let mut event = Some(line.next(SILENCE_MAX).await?);
            let mut rows = Vec::new();
            let mut end = Ok(());
            // What has come in by now is handed on together.
            while let Some(data) = event.take_if(|event| event.event == EVENT_DATA) {
                end = self.take(&data, &mut start, &mut rows, events).await;
                if end.is_err() || rows.len() >= BATCH_ROWS_MAX {
                    break;
                }
                match ready(&mut line).await {
                    Ok(next) => event = next,
                    Err(why) => end = Err(why.into()),
                }
            }
            // Rows that came in before the line broke are not lost with it.
            self.give(rows, events).await?;
            end?;
            match event.as_ref().map(|event| event.event.as_str()) {
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
        }
    }
}

impl Reader {
    /// Takes a row, and those that the line does not have before its first.
    async fn take(
        &mut self,
        event: &Sse,
        start: &mut LineStart,
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

    /// Gives the rows after `newest` and before `end`.
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
            let page = self.datasets.rows(&query).await?;
            let mut rows = page.rows.into_raw();
            rows.retain(|row| self.recent.add(row));
            self.give(rows, events).await?;
            let Some(next) = page.next else { return Ok(()) };
            query.after = Some(next);
        }
    }

    async fn give(&mut self, rows: Vec<NamedRow>, events: &Sender<RowEvent>) -> Result<(), Lost> {
        let Some(newest) = rows.iter().map(|row| row.timestamp).max() else { return Ok(()) };
        self.resume_from.newest = self.resume_from.newest.max(Some(newest));
        let last_event_id = self.resume_from.last_event_id.clone();
        Ok(events.send(StreamEvent::Item(RowBatch { rows, last_event_id })).await?)
    }
}

impl LineStart {
    /// Counts a row in; whether it may be one of the replay, which ascends and is short.
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

/// The event that has come in already, if any has.
async fn ready(line: &mut Line) -> Result<Option<Sse>, ClientError> {
    match timeout(Duration::ZERO, line.next(SILENCE_MAX)).await {
        Ok(event) => event.map(Some),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
