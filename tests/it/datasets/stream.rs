//! `GET /api/rows/stream/` of the load of the machine.

use std::time::Duration;

use reqwest::Response;
use serde_json::Value;
use tokio::time::timeout;

use crate::support::up::Up;

/// Maximum time until the next event. Heartbeats are sent every 30 seconds.
const EVENT_WITHIN: Duration = Duration::from_secs(40);

/// One event of a stream.
#[derive(Debug)]
struct Event {
    /// Name of the event. Clients use `message` if the event does not have a name.
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
async fn demo_dataset_of_the_machine_load_gets_a_row_each_second() {
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
