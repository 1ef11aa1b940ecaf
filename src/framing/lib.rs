//! Frames over streams of bytes, in place of the `asynchronous-codec` crate that libp2p uses.
//!
//! That crate keeps 16 KiB of buffers for each stream as long as it is open. A connection has three such
//! streams: encryption, and gossip in each direction. 48 KiB of the 80 that each idle worker took of
//! its head were these buffers (`stubs` of the cluster's figures). Here a buffer that holds nothing is
//! given back, so that an idle stream has none. Absent on purpose: codecs, and whatever else libp2p does
//! not use.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, BytesMut};
use futures::{AsyncRead, AsyncWrite, Sink, Stream};

/// How much is read at a time.
const READ_BYTES: usize = 8 * 1024;

/// How much may wait to be written until a sender has to wait, as in the crate that this replaces.
const WAITING_BYTES_MAX: usize = 128 * 1024;

/// Turns messages into bytes.
pub trait Encoder {
    /// A message as its sender holds it.
    type Item<'a>;
    /// Why a message was not encoded or written.
    type Error: From<io::Error>;

    /// Adds `item` to `dst`.
    ///
    /// # Errors
    /// If the message cannot be encoded.
    fn encode(&mut self, item: Self::Item<'_>, dst: &mut BytesMut) -> Result<(), Self::Error>;
}

/// Turns bytes into messages.
pub trait Decoder {
    /// A message that has come whole.
    type Item;
    /// Why a message was not read or decoded.
    type Error: From<io::Error>;

    /// Takes the next message out of `src`; none before all of it has come.
    ///
    /// # Errors
    /// If the bytes are no message.
    fn decode(&mut self, src: &mut BytesMut) -> Result<Option<Self::Item>, Self::Error>;

    /// The same once no more bytes come.
    ///
    /// # Errors
    /// If the bytes are no message.
    fn decode_eof(&mut self, src: &mut BytesMut) -> Result<Option<Self::Item>, Self::Error> {
        self.decode(src)
    }
}

/// Messages in both directions.
#[derive(Debug)]
pub struct Framed<T, U> {
    parts: FramedParts<T, U>,
}

/// What a [`Framed`] consists of.
#[derive(Debug)]
#[non_exhaustive]
pub struct FramedParts<T, U> {
    /// The stream of bytes.
    pub io: T,
    /// What encodes and decodes.
    pub codec: U,
    /// What was read and not decoded yet.
    pub read_buffer: BytesMut,
    /// What was encoded and not written yet.
    pub write_buffer: BytesMut,
}

/// Messages that come.
#[derive(Debug)]
pub struct FramedRead<T, D>(Framed<T, D>);

/// Messages that go.
#[derive(Debug)]
pub struct FramedWrite<T, E>(Framed<T, E>);

impl<T, U> FramedParts<T, U> {
    /// The same with another codec.
    pub fn map_codec<V>(self, map: impl FnOnce(U) -> V) -> FramedParts<T, V> {
        let Self { io, codec, read_buffer, write_buffer } = self;
        FramedParts { io, codec: map(codec), read_buffer, write_buffer }
    }
}

impl<T, U> Framed<T, U> {
    /// Sends and receives messages over `io`.
    pub fn new(io: T, codec: U) -> Self {
        let (read_buffer, write_buffer) = (BytesMut::new(), BytesMut::new());
        Self { parts: FramedParts { io, codec, read_buffer, write_buffer } }
    }

    /// Goes on where [`Self::into_parts`] has ended.
    pub const fn from_parts(parts: FramedParts<T, U>) -> Self {
        Self { parts }
    }

    /// Takes it apart. Nothing that is buffered is lost.
    pub fn into_parts(self) -> FramedParts<T, U> {
        self.parts
    }

