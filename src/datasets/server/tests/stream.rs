//! Tests of `GET /api/rows/stream/`.

use std::collections::VecDeque;

use axum::body::BodyDataStream;
use futures::StreamExt as _;

use super::*;
use crate::hub::LAG_FRAMES;
use crate::server::stream::NO_ACCESS;

const PATH: &str = "/api/rows/stream/?dataset=1";

/// A stream from which a test reads event by event.
pub(super) struct Reader {
    body: BodyDataStream,
    /// Received events that were not read yet.
    events: VecDeque<String>,
    /// Text that was received after these events: the beginning of the next event.
    text: String,
    /// Id of the latest event with an id.
    pub(super) last_id: Option<String>,
}

impl Reader {
    async fn open(service: &Service) -> Self {
        Self::after(service, None).await
    }

    /// Opens a stream that resumes after the event `last_id`, if given. Reads its first event.
    async fn after(service: &Service, last_id: Option<&str>) -> Self {
        let mut reader = Self::of(&service.router, &service.reader, PATH, last_id).await;
        assert_eq!(reader.next().await.unwrap().0, "connected");
        reader
    }

    /// Opens the stream at `path` with the API key `key`. The stream resumes after the event `last_id`,
    /// if given.
    pub(super) async fn of(router: &Router, key: &str, path: &str, last_id: Option<&str>) -> Self {
        let mut request = Request::builder().uri(path).header("X-API-Key", key);
        if let Some(last_id) = last_id {
            request = request.header("Last-Event-ID", last_id);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        Self::from_body(response.into_body())
    }

    fn from_body(body: Body) -> Self {
        let body = body.into_data_stream();
        Self { body, events: VecDeque::new(), text: String::new(), last_id: None }
    }

    /// Returns the name and the data of the next event, or `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(event) = self.events.pop_front() {
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let name = field("event: ").unwrap().to_owned();
                let data = serde_json::from_str(field("data: ").unwrap()).unwrap();
                let id = field("id: ").map(str::to_owned);
                let has_id = ["data", "correction", "deletion"].contains(&name.as_str());
                assert_eq!(id.is_some(), has_id, "{event}");
                self.last_id = id.or(self.last_id.take());
                return Some((name, data));
            }
            let bytes = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
            self.events = self.text.split("\n\n").map(str::to_owned).collect();
            self.text = self.events.pop_back().unwrap();
        }
    }

    /// Reads the last event of the stream and returns the reason in it.
    pub(super) async fn read_end(&mut self) -> String {
        let (name, data) = self.next().await.unwrap();
        assert_eq!(name, "end", "{data}");
        assert_eq!(self.next().await, None);
        data["reason"].as_str().unwrap().to_owned()
    }

    /// Reads the next `n` events, all of which must be rows. Returns their minutes.
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
async fn stream_begins_with_a_replay_and_continues_with_new_rows() {
    let service = Service::with_bars(120).await;
    let mut reader = Reader::of(&service.router, &service.reader, PATH, None).await;
    let hello = json!({"dataset_id": 1, "message": "Connected to real-time stream"});
    assert_eq!(reader.next().await.unwrap(), ("connected".to_owned(), hello));
    assert_eq!(reader.minutes(100).await, (20..120).collect::<Vec<_>>(), "oldest first");
    service.insert(vec![bar(120), bar(121)]).await;
    service.insert(vec![bar(5)]).await;
    assert_eq!(reader.minutes(3).await, [120, 121, 5], "a late row is new, too");
    let row = json!({"close": 122.5, "high": 123, "low": 121, "open": 122,
        "timestamp": timestamp_of(122), "volume": 2});
    service.insert(vec![bar(122)]).await;
    assert_eq!(reader.next().await.unwrap(), ("data".to_owned(), row));
}

#[tokio::test]
async fn stream_contains_only_the_selected_columns() {
    let service = Service::with_bars(1).await;
    let path = format!("{PATH}&columns=close,volume");
    let mut reader = Reader::of(&service.router, &service.reader, &path, None).await;
    assert_eq!(reader.next().await.unwrap().0, "connected");
    let row = |minute: usize, close: f64| {
        let data = json!({"close": close, "timestamp": timestamp_of(minute), "volume": 2});
        Some(("data".to_owned(), data))
    };
    assert_eq!(reader.next().await, row(0, 0.5));
    service.insert(vec![bar(1), bar(2)]).await;
    assert_eq!(reader.next().await, row(1, 1.5));
    assert_eq!(reader.next().await, row(2, 2.5));
}

