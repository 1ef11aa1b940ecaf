//! A minimal HTTP/1.1 client with one connection and one request at a time.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::Outcome;

/// Bytes read at a time, as many as a fast response has ready.
const READ_BYTES: usize = 256 * 1024;

/// Maximum length of the head of a response.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// A response whose body was counted and discarded.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Drained {
    /// The HTTP status.
    pub(crate) status: u16,
    /// Bytes of the body.
    pub(crate) n_bytes: usize,
    /// Number of occurrences of the marked byte.
    pub(crate) n_marks: usize,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// The state of reading a body.
#[derive(Debug)]
enum Body {
    /// Remaining bytes.
    Length(usize),
    /// The part of the line with a chunk's size that was read.
    Size(Vec<u8>),
    /// Remaining bytes of a chunk, including its line end.
    Chunk(usize),
    /// The part of a line of the trailer that was read.
    Trailer(Vec<u8>),
    /// The body is complete.
    Done,
}

impl Request {
    /// Creates a request for `path`. An empty key is not sent.
    pub(crate) fn get(path: &str, key: &str) -> Self {
        Self::get_with(path, key, "")
    }

    /// Creates a request for `path` with further `headers`, each with a line end.
    pub(crate) fn get_with(path: &str, key: &str, headers: &str) -> Self {
        let key = header(key);
        let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{key}{headers}\r\n");
        Self { bytes: text.into_bytes() }
    }

    /// Creates a request with `body` to `path`.
    pub(crate) fn post(
        path: &str,
        key: &str,
        kind: &str,
        body: &(impl AsRef<[u8]> + ?Sized),
    ) -> Self {
        let (key, body) = (header(key), body.as_ref());
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{key}content-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        Self { bytes: [head.as_bytes(), body].concat() }
    }
}

fn header(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("x-api-key: {key}\r\n") }
}

impl Answer {
    /// Converts the response to an error.
    pub(crate) fn failed<T>(&self) -> Outcome<T> {
        Err(format!("{}: {}", self.status, String::from_utf8_lossy(&self.body)).into())
    }

    /// Returns the response if its status is a success.
    pub(crate) fn good(self) -> Outcome<Self> {
        if (200..300).contains(&self.status) { Ok(self) } else { self.failed() }
    }
}

impl Connection {
    /// Opens a connection.
    pub(crate) async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(READ_BYTES) })
    }

    /// Sends a request, and reads the whole response.
    pub(crate) async fn ask(&mut self, request: &Request) -> Outcome<Answer> {
        let mut whole = Vec::new();
        let status = self.exchange(request, &mut |bytes| whole.extend_from_slice(bytes)).await?;
        Ok(Answer { status, body: whole })
    }

    /// Sends a request, and counts the bytes of the response, and `mark` among them.
    pub(crate) async fn drain(&mut self, request: &Request, mark: u8) -> Outcome<Drained> {
        let mut drained = Drained::default();
        let count = &mut |bytes: &[u8]| {
            drained.n_bytes += bytes.len();
            drained.n_marks += count_of(bytes, mark);
        };
        drained.status = self.exchange(request, count).await?;
        Ok(drained)
    }

    /// Sends a request with an endless response, and passes the received bytes to `take` until it
    /// returns false. Heads and sizes of chunks are included. Returns at the end of the connection.
    pub(crate) async fn follow(
        mut self,
        request: &Request,
        take: &mut (impl FnMut(&[u8]) -> bool + Send),
    ) -> Outcome<()> {
        self.stream.write_all(&request.bytes).await?;
        loop {
            self.received.clear();
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Ok(());
            }
            if !take(&self.received) {
                return Ok(());
            }
        }
    }

    /// Sends a request without reading the response. Returns the open connection.
    pub(crate) async fn stall(mut self, request: &Request) -> Outcome<TcpStream> {
        self.stream.write_all(&request.bytes).await?;
        Ok(self.stream)
    }

    async fn exchange(&mut self, request: &Request, sink: &mut impl FnMut(&[u8])) -> Outcome<u16> {
        self.stream.write_all(&request.bytes).await?;
        self.received.clear();
        let (status, mut body) = loop {
            self.read().await?;
            if let Some((status, body, n_head)) = head(&self.received)? {
                self.received.drain(..n_head);
                break (status, body);
            }
            if self.received.len() > HEAD_BYTES_MAX {
                return Err("response has an endless head".into());
            }
        };
        loop {
            body.take(&self.received, sink)?;
            if matches!(body, Body::Done | Body::Length(0)) {
                return Ok(status);
            }
            self.received.clear();
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Outcome<()> {
        if self.stream.read_buf(&mut self.received).await? == 0 {
            return Err("the service closed the connection".into());
        }
        Ok(())
    }
}

impl Body {
    fn take(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Outcome<()> {
        while !bytes.is_empty() {
            match self {
                Self::Done => return Err("response is too long".into()),
                Self::Length(left) => {
                    let (body, rest) = bytes.split_at(bytes.len().min(*left));
                    if body.is_empty() {
                        return Err("response is too long".into());
                    }
                    sink(body);
                    *left -= body.len();
                    bytes = rest;
                }
                Self::Size(line) => {
                    let Some(rest) = line_in(line, bytes) else { return Ok(()) };
                    let text = str::from_utf8(line)?;
                    let digits = text.split(';').next().unwrap_or_default().trim();
                    let n_bytes = usize::from_str_radix(digits, 16)?;
                    bytes = rest;
                    *self = match n_bytes {
                        0 => Self::Trailer(Vec::new()),
                        n_bytes => Self::Chunk(n_bytes + 2),
                    };
                }
                Self::Chunk(left) => {
                    let (chunk, rest) = bytes.split_at(bytes.len().min(*left));
                    *left -= chunk.len();
                    // The last two bytes end the line.
                    sink(&chunk[..chunk.len() - 2_usize.saturating_sub(*left).min(chunk.len())]);
                    bytes = rest;
                    if *left == 0 {
                        *self = Self::Size(Vec::new());
                    }
                }
                Self::Trailer(line) => {
                    let Some(rest) = line_in(line, bytes) else { return Ok(()) };
                    bytes = rest;
                    *self = if line.trim_ascii().is_empty() {
                        Self::Done
                    } else {
                        Self::Trailer(Vec::new())
                    };
                }
            }
        }
        Ok(())
    }
}

/// Appends the rest of a line to `line`, and returns the bytes after it if its end was found.
fn line_in<'a>(line: &mut Vec<u8>, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
    end.map(|end| &bytes[end + 1..])
}

/// Counts `mark` in `bytes`.
pub(crate) fn count_of(bytes: &[u8], mark: u8) -> usize {
    // Sums that fit a byte are vectorized.
    let sum = |part: &[u8]| part.iter().fold(0_u8, |sum, byte| sum + u8::from(*byte == mark));
    bytes.chunks(255).map(|part| usize::from(sum(part))).sum()
}

/// Parses the status of a response, the framing of its body and the length of its head, once the
/// head is complete.
fn head(received: &[u8]) -> Outcome<Option<(u16, Body, usize)>> {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = str::from_utf8(&received[..end])?;
    let status = text.split(' ').nth(1).ok_or("an answer without a status")?.parse()?;
    let mut body = Body::Length(0);
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            body = Body::Length(value.trim().parse()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            body = Body::Size(Vec::new());
        }
    }
    Ok(Some((status, body, end + 4)))
}
