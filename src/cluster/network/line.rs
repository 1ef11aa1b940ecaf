//! Lines: streams that stay open, on which both sides send frames.
//!
//! A frame is its length as four bytes, big end first, one byte for its kind, and its content. What
//! a line saves over a stream for each message is the agreement on a protocol, twice for a question
//! and its answer. A task writes, so that whoever sends may be dropped at any time without leaving
//! half a frame; frames that wait are written together. A line ends for both sides when either of
//! them drops its last handle, fails, or breaks the bounds.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use futures::{
    AsyncRead, AsyncReadExt as _, AsyncWriteExt as _,
    io::{BufReader, ReadHalf, WriteHalf},
};
use libp2p::Stream;
use task::group::Group;
use tokio::{sync::mpsc, time::timeout};
use tracing::debug;

use super::MESSAGE_BYTES_MAX;

/// Frames that wait to be written. When there are more, those who send wait: the orders of as many
/// executions as a head has under way.
const FRAMES_CAPACITY: usize = 256;

/// How long frames may take to be written, and one that has begun to be read, before the line is
/// given up: the longest over a line of 4 Mbit/s.
const FRAME_WITHIN: Duration = Duration::from_secs(10);

/// How much is read at a time.
const READ_BYTES: usize = 16 * 1024;

/// Up to which size frames are copied together before they are written.
const TOGETHER_BYTES: usize = 64 * 1024;

/// The length before a frame, and the byte for its kind.
const HEADER_BYTES: usize = 5;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What its content is.
    pub kind: u8,
    /// The content, of at most [`MESSAGE_BYTES_MAX`] bytes.
    pub content: Bytes,
}

/// The sending end of a line. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Line {
    frames: mpsc::Sender<Frame>,
}

/// The reading end of a line.
pub struct Frames {
    stream: BufReader<ReadHalf<Stream>>,
}

/// A line has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("send on a line that has ended")]
pub struct Ended;

/// Makes a line of a stream, with its writing task in `group`.
pub(super) fn line(stream: Stream, group: &Group) -> (Line, Frames) {
    let (reading, writing) = stream.split();
    let (frames, waiting) = mpsc::channel(FRAMES_CAPACITY);
    group.spawn("line", write_all(writing, waiting));
    let stream = BufReader::with_capacity(READ_BYTES, reading);
    (Line { frames }, Frames { stream })
}

impl Line {
    /// Sends a frame: returns as soon as it waits to be written. Cancel-safe.
    ///
    /// # Errors
    /// [`Ended`] if the line has.
    pub async fn send(&self, frame: Frame) -> Result<(), Ended> {
        self.frames.send(frame).await.map_err(|_| Ended)
    }
}

impl Frames {
    /// Returns the next frame, or none when the line has ended. Not cancel-safe.
    pub async fn next(&mut self) -> Option<Frame> {
        match read(&mut self.stream).await {
            Ok(frame) => frame,
            Err(error) => {
                debug!(%error, "gave up a line");
                None
            }
        }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").finish_non_exhaustive()
    }
}

/// Reads one frame, or none if the stream ends before it.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
    let mut first = [0];
    if stream.read(&mut first).await? == 0 {
        return Ok(None);
    }
    let frame = async {
        let mut rest = [0; HEADER_BYTES - 1];
        stream.read_exact(&mut rest).await?;
        let ([a], [b, c, d, kind]) = (first, rest);
        let n_bytes = u32::from_be_bytes([a, b, c, d]);
        let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
        if n_bytes > MESSAGE_BYTES_MAX {
            let text = format!("a frame of {n_bytes} bytes is too long");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        // Grows with what comes, not with what is announced.
        let mut content = Vec::with_capacity(n_bytes.min(READ_BYTES));
        let announced = u64::try_from(n_bytes).unwrap_or(u64::MAX);
        stream.take(announced).read_to_end(&mut content).await?;
        if content.len() < n_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Frame { kind, content: content.into() }))
    };
    timeout(FRAME_WITHIN, frame).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
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
        match timeout(FRAME_WITHIN, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                debug!(%error, "gave up a line");
                return;
            }
            Err(_) => {
                debug!("gave up a line whose other side does not read");
                return;
            }
        }
        together.shrink_to(TOGETHER_BYTES);
    }
    // The other side then sees the end. Broken, it has already.
    drop(timeout(FRAME_WITHIN, stream.close()).await);
}

#[cfg(test)]
mod tests;
