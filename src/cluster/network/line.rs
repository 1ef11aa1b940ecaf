//! Lines: streams that stay open, on which both sides send frames.
//!
//! A frame is its length as four bytes, big end first, one byte for its kind, and its content. What
//! a line saves over a stream for each message is the agreement on a protocol, twice for a question
//! and its answer. A task writes, so that a sender may be dropped at any time without leaving half
//! a frame; frames that wait are written together. Of a frame that is longer than its reader takes,
//! the reader gets the beginning. A line ends for both sides when either of them drops its last
//! handle or fails.

use std::{io, mem, time::Duration};

use bytes::Bytes;
use futures::{
    AsyncRead, AsyncReadExt as _, AsyncWriteExt as _,
    io::{BufReader, ReadHalf, WriteHalf, copy, sink},
};
use libp2p::Stream;
use task::group::Group;
use tokio::{sync::mpsc, time::timeout};
use tracing::debug;

use super::{guard::Share, n_messages};

/// Frames that wait to be written. When there are more, senders wait: the orders of as many
/// executions as a head has under way.
const FRAMES_CAPACITY: usize = 256;

/// How long frames may take to be written, and one that has begun to be read, for each
/// [`MESSAGE_BYTES_MAX`](super::MESSAGE_BYTES_MAX) of it, before the line is given up: over a line
/// of 4 Mbit/s.
const FRAME_WITHIN: Duration = Duration::from_secs(10);

/// How much is kept of a message that is too long: its type and the id of its request.
pub(super) const START_BYTES: usize = 1024;

/// How much is read at a time.
const READ_BYTES: usize = 16 * 1024;

/// Up to which size frames are copied together before they are written.
const TOGETHER_BYTES: usize = 64 * 1024;

/// The length before a frame, and the byte for its kind.
const HEADER_BYTES: usize = 5;

/// A message on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What its content is.
    pub kind: u8,
    /// The frame's content, not parsed.
    pub content: Bytes,
}

/// What comes on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// A frame that came whole.
    Whole(Frame),
    /// How a frame begins that is longer than any may be. The rest is skipped.
    Cut(Frame),
}

/// The sending end of a line. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Line {
    frames: mpsc::Sender<Frame>,
}

/// The reading end of a line.
#[derive(Debug)]
pub struct Frames {
    stream: BufReader<ReadHalf<Stream>>,
    /// The longest content that is taken.
    bytes_max: usize,
    /// What is left of a frame that was cut.
    to_skip: u64,
    /// What the frame that is being read holds of the budget; none on a line that this node opened.
    share: Option<Share>,
}

/// A line has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("send on a line that has ended")]
pub struct LineEnded;

/// Makes a line of a stream, with its writing task in `group`. Frames with contents longer than
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
    /// Sends a frame: returns as soon as it waits to be written. Cancel-safe.
    ///
    /// # Errors
    /// [`LineEnded`] if the line has.
    pub async fn send(&self, frame: Frame) -> Result<(), LineEnded> {
        self.frames.send(frame).await.map_err(|_| LineEnded)
    }

    /// Sends a frame if there is room for it, as long as the other side keeps up.
    pub fn try_send(&self, frame: Frame) {
        if self.frames.try_send(frame).is_err() {
            debug!("dropped a frame: the line has ended, or its reader does not keep up");
        }
    }
}

impl Frames {
    /// Returns the next frame, or none when the line has ended. Not cancel-safe.
    pub async fn next(&mut self) -> Option<Incoming> {
        let share = self.share.as_mut();
        let read = read(&mut self.stream, self.bytes_max, &mut self.to_skip, share).await;
        if let Some(share) = &mut self.share {
            share.shrink_to(0);
        }
        match read {
            Ok(incoming) => incoming,
            Err(error) => {
                debug!(%error, "gave up a line");
                None
            }
        }
    }
}

/// Reads one frame, or none if the stream ends before it. First skips what is left of the last.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
    to_skip: &mut u64,
    share: Option<&mut Share>,
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
    let is_cut = n_announced > bytes_max;
    let n_bytes = if is_cut { START_BYTES.min(n_announced) } else { n_announced };
    let content = read_content(stream, n_bytes, share);
    let content = timeout(FRAME_WITHIN * n_messages(n_bytes), content).await.map_err(late)??;
    let frame = Frame { kind, content: content.into() };
    if !is_cut {
        return Ok(Some(Incoming::Whole(frame)));
    }
    *to_skip = u64::try_from(n_announced - n_bytes).unwrap_or(u64::MAX);
    Ok(Some(Incoming::Cut(frame)))
}

/// Reads `n_bytes` into a buffer that grows with what comes, not with what is announced.
async fn read_content(
    stream: &mut (impl AsyncRead + Unpin),
    n_bytes: usize,
    mut share: Option<&mut Share>,
) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
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
        let rest = content.get_mut(n_before..).unwrap_or_default();
        stream.read_exact(rest).await?;
    }
    Ok(content)
}

/// Puts a frame behind what is to be written.
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
            debug!(%error, "gave up a line");
            return;
        }
        together.shrink_to(TOGETHER_BYTES);
    }
    // The other side then sees the end. Broken, it has already.
    drop(timeout(FRAME_WITHIN, stream.close()).await);
}

#[cfg(test)]
mod tests;
