use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::response::sse::{self, Sse as Events};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use model::dataset::DatasetId;
use task::group::Group;
use wire::paths;

use super::resume::{ResumeFrom, RowBatch, RowEvent, follow};
use super::*;
use crate::datasets::Datasets;
use crate::tests::fake::Fake;
use crate::transport::Transport;

/// Time limit of each step, far longer than a step needs.
const SOON: Duration = Duration::from_secs(20);

fn row(minute: u32, close: f64) -> sse::Event {
    let data = format!(r#"{{"timestamp":"2026-07-30T21:{minute:02}:00Z","close":{close}}}"#);
    sse::Event::default().event("data").data(data)
}

fn connected() -> sse::Event {
    sse::Event::default().event("connected").data(r#"{"dataset_id":1,"message":"hello"}"#)
}

fn answer(events: Vec<sse::Event>) -> Response {
    let events = futures::stream::iter(events).map(Ok::<_, Infallible>);
    Events::new(events).into_response()
}

/// Follows a service that sends `lines(n)` on its `n`th connection.
async fn watch(lines: impl Fn(usize) -> Response + Clone + Send + Sync + 'static) -> Watch {
    let n_lines = Arc::new(AtomicUsize::new(0));
    let serve = move || {
        let answer = lines(n_lines.fetch_add(1, Ordering::SeqCst));
        async move { answer }
    };
    let fake = Fake::serve(Router::new().route(paths::ROWS_STREAM, get(serve))).await;
    let datasets = Datasets::new(Transport::new(&fake.address, None).unwrap());
    let (sender, events) = mpsc::channel(8);
    let group = Group::default();
    group.spawn(
        "follow",
        follow(datasets, DatasetId::new(1).unwrap(), ResumeFrom::default(), sender),
    );
    Watch { events, group, _fake: fake }
}

struct Watch {
    events: mpsc::Receiver<RowEvent>,
    group: Group,
    _fake: Fake,
}

impl Watch {
    /// Waits for the next event and returns it as text.
    async fn next(&mut self) -> String {
        match timeout(SOON, self.events.recv()).await.expect("an event").expect("a stream") {
            StreamEvent::Connected => "connected".to_owned(),
            StreamEvent::Heartbeat => "heartbeat".to_owned(),
            StreamEvent::Reset => "reset".to_owned(),
            StreamEvent::NotServed => "not served".to_owned(),
            StreamEvent::Lost { why, .. } => format!("lost: {}", why.why()),
            StreamEvent::Item(RowBatch { rows, .. }) => {
                let rows = rows.iter().map(|row| {
                    let minute = (row.timestamp.seconds() / 60) % 60;
                    format!(" {minute}={}", row.values["close"].as_f64().unwrap())
                });
                format!("rows{}", rows.collect::<String>())
            }
        }
    }

    /// Checks the next events. Rows may be split into batches differently, so the last expected event
    /// must not be a batch.
    async fn check(&mut self, want: &[&str]) {
        let mut seen: Vec<String> = Vec::new();
        while seen.len() < want.len() {
            let next = self.next().await;
            match (next.strip_prefix("rows"), seen.last_mut()) {
                (Some(more), Some(rows)) if rows.starts_with("rows") => rows.push_str(more),
                _ => seen.push(next),
            }
        }
        assert_eq!(seen, want);
    }
}

#[tokio::test]
async fn replay_after_reconnect_does_not_repeat_rows() {
    let mut watch = watch(|n| match n {
        0 => answer(vec![connected(), row(1, 1.0), row(2, 2.0)]),
        _ => answer(vec![connected(), row(1, 1.0), row(2, 2.0), row(3, 3.0)]),
    })
    .await;
    watch
        .check(&[
            "connected",
            "rows 1=1 2=2",
            "lost: the service closed the connection",
            "connected",
            "rows 3=3",
            "lost: the service closed the connection",
        ])
        .await;
}

#[tokio::test]
async fn corrected_row_is_delivered() {
    let mut watch =
        watch(|_| answer(vec![connected(), row(1, 1.0), row(2, 2.0), row(1, 1.5), row(1, 1.5)]))
            .await;
    watch
        .check(&["connected", "rows 1=1 2=2 1=1.5", "lost: the service closed the connection"])
        .await;
}

#[tokio::test]
async fn refused_connection_is_reported_and_retried() {
    let mut watch = watch(|n| match n {
        0 => (StatusCode::NOT_FOUND, r#"{"error":"no such dataset: not found"}"#).into_response(),
        _ => answer(vec![connected()]),
    })
    .await;
    watch.check(&["lost: no such dataset", "connected"]).await;
}

#[tokio::test]
async fn heartbeat_after_rows_is_delivered() {
    let heartbeat = || sse::Event::default().event("heartbeat").data("{}");
    let mut watch =
        watch(move |_| answer(vec![connected(), heartbeat(), row(1, 1.0), heartbeat()])).await;
    watch.check(&["connected", "heartbeat", "rows 1=1", "heartbeat"]).await;
}

#[tokio::test]
async fn event_beyond_the_maximum_length_is_rejected() {
    let chunk = Bytes::from(vec![b'x'; 64 * 1024]);
    let mut watch = watch(move |_| {
        let chunks = futures::stream::repeat(chunk.clone()).map(Ok::<_, Infallible>);
        axum::body::Body::from_stream(chunks).into_response()
    })
    .await;
    let text = watch.next().await;
    assert!(text.contains("exceeds 33554432 bytes"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_closed_as_lost() {
    let transport = Transport::new("http://127.0.0.1:8080", None).unwrap();
    let mut lines = lines(futures::stream::pending(), transport, Arc::default());
    let error = lines.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "no response from http://127.0.0.1:8080 within 45 s");
}

#[tokio::test]
async fn stream_ends_when_receiver_is_dropped() {
    let Watch { events, group, _fake } =
        watch(|_| answer(vec![connected(), row(1, 1.0), row(2, 2.0)])).await;
    drop(events);
    timeout(SOON, group.shutdown()).await.expect("the task stops");
}

/// Connections of a service that closes each after its time, and sends no items.
struct Quiet(std::vec::IntoIter<Duration>);

impl Follow for Quiet {
    type Item = ();

    const NOT_SERVED: &'static [u16] = &[];

    async fn follow_once(
        &mut self,
        _: &mpsc::Sender<StreamEvent<()>>,
        _: &mut Backoff,
    ) -> Result<Infallible, Lost> {
        sleep(self.0.next().ok_or(Lost::Receiver)?).await;
        Err(ClientError::TooLong { limit_bytes: 1 }.into())
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_connection_that_lasted_is_retried_soon() {
    let mut lives = vec![SILENCE_MAX; 8];
    lives.push(Duration::from_hours(1));
    let (sender, mut events) = mpsc::channel(16);
    reconnect(Quiet(lives.into_iter()), sender).await;
    let mut waits = Vec::new();
    while let Some(StreamEvent::Lost { retry_in, .. }) = events.recv().await {
        waits.push(retry_in);
    }
    assert_eq!(waits.len(), 9);
    assert!(waits[7] >= RETRY_LONGEST / 2 && waits[8] <= RETRY_FIRST, "{waits:?}");
}

#[tokio::test]
async fn incomplete_lines_are_joined() {
    let transport = Transport::new("http://127.0.0.1:8080", None).unwrap();
    let chunks = ["a\nb\n", "c", "d\n"].map(|text| Ok(Bytes::from(text)));
    let lines = lines(futures::stream::iter(chunks), transport, Arc::default());
    let lines: Vec<_> = lines.map(Result::unwrap).collect().await;
    assert_eq!(lines, ["a\nb\n", "cd\n"]);
}
