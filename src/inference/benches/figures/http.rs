//! Minimal client with one connection.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::Outcome;

/// Connection of the client.
pub(crate) struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// Returns the bytes of a request.
pub(crate) fn request(method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    let n_bytes = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\
         content-length: {n_bytes}\r\n\r\n{body}"
    )
    .into_bytes()
}

impl Client {
    /// Sends `request`, and returns the size of a streamed response.
    pub(crate) async fn drain(&mut self, request: &[u8]) -> Outcome<u64> {
        self.stream.write_all(request).await?;
        let mut n_bytes = 0;
        loop {
            self.received.clear();
            n_bytes += u64::try_from(self.stream.read_buf(&mut self.received).await?)?;
            if self.received.is_empty() || self.received.ends_with(b"\r\n0\r\n\r\n") {
                return Ok(n_bytes);
            }
        }
    }

    pub(crate) async fn connect(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::with_capacity(16 * 1024) })
    }

    /// Sends `request`, and returns the status and the body of the response.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> Outcome<(u16, Vec<u8>)> {
        self.stream.write_all(request).await?;
        self.received.clear();
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err("connection closed".into());
            }
            let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(self.received.get(..end).unwrap_or_default())
                .to_lowercase();
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            let start = end + 4;
            while self.received.len() < start + length {
                if self.stream.read_buf(&mut self.received).await? == 0 {
                    return Err("connection closed".into());
                }
            }
            let body = self.received.get(start..start + length).unwrap_or_default().to_vec();
            return Ok((status.unwrap_or_default(), body));
        }
    }
}
