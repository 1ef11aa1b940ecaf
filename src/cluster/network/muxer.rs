//! The yamux multiplexer with buffers that are charged to the memory budget.
//!
//! Yamux buffers up to a window (256 KiB) of every unread stream, even before the stream is accepted.
//! [`CountedSocket`] follows the frames that are read from the socket: the bytes of an open stream count
//! until they are read or the stream is dropped. If a peer has used up its part of the budget, its
//! connection is not read for a while, so that the peer cannot send more. This replaces libp2p's own
//! wrapper of yamux, which does not reveal the ids of streams.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use std::{io, iter};

use futures::{AsyncRead, AsyncWrite};
use libp2p::PeerId;
use libp2p::core::UpgradeInfo;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};
use yamux::{Connection, ConnectionError, Mode};

use super::guard::{Budget, Crowded, Share};

/// Name of the protocol in libp2p.
const PROTOCOL: &str = "/yamux/1.0.0";

/// Maximum number of streams per connection whose protocol is being negotiated.
pub(super) const NEGOTIATING_MAX: usize = 128;

/// Size up to which the buffers of a connection are not counted. A usual message fits, so most messages
/// do not need the lock that all connections share. For 2 500 connections, this is 10 MiB.
const UNCOUNTED_BYTES: usize = 4 * 1024;

/// Size of the header of a frame.
const HEADER_BYTES: usize = 12;

/// Type of a frame with data of a stream.
const DATA: u8 = 0;

/// Type of a frame that enlarges the window of a stream.
const WINDOW_UPDATE: u8 = 1;

/// Flag of a frame that opens its stream.
const SYN: u16 = 1;

/// Flag of a frame that resets its stream.
const RST: u16 = 8;

/// Upgrade of a peer's connection to yamux.
#[derive(Debug, Clone)]
pub(super) struct Multiplex {
    pub(super) budget: Budget,
    pub(super) peer: PeerId,
}

impl Multiplex {
    fn connect<C: AsyncRead + AsyncWrite + Unpin>(self, socket: C, mode: Mode) -> Muxer<C> {
        let mut config = yamux::Config::default();
        // Maximum number of streams per connection: `NEGOTIATING_MAX` each for negotiating streams,
        // streams in use and streams opened by this node.
        let n_streams_max = 3 * NEGOTIATING_MAX;
        config.set_max_num_streams(n_streams_max);
        // The window of a stream starts at 256 KiB and can grow by the rest of this limit, to 1 MiB. Some
        // peers send frames as large as the window, and yamux refuses frames of more than 1 MiB. Yamux has
        // no limit for one stream, so all streams of a connection share this rest: while one has a window
        // of 1 MiB, the others stay at 256 KiB, which is 2.5 MiB/s at a round trip time of 100 ms.
        config.set_max_connection_receive_window(Some((n_streams_max + 3) * 256 * 1024));
        let share = self.budget.share(self.peer);
        let buffered = Buffered { by_stream: HashMap::new(), n_bytes: 0, share };
        let buffered = Arc::new(Mutex::new(buffered));
        let socket = CountedSocket {
            socket,
            frames: FrameReader::default(),
            buffered: Arc::clone(&buffered),
            pause: None,
        };
        let connection = Connection::new(socket, config, mode);
        Muxer { connection, buffered, waiting: VecDeque::new(), waker: None, close_by: None }
    }
}

impl UpgradeInfo for Multiplex {
    type Info = &'static str;
    type InfoIter = iter::Once<Self::Info>;

