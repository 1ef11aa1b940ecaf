//! A connection that has to send its first request soon.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// How long the head of a connection's first request may take. Some round trips over the slowest of
/// lines; a connection that is held open without asking for anything is let go much sooner than one
/// that is silent between two requests.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// A connection, until its first request's head is there a limited time.
#[derive(Debug)]
pub(crate) struct Headed<S> {
    stream: S,
    head: Option<Head>,
}

/// A head that is awaited.
#[derive(Debug)]
struct Head {
    /// Goes off when it took too long.
    late: Pin<Box<Sleep>>,
    /// Whether the last byte but returns ended a line: the empty one after it ends the head.
    is_line_ended: bool,
}

impl Head {
    /// Whether `bytes`, which came now, hold its end.
    fn ends_in(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|byte| {
            let was_ended = self.is_line_ended;
            self.is_line_ended = *byte == b'\n' || (was_ended && *byte == b'\r');
            was_ended && *byte == b'\n'
        })
    }
}

impl<S> Headed<S> {
    pub(crate) fn new(stream: S) -> Self {
        let head = Head { late: Box::pin(sleep(HEAD_WITHIN)), is_line_ended: false };
        Self { stream, head: Some(head) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Headed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n_before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let Some(head) = &mut self.head else { return read };
        if head.ends_in(buffer.filled().get(n_before..).unwrap_or_default()) {
            self.head = None;
        } else if read.is_pending() {
            return head.late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Headed<S> {
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
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::Instant,
    };

    use super::*;

    /// What is read after `sent`, once the other side is silent: an error if a head is still awaited.
    async fn silent_after(sent: &[&str]) -> Option<io::ErrorKind> {
        let (mut client, server) = duplex(1024);
        let mut server = Headed::new(server);
        for part in sent {
            client.write_all(part.as_bytes()).await.unwrap();
            let mut bytes = vec![0; part.len()];
            server.read_exact(&mut bytes).await.unwrap();
        }
        let began = Instant::now();
        let read = tokio::time::timeout(HEAD_WITHIN * 3, server.read_u8()).await;
        let error = read.ok().map(|read| read.unwrap_err().kind());
        assert_eq!(error.is_some(), began.elapsed() <= HEAD_WITHIN, "{sent:?}");
        error
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_to_end_in_time_and_what_follows_has_not() {
        let late = Some(io::ErrorKind::TimedOut);
        for sent in [&[][..], &["GET / HTTP/1.1\r\nhost: here\r\n"], &["GET / HT", "TP/1.1\r\n\r"]]
        {
            assert_eq!(silent_after(sent).await, late, "{sent:?}");
        }
        for sent in [
            &["GET / HTTP/1.1\r\nhost: here\r\n\r\n"][..],
            &["GET / HTTP/1.1\r", "\n\r", "\nbody"],
            &["GET / HTTP/1.1\n", "\n"],
        ] {
            assert_eq!(silent_after(sent).await, None, "{sent:?}");
        }
    }
}
