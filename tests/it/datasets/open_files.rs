//! More readers than the service can have open files.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::running::Running;

/// Time limit of each wait, on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

/// Maximum number of open files of the service.
const OPEN_FILES: usize = 256;

/// Number of readers.
const READERS: usize = 300;

/// Number of accounts to which the readers belong, since one account can have only a part of all
/// streams.
const ACCOUNTS: usize = 8;

/// Reads the head of the response that a reader receives.
async fn head(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.windows(4).any(|part| part == b"\r\n\r\n") {
        let n_read = timeout(WITHIN, stream.read_buf(&mut answer)).await;
        assert!(n_read.unwrap().unwrap() > 0, "an answer");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn readers_at_the_limit_of_open_files_do_not_block_requests() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let home = Home::new();
    let keys: Vec<String> = (0..ACCOUNTS)
        .map(|n| home.run_ok(&["keys", "create", &format!("reader-{n}"), "--data-dir", &data_dir]))
        .collect();
    let arguments = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &data_dir];
    let service = Running::start_after(&format!("ulimit -n {OPEN_FILES}"), &arguments);
    let address = service.wait_log_field("dataset service listening", "address");
    let http = Http::new(&format!("http://{address}"), Some(keys[0].trim()));
    let columns = json!([{"name": "close", "dtype": "float"}]);
    let body = json!({"name": "btc", "columns": columns, "tags": ["public"]});
    assert_eq!(http.post("/api/datasets/", &body).await.0, 201);
    for key in keys.iter().skip(1) {
        let http = Http::new(&format!("http://{address}"), Some(key.trim()));
        let acquired = http.post("/api/tags/acquire/", &json!({"tag_name": "public"})).await;
        assert!(acquired.0.is_success(), "{acquired:?}");
    }

    let mut readers = Vec::new();
    for n in 0..READERS {
        let key = keys[n % ACCOUNTS].trim();
        let request = format!(
            "GET /api/rows/stream/?dataset=1 HTTP/1.1\r\nhost: {address}\r\n\
             x-api-key: {key}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        readers.push(stream);
    }
    let (mut n_followed, mut n_refused) = (0, 0);
    for reader in &mut readers {
        let head = head(reader).await.to_ascii_lowercase();
        if head.starts_with("http/1.1 200") {
            n_followed += 1;
        } else {
            assert!(head.starts_with("http/1.1 503") && head.contains("retry-after: "), "{head}");
            n_refused += 1;
        }
    }
    assert_eq!(n_followed + n_refused, READERS);
    assert!(n_followed >= OPEN_FILES / 4 && n_refused > 0, "{n_followed} follow");

    assert_eq!(timeout(WITHIN, http.get("/health")).await.unwrap().0, 200);
    let rows = json!({"dataset": 1, "rows": [
        {"timestamp": "2026-07-29T00:00:00Z", "values": {"close": 1.5}},
    ]});
    let (status, body) = timeout(WITHIN, http.post("/api/rows/bulk_insert/", &rows)).await.unwrap();
    assert_eq!(status, 201, "{body}");
}