    fn protocol_info(&self) -> Self::InfoIter {
        iter::once(PROTOCOL)
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> InboundConnectionUpgrade<C> for Multiplex {
    type Output = Muxer<C>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_inbound(self, socket: C, _: Self::Info) -> Self::Future {
        ready(Ok(self.connect(socket, Mode::Server)))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> OutboundConnectionUpgrade<C> for Multiplex {
    type Output = Muxer<C>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Self::Error>>;

    fn upgrade_outbound(self, socket: C, _: Self::Info) -> Self::Future {
        ready(Ok(self.connect(socket, Mode::Client)))
    }
}

/// Data that yamux buffers for one connection, by stream.
#[derive(Debug)]
struct Buffered {
    by_stream: HashMap<u32, usize>,
    n_bytes: usize,
    share: Share,
}

impl Buffered {
    fn open(&mut self, stream: u32) {
        self.by_stream.entry(stream).or_default();
    }

    /// Counts received bytes of a stream. Yamux drops bytes of streams that are not open.
    fn add(&mut self, stream: u32, n_bytes: usize) {
        if let Some(held) = self.by_stream.get_mut(&stream) {
            *held += n_bytes;
            self.n_bytes += n_bytes;
        }
    }

    fn remove(&mut self, stream: u32, n_bytes: usize) {
        if let Some(held) = self.by_stream.get_mut(&stream) {
            let n_bytes = n_bytes.min(*held);
            *held -= n_bytes;
            self.n_bytes -= n_bytes;
        }
        self.shrink_share();
    }

    fn close(&mut self, stream: u32) {
        self.n_bytes -= self.by_stream.remove(&stream).unwrap_or_default();
        self.shrink_share();
    }

    fn n_counted(&self) -> usize {
        self.n_bytes.saturating_sub(UNCOUNTED_BYTES)
    }

    /// Grows the share to the size of the buffers.
    fn grow_share(&mut self) -> Result<(), Crowded> {
        self.share.grow_to(self.n_counted())
    }

    fn shrink_share(&mut self) {
        self.share.shrink_to(self.n_counted());
    }
}

/// Follows the frames of a connection.
#[derive(Debug, Default)]
struct FrameReader {
    /// Bytes received so far of the next header.
    header: Vec<u8>,
    /// Id of the stream that the current frame belongs to.
    stream: u32,
    /// Number of bytes that remain of the current frame's body.
    n_body_bytes: usize,
}

impl FrameReader {
    /// Counts the next `bytes` for their streams.
    fn follow(&mut self, mut bytes: &[u8], buffered: &mut Buffered) {
        while !bytes.is_empty() {
            let n_wanted = match self.n_body_bytes {
                0 => HEADER_BYTES - self.header.len(),
                n_body_bytes => n_body_bytes,
            };
            let (piece, rest) = bytes.split_at(n_wanted.min(bytes.len()));
            bytes = rest;
            if self.n_body_bytes > 0 {
                buffered.add(self.stream, piece.len());
                self.n_body_bytes -= piece.len();
                continue;
            }
            self.header.extend_from_slice(piece);
            if let Ok(header) = <[u8; HEADER_BYTES]>::try_from(self.header.as_slice()) {
                self.header.clear();
                self.begin(header, buffered);
            }
        }
    }

    fn begin(&mut self, header: [u8; HEADER_BYTES], buffered: &mut Buffered) {
        let [_version, kind, f0, f1, s0, s1, s2, s3, n0, n1, n2, n3] = header;
        let flags = u16::from_be_bytes([f0, f1]);
        self.stream = u32::from_be_bytes([s0, s1, s2, s3]);
        if flags & SYN != 0 && matches!(kind, DATA | WINDOW_UPDATE) {
            buffered.open(self.stream);
        }
        if kind == DATA {
            let n_bytes = u32::from_be_bytes([n0, n1, n2, n3]);
            self.n_body_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
            if flags & RST != 0 {
                // Yamux drops the body of a frame that resets its stream, so the body must not be
                // counted. The body is attributed to stream 0, which never exists.
                self.stream = 0;
            }
        }
    }
}

/// Socket that counts frames as they are read.
struct CountedSocket<C> {
    socket: C,
    frames: FrameReader,
    buffered: Arc<Mutex<Buffered>>,
    /// Pause in reading while the peer's part of the budget is used up.
    pause: Option<Pin<Box<Sleep>>>,
}

impl<C: AsyncRead + Unpin> AsyncRead for CountedSocket<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        loop {
            if let Some(pause) = &mut this.pause {
                ready!(pause.as_mut().poll(context));
                this.pause = None;
            }
            if this.buffered.lock().grow_share().is_ok() {
                break;
            }
            // The socket is not read for a while, since the peer's part of the budget is used up.
            this.pause = Some(Box::pin(sleep(Duration::from_millis(100))));
        }
        let n_read = ready!(Pin::new(&mut this.socket).poll_read(context, bytes))?;
        this.frames.follow(bytes.get(..n_read).unwrap_or_default(), &mut this.buffered.lock());
        Poll::Ready(Ok(n_read))
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for CountedSocket<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context)
    }
}

/// A multiplexed connection.
pub(super) struct Muxer<C> {
    connection: Connection<CountedSocket<C>>,
    buffered: Arc<Mutex<Buffered>>,
    /// Inbound streams that no one has polled for yet.
    waiting: VecDeque<Substream>,
    /// Waker of the task that polls for inbound streams.
    waker: Option<Waker>,
    /// Closing counts as complete at this time in any case.
    close_by: Option<Pin<Box<Sleep>>>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Muxer<C> {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Substream, ConnectionError>> {
        let inbound = ready!(self.connection.poll_next_inbound(context));
        let stream = inbound.unwrap_or(Err(ConnectionError::Closed))?;
        Poll::Ready(Ok(Substream { stream, buffered: Arc::clone(&self.buffered) }))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> StreamMuxer for Muxer<C> {
    type Substream = Substream;
    type Error = ConnectionError;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        if let Some(stream) = self.waiting.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        let polled = self.poll_next(context);
        if polled.is_pending() {
            self.waker = Some(context.waker().clone());
        }
        polled
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::Substream, Self::Error>> {
        let stream = ready!(self.connection.poll_new_outbound(context))?;
        let buffered = Arc::clone(&self.buffered);
        buffered.lock().open(stream.id().val());
        Poll::Ready(Ok(Substream { stream, buffered }))
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        // If the link is lost, pending data is never sent. Without a limit, closing would never
        // complete and the connection would seem to exist. The limit is short, since the peer dials
        // again as soon as it can be reached.
        let close_by = self.close_by.get_or_insert_with(|| Box::pin(sleep(Duration::from_secs(1))));
        if close_by.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ok(()));
        }
        self.connection.poll_close(context)
    }

    /// Reads frames, which yamux does only while it is polled for streams.
    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<StreamMuxerEvent, Self::Error>> {
        let stream = ready!(self.poll_next(context))?;
        // As in libp2p's own wrapper, further streams are reset.
        if self.waiting.len() < 256 {
            self.waiting.push_back(stream);
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
        // Polls again soon, since there might be more frames.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A stream of a connection.
pub(super) struct Substream {
    stream: yamux::Stream,
    buffered: Arc<Mutex<Buffered>>,
}

impl AsyncRead for Substream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let n_read = ready!(Pin::new(&mut self.stream).poll_read(context, bytes))?;
        self.buffered.lock().remove(self.stream.id().val(), n_read);
        Poll::Ready(Ok(n_read))
    }
}

impl AsyncWrite for Substream {
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

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(context)
    }
}

impl Drop for Substream {
    fn drop(&mut self) {
        self.buffered.lock().close(self.stream.id().val());
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::{ALLOWANCES, Guard};
    use super::*;

    fn frame(kind: u8, flags: u16, stream: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap();
        let mut frame = vec![0, kind];
        frame.extend(flags.to_be_bytes());
        frame.extend(stream.to_be_bytes());
        frame.extend(length.to_be_bytes());
        frame.extend(body);
        frame
    }

    #[tokio::test]
    async fn buffered_bytes_are_counted_until_they_are_read_or_their_stream_is_dropped() {
        let budget = Budget::new(&Guard::new(None, [], ALLOWANCES));
        let share = budget.share(PeerId::random());
        let mut buffered = Buffered { by_stream: HashMap::new(), n_bytes: 0, share };
        let body = vec![7; 2 * UNCOUNTED_BYTES];
        let mut sent = frame(WINDOW_UPDATE, SYN, 1, &[]);
        sent.extend(frame(DATA, 0, 1, &body));
        sent.extend(frame(DATA, SYN, 3, &body));
        sent.extend(frame(DATA, 0, 99, &body));
        sent.extend(frame(DATA, RST, 3, &body));
        let mut frames = FrameReader::default();
        for piece in sent.chunks(5) {
            frames.follow(piece, &mut buffered);
        }
        assert_eq!(buffered.n_bytes, 2 * body.len());
        assert_eq!(buffered.grow_share(), Ok(()));
        assert_eq!(budget.bytes.total(), 2 * body.len() - UNCOUNTED_BYTES);
        buffered.remove(1, body.len());
        assert_eq!(budget.bytes.total(), body.len() - UNCOUNTED_BYTES);
        buffered.close(3);
        assert_eq!((buffered.n_bytes, budget.bytes.total()), (0, 0));
    }
}
