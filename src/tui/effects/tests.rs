use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::*;
use crate::event::{RunOrder, Timer};
use crate::local::{LocalError, NodeWish, Packed, Usage};
use crate::state::runs::Input;
use crate::state::services::HeadId;

/// Deadline for operations of a few milliseconds.
const SOON: Duration = Duration::from_secs(20);

/// A stack of which every part fails.
struct Broken;

#[async_trait]
impl LocalStack for Broken {
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        events.send(LocalEvent::Starting { what: "head".to_owned() }).await.unwrap();
        Err(LocalError { what: "start the head".to_owned(), source: "no port is free".into() })
    }

    async fn add(&self, _: NodeWish, _: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        Err(LocalError { what: "start a node".to_owned(), source: "no port is free".into() })
    }

    async fn end(&self, name: &str) -> Result<(), LocalError> {
        Err(LocalError { what: format!("stop {name}"), source: "there is none".into() })
    }

    async fn restart(&self, name: &str, _: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        Err(LocalError { what: format!("restart {name}"), source: "there is none".into() })
    }

    async fn find_kept(&self, _events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        Ok(())
    }

    fn keep(&self) {}

    fn usage(&self) -> Vec<(String, Usage)> {
        Vec::new()
    }

    async fn pack(&self, path: &str) -> Result<Packed, LocalError> {
        if path == "copy.wasm" {
            let (name, function_id, method) = ("copy", "bafy", "copy.wasm");
            let [name, function_id, method] = [name, function_id, method].map(str::to_owned);
            return Ok(Packed { name, function_id, method, car: Vec::new() });
        }
        Err(LocalError { what: format!("read {path}"), source: "no such file".into() })
    }

    async fn stop(&self) {}
}

struct Rig {
    runner: Runner,
    inbox: mpsc::Receiver<Event>,
    local_inbox: mpsc::Receiver<LocalEvent>,
}

fn rig() -> Rig {
    let (events, inbox) = mpsc::channel(16);
    let (local_events, local_inbox) = mpsc::channel(16);
    Rig {
        runner: Runner::new(events, local_events, Arc::new(Broken), None, UserFiles::default()),
        inbox,
        local_inbox,
    }
}

impl Rig {
    async fn next(&mut self) -> Event {
        timeout(SOON, self.inbox.recv()).await.expect("an event in time").expect("an event")
    }
}

fn order() -> RunOrder {
    let request = wire::functions::ExecuteRequest::default();
    RunOrder { head: HeadId::default(), request, input: Input::Typed, is_followed: true }
}

/// Returns an address without a listener.
async fn closed_address() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn call_without_an_address_fails_with_a_reason() {
    let mut rig = rig();
    assert_eq!(rig.runner.perform(Effect::LoadNodes(HeadId::default())), None);
    let Event::Nodes(_, Err(failure), _) = rig.next().await else { panic!("nodes") };
    assert_eq!(failure.what, "list the nodes");
    assert!(failure.why.contains("no address"), "{}", failure.why);
}

#[tokio::test]
async fn refused_call_names_the_address_and_the_cause() {
    let mut rig = rig();
    let head = closed_address().await;
    let addresses = Addresses { heads: vec![head.clone()], ..Addresses::default() };
    rig.runner.perform(Effect::Connect(addresses));
    rig.runner.perform(Effect::Execute(RunId(7), Box::new(order())));
    let Event::Executed(RunId(7), Err(failure)) = rig.next().await else { panic!("a run") };
    assert!(failure.why.starts_with(&head), "{}", failure.why);
    assert!(failure.why.to_lowercase().contains("refused"), "{}", failure.why);
}

#[tokio::test]
async fn head_gets_its_token_and_not_the_key_of_other_services() {
    let mut rig = rig();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    rig.runner.perform(Effect::Connect(Addresses {
        heads: vec![format!("http://{}", listener.local_addr().unwrap())],
        api_key: Some("UP-0123456789abcdef01234567".parse().unwrap()),
        head_token: Some("correct-horse".parse().unwrap()),
        ..Addresses::default()
    }));
    rig.runner.perform(Effect::Execute(RunId(1), Box::new(order())));
    let (stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut head = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        head.push(line.to_lowercase());
    }
    assert!(head.contains(&"authorization: bearer correct-horse".to_owned()), "{head:?}");
    assert!(!head.iter().any(|line| line.contains("key")), "{head:?}");
    rig.runner.shutdown().await;
}

#[tokio::test]
async fn head_that_stalls_delays_no_other() {
    let mut rig = rig();
    let stalled = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let prompt = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let heads = [&stalled, &prompt].map(|it| format!("http://{}", it.local_addr().unwrap()));
    rig.runner.perform(Effect::Connect(Addresses { heads: heads.into(), ..Addresses::default() }));
    let ids = [0, 1].map(|idx| HeadId { idx, generation: 1 });
    for id in ids {
        rig.runner.perform(Effect::LoadNodes(id));
    }
    let (mut stream, _) = timeout(SOON, prompt.accept()).await.unwrap().unwrap();
    let body = r#"{"nodes": []}"#;
    let length = body.len();
    let reply = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(reply.as_bytes()).await.unwrap();
    let Event::Nodes(id, Ok(nodes), _) = rig.next().await else { panic!("nodes") };
    assert_eq!((id, nodes), (ids[1], Vec::new()));
    assert!(rig.inbox.try_recv().is_err(), "the other still waits");
    rig.runner.shutdown().await;
}

