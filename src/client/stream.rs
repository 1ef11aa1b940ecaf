//! Following a dataset's new rows: a stream that comes back by itself and repeats nothing.
//!
//! A service sends `connected`, then the newest hundred rows again, then live ones, and a heartbeat
//! twice a minute. Silence for longer than a heartbeat and a half counts as a lost line. What is
//! not here: filling the gap that an absence longer than the replay leaves, which is a query.
//! [`unbroken`] asks it, for readers who want every row.

pub mod unbroken;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use eventsource_stream::{Event as Sse, Eventsource as _};
use futures::{Stream, StreamExt as _};
use model::{dataset::DatasetId, row::Value, timestamp::Timestamp};
use task::backoff::Backoff;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout, timeout_at},
};
use wire::{
    datasets::{EVENT_CONNECTED, EVENT_DATA, EVENT_HEARTBEAT, FlatRow},
    paths,
};

use crate::{
    datasets::{Datasets, NamedRow},
    error::ClientError,
    transport::{Call, Transport, parse},
};

/// The longest silence on a line that is up: a heartbeat, due each 30 s by document 2, and a half.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Rows are handed on in batches at most this often, so that a burst wakes a reader 20 times a
/// second, not a thousand.
const BATCH_EVERY: Duration = Duration::from_millis(50);

/// The most rows in a batch. A fuller one is handed on at once.
const BATCH_ROWS_MAX: usize = 1_000;

/// Rows remembered, so as not to be given twice: the replay and as many that may be late.
const REMEMBERED_ROWS: usize = 4 * model::page::REPLAY_ROWS;

/// The longest event taken. A row of a thousand columns is a twentieth of it.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The first wait before another try.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(500);

/// The longest wait before another try.
pub(crate) const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// What happens on a stream.
#[derive(Debug)]
pub enum StreamEvent {
    /// The line is up; rows not given before follow.
    Connected,
    /// Rows not given before, and corrected ones, in the order in which the service sent them.
    Rows(Vec<NamedRow>),
    /// The line is still up.
    Heartbeat,
    /// The line is down; another try follows by itself.
    Lost {
        /// Why.
        why: ClientError,
        /// When the next try is.
        retry_in: Duration,
    },
}

/// Follows `dataset` and sends what happens to `events`, until nobody listens any more.
///
/// Full, the queue makes this wait, and the service in turn. Dropping it closes the line.
pub async fn follow(datasets: Datasets, dataset: DatasetId, events: mpsc::Sender<StreamEvent>) {
    let mut given = Given::default();
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    loop {
        let Err(lost) = follow_once(&datasets, dataset, &events, &mut given, &mut backoff).await;
        let Lost::Line(why) = lost else { return };
        let wait = backoff.next_wait();
        let retry_in = why.retry_after().map_or(wait, |asked| asked.max(wait));
        if events.send(StreamEvent::Lost { why, retry_in }).await.is_err() {
            return;
        }
        sleep(retry_in).await;
    }
}

/// Why a stream ended.
enum Lost {
    /// Nobody listens.
    Reader,
    /// The line broke.
    Line(ClientError),
}

impl From<ClientError> for Lost {
    fn from(why: ClientError) -> Self {
        Self::Line(why)
    }
}

impl<T> From<mpsc::error::SendError<T>> for Lost {
    fn from(_: mpsc::error::SendError<T>) -> Self {
        Self::Reader
    }
}

async fn follow_once(
    datasets: &Datasets,
    dataset: DatasetId,
    events: &mpsc::Sender<StreamEvent>,
    given: &mut Given,
    backoff: &mut Backoff,
) -> Result<std::convert::Infallible, Lost> {
    let query = [("dataset", dataset.to_string())];
    let call = Call { query: &query, within: None, ..Call::get(paths::ROWS_STREAM) };
    let mut line = Line::open(&datasets.transport, call).await?;
    loop {
        let event = line.next(Instant::now() + SILENCE_MAX).await?;
        match event.event.as_str() {
            EVENT_CONNECTED => {
                backoff.reset();
                events.send(StreamEvent::Connected).await?;
            }
            EVENT_DATA => {
                let mut batch = Vec::new();
                given.take(&event, &mut batch)?;
                let end = line.fill(&mut batch, given).await;
                if !batch.is_empty() {
                    events.send(StreamEvent::Rows(batch)).await?;
                }
                match end? {
                    Some(heartbeat) if heartbeat.event == EVENT_HEARTBEAT => {
                        events.send(StreamEvent::Heartbeat).await?;
                    }
                    _ => {}
                }
            }
            EVENT_HEARTBEAT => events.send(StreamEvent::Heartbeat).await?,
            _ => {}
        }
    }
}

