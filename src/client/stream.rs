//! Streams of server-sent events: opened, read within a bound, given up when silent, and reconnected.
//!
//! A dataset service sends `connected`, then the newest hundred rows again, then live ones, and a
//! heartbeat twice a minute. Silence for longer than a heartbeat and a half counts as a lost line.
//! [`resume`] follows a dataset over such lines.

pub mod resume;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use eventsource_stream::{Event as Sse, Eventsource as _};
use futures::{StreamExt as _, stream::BoxStream};
use model::{row::Value, timestamp::Timestamp};
use task::backoff::Backoff;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use wire::datasets::FlatRow;

use crate::{
    datasets::NamedRow,
    error::ClientError,
    transport::{Request, parse},
};

/// The longest silence on a line that is up: a heartbeat, due each 30 s by document 2, and a half.
pub const SILENCE_MAX: Duration = Duration::from_secs(45);

/// The most rows in a batch. A fuller one is handed on at once.
const BATCH_ROWS_MAX: usize = 1_000;

/// Rows remembered, so as not to be given twice: the replay and as many that may be late.
const REMEMBERED_ROWS: usize = 4 * model::page::REPLAY_ROWS;

/// The longest event taken. A row of a thousand columns is a twentieth of it.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// The first wait before another try.
const RETRY_FIRST: Duration = Duration::from_millis(500);

/// The longest wait before another try.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Why a stream ended.
pub(crate) enum Lost {
    /// The receiver was dropped.
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

/// What happens on a stream that reconnects by itself. `E` is why a connection broke.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent<T, E = ClientError> {
    /// Connected. A replay of the newest items may follow.
    Connected,
    /// New items, in the order in which they arrived.
    Item(T),
    /// The service does not know the last event: late items may have been missed.
    Reset,
    /// The connection works, though nothing happened for a while.
    Heartbeat,
    /// Disconnected; the next attempt is made after `retry_in`. What happens meanwhile may be missed.
    Lost {
        /// What broke the connection.
        why: E,
        /// How long until the next attempt.
        retry_in: Duration,
    },
    /// The service has no such stream; no event follows.
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

/// A stream that can be connected again.
pub(crate) trait Follow {
    /// What it brings.
    type Item;

    /// The statuses by which a service says that it has no such stream.
    const NOT_SERVED: &'static [u16];

    /// Connects, and sends events until the connection breaks or the receiver is gone. Resets
    /// `backoff` once the connection works.
    async fn follow_once(
        &mut self,
        events: &mpsc::Sender<StreamEvent<Self::Item>>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost>;
}

/// Connects `stream` again each time its connection breaks, until the receiver of `events` is gone.
/// Cancel-safe: dropping it closes the connection.
pub(crate) async fn reconnect<F: Follow>(
    mut stream: F,
    events: mpsc::Sender<StreamEvent<F::Item>>,
) {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    loop {
        let Err(lost) = stream.follow_once(&events, &mut backoff).await;
        let Lost::Line(why) = lost else { return };
        if why.status().is_some_and(|status| F::NOT_SERVED.contains(&status)) {
            // No receiver is no error.
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

/// An open line.
pub(crate) struct Line {
    events: BoxStream<'static, Result<Sse, ClientError>>,
    limit: Arc<AtomicUsize>,
}

impl Line {
    /// Opens a line to the stream that `call` names.
    pub(crate) async fn open(call: Request<'_>) -> Result<Self, ClientError> {
        let transport = call.transport.clone();
        let opening = call.within(None).open();
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
        Ok(Self { events: events.boxed(), limit })
    }

    /// Returns the next event, if the line is not silent for longer than `silence_max`.
    pub(crate) async fn next(&mut self, silence_max: Duration) -> Result<Sse, ClientError> {
        let silence = || ClientError::shape("a live stream", "it fell silent");
        let event = timeout(silence_max, self.events.next()).await.map_err(|_| silence())?;
        self.limit.store(0, Ordering::Relaxed);
        event.unwrap_or_else(|| Err(ClientError::shape("a live stream", "it was closed")))
    }
}

/// The newest rows given so far.
#[derive(Debug, Default)]
struct RecentRows(BTreeMap<Timestamp, BTreeMap<String, Value>>);

impl RecentRows {
    /// Remembers `row`; whether it was not given before exactly as it is: one at the same timestamp with
    /// other values is a correction.
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
