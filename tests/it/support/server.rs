//! Small HTTP servers and proxies on loopback, which run until the process exits.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{fs, thread};

use model::timestamp::Timestamp;

use crate::support::ROOT;

/// Maximum time range of a download through [`forward_strictly`], in seconds: two days.
const SPAN_MAX_SECONDS: i64 = 2 * 24 * 3600;

/// Number of bytes after which [`forward_strictly`] truncates a response: some rows.
const CUT_BYTES: usize = 3_000;

/// A request and the connection on which to respond.
pub(crate) struct Request {
    /// Request line and headers, including the empty line after them. The version is changed to
    /// HTTP/1.0, so that a server to which the request is forwarded sends no chunks and closes the
    /// connection.
    head: String,
    body: Vec<u8>,
    stream: TcpStream,
}

impl Request {
    fn read(stream: TcpStream) -> io::Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut head, mut n_bytes) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                n_bytes = length.trim().parse().unwrap();
            }
            head.push_str(&line.replace(" HTTP/1.1", " HTTP/1.0"));
        }
        let mut body = vec![0; n_bytes];
        reader.read_exact(&mut body)?;
        Ok(Self { head, body, stream })
    }

    /// Returns the path and the query.
    pub(crate) fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the value of the header `name`, which must be in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (of, value) = line.split_once(':')?;
            of.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Sends a response with `status`, such as `200 OK`. Headers may be appended to the status.
    pub(crate) fn respond(mut self, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
        write!(
            self.stream,
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            body.len()
        )?;
        self.stream.write_all(body)
    }

    /// Sends the request to the server at `host`. Returns the connection to the server.
    fn forward(&self, host: &str) -> io::Result<TcpStream> {
        let mut server = TcpStream::connect(host)?;
        server.write_all(self.head.as_bytes())?;
        server.write_all(&self.body)?;
        Ok(server)
    }
}

/// Accepts connections on a free port and handles each connection in its own thread. Returns the address
/// as `host:port`.
fn listen(handle: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handle = Arc::clone(&handle);
            thread::spawn(move || drop(handle(stream)));
        }
    });
    address
}

/// Handles one request per connection. Returns the address, which begins with `http://`.
pub(crate) fn serve(handle: impl Fn(Request) -> io::Result<()> + Send + Sync + 'static) -> String {
    format!("http://{}", listen(move |stream| handle(Request::read(stream)?)))
}

/// Serves the files in `tests/data/<folder>`.
pub(crate) fn serve_files(folder: &str) -> String {
    let folder = Path::new(ROOT).join("tests/data").join(folder);
    serve(move |request| {
        let name = request.target().trim_start_matches('/');
        match fs::read(folder.join(name)) {
            Ok(body) if !name.contains("..") => request.respond("200 OK", "text/plain", &body),
            _ => request.respond("404 Not Found", "text/plain", b""),
        }
    })
}

/// Forwards requests to the service at `base` as a reverse proxy does for a client in another network.
pub(crate) fn forward_from_elsewhere(base: &str) -> String {
    let host = base.strip_prefix("http://").unwrap().to_owned();
    serve(move |mut request| {
        request.head = request.head.replacen("\r\n", "\r\nx-forwarded-for: 192.0.2.1\r\n", 1);
        let mut server = request.forward(&host)?;
        io::copy(&mut server, &mut request.stream).map(drop)
    })
}

/// Forwards requests to the dataset service at `base`. Calls `before` before the first stream is opened.
pub(crate) fn forward_after(base: &str, before: impl Fn() + Send + Sync + 'static) -> String {
    let host = base.strip_prefix("http://").unwrap().to_owned();
    let was_called = AtomicBool::new(false);
    serve(move |mut request| {
        if request.target().contains("/rows/stream/") && !was_called.swap(true, Ordering::SeqCst) {
            before();
        }
        let mut server = request.forward(&host)?;
        io::copy(&mut server, &mut request.stream).map(drop)
    })
}

