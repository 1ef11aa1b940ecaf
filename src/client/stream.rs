//! Server-sent events: limits on their size, detection of silent connections, reconnecting.
//!
//! A dataset service sends `connected`, then the latest hundred rows (the replay), then new rows, with a
//! heartbeat twice a minute. A connection that is silent for one and a half heartbeat intervals counts
//! as lost. [`resume`] follows a dataset over such connections.

pub mod resume;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{Event as Sse, Eventsource as _};
use futures::stream::{BoxStream, try_unfold};
use futures::{Stream, StreamExt as _};
use model::row::Value;
use model::timestamp::Timestamp;
use task::backoff::Backoff;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use wire::datasets::FlatRow;

use crate::datasets::NamedRow;
use crate::error::ClientError;
use crate::transport::{Request, Transport, parse};

/// Maximum time for which a connection can be silent. It is one and a half times the interval of
/// heartbeats, which is 30 s. Services of topics send a comment every 15 s.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Maximum number of rows in a batch.
const BATCH_ROWS_MAX: usize = 1_000;

/// Number of delivered rows that are remembered to detect duplicates. It is enough for the replay and
/// for late rows.
const REMEMBERED_ROWS: usize = 4 * model::page::REPLAY_ROWS;

/// Maximum size of an event. A bundle of a thousand inferers and a thousand forecasters has 16 MB.
const EVENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Pause before the first attempt to reconnect.
const RETRY_FIRST: Duration = Duration::from_millis(500);

/// Maximum pause before reconnecting.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Reason why a connection is closed.
pub(crate) enum Lost {
    /// The receiver was dropped.
    Receiver,
    /// The connection was lost.
    Connection(ClientError),
}

impl From<ClientError> for Lost {
    fn from(why: ClientError) -> Self {
        Self::Connection(why)
    }
}

impl<T> From<mpsc::error::SendError<T>> for Lost {
    fn from(_: mpsc::error::SendError<T>) -> Self {
        Self::Receiver
    }
}

/// An event of a stream that reconnects. `E` is the type of the error in [`Self::Lost`].
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent<T, E = ClientError> {
    /// Connected. A replay of the latest items can follow.
    Connected,
    /// New items in the order of arrival.
    Item(T),
    /// The service no longer knows the last event id, so late items can be missing.
    Reset,
    /// The connection works, but there was no new item for a while.
    Heartbeat,
    /// The connection was lost. Items can be missed until the next attempt to connect, after
    /// `retry_in`.
    Lost {
        /// Error of the connection.
        why: E,
        /// Time until the next attempt.
        retry_in: Duration,
    },
    /// The service does not have this stream. No further event follows.
    NotServed,
}

impl<T> StreamEvent<T> {
    /// Converts the items and the error.
    pub fn map<U, E>(
        self,
        item: impl FnOnce(T) -> U,
        why: impl FnOnce(ClientError) -> E,
    ) -> StreamEvent<U, E> {
        match self {
            Self::Connected => StreamEvent::Connected,
            Self::Item(items) => StreamEvent::Item(item(items)),
            Self::Reset => StreamEvent::Reset,
            Self::Heartbeat => StreamEvent::Heartbeat,
            Self::Lost { why: error, retry_in } => StreamEvent::Lost { why: why(error), retry_in },
            Self::NotServed => StreamEvent::NotServed,
        }
    }
}

/// A stream that can be connected repeatedly.
pub(crate) trait Follow {
    /// Item of the stream.
    type Item;

    /// HTTP statuses that mean that the service does not have the stream.
    const NOT_SERVED: &'static [u16];

