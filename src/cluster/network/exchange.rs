//! One message on one stream: written whole and closed, or read to its first line feed or end.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::{Stream, StreamProtocol};
use task::group::Group;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tracing::debug;

use super::{Event, MESSAGE_BYTES_MAX, streams::Inbound};
use crate::identity::named;

/// How long a peer has to send one message.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// How long an answer may take to be made and sent. A module of the greatest size over a slow line.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// Streams of all peers that are read at one time. More wait in the queue of accepted streams.
const READING_MAX: usize = 512;

/// How long a stream stays for the other side to read what was written. A node of ours closes it as
/// soon as it has; a b7s worker after it has run the order.
const LINGER_WITHIN: Duration = Duration::from_secs(1);

/// How much is read at a time.
const CHUNK_BYTES: usize = 16 * 1024;

/// What went wrong on a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// It broke.
    #[error("read or write a stream")]
    Broken(#[from] io::Error),
    /// More came than was agreed.
    #[error("read more than {bytes_max} bytes")]
    TooLong {
        /// How much was agreed.
        bytes_max: usize,
    },
}

/// Writes `bytes`, closes, and gives the other side some time to read them, since what is still on
/// its way is lost when the node stops.
pub(super) async fn tell(mut stream: Stream, bytes: &[u8]) -> Result<(), ExchangeError> {
    stream.write_all(bytes).await?;
    stream.close().await?;
    let mut rest = [0; 64];
    let closing = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    // In time or not, the message was sent.
    drop(timeout(LINGER_WITHIN, closing).await);
    Ok(())
}

/// Writes `question` as a line, closes, and reads the answer to its end.
pub(super) async fn ask(
    mut stream: Stream,
    question: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, ExchangeError> {
    stream.write_all(question).await?;
    stream.write_all(b"\n").await?;
    stream.close().await?;
    read(&mut stream, Until::End, bytes_max).await
}

/// Reads what peers send on the streams they opened, each stream in a task of `group`.
pub(super) async fn read_all(
    mut accepted: mpsc::Receiver<Inbound>,
    asked: Vec<StreamProtocol>,
    events: mpsc::Sender<Event>,
    group: Group,
) {
    let reading = Arc::new(Semaphore::new(READING_MAX));
    while let Some(inbound) = accepted.recv().await {
        let Ok(permit) = Arc::clone(&reading).acquire_owned().await else { return };
        let (events, is_asked) = (events.clone(), asked.contains(&inbound.protocol));
        group.spawn("stream", async move {
            let peer = inbound.peer;
            if let Err(error) = read_one(inbound, is_asked, &events).await {
                debug!(%peer, %error, "dropped a message");
            }
            drop(permit);
        });
    }
}

async fn read_one(
    inbound: Inbound,
    is_asked: bool,
    events: &mpsc::Sender<Event>,
) -> Result<(), ExchangeError> {
    let Inbound { peer, protocol, mut stream, slot } = inbound;
    let (peer, protocol) = (named(peer), protocol.to_string());
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let read = read(&mut stream, Until::LineFeed, MESSAGE_BYTES_MAX);
    let bytes = Bytes::from(timeout(READ_WITHIN, read).await.map_err(late)??);
    if is_asked {
        let (answer, answered) = oneshot::channel();
        // Without a reader the node is stopping, and nobody will answer.
        drop(events.send(Event::Asked { peer, protocol, bytes, answer }).await);
        let answering = async {
            if let Ok(answer) = answered.await {
                stream.write_all(&answer.head).await?;
                stream.write_all(&answer.content).await?;
            }
            stream.close().await
        };
        timeout(ANSWER_WITHIN, answering).await.map_err(late)??;
    } else {
        timeout(READ_WITHIN, stream.close()).await.map_err(late)??;
        drop(slot);
        drop(events.send(Event::Told { peer, protocol, bytes }).await);
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Until {
    LineFeed,
    End,
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    until: Until,
    bytes_max: usize,
) -> Result<Vec<u8>, ExchangeError> {
    let mut message = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n_read = stream.read(&mut chunk).await?;
        let piece = chunk.get(..n_read).unwrap_or_default();
        let line_end = match until {
            Until::LineFeed => piece.iter().position(|byte| *byte == b'\n'),
            Until::End => None,
        };
        message.extend_from_slice(piece.get(..line_end.unwrap_or(n_read)).unwrap_or_default());
        if message.len() > bytes_max {
            return Err(ExchangeError::TooLong { bytes_max });
        }
        if n_read == 0 || line_end.is_some() {
            return Ok(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn a_message_ends_at_its_first_line_feed_or_with_the_stream() {
        for (sent, want) in [("{}", "{}"), ("{}\nrest", "{}"), ("", ""), ("\n", "")] {
            let read = read(&mut Cursor::new(sent), Until::LineFeed, 100).await.unwrap();
            assert_eq!(read, want.as_bytes(), "{sent:?}");
        }
        let whole = read(&mut Cursor::new("a\nb"), Until::End, 100).await.unwrap();
        assert_eq!(whole, b"a\nb");
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_is_refused() {
        let long = vec![b'x'; 3 * CHUNK_BYTES];
        let refused = read(&mut Cursor::new(&long), Until::LineFeed, 2 * CHUNK_BYTES).await;
        assert!(matches!(refused, Err(ExchangeError::TooLong { .. })));
        assert_eq!(read(&mut Cursor::new(&long), Until::End, long.len()).await.unwrap(), long);
    }
}
