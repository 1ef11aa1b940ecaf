//! Lines: streams that stay open, on which both sides send frames.
//!
//! A frame consists of the length of its content as four bytes in big-endian order, one byte for its
//! kind, and the content. A line saves the protocol negotiation that a separate stream for each message
//! needs. A separate task writes, so that a sender can be dropped at any time without leaving an
//! incomplete frame. Waiting frames are written together. If a frame exceeds the limit, only its
//! beginning is read. A line is closed for both sides when either of them drops its last handle or
//! fails.

use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use futures::io::{BufReader, ReadHalf, WriteHalf, copy, sink};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use libp2p::Stream;
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::debug;

use super::guard::Share;
use super::n_messages;

/// Maximum number of frames that wait to be written. Further senders wait.
const FRAMES_CAPACITY: usize = 256;

/// Time limit for writing the waiting frames or reading the rest of a frame, for each
/// [`MESSAGE_BYTES_MAX`](super::MESSAGE_BYTES_MAX) of data. It is enough at 4 Mbit/s.
const FRAME_WITHIN: Duration = Duration::from_secs(10);

/// Number of bytes to read from a message that is too long: enough for its type and the id of its
/// request.
pub(super) const START_BYTES: usize = 1024;

/// Size of the read buffer.
const READ_BYTES: usize = 16 * 1024;

/// Size of a part of a frame whose arrival is reported. Smaller parts would let a peer delay a request
/// with few bytes.
const PART_BYTES: usize = 256 * 1024;

/// Maximum size of the frames that are copied into one buffer before they are written.
const TOGETHER_BYTES: usize = 64 * 1024;

/// Size of the length and the kind, which precede the content of a frame.
const HEADER_BYTES: usize = 5;

/// A message on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the content.
    pub kind: u8,
    /// Content of the frame, not parsed yet.
    pub content: Bytes,
}

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A complete frame.
    Whole(Frame),
    /// The beginning of a frame that exceeds the limit. The rest is skipped.
    Cut(Frame),
}

/// Sending end of a line. Clones share it.
#[derive(Debug, Clone)]
pub struct Line {
    frames: mpsc::Sender<Frame>,
}

/// Reading end of a line.
#[derive(Debug)]
pub struct Frames {
    stream: BufReader<ReadHalf<Stream>>,
    /// Maximum size of the content.
    bytes_max: usize,
    /// Number of unread bytes of the previous frame, which are skipped because it exceeded the limit.
    to_skip: u64,
    /// Memory of the frame that is being read; `None` on a line that this node opened.
    share: Option<Share>,
}

/// The line was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection for work orders is closed")]
pub struct LineClosed;

/// Turns a stream into a line, with its writing task in `group`. Frames with content of more than
/// `bytes_max` are cut.
pub(super) fn split(
    stream: Stream,
    bytes_max: usize,
    group: &Group,
    share: Option<Share>,
) -> (Line, Frames) {
    let (reading, writing) = stream.split();
    let (frames, waiting) = mpsc::channel(FRAMES_CAPACITY);
    group.spawn("line", write_all(writing, waiting));
    let stream = BufReader::with_capacity(READ_BYTES, reading);
    (Line { frames }, Frames { stream, bytes_max, to_skip: 0, share })
}

impl Line {
    /// Queues a frame. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`LineClosed`] if the line was closed.
    pub async fn send(&self, frame: Frame) -> Result<(), LineClosed> {
        self.frames.send(frame).await.map_err(|_| LineClosed)
    }
}

impl Frames {
    /// Returns the next frame, or `None` when the line was closed. Not cancel-safe.
    pub async fn next(&mut self) -> Option<Incoming> {
        self.next_in_parts(&|| true).await
    }

    /// Like [`Self::next`]. Calls `note_part` whenever a large part of a frame has arrived. If it returns
    /// false, the rest of the frame is skipped, as for a frame that exceeds the limit.
    pub async fn next_in_parts(
        &mut self,
        note_part: &(dyn Fn() -> bool + Sync),
    ) -> Option<Incoming> {
        let share = self.share.as_mut();
        let read =
            read(&mut self.stream, self.bytes_max, share, &mut self.to_skip, note_part).await;
        if let Some(share) = &mut self.share {
            share.shrink_to(0);
        }
        match read {
            Ok(incoming) => incoming,
            Err(error) => {
                debug!(%error, "closed a line");
                None
            }
        }
    }
}

