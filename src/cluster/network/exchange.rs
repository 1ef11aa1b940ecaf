//! Exchange of single messages on streams, and the errors of the network. A message ends at its first
//! line feed or at the end of the stream.

use std::sync::Arc;
use std::time::Duration;
use std::{io, iter};

use bytes::Bytes;
use content::duration_at_min_rate;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use libp2p::Stream;
use task::group::Group;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::debug;

use super::guard::{Budget, Offense, Share};
use super::line::{self, START_BYTES};
use super::streams::Inbound;
use super::{Event, MESSAGE_BYTES_MAX, Protocols};
use crate::identity::model_peer_id;
use crate::peer_db::PeerDbError;

/// Time for a peer to send one message.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// Time limit for creating a response.
const RESPONSE_WITHIN: Duration = Duration::from_mins(1);

/// Maximum time by which the reader of a response can fall behind the minimum rate.
const READER_LAG_MAX: Duration = Duration::from_secs(10);

/// Size of the pieces in which a response is written. At the minimum rate, a piece takes a second.
const RESPONSE_PIECE_BYTES: usize = 64 * 1024;

/// Maximum time by which a response that is being received can fall behind the minimum rate.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Size of the read buffer once a message is longer than the initial buffer.
const CHUNK_BYTES: usize = 16 * 1024;

