use std::time::Duration;

use async_trait::async_trait;
use model::dataset::DatasetId;
use model::row::BucketExtras;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::event::{DataEvent, DatasetSearch, DownloadQuery, ExportNews, RunOrder, Timer};
use crate::local::{LocalError, NodeOptions, Packed, Usage};
use crate::state::services::HeadId;

/// Deadline for operations of a few milliseconds.
const SOON: Duration = Duration::from_secs(20);

/// A local stack on which every operation fails.
struct Broken;

#[async_trait]
impl LocalStack for Broken {
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        events.send(LocalEvent::Starting { what: "head".to_owned() }).await.unwrap();
        Err(LocalError { what: "start the head".to_owned(), source: "no port is free".into() })
    }

    async fn attach(&self, _: mpsc::Sender<LocalEvent>) {}

    async fn add(&self, _: NodeOptions, _: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        Err(LocalError { what: "start a node".to_owned(), source: "no port is free".into() })
    }

    async fn stop_process(&self, name: &str) -> Result<(), LocalError> {
        Err(LocalError { what: format!("stop {name}"), source: "there is none".into() })
    }

    async fn restart(&self, name: &str, _: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        Err(LocalError { what: format!("restart {name}"), source: "there is none".into() })
    }

    async fn find_detached(&self, _events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        Ok(())
    }

    fn detach(&self) {}

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
}

fn rig() -> Rig {
    Rig { runner: Runner::new(Arc::new(Broken), None, UserFiles::default()) }
}

impl Rig {
    async fn next(&mut self) -> Event {
        timeout(SOON, self.runner.next()).await.expect("an event in time")
    }
}

fn order() -> RunOrder {
    let request = wire::functions::ExecuteRequest::default();
    RunOrder { head: HeadId::default(), request, input: Input::Typed, is_followed: true }
}

/// Returns a rig that is connected to a head and a dataset service at the same address, the
/// listener of this address, and the address.
async fn connected() -> (Rig, TcpListener, String) {
    let mut rig = rig();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    rig.runner.perform(Effect::Connect(Addresses {
        heads: vec![address.clone()],
        datasets: Some(format!("{address}/api")),
        api_key: Some("UP-0123456789abcdef01234567".parse().unwrap()),
        head_token: Some("correct-horse".parse().unwrap()),
        ..Addresses::default()
    }));
    (rig, listener, address)
}

/// Accepts a request, responds with `body` and returns the request line and the headers.
async fn reply(listener: &TcpListener, body: &str) -> Vec<String> {
    let (mut stream, _) = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    let (reader, mut writer) = stream.split();
    let mut lines = BufReader::new(reader).lines();
    let mut head = Vec::new();
    while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
        head.push(line);
    }
    let length = body.len();
    let status = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n");
    writer.write_all(format!("{status}\r\n{body}").as_bytes()).await.unwrap();
    head
}

#[tokio::test]
async fn request_without_an_address_fails_with_a_reason() {
    let mut rig = rig();
    assert_eq!(rig.runner.perform(Effect::LoadNodes(HeadId::default())), None);
    let Event::Nodes(_, Err(failure), _) = rig.next().await else { panic!("nodes") };
    assert_eq!(failure.what, "list the nodes");
    assert!(failure.why.contains("no address"), "{}", failure.why);
}

#[tokio::test]
async fn failure_of_a_refused_request_names_address_and_cause() {
    let (mut rig, listener, address) = connected().await;
    drop(listener);
    rig.runner.perform(Effect::Execute(RunId(7), Box::new(order())));
    let Event::Executed(RunId(7), Err(failure)) = rig.next().await else { panic!("a run") };
    assert!(failure.why.starts_with(&address), "{}", failure.why);
    assert!(failure.why.to_lowercase().contains("refused"), "{}", failure.why);
}

#[tokio::test]
async fn head_receives_its_token_and_not_the_key_of_other_services() {
    let (mut rig, listener, _) = connected().await;
    rig.runner.perform(Effect::Execute(RunId(1), Box::new(order())));
    let head = reply(&listener, "").await.join("\n").to_lowercase();
    assert!(head.contains("authorization: bearer correct-horse"), "{head}");
    assert!(!head.contains("key"), "{head}");
    rig.runner.shutdown().await;
}