#[tokio::test]
async fn heartbeats_are_sent_every_thirty_seconds() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    reader.minutes(1).await;
    tokio::time::pause();
    for _ in 0..3 {
        let before = tokio::time::Instant::now();
        let want = json!({"timestamp": "2026-07-30T22:00:00Z"});
        assert_eq!(reader.next().await.unwrap(), ("heartbeat".to_owned(), want));
        let waited = before.elapsed();
        assert!(waited > Duration::from_secs(25) && waited < Duration::from_secs(31), "{waited:?}");
    }
}

#[tokio::test]
async fn stream_ends_at_the_first_heartbeat_after_its_key_is_revoked() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    assert_eq!(reader.minutes(1).await, [0]);
    tokio::time::pause();
    assert_eq!(reader.next().await.unwrap().0, "heartbeat");
    tokio::time::resume();
    service.accounts.renew_key("reader").await.unwrap();
    tokio::time::pause();
    let end = reader.next().await.unwrap();
    let want = json!({"dataset_id": 1, "reason": "the key is revoked"});
    assert_eq!(end, ("end".to_owned(), want));
    assert_eq!(reader.next().await, None);
}

#[tokio::test]
async fn rows_are_not_sent_after_the_key_of_a_stream_is_revoked() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    assert_eq!(reader.minutes(1).await, [0]);
    service.accounts.renew_key("reader").await.unwrap();
    service.insert(vec![bar(1)]).await;
    assert_eq!(reader.read_end().await, "the key is revoked");
}

#[tokio::test]
async fn stream_ends_immediately_when_its_dataset_is_hidden_or_deleted() {
    for path in ["/api/datasets/1/tags/public/", "/api/datasets/1/"] {
        let service = Service::with_bars(1).await;
        let mut reader = Reader::open(&service).await;
        reader.minutes(1).await;
        assert_eq!(service.delete(&service.owner, path).await.0, 200);
        // No heartbeat precedes the end of the stream, so it ended within 30 seconds.
        assert_eq!(reader.read_end().await, NO_ACCESS);
    }
}

#[tokio::test]
async fn streams_of_a_key_end_immediately_when_its_tag_is_revoked() {
    let service = Service::start().await;
    let columns = json!([{"name": "open", "dtype": "float"}]);
    let body = json!({"name": "a", "tags": ["members"], "columns": columns});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &body).await.0, 201);
    let holders = "/api/tags/members/holders/";
    assert_eq!(service.post(&service.owner, holders, &json!({"key": 2})).await.0, 201);
    service.insert(vec![json!({"timestamp": timestamp_of(0), "open": 0})]).await;
    let mut reader = Reader::open(&service).await;
    reader.minutes(1).await;
    // A stream that the reader has not read yet is closed, too.
    let mut behind = Reader::open(&service).await;
    let own = service.send(&service.owner, "GET", PATH, Body::empty()).await;
    assert_eq!(service.delete(&service.owner, &format!("{holders}2/")).await.0, 200);
    assert_eq!(
        (reader.read_end().await.as_str(), behind.read_end().await.as_str()),
        (NO_ACCESS, NO_ACCESS)
    );
    service.insert(vec![json!({"timestamp": timestamp_of(1), "open": 1})]).await;
    let mut own = Reader::from_body(own.into_body());
    own.next().await.unwrap();
    assert_eq!(own.minutes(2).await, [0, 1], "the owner's goes on");
}

