//! `GET /api/rows/stream/`: sends a replay, then new rows and heartbeats.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use super::{COLUMNS, create, insert, members, minute_row};
use crate::support::up::Up;

/// Number of rows in the replay, as in the upstream dataset service.
const REPLAY_ROWS: u32 = 100;

/// Maximum time until the next event. Heartbeats are sent every 30 seconds.
const EVENT_WITHIN: Duration = Duration::from_secs(40);

/// One event of a stream.
#[derive(Debug)]
struct Event {
    /// Name of the event. Clients use `message` if the event does not have one.
    name: String,
    data: Value,
}

/// Reads the events of a stream one by one.
struct Events {
    response: Response,
    text: String,
}

impl Events {
    async fn next(&mut self) -> Event {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                // A block with only a comment has no data and is not an event.
                let Some(event) = read(&event) else { continue };
                return event;
            }
            let Ok(chunk) = timeout(EVENT_WITHIN, self.response.chunk()).await else {
                panic!("no event within {EVENT_WITHIN:?}");
            };
            let Some(chunk) = chunk.unwrap() else { panic!("the stream ended") };
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

fn read(event: &str) -> Option<Event> {
    let field = |name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.strip_prefix(' ').unwrap_or(value))
    };
    let data = serde_json::from_str(field("data")?).unwrap();
    Some(Event { name: field("event").unwrap_or("message").to_owned(), data })
}

#[tokio::test]
async fn stream_replays_follows_and_sends_heartbeats() {
    let up = Up::shared();
    let http = up.datasets();
    let dataset = create(&http, "it stream").await;
    let rows: Vec<_> = (0..REPLAY_ROWS + 20).map(minute_row).collect();
    insert(&http, dataset, &rows).await;

    let response = http.open(&format!("/api/rows/stream/?dataset={dataset}")).await;
    assert_eq!(response.status(), 200);
    let kind = response.headers()["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/event-stream"), "{kind}");
    let mut events = Events { response, text: String::new() };

    let connected = events.next().await;
    assert_eq!(connected.name, "connected");
    assert_eq!(members(&connected.data), ["dataset_id", "message"]);
    assert_eq!(connected.data["dataset_id"], dataset);
    assert!(connected.data["message"].is_string());

    // The latest hundred rows, oldest first.
    for minute in 20..REPLAY_ROWS + 20 {
        check_row(&events.next().await, minute);
    }
    for minute in REPLAY_ROWS + 20..REPLAY_ROWS + 23 {
        insert(&http, dataset, &[minute_row(minute)]).await;
        check_row(&events.next().await, minute);
    }
    let heartbeat = events.next().await;
    assert_eq!(heartbeat.name, "heartbeat");
    assert_eq!(members(&heartbeat.data), ["timestamp"]);
}

#[track_caller]
fn check_row(event: &Event, minute: u32) {
    let sent = minute_row(minute);
    assert_eq!((event.name.as_str(), &event.data["timestamp"]), ("data", &sent["timestamp"]));
    for column in COLUMNS {
        assert_eq!(event.data[column].as_f64(), sent["values"][column].as_f64(), "{column}");
    }
}

#[tokio::test]
async fn load_of_the_machine_is_sampled_each_second() {
    let up = Up::shared();
    let path = "/api/rows/stream/?dataset_name=machine_cpu";
    let mut events = Events { response: up.datasets().open(path).await, text: String::new() };
    assert_eq!(events.next().await.name, "connected");
    let mut last = String::new();
    for _ in 0..3 {
        let row = events.next().await.data;
        let (time, load) = (row["timestamp"].as_str().unwrap(), row["load_percent"].as_f64());
        assert!(time > last.as_str() && (0.0..=100.0).contains(&load.unwrap()), "{row}");
        time.clone_into(&mut last);
    }
}
