//! A web server of the least kind: the files of a folder of `tests/data`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
};

use crate::support::ROOT;

/// Serves the files in `tests/data/<folder>` at the address returned, until the process ends.
pub(crate) fn of(folder: &str) -> String {
    let folder = Path::new(ROOT).join("tests/data").join(folder);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let folder: PathBuf = folder.clone();
            thread::spawn(move || drop(answer(&caller, &folder)));
        }
    });
    format!("http://{address}")
}

/// Answers one request, and closes the connection.
fn answer(mut caller: &TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(caller).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // The rest of the head says nothing that matters here.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let name = first.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) = match fs::read(folder.join(name)) {
        Ok(body) if !name.contains("..") => ("200 OK", body),
        _ => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    write!(caller, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")?;
    caller.write_all(&body)
}