#[tokio::test]
async fn requests_to_a_stalled_head_do_not_delay_other_heads() {
    let mut rig = rig();
    let stalled = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let prompt = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let heads = [&stalled, &prompt].map(|it| format!("http://{}", it.local_addr().unwrap()));
    rig.runner.perform(Effect::Connect(Addresses { heads: heads.into(), ..Addresses::default() }));
    let ids = [0, 1].map(HeadId);
    for id in ids {
        rig.runner.perform(Effect::LoadNodes(id));
    }
    reply(&prompt, r#"{"nodes": []}"#).await;
    let Event::Nodes(id, Ok(nodes), _) = rig.next().await else { panic!("nodes") };
    assert_eq!((id, nodes), (ids[1], Vec::new()));
    assert!(rig.runner.call_inbox.is_empty(), "the other still waits");
    rig.runner.shutdown().await;
}

#[tokio::test]
async fn all_pages_of_datasets_are_read_and_filtered_by_the_pattern() {
    let dataset = |id: u32, metadata: &str| {
        let times = r#""created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z""#;
        let name = format!(r#""id": {id}, "name": "ds_{id}", "description": """#);
        format!(r#"{{{name}, "metadata": {metadata}, {times}}}"#)
    };
    let pages = [
        ("", dataset(1, r#"{"place": "north"}"#), r#""next""#),
        ("offset=1", dataset(2, "{}"), "null"),
    ];
    for (search, want) in
        [("", &["ds_1", "ds_2"][..]), ("!ds_1", &["ds_2"]), ("^ds_[1-4]$ place=north", &["ds_1"])]
    {
        let (mut rig, listener, _) = connected().await;
        rig.runner.perform(Effect::LoadDatasets(DatasetSearch::Text(search.to_owned())));
        for (offset, dataset, next) in &pages {
            let page = format!(r#""count": 2, "next": {next}, "previous": null"#);
            let head = reply(&listener, &format!(r#"{{{page}, "results": [{dataset}]}}"#)).await;
            assert!(head[0].contains(offset) && !head[0].contains("search"), "{head:?}");
        }
        let Event::Data(DataEvent::Datasets { result, .. }) = rig.next().await else {
            panic!("datasets")
        };
        let page = result.unwrap();
        let names: Vec<&str> = page.datasets.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((names.as_slice(), page.has_more), (want, false));
        rig.runner.shutdown().await;
    }
}

#[tokio::test]
async fn rows_for_standard_input_are_read_up_to_its_maximum_length() {
    let (mut rig, listener, _) = connected().await;
    let window = Window::Span(Duration::from_hours(24));
    let input = Input::Rows { dataset: "cpu".to_owned(), window };
    rig.runner.perform(Effect::Execute(RunId(1), Box::new(RunOrder { input, ..order() })));
    let page = |next: &str, result: String| {
        format!(r#"{{"count": 1, "next": {next}, "previous": null, "results": [{result}]}}"#)
    };
    let times = r#""created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z""#;
    let name = r#""id": 1, "name": "cpu", "description": "", "metadata": {}"#;
    reply(&listener, &page("null", format!("{{{name}, {times}}}"))).await;
    let value = "x".repeat(2 * 1024 * 1024);
    for minute in [2, 1] {
        let time = format!("2026-01-01T00:0{minute}:00Z");
        let ids =
            format!(r#""id": 1, "dataset_id": 1, "timestamp": "{time}", "created_at": "{time}""#);
        let row = format!(r#"{{{ids}, "values": {{"text": "{value}"}}}}"#);
        reply(&listener, &page(r#""more""#, row)).await;
    }
    let Event::Executed(_, Err(why)) = rig.next().await else { panic!("a failure") };
    assert_eq!(why.why, "the rows exceed 3145728 bytes");
}

#[tokio::test]
async fn failed_export_reports_whether_its_file_could_be_created() {
    let (mut rig, listener, _) = connected().await;
    drop(listener);
    for (path, is_created) in [("/dev/null/cpu.csv", false), ("/dev/null", true)] {
        let query = DownloadQuery {
            dataset: DatasetId::new(1).unwrap(),
            resolution: Resolution::Raw,
            start: None,
            end: None,
            output: "csv",
            columns: Vec::new(),
            extras: BucketExtras::default(),
        };
        rig.runner.perform(Effect::Export { query, path: path.into() });
        let Event::Data(DataEvent::Export(news)) = rig.next().await else { panic!("an export") };
        assert_eq!(matches!(news, ExportNews::Failed(_)), is_created, "{news:?}");
        assert_eq!(matches!(news, ExportNews::NotCreated { .. }), !is_created, "{news:?}");
    }
}

#[tokio::test]
async fn file_that_the_head_already_stores_is_not_uploaded_again() {
    let (mut rig, listener, _) = connected().await;
    rig.runner
        .perform(Effect::AddFunction { head: HeadId::default(), path: "copy.wasm".to_owned() });
    let held = r#"{"name": "hello", "function_id": "bafy", "method": "hello.wasm", "bytes": 9}"#;
    let head = reply(&listener, &format!(r#"{{"functions": [{held}]}}"#)).await;
    assert_eq!(head[0], "GET /api/v1/functions HTTP/1.1", "nothing is uploaded");
    let Event::FunctionAdded(_, Ok(function)) = rig.next().await else { panic!("a function") };
    assert_eq!((&*function.name, &*function.method), ("hello", "hello.wasm"));
}

#[tokio::test]
async fn response_to_a_canceled_run_is_dropped() {
    let (mut rig, _listener, _) = connected().await;
    rig.runner.perform(Effect::Execute(RunId(1), Box::new(order())));
    rig.runner.perform(Effect::Cancel(RunId(1), None));
    timeout(SOON, rig.runner.calls.shutdown()).await.expect("every call to be gone");
    assert!(rig.runner.call_inbox.is_empty());
}

#[tokio::test]
async fn events_of_earlier_services_do_not_arrive_after_a_change_of_services() {
    let (mut rig, listener, _) = connected().await;
    rig.runner.perform(Effect::LoadNodes(HeadId::default()));
    reply(&listener, r#"{"nodes": []}"#).await;
    while rig.runner.call_inbox.is_empty() {
        tokio::task::yield_now().await;
    }
    rig.runner.perform(Effect::Connect(Addresses::default()));
    rig.runner.perform(Effect::LoadFunctions(HeadId::default()));
    let event = rig.next().await;
    assert!(matches!(event, Event::Functions(_, Err(_))), "{event:?}");
}

#[tokio::test]
async fn stack_that_fails_to_start_is_reported() {
    let mut rig = rig();
    rig.runner.perform(Effect::StartLocal);
    let events = [rig.next().await, rig.next().await];
    let is_step =
        |it: &Event| matches!(it, Event::Local(LocalEvent::Starting { what }) if what == "head");
    assert!(events.iter().any(is_step), "{events:?}");
    let failure = events.iter().find_map(|it| match it {
        Event::LocalFailed(failure) => Some((failure.what.as_str(), failure.why.as_str())),
        _ => None,
    });
    assert_eq!(failure, Some(("start the head", "no port is free")));
}

#[tokio::test]
async fn effects_for_the_terminal_are_returned_to_the_caller() {
    let mut rig = rig();
    assert_eq!(rig.runner.perform(Effect::Quit), Some(Effect::Quit));
    assert_eq!(rig.runner.perform(Effect::Redraw), Some(Effect::Redraw));
    let wait = Duration::from_secs(1);
    assert_eq!(rig.runner.perform(Effect::SetTimer(Timer::Nodes(HeadId::default()), wait)), None);
    assert!(!rig.runner.timers.is_empty());
}

#[test]
fn home_directory_replaces_a_leading_tilde() {
    let home = std::env::home_dir().unwrap();
    assert_eq!(expand_home("~/f/my data.csv"), home.join("f/my data.csv"));
    assert_eq!(expand_home("~other/a.csv"), Path::new("~other/a.csv"));
    assert_eq!(expand_home("data/~/a.csv"), Path::new("data/~/a.csv"));
}