#[tokio::test]
async fn rows_inserted_during_the_replay_are_sent_once() {
    let service = Service::with_bars(1).await;
    let writer = async {
        for minute in 1..60 {
            service.insert(vec![bar(minute)]).await;
        }
    };
    let readers = async {
        let mut all = Vec::new();
        for _ in 0..6 {
            all.push(Reader::open(&service).await);
        }
        all
    };
    let ((), readers) = tokio::join!(writer, readers);
    for mut reader in readers {
        assert_eq!(reader.minutes(60).await, (0..60).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn stream_of_a_stalled_reader_is_closed() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    reader.minutes(1).await;
    for minute in 0..=LAG_FRAMES {
        service.insert(vec![bar(minute)]).await;
    }
    let reason = reader.read_end().await;
    assert!(reason.contains("1 batches behind") && reason.contains("Last-Event-ID"), "{reason}");
}

#[tokio::test]
async fn deletions_and_access_checks_do_not_count_as_lag() {
    let service = Service::with_bars(4).await;
    let tag = json!({"tag_name": "mine"});
    assert_eq!(service.post(&service.owner, "/api/datasets/1/tags/", &tag).await.0, 201);
    let mut reader = Reader::open(&service).await;
    reader.minutes(4).await;
    for _ in 0..=LAG_FRAMES {
        delete_minutes(&service, 0, 0).await;
        service.delete(&service.owner, "/api/tags/mine/holders/2/").await;
    }
    service.insert(vec![bar(4)]).await;
    assert_eq!(reader.minutes(1).await, [4]);
}

#[tokio::test]
async fn streams_end_when_the_service_stops() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::open(&service).await;
    reader.minutes(1).await;
    service.group.stop();
    assert_eq!(reader.read_end().await, "the service is stopping; connect again");
}

#[tokio::test]
async fn stream_limit_of_a_key_is_checked_before_the_response() {
    let mut service = Service::with_bars(1).await;
    let streams = StreamLimit::new(8);
    service.app = App::from(Shared { streams, ..Shared::clone(&service.app) });
    service.router = router(Arc::clone(&service.app), None, &[]);
    let open = async |key: &str| service.send(key, "GET", PATH, Body::empty()).await;
    let mut readers = vec![open(&service.reader).await, open(&service.reader).await];
    let rejected = open(&service.reader).await;
    assert_eq!(rejected.status(), 503);
    assert!(rejected.headers().contains_key("retry-after"));
    assert_eq!(open(&service.owner).await.status(), 200, "another key has its own");
    readers.pop();
    assert_eq!(open(&service.reader).await.status(), 200);
}

#[tokio::test]
async fn accepted_stream_holds_its_permit_until_it_closes() {
    let mut service = Service::with_bars(1).await;
    let hub = crate::hub::Hub::new(3, crate::hub::Writers::One);
    let datasets = Datasets { hub, ..service.app.datasets.clone() };
    service.app = App::from(Shared { datasets, ..Shared::clone(&service.app) });
    service.router = router(Arc::clone(&service.app), None, &[]);
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(Reader::of(&service.router, &service.reader, PATH, None).await);
    }
    assert_eq!(service.send(&service.reader, "GET", PATH, Body::empty()).await.status(), 503);
    for reader in &mut readers {
        assert_eq!(reader.next().await.unwrap().0, "connected");
        assert_eq!(reader.minutes(1).await, [0]);
    }
}

#[tokio::test]
async fn stream_response_disables_buffering_by_proxies() {
    let service = Service::with_bars(1).await;
    let response = service.send(&service.reader, "GET", PATH, Body::empty()).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("x-accel-buffering"), "no");
    assert_eq!(header("cache-control"), "no-cache");
}

#[tokio::test]
async fn api_key_in_the_query_is_accepted_only_for_streams() {
    let service = Service::with_bars(1).await;
    let query = format!("api_key={}", service.reader);
    let stream = service.send("", "GET", &format!("{PATH}&{query}"), Body::empty()).await;
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(service.get("", &format!("/api/rows/?dataset=1&{query}")).await.0, 401);
    assert_eq!(service.get("", &format!("{PATH}&api_key=wrong")).await.0, 401);
}

#[tokio::test]
async fn resumed_reader_gets_late_and_corrected_rows() {
    let service = Service::with_bars(120).await;
    let mut reader = Reader::open(&service).await;
    reader.minutes(100).await;
    let last_id = reader.last_id.clone();
    assert!(last_id.as_deref().unwrap().starts_with("2026-07-29T01:59:00Z:"), "{last_id:?}");
    drop(reader);
    service.insert(vec![bar(120), bar(121)]).await;
    service.insert(vec![bar(7), bar(119)]).await;
    // More rows than are read at a time.
    service.insert((200..9_200).map(bar).collect()).await;
    service.insert(vec![bar(121)]).await;
    let mut reader = Reader::after(&service, last_id.as_deref()).await;
    let mut want = vec![120, 7, 119];
    want.extend(200..9_200);
    want.push(121);
    assert_eq!(reader.minutes(want.len()).await, want, "each once, as it is now");
    service.insert(vec![bar(9_200)]).await;
    assert_eq!(reader.minutes(1).await, [9_200]);
    let last_id = reader.last_id.clone();
    let mut again = Reader::after(&service, last_id.as_deref()).await;
    service.insert(vec![bar(9_201)]).await;
    assert_eq!(again.minutes(1).await, [9_201], "nothing is missed, and nothing comes twice");
}

