//! A minimal HTTP/1.1 client with one connection and one request at a time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use test_bench::Outcome;

/// A connection on which requests are sent one after another.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Opens a connection.
    pub(crate) fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Returns the body of the resource at `path`.
    pub(crate) fn get(&mut self, key: &str, path: &str) -> Outcome<Vec<u8>> {
        self.send("GET", key, path, b"")
    }

    /// Sends JSON and returns the body of the response.
    pub(crate) fn post(&mut self, key: &str, path: &str, body: &Value) -> Outcome<Vec<u8>> {
        self.send("POST", key, path, body.to_string().as_bytes())
    }

    fn send(&mut self, method: &str, key: &str, path: &str, body: &[u8]) -> Outcome<Vec<u8>> {
        let length = body.len();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\
             content-length: {length}\r\n\r\n"
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.get_mut().write_all(&request)?;
        let (mut status, mut n_bytes) = (String::new(), 0);
        self.stream.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(number) = line.strip_prefix("content-length:") {
                n_bytes = number.trim().parse()?;
            }
        }
        let mut answer = vec![0; n_bytes];
        self.stream.read_exact(&mut answer)?;
        let is_good = status.split(' ').nth(1).is_some_and(|code| code.starts_with('2'));
        if is_good {
            Ok(answer)
        } else {
            let text = String::from_utf8_lossy(&answer).into_owned();
            Err(format!("{method} {path}: {} {text}", status.trim()).into())
        }
    }
}
