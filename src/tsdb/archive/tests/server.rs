//! S3 server for tests, which stores objects in memory.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use object_store::aws::AmazonS3Builder;
use parking_lot::Mutex;

use crate::archive::objects::Objects;

/// Path of the bucket that the server has.
const BUCKET: &str = "/rows";

/// Modification time of all objects.
const WRITTEN: &str = "Tue, 24 Nov 2020 03:00:00 GMT";

/// An S3 server that runs until the test program exits.
#[derive(Debug, Clone)]
pub(crate) struct TestServer {
    state: Arc<State>,
    url: String,
}

#[derive(derive_more::Debug)]
struct State {
    stored: Mutex<Stored>,
    /// Function that is called once, before the next object is written.
    #[debug(skip)]
    before_write: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[derive(Debug, Default)]
struct Stored {
    /// Content and `ETag` of each object.
    objects: BTreeMap<String, (Vec<u8>, String)>,
    n_written: u64,
    /// Number of reads of a part of an object.
    n_reads: u64,
    /// True if all requests fail, as on an overloaded server.
    is_lost: bool,
}

struct Request {
    method: String,
    key: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("s3://rows?endpoint=http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { stored: Mutex::default(), before_write: Mutex::default() });
        let server = Self { state: Arc::clone(&state), url };
        thread::spawn(move || {
            for connection in listener.incoming() {
                let state = Arc::clone(&state);
                // Ignores errors of clients that disconnect early.
                thread::spawn(move || drop(state.serve(&connection.unwrap())));
            }
        });
        server
    }

    /// Opens the bucket with its own connections, as another process would.
    pub(crate) fn open(&self) -> Objects {
        let builder = AmazonS3Builder::new().with_access_key_id("key").with_secret_access_key("s");
        Objects::connect(&self.url.parse().unwrap(), builder).unwrap()
    }

    /// Returns the keys of all objects.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.stored.lock().objects.keys().cloned().collect()
    }

    /// Returns the number of reads of a part of an object.
    pub(crate) fn n_reads(&self) -> u64 {
        self.state.stored.lock().n_reads
    }

    /// Calls `work` before the next object is written.
    pub(crate) fn before_write(&self, work: impl FnOnce() + Send + 'static) {
        *self.state.before_write.lock() = Some(Box::new(work));
    }

    /// Makes all later requests fail if `is_lost`, and succeed otherwise.
    pub(crate) fn lose(&self, is_lost: bool) {
        self.state.stored.lock().is_lost = is_lost;
    }
}

impl State {
    fn serve(&self, connection: &TcpStream) -> std::io::Result<()> {
        let request = read(connection)?;
        let Answer { status, headers, body } = self.answer(&request);
        let length = if headers.contains("content-length") {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        let mut out = connection;
        write!(
            out,
            "HTTP/1.1 {status} x\r\n{headers}{length}connection: close\r\nlast-modified: {WRITTEN}\r\n\r\n"
        )?;
        out.write_all(&body)
    }

    fn answer(&self, request: &Request) -> Answer {
        let Request { method, key, body, .. } = request;
        let hook = self.before_write.lock().take_if(|_| method == "PUT");
        if let Some(work) = hook {
            work();
        }
        let mut stored = self.stored.lock();
        stored.n_reads += u64::from(request.headers.contains_key("range"));
        match method.as_str() {
            _ if stored.is_lost => Answer::new(503, String::new(), ""),
            "PUT" if !request.is_met(stored.objects.get(key)) => {
                Answer::new(412, String::new(), "")
            }
            "PUT" => {
                stored.n_written += 1;
                let tag = format!("\"{}\"", stored.n_written);
                stored.objects.insert(key.clone(), (body.clone(), tag.clone()));
                Answer::new(200, format!("etag: {tag}\r\n"), "")
            }
            "POST" => {
                let text = String::from_utf8(body.clone()).unwrap();
                let keys = text.split("<Key>").skip(1).map(|part| part.split_once('<').unwrap().0);
                let gone = keys.map(|key| {
                    stored.objects.remove(key);
                    format!("<Deleted><Key>{key}</Key></Deleted>")
                });
                let gone: String = gone.collect();
                Answer::new(200, String::new(), format!("<DeleteResult>{gone}</DeleteResult>"))
            }
            _ => match stored.objects.get(key) {
                Some((bytes, tag)) => Answer::read(request, bytes, tag),
                None => Answer::new(404, String::new(), "<Error><Code>NoSuchKey</Code></Error>"),
            },
        }
    }
}

impl Request {
    /// Returns true if the object to be replaced meets the condition of the request.
    fn is_met(&self, replaced: Option<&(Vec<u8>, String)>) -> bool {
        let is_same = |wanted: &String| replaced.is_some_and(|(_, tag)| tag == wanted);
        self.headers.get("if-match").is_none_or(is_same)
            && (!self.headers.contains_key("if-none-match") || replaced.is_none())
    }
}

impl Answer {
    fn new(status: u16, headers: String, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers, body: body.into() }
    }

    fn read(request: &Request, bytes: &[u8], tag: &str) -> Self {
        let n_bytes = bytes.len();
        if request.method == "HEAD" {
            return Self::new(200, format!("etag: {tag}\r\ncontent-length: {n_bytes}\r\n"), "");
        }
        let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let Some((first, last)) = range.and_then(|range| range.split_once('-')) else {
            return Self::new(200, format!("etag: {tag}\r\n"), bytes);
        };
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        let range = Range { start: first, end: n_bytes.min(last + 1) };
        let part = bytes.get(range.clone()).unwrap_or_default();
        let is_within = !part.is_empty();
        let content = format!("content-range: bytes {first}-{}/{n_bytes}\r\n", range.end - 1);
        Self::new(if is_within { 206 } else { 416 }, format!("etag: {tag}\r\n{content}"), part)
    }
}

fn read(connection: &TcpStream) -> std::io::Result<Request> {
    let mut connection = BufReader::new(connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut first = lines.first().map(String::as_str).unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let target = first.next().unwrap_or_default();
    let (path, _) = target.split_once('?').unwrap_or((target, ""));
    let key = path.strip_prefix(BUCKET).unwrap_or_default().trim_matches('/').replace("%3D", "=");
    let pairs = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<String, String> =
        pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let n_bytes = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; n_bytes];
    connection.read_exact(&mut body)?;
    Ok(Request { method, key, headers, body })
}
