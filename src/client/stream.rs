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

use eventsource_stream::{Event as Sse, Eventsource as _};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use model::row::Value;
use model::timestamp::Timestamp;
use task::backoff::Backoff;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use wire::datasets::FlatRow;

use crate::datasets::NamedRow;
use crate::error::ClientError;
use crate::transport::{Request, parse};

/// Maximum time for which a connection can be silent. It is one and a half times the interval of
/// heartbeats, which is 30 s.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);

/// Maximum number of rows in a batch.
const BATCH_ROWS_MAX: usize = 1_000;

/// Number of delivered rows that are remembered to detect duplicates. It is enough for the replay and
/// for late rows.
const REMEMBERED_ROWS: usize = 4 * model::page::REPLAY_ROWS;

/// Maximum size of an event: 20 times the size of a row with a thousand columns.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

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
    /// `backoff` once the connection works.
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
        let Err(lost) = stream.follow_once(&events, &mut backoff).await;
        let Lost::Connection(why) = lost else { return };
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
        let response = timeout(SILENCE_MAX, opening).await.map_err(|_| {
            let address = transport.address().to_owned();
            ClientError::TimedOut { address, within: SILENCE_MAX }
        })??;

        // Number of bytes since the last complete event. It must be limited, because the parser buffers
        // these bytes.
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
        Ok(Self { events: events.boxed(), limit })
    }

    /// Returns the next event. Fails if the connection is silent for `silence_max`.
    pub(crate) async fn next(&mut self, silence_max: Duration) -> Result<Sse, ClientError> {
        let silence = || {
            let reason = format!("no event within {} s", silence_max.as_secs());
            ClientError::shape("a stream of events", reason)
        };
        let event = timeout(silence_max, self.events.next()).await.map_err(|_| silence())?;
        self.limit.store(0, Ordering::Relaxed);
        event.unwrap_or_else(|| {
            Err(ClientError::shape("a stream of events", "the service closed the connection"))
        })
    }
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
