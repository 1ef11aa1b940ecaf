//! Limits the control frames on an HTTP/2 connection.
//!
//! `h2` limits streams, resets and headers. However, it responds to every SETTINGS and PING frame, and
//! while a stream is open the connection does not count as idle. Therefore the frame headers are parsed
//! here, and a caller that sends too many control frames is cut off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tracing::debug;

use crate::rate_limit::{Bucket, Rate};

/// First bytes of an HTTP/2 connection. Anything else is HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length of a frame's header. Its first three bytes are the length of the frame's content, and the
/// fourth byte is its type.
const HEADER_BYTES: usize = 9;

/// Types of the control frames PRIORITY, SETTINGS and PING. A client needs some of them at the start,
/// and later a PING every few seconds to measure the connection.
const CONTROL_TYPES: [u8; 3] = [2, 4, 6];

/// Maximum rate of control frames.
const CONTROL_RATE: Rate = Rate { every: Duration::from_millis(100), burst: 200 };

/// A stream that fails if its caller sends too many control frames.
#[derive(Debug)]
pub(super) struct ControlFrameLimit<S> {
    stream: S,
    position: FramePosition,
    allowed: Bucket,
}

/// State of parsing the sequence of frames.
#[derive(Debug)]
enum FramePosition {
    /// Within the preface, after this number of bytes.
    Preface(usize),
    /// Within a frame's header: its bytes, and the number of bytes received so far.
    Header([u8; HEADER_BYTES], usize),
    /// Within a frame's content, with this number of bytes remaining.
    Content(usize),
    /// The connection is HTTP/1.
    Other,
}

impl<S> ControlFrameLimit<S> {
    pub(super) fn new(stream: S) -> Self {
        let allowed = Bucket::full(CONTROL_RATE);
        Self { stream, position: FramePosition::Preface(0), allowed }
    }

    /// Parses the frame headers in `bytes`, which continue the bytes of the previous call. Returns false
    /// once there were too many control frames.
    fn pass(&mut self, mut bytes: &[u8], now: Instant) -> bool {
        while let Some((first, rest)) = bytes.split_first() {
            match &mut self.position {
                FramePosition::Other => return true,
                FramePosition::Preface(n_read) => {
                    if PREFACE.get(*n_read) != Some(first) {
                        self.position = FramePosition::Other;
                        return true;
                    }
                    *n_read += 1;
                    if *n_read == PREFACE.len() {
                        self.position = FramePosition::Header([0; HEADER_BYTES], 0);
                    }
                    bytes = rest;
                }
                FramePosition::Header(header, n_read) => {
                    if let Some(byte) = header.get_mut(*n_read) {
                        *byte = *first;
                    }
                    *n_read += 1;
                    bytes = rest;
                    if *n_read == HEADER_BYTES {
                        let [a, b, c, kind, ..] = *header;
                        let length = u32::from_be_bytes([0, a, b, c]);
                        self.position = FramePosition::Content(length as usize);
                        if CONTROL_TYPES.contains(&kind) && !self.allowed.take(now) {
                            return false;
                        }
                    }
                }
                FramePosition::Content(n_left) => {
                    let n_bytes = bytes.len().min(*n_left);
                    bytes = bytes.get(n_bytes..).unwrap_or_default();
                    *n_left -= n_bytes;
                    if *n_left == 0 {
                        self.position = FramePosition::Header([0; HEADER_BYTES], 0);
                    }
                }
            }
        }
        true
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ControlFrameLimit<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n_before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(self.position, FramePosition::Other) || !matches!(read, Poll::Ready(Ok(()))) {
            return read;
        }
        let bytes = buffer.filled().get(n_before..).unwrap_or_default();
        if self.pass(bytes, Instant::now()) {
            return read;
        }
        debug!("cut off a connection that sent too many control frames");
        Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ControlFrameLimit<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a frame with content of `n_bytes`.
    fn frame(kind: u8, n_bytes: u8) -> Vec<u8> {
        let header = [0, 0, n_bytes, kind, 0, 0, 0, 0, 0];
        [header.as_slice(), &vec![7; usize::from(n_bytes)]].concat()
    }

    /// Passes the preface and then `frames` in pieces of `piece_bytes`. Returns false if they were cut
    /// off.
    fn pass_all(frames: &[Vec<u8>], piece_bytes: usize) -> bool {
        let mut limit = ControlFrameLimit::new(());
        let now = Instant::now();
        let bytes = [PREFACE, &frames.concat()].concat();
        bytes.chunks(piece_bytes).all(|piece| limit.pass(piece, now))
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_sends_a_flood_of_control_frames_is_closed() {
        for piece_bytes in [1, 7, 4096] {
            let few = [vec![frame(4, 6)], vec![frame(6, 8); 199]].concat();
            assert!(pass_all(&few, piece_bytes));
            assert!(!pass_all(&[few, vec![frame(4, 0)]].concat(), piece_bytes));
            let data = vec![frame(0, 200); 5000];
            assert!(pass_all(&data, piece_bytes), "content is not parsed as headers");
        }
        let mut limit = ControlFrameLimit::new(());
        assert!(limit.pass(b"GET / HTTP/1.1\r\n", Instant::now()));
        assert!(matches!(limit.position, FramePosition::Other));
    }

    #[tokio::test(start_paused = true)]
    async fn moderate_pings_are_allowed_indefinitely() {
        let mut limit = ControlFrameLimit::new(());
        assert!(limit.pass(PREFACE, Instant::now()));
        for _ in 0..2000 {
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(limit.pass(&frame(6, 8), Instant::now()));
        }
    }
}
