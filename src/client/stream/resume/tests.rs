use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Query;
use axum::http::HeaderMap;
use axum::response::sse::{self, Sse as Events};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use task::group::Group;
use tokio::sync::mpsc;

use super::*;
use crate::tests::fake::Fake;
use crate::transport::Transport;

/// Time limit of each step, far longer than a step needs.
const SOON: Duration = Duration::from_secs(20);

fn at(minute: usize) -> String {
    format!("2026-07-30T{:02}:{:02}:00Z", minute / 60, minute % 60)
}

fn timestamp(minute: usize) -> Timestamp {
    at(minute).parse().unwrap()
}

fn data(minute: usize) -> sse::Event {
    let data = format!(r#"{{"timestamp":"{}","close":{minute}}}"#, at(minute));
    sse::Event::default().event("data").data(data)
}

fn corrected() -> String {
    format!(r#"{{"timestamp":"{}","close":7.5}}"#, at(1))
}

fn deletion(start: Option<usize>, end: usize) -> sse::Event {
    let data = json!({"dataset_id": 1, "start": start.map(at), "end": at(end), "revision": 3});
    sse::Event::default().event("deletion").data(data.to_string())
}

fn answer(events: Vec<sse::Event>) -> Response {
    let hello = sse::Event::default().event("connected").data("{}");
    let events = std::iter::once(hello).chain(events).map(Ok::<_, Infallible>);
    Events::new(futures::stream::iter(events)).into_response()
}

/// Returns a page of a dataset that has one row per minute, up to minute 100.
async fn rows(Query(query): Query<BTreeMap<String, String>>) -> Json<serde_json::Value> {
    let timestamp = |name: &str| query[name].parse::<Timestamp>().unwrap();
    let (after, end) = (timestamp("after"), timestamp("end"));
    let wanted: Vec<_> =
        (0..100).map(at).filter(|at| (after + STEP..=end).contains(&at.parse().unwrap())).collect();
    let row = |at: &String| {
        let minute = at.parse::<Timestamp>().unwrap().seconds() / 60 % 1440;
        json!({"id": 1, "dataset_id": 1, "timestamp": at, "created_at": at,
            "values": {"close": minute}})
    };
    // A page has only two rows, so that several pages are needed.
    let results: Vec<_> = wanted.iter().take(2).map(row).collect();
    let next = (wanted.len() > 2).then_some("more");
    Json(json!({"count": 0, "next": next, "previous": null, "results": results}))
}

struct Watch {
    events: mpsc::Receiver<RowEvent>,
    _group: Group,
    _fake: Fake,
}

/// Follows a service that sends `lines(n, id)` on its `n`th connection. `id` is the last event id that
/// the client sent.
async fn watch(
    resume_from: ResumeFrom,
    lines: impl Fn(usize, Option<&str>) -> Response + Clone + Send + Sync + 'static,
) -> Watch {
    let n_lines = Arc::new(AtomicUsize::new(0));
    let serve = move |headers: HeaderMap| {
        let id = headers.get("last-event-id").map(|id| id.to_str().unwrap());
        let answer = lines(n_lines.fetch_add(1, Ordering::SeqCst), id);
        async move { answer }
    };
    let router = Router::new().route(paths::ROWS_STREAM, get(serve)).route(paths::ROWS, get(rows));
    let fake = Fake::serve(router).await;
    let datasets = Datasets::new(Transport::new(&fake.address, None).unwrap());
    let (sender, events) = mpsc::channel(8);
    let group = Group::default();
    group.spawn("follow", follow(datasets, DatasetId::new(1).unwrap(), resume_from, sender));
    Watch { events, _group: group, _fake: fake }
}

impl Watch {
    /// Collects the minutes of all rows until the connection is lost for the `n`th time. Also returns
    /// true if there was a reset.
    async fn minutes(&mut self, n: usize) -> (Vec<i64>, bool) {
        let (mut minutes, mut n_lost, mut is_reset) = (Vec::new(), 0, false);
        while n_lost < n {
            match timeout(SOON, self.events.recv()).await.expect("an event").expect("a stream") {
                StreamEvent::Item(RowBatch { rows, .. }) => {
                    minutes.extend(rows.iter().map(|row| row.timestamp.seconds() / 60 % 1440));
                }
                StreamEvent::Lost { .. } => n_lost += 1,
                StreamEvent::Reset => is_reset = true,
                _ => {}
            }
        }
        (minutes, is_reset)
    }
}

#[tokio::test]
async fn gap_longer_than_the_replay_is_filled_by_queries() {
    let mut watch = watch(ResumeFrom::default(), |n, _| match n {
        0 => answer(vec![data(1), data(2)]),
        _ => answer(vec![data(8), data(9)]),
    })
    .await;
    assert_eq!(watch.minutes(2).await.0, (1..=9).collect::<Vec<_>>());
}

#[tokio::test]
async fn rows_that_the_reader_already_has_are_not_delivered() {
    let resume_from = ResumeFrom { newest: Some(timestamp(3)), ..ResumeFrom::default() };
    let mut between = watch(resume_from.clone(), |_, _| answer(vec![data(7)])).await;
    assert_eq!(between.minutes(1).await.0, [4, 5, 6, 7]);
    let mut replayed =
        watch(resume_from.clone(), |_, _| answer(vec![data(2), data(3), data(4)])).await;
    assert_eq!(replayed.minutes(1).await.0, [4]);
    // An old row after the replay counts as a late row and is delivered.
    let mut late = watch(resume_from.clone(), |_, _| answer(vec![data(4), data(5), data(1)])).await;
    assert_eq!(late.minutes(1).await.0, [4, 5, 1]);
    let resume_from = ResumeFrom { repeats: Repeats::Deliver, ..resume_from };
    let mut given = watch(resume_from, |_, _| answer(vec![data(2), data(3), data(4)])).await;
    assert_eq!(given.minutes(1).await.0, [2, 3, 4]);
}

#[tokio::test]
async fn changes_are_delivered_in_separate_batches() {
    let lines = |n, id: Option<&str>| match (n, id) {
        (0, None) => answer(vec![
            data(1).id("a"),
            data(2).id("b"),
            sse::Event::default().event("correction").data(corrected()).id("c"),
            deletion(Some(1), 2).id("d"),
            data(2).id("e"),
            deletion(None, 5).id("f"),
        ]),
        (1, Some("f")) => answer(vec![data(2).id("g")]),
        other => panic!("{other:?}"),
    };
    let resume_from = ResumeFrom { changes: true, ..ResumeFrom::default() };
    let mut watch = watch(resume_from, lines).await;
    let mut got = Vec::new();
    while got.last() != Some(&(vec![2], BatchKind::Rows, Some("g".to_owned()))) {
        if let StreamEvent::Item(RowBatch { rows, last_event_id, kind }) =
            timeout(SOON, watch.events.recv()).await.expect("an event").expect("a stream")
        {
            let minutes: Vec<_> =
                rows.iter().map(|row| row.timestamp.seconds() / 60 % 1440).collect();
            got.push((minutes, kind, last_event_id));
        }
    }
    let deleted = |start: Option<usize>, end| BatchKind::Deletion {
        start: start.map(timestamp),
        end: timestamp(end),
    };
    let id = |id: &str| Some(id.to_owned());
    // Rows that arrive apart are separate batches.
    let rows: Vec<_> = got.iter().flat_map(|(minutes, ..)| minutes.clone()).collect();
    assert_eq!(rows, [1, 2, 1, 2, 2], "a deleted row is new when it comes again");
    let others = got.iter().filter(|(_, kind, _)| *kind != BatchKind::Rows).cloned();
    let want = [
        (vec![1], BatchKind::Corrections, id("c")),
        (vec![], deleted(Some(1), 2), id("d")),
        (vec![], deleted(None, 5), id("f")),
    ];
    assert_eq!(others.collect::<Vec<_>>(), want);
}

#[tokio::test]
async fn reconnect_resumes_after_last_event_id() {
    let lines = |n, id: Option<&str>| match (n, id) {
        (0, None) => answer(vec![data(1).id("a"), data(2).id("b")]),
        (1, Some("b")) => answer(vec![data(9).id("c"), data(0).id("d")]),
        (2, Some("d")) => {
            answer(vec![sse::Event::default().event("reset").data("{}"), data(12).id("e")])
        }
        other => panic!("{other:?}"),
    };
    let mut watch = watch(ResumeFrom::default(), lines).await;
    assert_eq!(watch.minutes(2).await, (vec![1, 2, 9, 0], false));
    // The service does not know the event id, so the rows after the latest row are read in pages.
    assert_eq!(watch.minutes(1).await, (vec![10, 11, 12], true));
}