/// Forwards requests to the dataset service at `base`. Behaves as the strictest service that the API
/// permits: it limits time ranges and rates, truncates responses and sends events without ids.
pub(crate) fn forward_strictly(base: &str) -> String {
    let host = base.strip_prefix("http://").unwrap().to_owned();
    let n_downloads = AtomicUsize::new(0);
    serve(move |request| {
        let mut n_left = usize::MAX;
        if request.target().starts_with("/api/rows/bulk_download/") {
            if span_seconds(request.target()) > SPAN_MAX_SECONDS {
                let body = r#"{"details":null,"error":"time range exceeds maximum of 48h0m0s for resolution=raw; use a coarser resolution: bad request"}"#;
                return request.respond("400 Bad Request", "application/json", body.as_bytes());
            }
            let status = match n_downloads.fetch_add(1, Ordering::SeqCst) % 5 {
                1 => Some("429 Too Many Requests\r\nretry-after: 0"),
                2 => Some("503 Service Unavailable"),
                3 => {
                    n_left = CUT_BYTES;
                    None
                }
                _ => None,
            };
            if let Some(status) = status {
                return request.respond(status, "application/json", b"{}");
            }
        }
        if request.target().contains("changes=") {
            let body = br#"{"details":null,"error":"unknown parameter changes: bad request"}"#;
            return request.respond("400 Bad Request", "application/json", body);
        }
        let server = request.forward(&host)?;
        copy_without_ids(BufReader::new(server), request.stream, n_left)
    })
}

/// Copies at most `n_left` bytes of a response, leaving out the ids of events.
fn copy_without_ids(
    mut response: BufReader<TcpStream>,
    mut client: TcpStream,
    mut n_left: usize,
) -> io::Result<()> {
    let mut line = Vec::new();
    while n_left > 0 && response.read_until(b'\n', &mut line)? > 0 {
        let is_length = line.to_ascii_lowercase().starts_with(b"content-length:");
        if !line.starts_with(b"id:") && !is_length {
            line.truncate(n_left);
            client.write_all(&line)?;
            n_left -= line.len();
        }
        line.clear();
    }
    client.shutdown(Shutdown::Both)
}

fn span_seconds(target: &str) -> i64 {
    let seconds = |name: &str| {
        let (_, rest) = target.split_once(&format!("{name}=")).unwrap();
        let text = rest.split('&').next().unwrap().replace("%3A", ":");
        text.parse::<Timestamp>().unwrap().seconds()
    };
    seconds("end") - seconds("start")
}

/// A proxy that loses a response, so a client does not learn that the server has handled its request.
pub(crate) struct LossyProxy {
    /// Address of the proxy, `host:port`.
    pub(crate) address: String,
    has_lost: Arc<AtomicBool>,
}

impl LossyProxy {
    /// Forwards connections to the server at `host`. The first time that a client has sent all of
    /// `marks` in this order, the connection is closed instead of forwarding the next response.
    pub(crate) fn start(host: &str, marks: &'static [&'static str]) -> Self {
        let (host, has_lost) = (host.to_owned(), Arc::new(AtomicBool::new(false)));
        let lost = Arc::clone(&has_lost);
        let address = listen(move |client| {
            let server = TcpStream::connect(&host)?;
            let (requests, responses) = (client.try_clone()?, server.try_clone()?);
            let is_marked = Arc::new(AtomicBool::new(false));
            let marked = Arc::clone(&is_marked);
            thread::spawn(move || drop(copy_requests(requests, server, marks, &marked)));
            copy_responses(responses, client, &is_marked, &lost)
        });
        Self { address, has_lost }
    }

    /// Returns true if a response was lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }
}

/// Copies requests to the server. Sets `is_marked` once the requests contain all of `marks`.
fn copy_requests(
    mut client: TcpStream,
    mut server: TcpStream,
    mut marks: &[&str],
    is_marked: &AtomicBool,
) -> io::Result<()> {
    let mut sent: Vec<u8> = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let n_read = client.read(&mut chunk)?;
        if n_read == 0 {
            return server.shutdown(Shutdown::Write);
        }
        sent.extend(&chunk[..n_read]);
        while let Some((mark, rest)) = marks.split_first() {
            let found = sent.windows(mark.len()).position(|part| part == mark.as_bytes());
            let Some(at) = found else { break };
            sent.drain(..at + mark.len());
            marks = rest;
            if marks.is_empty() {
                is_marked.store(true, Ordering::SeqCst);
            }
        }
        server.write_all(&chunk[..n_read])?;
    }
}

/// Copies responses to the client. Stops at the response to a marked request, unless a response was lost
/// before.
fn copy_responses(
    mut server: TcpStream,
    mut client: TcpStream,
    is_marked: &AtomicBool,
    has_lost: &AtomicBool,
) -> io::Result<()> {
    let mut chunk = [0; 16 * 1024];
    loop {
        let n_read = server.read(&mut chunk)?;
        if n_read == 0 {
            return client.shutdown(Shutdown::Write);
        }
        if is_marked.swap(false, Ordering::SeqCst) && !has_lost.swap(true, Ordering::SeqCst) {
            server.shutdown(Shutdown::Both)?;
            return client.shutdown(Shutdown::Both);
        }
        client.write_all(&chunk[..n_read])?;
    }
}