/// An exchange with a peer failed.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// No stream could be opened.
    #[error("cannot open a stream to the peer")]
    Unopened(#[source] io::Error),
    /// The network has stopped.
    #[error("network has stopped")]
    Stopped,
    /// The connection or the stream failed.
    #[error("stream to the peer failed")]
    Broken(#[from] io::Error),
    /// The other side did not send or read a message in time.
    #[error("peer did not send or receive the message within {within:?}")]
    Stalled {
        /// Time that the other side had.
        within: Duration,
    },
    /// The memory for unfinished messages is used up.
    #[error("memory for unfinished messages is used up")]
    Crowded {
        /// Beginning of the message.
        start: Bytes,
    },
    /// The message exceeds the limit.
    #[error("message exceeds {bytes_max} bytes")]
    TooLong {
        /// Maximum length of a message.
        bytes_max: usize,
        /// Beginning of the message.
        start: Bytes,
    },
}

/// Writes `bytes` and closes the stream for writing.
pub(super) async fn tell(stream: &mut Stream, bytes: &[u8]) -> Result<(), ExchangeError> {
    stream.write_all(bytes).await?;
    Ok(stream.close().await?)
}

/// Waits a short time until the other side has read the written data. If the node stopped immediately,
/// data in transit would be lost.
pub(super) async fn linger(mut stream: Stream) {
    let mut rest = [0; 64];
    let closing = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    // A node of this program closes the stream as soon as it has read the message, a b7s worker after
    // it has run the order. The message counts as sent in both cases.
    drop(timeout(Duration::from_secs(1), closing).await);
}

/// Writes `question` as a line and reads the response to its end. Fails if the response arrives more
/// slowly than the minimum rate.
pub(super) async fn ask(
    mut stream: Stream,
    question: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, ExchangeError> {
    stream.write_all(question).await?;
    stream.write_all(b"\n").await?;
    stream.close().await?;
    read(&mut stream, None, bytes_max, None).await
}

/// Reads messages from the `accepted` streams, each in its own task of `group`. The slots of the streams
/// limit the number of tasks. A message that needs no response can have up to `message_bytes_max` bytes.
pub(super) async fn read_all(
    mut accepted: mpsc::Receiver<Inbound>,
    protocols: Protocols,
    message_bytes_max: usize,
    events: mpsc::Sender<Event>,
    budget: Budget,
    group: Group,
) {
    while let Some(inbound) = accepted.recv().await {
        if protocols.lines.contains(&inbound.protocol.as_ref()) {
            let Inbound { peer, stream, slot, .. } = inbound;
            // A line does not occupy a slot of the peer's streams, since the receiver of the event
            // limits the number of lines.
            drop(slot);
            let share = Some(budget.share(peer));
            let (line, frames) = line::split(stream, MESSAGE_BYTES_MAX, &group, share);
            let peer = model_peer_id(peer);
            // Fails only if the node is stopping.
            drop(events.send(Event::LineOpened { peer, line, frames }).await);
            continue;
        }
        let is_question = protocols.questions.contains(&inbound.protocol.as_ref());
        let (events, told_bytes_max) =
            (events.clone(), (!is_question).then_some(message_bytes_max));
        let (guard, share) = (Arc::clone(&budget.guard), budget.share(inbound.peer));
        group.spawn("stream", async move {
            let peer = inbound.peer;
            if let Err(error) = read_one(inbound, told_bytes_max, share, &events).await {
                debug!(%peer, %error, "dropped a message");
                match error {
                    ExchangeError::Stalled { .. } => guard.offended(peer, Offense::Stalled),
                    ExchangeError::TooLong { .. } => guard.offended(peer, Offense::Malformed),
                    _ => {}
                }
            }
        });
    }
}

async fn read_one(
    inbound: Inbound,
    told_bytes_max: Option<usize>,
    mut share: Share,
    events: &mpsc::Sender<Event>,
) -> Result<(), ExchangeError> {
    let Inbound { peer, protocol, mut stream, slot } = inbound;
    let (peer, protocol) = (model_peer_id(peer), protocol.to_string());
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let bytes_max = told_bytes_max.unwrap_or(MESSAGE_BYTES_MAX);
    let read = match read_timely(&mut stream, bytes_max, &mut share).await {
        Err(ExchangeError::TooLong { start, .. }) if told_bytes_max.is_some() => {
            drop((stream, slot, share));
            // The receiver of the event makes the request that waits for this message fail.
            drop(events.send(Event::TooLong { peer, protocol, start }).await);
            return Ok(());
        }
        Err(ExchangeError::Crowded { start }) if told_bytes_max.is_some() => {
            drop((stream, slot, share));
            drop(events.send(Event::Crowded { peer, start }).await);
            return Ok(());
        }
        read => read?,
    };
    let bytes = Bytes::from(read);
    if told_bytes_max.is_none() {
        let (answer, answered) = oneshot::channel();
        // Sending fails only if the node is stopping. The peer then gets no response.
        drop(events.send(Event::Question { peer, bytes, answer }).await);
        if let Ok(answer) = timeout(RESPONSE_WITHIN, answered).await.map_err(late)? {
            write_paced(&mut stream, &answer.head, &answer.content).await?;
        }
        timeout(READ_WITHIN, stream.close()).await.map_err(late)??;
    } else {
        timeout(READ_WITHIN, stream.close()).await.map_err(late)??;
        drop(slot);
        if bytes.is_empty() {
            // The connection was closed before the peer wrote anything, which is not the peer's fault.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        drop(events.send(Event::Message { peer, protocol, bytes }).await);
    }
    Ok(())
}

/// Writes a response. Fails if the other side reads more slowly than the minimum rate.
async fn write_paced(
    stream: &mut (impl AsyncWrite + Unpin),
    head: &[u8],
    content: &[u8],
) -> io::Result<()> {
    let began = Instant::now();
    let mut n_bytes = 0;
    for piece in iter::once(head).chain(content.chunks(RESPONSE_PIECE_BYTES)) {
        let end = began + READER_LAG_MAX + duration_at_min_rate(n_bytes);
        timeout_at(end, stream.write_all(piece)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        n_bytes += piece.len();
    }
    Ok(())
}

/// Reads one message within [`READ_WITHIN`].
async fn read_timely(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
    share: &mut Share,
) -> Result<Vec<u8>, ExchangeError> {
    let read = read(stream, Some(b'\n'), bytes_max, Some(share));
    let stalled = |_| ExchangeError::Stalled { within: READ_WITHIN };
    timeout(READ_WITHIN, read).await.map_err(stalled)?
}

/// Reads a message into a buffer, up to the byte `last` or, if it is not set, to the end of the stream.
/// The capacity of the buffer is charged to `share`, if set.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    last: Option<u8>,
    bytes_max: usize,
    mut share: Option<&mut Share>,
) -> Result<Vec<u8>, ExchangeError> {
    let mut message = Vec::new();
    // Most messages fit in this buffer, which every open stream has.
    let mut chunk = vec![0; 2 * 1024];
    let mut began = None;
    loop {
        let reading = stream.read(&mut chunk);
        // A response (without `last`) must arrive at the minimum rate after its first byte. The caller
        // limits the time until then, and the time of other messages.
        let n_read = match began {
            Some(began) if last.is_none() => {
                let end = began + PAUSE_MAX + duration_at_min_rate(message.len());
                timeout_at(end, reading)
                    .await
                    .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??
            }
            _ => reading.await?,
        };
        began.get_or_insert_with(Instant::now);
        let piece = chunk.get(..n_read).unwrap_or_default();
        let line_end = last.and_then(|last| piece.iter().position(|byte| *byte == last));
        let piece = piece.get(..line_end.unwrap_or(n_read)).unwrap_or_default();
        let n_bytes = message.len() + piece.len();
        if n_bytes > bytes_max {
            return Err(ExchangeError::TooLong { bytes_max, start: start_of(message, piece) });
        }
        let is_whole = n_read == 0 || line_end.is_some();
        if n_bytes > message.capacity() {
            let capacity =
                if is_whole { n_bytes } else { n_bytes.max(2 * message.capacity()).min(bytes_max) };
            let n_held = capacity + CHUNK_BYTES;
            if let Some(share) = &mut share
                && !(is_whole && message.is_empty())
                && share.grow_to(n_held).is_err()
            {
                return Err(ExchangeError::Crowded { start: start_of(message, piece) });
            }
            message.reserve_exact(capacity - message.len());
        }
        message.extend_from_slice(piece);
        if is_whole {
            return Ok(message);
        }
        chunk.resize(CHUNK_BYTES, 0);
    }
}

/// Returns the beginning of a message that consists of `message` and `piece`.
fn start_of(mut message: Vec<u8>, piece: &[u8]) -> Bytes {
    message.extend_from_slice(piece.get(..START_BYTES.min(piece.len())).unwrap_or_default());
    message.truncate(START_BYTES);
    message.into()
}

/// The network could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The transport or a protocol could not be set up.
    #[error("cannot set up the network")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address is in use or does not belong to this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// Address to listen on.
        address: String,
        /// Error of libp2p's transport.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The same port was given for TCP and for websockets.
    #[error("port {port} is given for both TCP and websockets")]
    SamePort {
        /// Port that was given twice.
        port: u16,
    },
    /// The peer store could not be opened.
    #[error(transparent)]
    PeerDb(#[from] PeerDbError),
}

/// A message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// No connected peer listens to the topic.
    #[error("no connected peer listens to the topic")]
    NoListeners,
    /// The message is longer than [`GOSSIP_BYTES_MAX`](super::GOSSIP_BYTES_MAX), or gossipsub
    /// refused it.
    #[error("message was refused: {reason}")]
    Refused {
        /// Reason of gossipsub.
        reason: String,
    },
    /// The network has stopped.
    #[error("network has stopped")]
    Stopped,
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures::io::Cursor;
    use futures::{StreamExt as _, TryStreamExt as _, stream};
    use libp2p::PeerId;
    use tokio::time::{Sleep, sleep};

    use super::super::guard::{ALLOWANCES, Allowances, Guard};
    use super::*;

    #[tokio::test]
    async fn message_ends_at_its_first_line_feed_or_at_the_end_of_the_stream() {
        for (sent, want) in [("{}", "{}"), ("{}\nrest", "{}"), ("", ""), ("\n", "")] {
            let read = read(&mut Cursor::new(sent), Some(b'\n'), 100, None).await.unwrap();
            assert_eq!(read, want.as_bytes(), "{sent:?}");
        }
        let whole = read(&mut Cursor::new("a\nb"), None, 100, None).await.unwrap();
        assert_eq!(whole, b"a\nb");
    }

    #[tokio::test]
    async fn too_long_message_is_rejected() {
        let long = vec![b'x'; 3 * CHUNK_BYTES];
        let refused = read(&mut Cursor::new(&long), Some(b'\n'), 2 * CHUNK_BYTES, None).await;
        assert!(matches!(refused, Err(ExchangeError::TooLong { .. })));
        assert_eq!(read(&mut Cursor::new(&long), None, long.len(), None).await.unwrap(), long);
    }

    #[tokio::test(start_paused = true)]
    async fn response_can_begin_late_but_must_not_arrive_too_slowly() {
        let late = stream::once(async {
            sleep(2 * PAUSE_MAX).await;
            Ok::<_, io::Error>(b"late".to_vec())
        });
        let mut late = Box::pin(late).into_async_read();
        assert_eq!(read(&mut late, None, 100, None).await.unwrap(), b"late");
        let dripping = stream::unfold((), |()| async {
            sleep(Duration::from_millis(100)).await;
            Some((Ok::<_, io::Error>(b"x".to_vec()), ()))
        });
        let mut dripping = Box::pin(dripping).into_async_read();
        let start = Instant::now();
        let outcome = read(&mut dripping, None, 1000, None).await;
        assert!(matches!(outcome, Err(ExchangeError::Broken(_))), "{outcome:?}");
        assert!(start.elapsed() < PAUSE_MAX + Duration::from_secs(1));
    }

    /// Accepts one piece of a response per `pause`.
    struct SlowReader {
        pause: Duration,
        next: Pin<Box<Sleep>>,
    }

    impl AsyncWrite for SlowReader {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            std::task::ready!(self.next.as_mut().poll(context));
            self.next = Box::pin(sleep(self.pause));
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn writing_a_response_times_out_only_if_its_reader_is_below_the_minimum_rate() {
        let content = vec![0; 300 * RESPONSE_PIECE_BYTES];
        for (pause_ms, want) in [(900, None), (2000, Some(io::ErrorKind::TimedOut))] {
            let pause = Duration::from_millis(pause_ms);
            let mut reader = SlowReader { pause, next: Box::pin(sleep(pause)) };
            let written = write_paced(&mut reader, b"head", &content).await;
            assert_eq!(written.map_err(|error| error.kind()).err(), want, "{pause:?}");
        }
    }

    fn budget() -> Budget {
        Budget::new(&Guard::new(None, [], ALLOWANCES))
    }

    #[tokio::test(start_paused = true)]
    async fn reading_from_a_stalled_peer_times_out() {
        let start = stream::iter([Ok::<_, io::Error>(b"{\"type\":".to_vec())]);
        let mut stalling = start.chain(stream::pending()).into_async_read();
        let mut share = budget().share(PeerId::random());
        let outcome = read_timely(&mut stalling, MESSAGE_BYTES_MAX, &mut share).await;
        assert!(matches!(outcome, Err(ExchangeError::Stalled { within: READ_WITHIN })));
    }

    #[tokio::test]
    async fn beginning_of_a_message_is_known_if_there_is_no_memory_for_the_rest() {
        let allowances = Allowances { unfinished_bytes: CHUNK_BYTES, ..ALLOWANCES };
        let mut share = Budget::new(&Guard::new(None, [], allowances)).share(PeerId::random());
        let sent = [&b"start"[..], &vec![b'x'; 3 * CHUNK_BYTES]].concat();
        let read = read(&mut Cursor::new(&sent), None, sent.len(), Some(&mut share)).await;
        let Err(ExchangeError::Crowded { start }) = read else { panic!("{read:?}") };
        assert_eq!(start, &sent[..START_BYTES]);
    }

    #[tokio::test]
    async fn buffer_of_a_message_counts_against_the_memory_budget() {
        let budget = budget();
        let mut share = budget.share(PeerId::random());
        let sent = vec![b'x'; 3 * CHUNK_BYTES];
        let mut message = Cursor::new(&sent);
        let whole = read(&mut message, None, sent.len(), Some(&mut share)).await.unwrap();
        assert!(budget.bytes.total() >= whole.capacity(), "{}", budget.bytes.total());
        drop(share);
        assert_eq!(budget.bytes.total(), 0);
    }

    proptest::proptest! {
        #[test]
        fn message_of_arbitrary_bytes_is_read_up_to_the_first_line_feed(
            sent in proptest::collection::vec(proptest::num::u8::ANY, 0..300),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut stream = Cursor::new(&sent);
            let line = runtime.block_on(read(&mut stream, Some(b'\n'), 200, None));
            let want = sent.split(|byte| *byte == b'\n').next().unwrap();
            match line {
                Ok(line) => proptest::prop_assert_eq!(line, want),
                Err(_) => proptest::prop_assert!(want.len() > 200),
            }
        }
    }
}
