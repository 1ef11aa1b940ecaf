//! `GET /api/rows/stream/`

use axum::body::BodyDataStream;
use futures::StreamExt as _;

use super::*;
use crate::hub::LAG_FRAMES;

const PATH: &str = "/api/rows/stream/?dataset=1";

/// A stream being read, event by event.
struct Reader {
    body: BodyDataStream,
    text: String,
}

impl Reader {
    async fn open(service: &Service) -> Self {
        let response = service.send(&service.reader, "GET", PATH, Body::empty()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next event's name and data; none at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (name, data) = event.split_once('\n').unwrap();
                let name = name.strip_prefix("event: ").unwrap().to_owned();
                let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                self.text = rest.to_owned();
                return Some((name, data));
            }
            let bytes = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The next `n` events, all of rows, by the minute of their row.
    async fn minutes(&mut self, n: usize) -> Vec<u64> {
        let mut minutes = Vec::new();
        for _ in 0..n {
            let (name, data) = self.next().await.unwrap();
            assert_eq!(name, "data", "{data}");
            minutes.push(data["open"].as_u64().unwrap());
        }
        minutes
    }
}

#[tokio::test]
async fn a_stream_says_hello_replays_and_goes_on_live() {
    let service = Service::with_bars(120).await;
    let mut reader = Reader::open(&service).await;
    let hello = json!({"dataset_id": 1, "message": "Connected to real-time stream"});
    assert_eq!(reader.next().await.unwrap(), ("connected".to_owned(), hello));
    assert_eq!(reader.minutes(100).await, (20..120).collect::<Vec<_>>(), "oldest first");
    service.insert(vec![bar(120), bar(121)]).await;
    service.insert(vec![bar(5)]).await;
    assert_eq!(reader.minutes(3).await, [120, 121, 5], "a late row is new, too");
    let row = json!({"close": 122.5, "high": 123, "low": 121, "open": 122,
        "timestamp": moment(122), "volume": 2});
    service.insert(vec![bar(122)]).await;
    assert_eq!(reader.next().await.unwrap(), ("data".to_owned(), row));
}

#[tokio::test]
async fn heartbeats_come_every_thirty_seconds() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    reader.next().await.unwrap();
    reader.minutes(1).await;
    tokio::time::pause();
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let want = json!({"timestamp": service.clock.now().to_string()});
        assert_eq!(reader.next().await.unwrap(), ("heartbeat".to_owned(), want));
        let waited = before.elapsed();
        assert!(waited > Duration::from_secs(25) && waited < Duration::from_secs(31), "{waited:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_at_the_first_heartbeat_after_its_key_is_revoked() {
    let mut service = Service::with_bars(1).await;
    service.app.heartbeat_every = Duration::from_millis(20);
    service.router = router(service.app.clone());
    let mut reader = Reader::open(&service).await;
    assert_eq!(reader.next().await.unwrap().0, "connected");
    assert_eq!(reader.next().await.unwrap().0, "data");
    assert_eq!(reader.next().await.unwrap().0, "heartbeat");
    service.app.accounts.renew_key("reader").await.unwrap();
    while let Some((name, _)) = reader.next().await {
        assert_eq!(name, "heartbeat");
    }
}

#[tokio::test]
async fn rows_that_are_inserted_meanwhile_come_once() {
    let service = Service::with_bars(1).await;
    let writer = async {
        for minute in 1..60 {
            service.insert(vec![bar(minute)]).await;
        }
    };
    let readers = async {
        let mut all = Vec::new();
        for _ in 0..6 {
            let mut reader = Reader::open(&service).await;
            reader.next().await.unwrap();
            all.push(reader);
        }
        all
    };
    let ((), readers) = tokio::join!(writer, readers);
    for mut reader in readers {
        assert_eq!(reader.minutes(60).await, (0..60).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_off() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    for minute in 0..=LAG_FRAMES {
        service.insert(vec![bar(minute)]).await;
    }
    reader.next().await.unwrap();
    reader.minutes(1).await;
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn streams_end_when_the_service_stops() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    reader.next().await.unwrap();
    reader.minutes(1).await;
    service.group.stop();
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn the_key_may_be_in_the_query_here_and_nowhere_else() {
    let service = Service::with_bars(1).await;
    let query = format!("api_key={}", service.reader);
    let stream = service.send("", "GET", &format!("{PATH}&{query}"), Body::empty()).await;
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(service.get("", &format!("/api/rows/?dataset=1&{query}")).await.0, 401);
    assert_eq!(service.get("", &format!("{PATH}&api_key=wrong")).await.0, 401);
}