    /// What encodes and decodes.
    pub const fn codec(&self) -> &U {
        &self.parts.codec
    }
}

impl<T, D> FramedRead<T, D> {
    /// Receives messages from `io`.
    pub fn new(io: T, decoder: D) -> Self {
        Self(Framed::new(io, decoder))
    }
}

impl<T, E> FramedWrite<T, E> {
    /// Sends messages to `io`.
    pub fn new(io: T, encoder: E) -> Self {
        Self(Framed::new(io, encoder))
    }
}

// No codec is ever pinned.
impl<T: Unpin, U> Unpin for Framed<T, U> {}
impl<T: Unpin, D> Unpin for FramedRead<T, D> {}
impl<T: Unpin, E> Unpin for FramedWrite<T, E> {}

impl<T: AsyncRead + Unpin, U: Decoder> Framed<T, U> {
    fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<U::Item, U::Error>>> {
        let FramedParts { io, codec, read_buffer, .. } = &mut self.parts;
        if let Some(item) = codec.decode(read_buffer)? {
            return Poll::Ready(Some(Ok(item)));
        }
        let mut bytes = [0; READ_BYTES];
        loop {
            let Poll::Ready(n_read) = Pin::new(&mut *io).poll_read(context, &mut bytes)? else {
                release(read_buffer);
                return Poll::Pending;
            };
            read_buffer.extend_from_slice(bytes.get(..n_read).unwrap_or_default());
            if let Some(item) = codec.decode(read_buffer)? {
                return Poll::Ready(Some(Ok(item)));
            }
            if n_read > 0 {
                continue;
            }
            if read_buffer.is_empty() {
                return Poll::Ready(None);
            }
            let last = codec.decode_eof(read_buffer)?;
            if last.is_none() && !read_buffer.is_empty() {
                let cut = io::Error::new(io::ErrorKind::UnexpectedEof, "bytes remaining in stream");
                return Poll::Ready(Some(Err(cut.into())));
            }
            return Poll::Ready(last.map(Ok));
        }
    }
}

impl<T: AsyncWrite + Unpin, U: Encoder> Framed<T, U> {
    /// Writes until fewer than `n_left` bytes wait, or none do.
    fn poll_drain(&mut self, n_left: usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let FramedParts { io, write_buffer, .. } = &mut self.parts;
        while write_buffer.len() >= n_left && !write_buffer.is_empty() {
            match ready!(Pin::new(&mut *io).poll_write(context, write_buffer))? {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                n_written => write_buffer.advance(n_written),
            }
        }
        release(write_buffer);
        Poll::Ready(Ok(()))
    }

    fn poll_flush_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(0, context))?;
        Pin::new(&mut self.parts.io).poll_flush(context)
    }

    fn poll_close_io(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush_all(context))?;
        Pin::new(&mut self.parts.io).poll_close(context)
    }

    fn encode(&mut self, item: U::Item<'_>) -> Result<(), U::Error> {
        self.parts.codec.encode(item, &mut self.parts.write_buffer)
    }
}

/// Gives the memory of a buffer back that holds nothing.
fn release(buffer: &mut BytesMut) {
    if buffer.is_empty() {
        *buffer = BytesMut::new();
    }
}

impl<T: AsyncRead + Unpin, U: Decoder> Stream for Framed<T, U> {
    type Item = Result<U::Item, U::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_receive(context)
    }
}

impl<T: AsyncRead + Unpin, D: Decoder> Stream for FramedRead<T, D> {
    type Item = Result<D::Item, D::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_receive(context)
    }
}

impl<T: AsyncWrite + Unpin, U: Encoder> Sink<U::Item<'_>> for Framed<T, U> {
    type Error = U::Error;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), U::Error>> {
        self.poll_drain(WAITING_BYTES_MAX, context).map_err(Into::into)
    }

    fn start_send(mut self: Pin<&mut Self>, item: U::Item<'_>) -> Result<(), U::Error> {
        self.encode(item)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), U::Error>> {
        self.poll_flush_all(context).map_err(Into::into)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), U::Error>> {
        self.poll_close_io(context).map_err(Into::into)
    }
}

impl<T: AsyncWrite + Unpin, E: Encoder> Sink<E::Item<'_>> for FramedWrite<T, E> {
    type Error = E::Error;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), E::Error>> {
        self.0.poll_drain(WAITING_BYTES_MAX, context).map_err(Into::into)
    }

    fn start_send(mut self: Pin<&mut Self>, item: E::Item<'_>) -> Result<(), E::Error> {
        self.0.encode(item)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), E::Error>> {
        self.0.poll_flush_all(context).map_err(Into::into)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), E::Error>> {
        self.0.poll_close_io(context).map_err(Into::into)
    }
}

#[cfg(test)]
mod tests;