#[tokio::test]
async fn reader_can_resume_after_any_event() {
    let service = Service::with_bars(40).await;
    service.insert(vec![bar(3), bar(20)]).await;
    for n_read in 1..40 {
        let mut reader = Reader::open(&service).await;
        let mut seen = reader.minutes(n_read).await;
        let last_id = reader.last_id.clone();
        let mut reader = Reader::after(&service, last_id.as_deref()).await;
        service.insert(vec![bar(1000)]).await;
        loop {
            let minute = reader.minutes(1).await[0];
            if minute == 1000 {
                break;
            }
            seen.push(minute);
        }
        seen.sort_unstable();
        seen.dedup();
        let missing: Vec<_> = (0..40).filter(|minute| !seen.contains(minute)).collect();
        assert_eq!(missing, Vec::<u64>::new(), "after {n_read} rows");
        service.insert(vec![bar(1000)]).await;
    }
}

#[tokio::test]
async fn stream_sends_a_reset_and_the_newest_rows_if_it_cannot_resume() {
    let service = Service::with_bars(2).await;
    let mut reader = Reader::open(&service).await;
    reader.minutes(2).await;
    let last_id = reader.last_id.clone().unwrap();
    let (rest, number) = last_id.rsplit_once('-').unwrap();
    assert_eq!(number, "2");
    let later = format!("{rest}-1000");
    let elsewhere = last_id.replace(rest.rsplit_once(':').unwrap().1, "0");
    for unknown in ["nonsense", later.as_str(), elsewhere.as_str()] {
        let mut reader = Reader::after(&service, Some(unknown)).await;
        let (name, data) = reader.next().await.unwrap();
        assert_eq!((name.as_str(), &data["dataset_id"]), ("reset", &json!(1)), "{unknown}");
        assert_eq!(reader.minutes(2).await, [0, 1]);
        service.insert(vec![bar(1)]).await;
        assert_eq!(reader.minutes(1).await, [1]);
    }
    let query = format!("{PATH}&last_event_id={last_id}&api_key={}", service.reader);
    let response = service.send("", "GET", &query, Body::empty()).await;
    let mut reader = Reader::from_body(response.into_body());
    reader.next().await.unwrap();
    assert_eq!(reader.minutes(1).await, [1], "by a parameter, too");
}

/// Path of the stream with changes.
const CHANGES: &str = "/api/rows/stream/?dataset=1&changes=true";

/// Formats an event of a stream with changes.
pub(super) fn brief((name, data): (String, Value)) -> String {
    match name.as_str() {
        "deletion" => format!("-{}..{} @{}", data["start"], data["end"], data["revision"]),
        "data" => format!("+{}", data["close"]),
        "correction" => format!("~{}", data["close"]),
        _ => name,
    }
}

/// Deletes the bars of some minutes.
async fn delete_minutes(service: &Service, first: usize, last: usize) -> u64 {
    let range = format!("start={}&end={}", timestamp_of(first), timestamp_of(last));
    let (status, body) =
        service.delete(&service.owner, &format!("/api/rows/?dataset=1&{range}")).await;
    assert_eq!(status, 200, "{body}");
    body["deleted"].as_u64().unwrap()
}

#[tokio::test]
async fn stream_of_changes_sends_deletions_and_marks_corrections() {
    let service = Service::with_bars(4).await;
    let mut reader = Reader::of(&service.router, &service.reader, CHANGES, None).await;
    let mut plain = Reader::open(&service).await;
    assert_eq!(plain.minutes(4).await, [0, 1, 2, 3]);
    let mut got = Vec::new();
    for _ in 0..5 {
        got.push(brief(reader.next().await.unwrap()));
    }
    assert_eq!(got, ["connected", "+0.5", "+1.5", "+2.5", "+3.5"]);
    service.insert(vec![bar(4)]).await;
    assert_eq!(brief(reader.next().await.unwrap()), "+4.5");
    service.insert(vec![bar(2), bar(5)]).await;
    assert_eq!(brief(reader.next().await.unwrap()), "~2.5");
    assert_eq!(brief(reader.next().await.unwrap()), "+5.5");
    assert_eq!(delete_minutes(&service, 1, 4).await, 4);
    let range = format!("-\"{}\"..\"{}\" @4", timestamp_of(1), timestamp_of(4));
    assert_eq!(brief(reader.next().await.unwrap()), range);
    service.insert(vec![bar(3)]).await;
    assert_eq!(brief(reader.next().await.unwrap()), "+3.5", "the deleted row is not replaced");
    let (id, before) = (model::dataset::DatasetId::new(1).unwrap(), timestamp_of(5));
    assert!(service.app.datasets.prune(id, before.parse().unwrap()).await.unwrap() > 0);
    let pruned = brief(reader.next().await.unwrap());
    assert!(pruned.starts_with("-null..") && pruned.ends_with(" @6"), "{pruned}");
    assert_eq!(plain.minutes(4).await, [4, 2, 5, 3], "without deletions");
    let unclear = service.get(&service.reader, &format!("{PATH}&changes=maybe")).await;
    assert_eq!(unclear.0, 400);
    assert!(unclear.1.to_string().contains("changes must be true or false"), "{unclear:?}");
}

