//! More readers than the service may open files for.

use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::support::{command::Home, http::Http, started::Started};

/// How long anything may take where other tests and a compiler share two processors.
const WITHIN: Duration = Duration::from_mins(1);

/// Files the service may open.
const OPEN_FILES: usize = 256;

/// Readers that come.
const READERS: usize = 300;

/// The head of the answer to a reader.
async fn head(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.windows(4).any(|part| part == b"\r\n\r\n") {
        let n_read = timeout(WITHIN, stream.read_buf(&mut answer)).await;
        assert!(n_read.unwrap().unwrap() > 0, "an answer");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn readers_beyond_the_limit_of_open_files_leave_room_for_requests() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let key = Home::new().done(&["keys", "create", "it", "--data-dir", &data_dir]);
    let key = key.trim();
    let arguments = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &data_dir];
    let service = Started::with_open_files(OPEN_FILES, &arguments);
    let address = service.logged("dataset service listening", "address", WITHIN);
    let http = Http::new(&format!("http://{address}"), Some(key));
    let columns = json!([{"name": "close", "dtype": "float"}]);
    let (status, _) =
        http.post("/api/datasets/", &json!({"name": "btc", "columns": columns})).await;
    assert_eq!(status, 201);

    let request = format!(
        "GET /api/rows/stream/?dataset=1 HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\n\r\n"
    );
    let mut readers = Vec::new();
    for _ in 0..READERS {
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