/// Reads one frame, or `None` at the end of the stream. First skips the rest of a truncated frame.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
    share: Option<&mut Share>,
    to_skip: &mut u64,
    note_part: &(dyn Fn() -> bool + Sync),
) -> io::Result<Option<Incoming>> {
    let skipped = usize::try_from(*to_skip).unwrap_or(usize::MAX);
    let mut nowhere = sink();
    let skip = copy((&mut *stream).take(mem::take(to_skip)), &mut nowhere);
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(FRAME_WITHIN * n_messages(skipped), skip).await.map_err(late)??;
    let mut first = [0];
    if stream.read(&mut first).await? == 0 {
        return Ok(None);
    }
    let mut rest = [0; HEADER_BYTES - 1];
    timeout(FRAME_WITHIN, stream.read_exact(&mut rest)).await.map_err(late)??;
    let ([a], [b, c, d, kind]) = (first, rest);
    let n_announced = u32::from_be_bytes([a, b, c, d]);
    let n_announced = usize::try_from(n_announced).unwrap_or(usize::MAX);
    let n_bytes = if n_announced > bytes_max { START_BYTES.min(n_announced) } else { n_announced };
    let content = read_content(stream, n_bytes, share, note_part);
    let mut content =
        timeout(FRAME_WITHIN * n_messages(n_bytes), content).await.map_err(late)??;
    let n_left = n_announced - content.len();
    if n_left == 0 {
        return Ok(Some(Incoming::Whole(Frame { kind, content: content.into() })));
    }
    *to_skip = u64::try_from(n_left).unwrap_or(u64::MAX);
    content.truncate(START_BYTES);
    content.shrink_to_fit();
    Ok(Some(Incoming::Cut(Frame { kind, content: content.into() })))
}

/// Reads `n_bytes`, or fewer if `note_part` returns false, into a buffer that grows with the received
/// data, not with the announced length.
async fn read_content(
    stream: &mut (impl AsyncRead + Unpin),
    n_bytes: usize,
    mut share: Option<&mut Share>,
    note_part: &(dyn Fn() -> bool + Sync),
) -> io::Result<Vec<u8>> {
    let (mut content, mut n_read) = (Vec::new(), 0);
    while content.len() < n_bytes {
        let n_before = content.len();
        let n_after = n_bytes.min((2 * n_before).max(READ_BYTES));
        if let Some(share) = &mut share
            && n_bytes > READ_BYTES
        {
            let crowded = |_| io::Error::new(io::ErrorKind::OutOfMemory, "too much is being read");
            share.grow_to(n_after).map_err(crowded)?;
        }
        content.reserve_exact(n_after - n_before);
        content.resize(n_after, 0);
        for part in content.get_mut(n_before..).unwrap_or_default().chunks_mut(PART_BYTES) {
            stream.read_exact(part).await?;
            n_read += part.len();
            if part.len() == PART_BYTES && !note_part() {
                content.truncate(n_read);
                return Ok(content);
            }
        }
    }
    Ok(content)
}

/// Appends a frame to the buffer.
fn put(together: &mut Vec<u8>, frame: &Frame) {
    let n_bytes = u32::try_from(frame.content.len()).unwrap_or(u32::MAX);
    together.extend_from_slice(&n_bytes.to_be_bytes());
    together.push(frame.kind);
    together.extend_from_slice(&frame.content);
}

async fn write_all(mut stream: WriteHalf<Stream>, mut waiting: mpsc::Receiver<Frame>) {
    let (mut frames, mut together) = (Vec::new(), Vec::new());
    while waiting.recv_many(&mut frames, FRAMES_CAPACITY).await > 0 {
        let n_bytes = frames.iter().map(|frame| frame.content.len()).sum();
        let within = FRAME_WITHIN * n_messages(n_bytes);
        let writing = async {
            for frame in frames.drain(..) {
                put(&mut together, &frame);
                if together.len() > TOGETHER_BYTES {
                    stream.write_all(&together).await?;
                    together.clear();
                }
            }
            stream.write_all(&together).await?;
            together.clear();
            stream.flush().await
        };
        let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
        if let Err(error) = timeout(within, writing).await.unwrap_or_else(late) {
            debug!(%error, "closed a line");
            return;
        }
        together.shrink_to(TOGETHER_BYTES);
    }
    // Lets the other side see the end of the stream.
    drop(timeout(FRAME_WITHIN, stream.close()).await);
}

#[cfg(test)]
mod tests;
