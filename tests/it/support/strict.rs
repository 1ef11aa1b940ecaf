//! A service of the API as strict as it may be: a proxy that caps ranges, limits rates, breaks
//! answers off and gives events no ids.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use model::timestamp::Timestamp;

/// The widest range of a download, in seconds: two days.
const SPAN_MAX_SECONDS: i64 = 2 * 24 * 3600;

/// Bytes after which an answer breaks off: some rows.
const CUT_BYTES: usize = 3_000;

/// Serves what the service at `base` does, strictly, at the address returned. It ends with the
/// process.
pub(crate) fn before(base: &str) -> String {
    let service = base.strip_prefix("http://").unwrap().to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let n_downloads = Arc::new(AtomicUsize::new(0));
    thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let (service, n_downloads) = (service.clone(), Arc::clone(&n_downloads));
            thread::spawn(move || drop(answer(caller, &service, &n_downloads)));
        }
    });
    format!("http://{address}")
}

/// Answers one request, and closes the connection.
fn answer(caller: TcpStream, service: &str, n_downloads: &AtomicUsize) -> std::io::Result<()> {
    let mut request = BufReader::new(caller.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        request.read_line(&mut line)?;
        let lower = line.to_ascii_lowercase();
        if let Some(number) = lower.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap();
        }
        let is_end = line.trim().is_empty();
        // The older version has no chunks, which would hide where a line ends.
        head.push_str(&line.replace(" HTTP/1.1", " HTTP/1.0"));
        if is_end {
            break;
        }
    }
    let mut body = vec![0; length];
    request.read_exact(&mut body)?;

    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut cut = usize::MAX;
    if path.starts_with("/api/rows/bulk_download/") {
        if span_seconds(&path) > SPAN_MAX_SECONDS {
            let text = "time range exceeds maximum of 48h0m0s for resolution=raw; use a coarser \
                        resolution: bad request";
            let body = format!("{{\"details\":null,\"error\":\"{text}\"}}");
            return refuse(caller, "400 Bad Request", &body);
        }
        match n_downloads.fetch_add(1, Ordering::SeqCst) % 5 {
            1 => return refuse(caller, "429 Too Many Requests\r\nRetry-After: 0", "{}"),
            2 => return refuse(caller, "503 Service Unavailable", "{}"),
            3 => cut = CUT_BYTES,
            _ => {}
        }
    }
    let mut service = TcpStream::connect(service)?;
    service.write_all(head.as_bytes())?;
    service.write_all(&body)?;
    pass_on(BufReader::new(service), caller, cut)
}

/// Passes on an answer up to `cut` bytes of it, without the ids of events.
fn pass_on(
    mut answer: BufReader<TcpStream>,
    mut caller: TcpStream,
    mut cut: usize,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    while cut > 0 && answer.read_until(b'\n', &mut line)? > 0 {
        let is_id = line.starts_with(b"id:");
        let is_length = line.to_ascii_lowercase().starts_with(b"content-length:");
        if !is_id && !is_length {
            line.truncate(cut);
            caller.write_all(&line)?;
            cut -= line.len();
        }
        line.clear();
    }
    caller.shutdown(Shutdown::Both)
}

fn refuse(mut caller: TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.0 {status}\r\nContent-Type: application/json\r\n\r\n");
    caller.write_all(head.as_bytes())?;
    caller.write_all(body.as_bytes())?;
    caller.shutdown(Shutdown::Write)
}

fn span_seconds(path: &str) -> i64 {
    let moment = |name: &str| {
        let (_, rest) = path.split_once(&format!("{name}="))?;
        let text = rest.split('&').next()?.replace("%3A", ":");
        text.parse::<Timestamp>().ok()
    };
    let (start, end) = (moment("start").unwrap(), moment("end").unwrap());
    end.seconds() - start.seconds()
}
