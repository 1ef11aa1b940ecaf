//! An HTTP/1.1 client with little overhead, one connection, and one request at a time.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::Outcome;

/// Size of the read buffer.
const READ_BYTES: usize = 256 * 1024;

/// Maximum size of the head of a response.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// An encoded request.
#[derive(Debug, Clone)]
pub struct Request {
    bytes: Vec<u8>,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

/// Figures about a response with a discarded body.
#[derive(Debug, Default, Clone, Copy)]
pub struct Drained {
    /// HTTP status.
    pub status: u16,
    /// Number of bytes of the body.
    pub n_bytes: usize,
    /// Number of occurrences of the counted byte in the body.
    pub n_marks: usize,
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
}

/// Position in the body of a response.
#[derive(Debug)]
enum Body {
    /// Before this number of remaining bytes of a body with a known length.
    Length(usize),
    /// In the line with the size of a chunk, of which these bytes have been read.
    Size(Vec<u8>),
    /// In a chunk, before this number of remaining bytes, including the chunk's line end.
    Chunk(usize),
    /// In a line of the trailer, of which these bytes have been read.
    Trailer(Vec<u8>),
    /// At the end of the body.
    Done,
}

impl Request {
    /// Returns a `GET` request. If `key` is empty, no key is sent.
    pub fn get(path: &str, key: &str) -> Self {
        Self::get_with(path, key, "")
    }

    /// Returns a `GET` request with additional `headers`, each of which ends with a line end.
    pub fn get_with(path: &str, key: &str, headers: &str) -> Self {
        let key = header(key);
        let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{key}{headers}\r\n");
        Self { bytes: text.into_bytes() }
    }

    /// Returns a `POST` request with `body` of the content type `kind`.
    pub fn post(path: &str, key: &str, kind: &str, body: &(impl AsRef<[u8]> + ?Sized)) -> Self {
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

impl Response {
    /// Returns this response as an error.
    pub fn failed<T>(&self) -> Outcome<T> {
        Err(format!("{}: {}", self.status, String::from_utf8_lossy(&self.body)).into())
    }

    /// Returns this response if its status means success, or else the response as an error.
    pub fn ok(self) -> Outcome<Self> {
        if (200..300).contains(&self.status) { Ok(self) } else { self.failed() }
    }
}

impl Connection {
    /// Connects to `address`.
    pub async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(READ_BYTES) })
    }

    /// Sends a request and reads the response.
    pub async fn send(&mut self, request: &Request) -> Outcome<Response> {
        let mut body = Vec::new();
        let status = self.exchange(request, &mut |bytes| body.extend_from_slice(bytes)).await?;
        Ok(Response { status, body })
    }

    /// Sends a request and discards the body of the response. Counts the bytes of the body and the
    /// occurrences of `mark`.
    pub async fn drain(&mut self, request: &Request, mark: u8) -> Outcome<Drained> {
        let mut drained = Drained::default();
        let count = &mut |bytes: &[u8]| {
            drained.n_bytes += bytes.len();
            drained.n_marks += count_of(bytes, mark);
        };
        drained.status = self.exchange(request, count).await?;
        Ok(drained)
    }

    /// Sends a request with an endless response. Passes everything that is received to `take`,
    /// including the head and the sizes of chunks, until `take` returns false or the connection is
    /// closed.
    pub async fn follow(
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

    /// Sends a request without reading its response. Returns the open connection.
    pub async fn stall(mut self, request: &Request) -> Outcome<TcpStream> {
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
                return Err("response head is too long".into());
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
            return Err("connection closed by the server".into());
        }
        Ok(())
    }
}

impl Body {
    fn take(&mut self, mut bytes: &[u8], sink: &mut impl FnMut(&[u8])) -> Outcome<()> {
        while !bytes.is_empty() {
            match self {
                Self::Done => return Err("response is longer than its length".into()),
                Self::Length(left) => {
                    let (body, rest) = bytes.split_at(bytes.len().min(*left));
                    if body.is_empty() {
                        return Err("response is longer than its length".into());
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
                    // The last two bytes are the line end, which does not belong to the body.
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

/// Appends the bytes before the line end to `line`. If there is a line end, returns the bytes after it.
fn line_in<'a>(line: &mut Vec<u8>, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
    end.map(|end| &bytes[end + 1..])
}

/// Returns the number of occurrences of `mark` in `bytes`.
pub fn count_of(bytes: &[u8], mark: u8) -> usize {
    // Sums that fit in a byte can be vectorized by the compiler.
    let sum = |part: &[u8]| part.iter().fold(0_u8, |sum, byte| sum + u8::from(*byte == mark));
    bytes.chunks(255).map(|part| usize::from(sum(part))).sum()
}

/// Parses the head of a response. Returns the status, the position in the body and the length of the
/// head, or `None` if the head is incomplete.
fn head(received: &[u8]) -> Outcome<Option<(u16, Body, usize)>> {
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = str::from_utf8(&received[..end])?;
    let status = text.split(' ').nth(1).ok_or("response without a status")?.parse()?;
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