    /// Connects, then sends events until the connection is lost or the receiver is dropped. Resets
    /// `backoff` once the service has sent an event that shows that the stream works.
    async fn follow_once(
        &mut self,
        events: &mpsc::Sender<StreamEvent<Self::Item>>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost>;
}

/// Reconnects `stream` whenever its connection is lost, until the receiver of `events` is dropped.
/// Cancel-safe: dropping the future closes the connection.
pub(crate) async fn reconnect<F: Follow>(
    mut stream: F,
    events: mpsc::Sender<StreamEvent<F::Item>>,
) {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    loop {
        let began = Instant::now();
        let Err(lost) = stream.follow_once(&events, &mut backoff).await;
        let Lost::Connection(why) = lost else { return };
        // The service responded and sent something, even if there was no item.
        if began.elapsed() > 2 * SILENCE_MAX {
            backoff.reset();
        }
        if why.status().is_some_and(|status| F::NOT_SERVED.contains(&status)) {
            // An error means that the receiver was dropped, which is fine.
            events.send(StreamEvent::NotServed).await.unwrap_or_default();
            return;
        }
        let wait = backoff.next_wait();
        let retry_in = why.retry_after().map_or(wait, |asked| asked.max(wait));
        if events.send(StreamEvent::Lost { why, retry_in }).await.is_err() {
            return;
        }
        sleep(retry_in).await;
    }
}

/// An open connection of a stream.
pub(crate) struct Connection {
    events: BoxStream<'static, Result<Sse, ClientError>>,
    limit: Arc<AtomicUsize>,
}

impl Connection {
    /// Sends the request `call` and opens the stream in its response.
    pub(crate) async fn open(call: Request<'_>) -> Result<Self, ClientError> {
        let transport = call.transport.clone();
        let opening = call.within(None).open();
        let response = timeout(SILENCE_MAX, opening).await;
        let response = response.map_err(|_| transport.silent(SILENCE_MAX))??;
        let limit = Arc::new(AtomicUsize::new(0));
        let lines = lines(response.bytes_stream(), transport, Arc::clone(&limit));
        let events = lines.eventsource().map(|event| {
            event.map_err(|error| match error {
                eventsource_stream::EventStreamError::Transport(error) => error,
                error => ClientError::shape("a stream of events", error.to_string()),
            })
        });
        Ok(Self { events: events.boxed(), limit })
    }

    /// Returns the next event.
    pub(crate) async fn next(&mut self) -> Result<Sse, ClientError> {
        let event = self.events.next().await;
        self.limit.store(0, Ordering::Relaxed);
        event.unwrap_or_else(|| {
            Err(ClientError::shape("a stream of events", "the service closed the connection"))
        })
    }
}

/// Returns the bytes of `chunks` in parts with at least one end of a line, since the parser reads an
/// incomplete line again with each part. `n_bytes` counts the bytes since the last complete event, which
/// must be limited, because they are buffered.
fn lines(
    chunks: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
    transport: Transport,
    n_bytes: Arc<AtomicUsize>,
) -> BoxStream<'static, Result<Bytes, ClientError>> {
    let start = (chunks.boxed(), transport, n_bytes);
    let lines = try_unfold(start, async |(mut chunks, transport, n_bytes)| {
        let mut line = Vec::new();
        loop {
            let chunk = timeout(SILENCE_MAX, chunks.next()).await;
            let chunk = chunk.map_err(|_| transport.silent(SILENCE_MAX))?.transpose();
            let chunk = chunk.map_err(|source| transport.broken(source, SILENCE_MAX))?;
            let Some(chunk) = chunk else { return Ok(None) };
            if n_bytes.fetch_add(chunk.len(), Ordering::Relaxed) > EVENT_BYTES_MAX {
                return Err(ClientError::TooLong { limit_bytes: EVENT_BYTES_MAX });
            }
            let has_end = chunk.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
            if has_end && line.is_empty() {
                return Ok(Some((chunk, (chunks, transport, n_bytes))));
            }
            line.extend_from_slice(&chunk);
            if has_end {
                return Ok(Some((line.into(), (chunks, transport, n_bytes))));
            }
        }
    });
    lines.boxed()
}

/// The latest rows that were delivered.
#[derive(Debug, Default)]
struct RecentRows(BTreeMap<Timestamp, BTreeMap<String, Value>>);

impl RecentRows {
    /// Remembers `row`. Returns false if the same row was already delivered. Returns true for a row with
    /// other values at the same timestamp, which is a correction.
    fn add(&mut self, row: &NamedRow) -> bool {
        if self.0.get(&row.timestamp) == Some(&row.values) {
            return false;
        }
        self.0.insert(row.timestamp, row.values.clone());
        if self.0.len() > REMEMBERED_ROWS {
            // The replay repeats the latest rows, so the oldest row is the least likely to be repeated.
            self.0.pop_first();
        }
        true
    }
}

/// Parses the row of an event.
fn row(event: &Sse) -> Result<NamedRow, ClientError> {
    NamedRow::try_from(parse::<FlatRow>(event.data.as_bytes(), "a row")?)
}

#[cfg(test)]
mod tests;