#[tokio::test]
async fn datasets_are_listed_to_their_end() {
    check_listed("", &["ds_1", "ds_2"]).await;
}

#[tokio::test]
async fn datasets_are_found_by_patterns_that_the_service_does_not_know() {
    check_listed("!ds_1", &["ds_2"]).await;
    check_listed("^ds_[1-4]$ place=north", &["ds_1"]).await;
}

/// Checks the datasets listed for a search of which the service finds two, one a page.
async fn check_listed(search: &str, want: &[&str]) {
    let mut rig = rig();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let datasets = Some(format!("http://{}/api", listener.local_addr().unwrap()));
    rig.runner.perform(Effect::Connect(Addresses { datasets, ..Addresses::default() }));
    let search = crate::event::DatasetSearch::Text(search.to_owned());
    rig.runner.perform(Effect::LoadDatasets(search));
    let dataset = |id: u32| {
        let metadata =
            if id == 1 { serde_json::json!({"place": "north"}) } else { serde_json::json!({}) };
        serde_json::json!({"id": id, "name": format!("ds_{id}"), "description": "", "metadata": metadata,
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"})
    };
    let pages = [("", dataset(1), Some("next")), ("offset=1", dataset(2), None)];
    for (offset, dataset, next) in pages {
        let (mut stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
        let (reader, mut writer) = stream.split();
        let mut lines = BufReader::new(reader).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        assert!(first.contains(offset) && !first.contains("search"), "{first}");
        while lines.next_line().await.unwrap().is_some_and(|line| !line.is_empty()) {}
        let body =
            serde_json::json!({"count": 2, "next": next, "previous": null, "results": [dataset]});
        let body = body.to_string();
        let length = body.len();
        let reply = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        writer.write_all(reply.as_bytes()).await.unwrap();
    }
    let Event::Data(crate::event::DataEvent::Datasets { result, .. }) = rig.next().await else {
        panic!("datasets")
    };
    let page = result.unwrap();
    let names: Vec<&str> = page.datasets.iter().map(|it| it.name.as_str()).collect();
    assert_eq!((names.as_slice(), page.has_more), (want, false));
    rig.runner.shutdown().await;
}

#[tokio::test]
async fn content_that_the_head_holds_is_not_uploaded_again() {
    let mut rig = rig();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let head = format!("http://{}", listener.local_addr().unwrap());
    rig.runner.perform(Effect::Connect(Addresses { heads: vec![head], ..Addresses::default() }));
    rig.runner
        .perform(Effect::AddFunction { head: HeadId::default(), path: "copy.wasm".to_owned() });
    let (mut stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    assert_eq!(first, "GET /api/v1/functions HTTP/1.1", "nothing is uploaded");
    while lines.next_line().await.unwrap().is_some_and(|line| !line.is_empty()) {}
    let held = r#"{"name": "hello", "function_id": "bafy", "method": "hello.wasm", "bytes": 9}"#;
    let body = format!(r#"{{"functions": [{held}]}}"#);
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    writer.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let Event::FunctionAdded(_, Ok(function)) = rig.next().await else { panic!("a function") };
    assert_eq!((&*function.name, &*function.method), ("hello", "hello.wasm"));
}

#[tokio::test]
async fn cancelled_run_receives_no_response() {
    let mut rig = rig();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let head = format!("http://{}", listener.local_addr().unwrap());
    rig.runner.perform(Effect::Connect(Addresses { heads: vec![head], ..Addresses::default() }));
    rig.runner.perform(Effect::Execute(RunId(1), Box::new(order())));
    rig.runner.perform(Effect::Cancel(RunId(1), None));
    timeout(SOON, rig.runner.shutdown()).await.expect("every call to be gone");
    assert!(rig.inbox.try_recv().is_err());
}

#[tokio::test]
async fn stack_that_fails_to_start_is_reported() {
    let mut rig = rig();
    rig.runner.perform(Effect::StartLocal);
    let Event::LocalFailed(failure) = rig.next().await else { panic!("a failure") };
    assert_eq!(
        (failure.what.as_str(), failure.why.as_str()),
        ("start the head", "no port is free")
    );
    let first = rig.local_inbox.recv().await;
    assert_eq!(first, Some(LocalEvent::Starting { what: "head".to_owned() }));
}

#[tokio::test]
async fn requests_to_the_terminal_are_returned() {
    let mut rig = rig();
    assert_eq!(rig.runner.perform(Effect::Quit), Some(Effect::Quit));
    assert_eq!(rig.runner.perform(Effect::Redraw), Some(Effect::Redraw));
    let wait = Duration::from_secs(1);
    assert_eq!(rig.runner.perform(Effect::SetTimer(Timer::Nodes(HeadId::default()), wait)), None);
    assert!(!rig.runner.timers.is_empty());
}