/// Events as they come in.
pub(crate) trait EventStream: Stream<Item = Result<Sse, ClientError>> + Unpin {}

impl<S: Stream<Item = Result<Sse, ClientError>> + Unpin> EventStream for S {}

/// An open line.
pub(crate) struct Line<S> {
    events: S,
    limit: Arc<AtomicUsize>,
}

impl Line<()> {
    /// Opens a line to the stream that `call` names.
    pub(crate) async fn open(
        transport: &Transport,
        call: Call<'_>,
    ) -> Result<Line<impl EventStream + use<>>, ClientError> {
        let transport = transport.clone();
        let opening = transport.open(call, None::<&()>);
        let response = timeout(SILENCE_MAX, opening).await.map_err(|_| {
            let address = transport.address().to_owned();
            ClientError::TimedOut { address, within: SILENCE_MAX }
        })??;

        // Bytes since the last whole event. A parser keeps them all; this is what bounds it.
        let limit = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&limit);
        let chunks = response.bytes_stream().map(move |chunk| {
            let chunk = chunk.map_err(|source| transport.broken(source, SILENCE_MAX))?;
            if counter.fetch_add(chunk.len(), Ordering::Relaxed) > EVENT_BYTES_MAX {
                return Err(ClientError::TooLong { limit_bytes: EVENT_BYTES_MAX });
            }
            Ok(chunk)
        });
        let events = chunks.eventsource().map(|event| {
            event.map_err(|error| match error {
                eventsource_stream::EventStreamError::Transport(error) => error,
                error => ClientError::shape("a stream of events", error.to_string()),
            })
        });
        Ok(Line { events: events.boxed(), limit })
    }
}

impl<S: EventStream> Line<S> {
    /// Returns the next event, if it comes before `deadline`.
    pub(crate) async fn next(&mut self, deadline: Instant) -> Result<Sse, ClientError> {
        let silence = || ClientError::shape("a live stream", "it fell silent");
        let event = timeout_at(deadline, self.events.next()).await.map_err(|_| silence())?;
        self.limit.store(0, Ordering::Relaxed);
        event.unwrap_or_else(|| Err(ClientError::shape("a live stream", "it was closed")))
    }

    /// Adds rows to `batch` for as long as a batch takes; returns the event that is no row, if one
    /// ended it.
    async fn fill(
        &mut self,
        batch: &mut Vec<NamedRow>,
        given: &mut Given,
    ) -> Result<Option<Sse>, ClientError> {
        let deadline = Instant::now() + BATCH_EVERY;
        while batch.len() < BATCH_ROWS_MAX {
            let Ok(event) = timeout_at(deadline, self.events.next()).await else { break };
            self.limit.store(0, Ordering::Relaxed);
            let event = event
                .unwrap_or_else(|| Err(ClientError::shape("a live stream", "it was closed")))?;
            if event.event != EVENT_DATA {
                return Ok(Some(event));
            }
            given.take(&event, batch)?;
        }
        Ok(None)
    }
}

/// The newest rows given so far.
#[derive(Debug, Default)]
struct Given(BTreeMap<Timestamp, BTreeMap<String, Value>>);

impl Given {
    /// Adds the row of `event` to `batch`, unless it was given before exactly as it is.
    ///
    /// A row at the same moment with other values is a correction, and passes.
    fn take(&mut self, event: &Sse, batch: &mut Vec<NamedRow>) -> Result<(), ClientError> {
        let row = row(event)?;
        if self.add(&row) {
            batch.push(row);
        }
        Ok(())
    }

    /// Remembers `row`; whether it was not given before exactly as it is.
    fn add(&mut self, row: &NamedRow) -> bool {
        if self.0.get(&row.timestamp) == Some(&row.values) {
            return false;
        }
        self.0.insert(row.timestamp, row.values.clone());
        if self.0.len() > REMEMBERED_ROWS {
            // The replay holds the newest rows, so the oldest is the one not to come again.
            self.0.pop_first();
        }
        true
    }
}

/// The row of an event.
fn row(event: &Sse) -> Result<NamedRow, ClientError> {
    NamedRow::try_from(parse::<FlatRow>(event.data.as_bytes(), "a row")?)
}

#[cfg(test)]
mod tests;