#[tokio::test]
async fn stream_of_changes_resumes_after_any_event() {
    let service = Service::with_bars(3).await;
    let open = async |last_id: Option<&str>| {
        let mut reader = Reader::of(&service.router, &service.reader, CHANGES, last_id).await;
        assert_eq!(reader.next().await.unwrap().0, "connected");
        reader
    };
    let mut reader = open(None).await;
    for _ in 0..3 {
        reader.next().await.unwrap();
    }
    let start = reader.last_id.clone().unwrap();
    drop(reader);
    service.insert(vec![bar(1), bar(3), bar(4), bar(5)]).await;
    delete_minutes(&service, 4, 4).await;
    delete_minutes(&service, 0, 0).await;
    service.insert(vec![bar(0), bar(6)]).await;
    service.insert(vec![bar(6)]).await;
    delete_minutes(&service, 9, 9).await;
    let range = |minute, revision| {
        let at = timestamp_of(minute);
        format!("-\"{at}\"..\"{at}\" @{revision}")
    };
    let want = [
        "~1.5".to_owned(),
        "+3.5".to_owned(),
        "+5.5".to_owned(),
        range(4, 3),
        range(0, 4),
        "+0.5".to_owned(),
        "~6.5".to_owned(),
        range(9, 7),
    ];
    for n_read in 0..=want.len() {
        let (mut got, mut last_id) = (Vec::new(), start.clone());
        let mut reader = open(Some(&last_id)).await;
        while got.len() < n_read {
            got.push(brief(reader.next().await.unwrap()));
            last_id = reader.last_id.clone().unwrap();
        }
        let mut reader = open(Some(&last_id)).await;
        while got.len() < want.len() {
            got.push(brief(reader.next().await.unwrap()));
        }
        assert_eq!(got, want, "interrupted after {n_read} events");
    }
    // An event id of a stream without changes does not contain the position among the deletions, so a
    // stream with changes cannot resume after it.
    let mut plain = Reader::open(&service).await;
    plain.minutes(1).await;
    let mut reader = open(plain.last_id.as_deref()).await;
    assert_eq!(reader.next().await.unwrap().0, "reset");
    let mut plain = Reader::after(&service, Some(&start)).await;
    assert_eq!(plain.minutes(5).await, [1, 3, 5, 0, 6]);
}

#[tokio::test]
async fn stream_of_changes_catches_up_in_steps() {
    let service = Service::with_bars(1).await;
    let mut reader = Reader::of(&service.router, &service.reader, CHANGES, None).await;
    for _ in 0..2 {
        reader.next().await.unwrap();
    }
    let last_id = reader.last_id.clone();
    let mut want = Vec::new();
    for round in 0..150 {
        service.insert(vec![bar(round), bar(1000)]).await;
        delete_minutes(&service, 500, 500).await;
        want.push(if round == 0 { "~0.5".to_owned() } else { format!("+{round}.5") });
        if round == 149 {
            want.push("~1000.5".to_owned());
        }
        want.push(format!("-{0}..{0} @{1}", json!(timestamp_of(500)), 2 * round + 3));
    }
    service.insert((2000..11_000).map(bar).collect()).await;
    want.extend((2000..11_000).map(|minute| format!("+{minute}.5")));
    let mut reader =
        Reader::of(&service.router, &service.reader, CHANGES, last_id.as_deref()).await;
    assert_eq!(reader.next().await.unwrap().0, "connected");
    for want in want {
        assert_eq!(brief(reader.next().await.unwrap()), want);
    }
}
