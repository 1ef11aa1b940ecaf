//! Log of a node at start, during its work and at shutdown.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Once;

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::subscriber::set_global_default;
use tracing::{Event, Metadata, Subscriber, span};

use super::executions::{Reaction, impostor, offered};
use super::*;

/// Records events of this crate at level info and above with their target and fields, by thread. All
/// tests share one recorder, since a callsite that is first used while another recorder is installed
/// might never reach this recorder.
struct Recorders;

struct Fields(BTreeMap<String, Value>);

/// Lines by target.
type Lines = Rc<RefCell<Vec<(String, Value)>>>;

thread_local! {
    static RECORDED: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Records the log of this thread until dropped.
struct Recorder(Lines);

impl Recorder {
    /// Starts to record the log of this thread.
    fn start() -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| set_global_default(Recorders).unwrap());
        let lines = Lines::default();
        RECORDED.set(Some(Rc::clone(&lines)));
        Self(lines)
    }

    /// Removes all lines. Returns the lines of `target` and below.
    fn take(&self, target: &str) -> Vec<Value> {
        let lines = self.0.take();
        let meant = lines.into_iter().filter(|(other, _)| other.starts_with(target));
        meant.map(|(_, line)| line).collect()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        RECORDED.set(None);
    }
}

/// Returns the lines with this message.
fn with<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["message"] == message).collect()
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), json!(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }
}

impl Subscriber for Recorders {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("cluster") && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        RECORDED.with_borrow(|recorded| {
            let Some(recorded) = recorded else { return };
            let mut fields = Fields(BTreeMap::new());
            event.record(&mut fields);
            recorded.borrow_mut().push((event.metadata().target().to_owned(), json!(fields.0)));
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn node_start_is_logged_as_in_document_1() {
    let recorder = Recorder::start();
    let cluster = Cluster::of(&[&["gpu"]]).await;
    let (head, worker) = (&cluster.head, &cluster.workers[0]);
    let api = head.api_address().unwrap();
    let lines = recorder.take("cluster::node");
    let text = |list: &[String]| json!(list).to_string();
    assert_eq!(
        lines,
        [
            json!({"message": "created host", "id": head.peer_id().as_str(),
                "addresses.json": text(&head.addresses()), "boot_nodes": 0, "dial_back_peers": 0}),
            json!({"message": "Node API starting", "port": format!(":{}", api.port()),
                "address": api.to_string()}),
            json!({"message": "node starting", "role": "head"}),
            json!({"message": "topics node will subscribe to", "component": "node",
                "topics.json": r#"["blockless/b7s/general"]"#}),
            json!({"message": "starting node main loop", "component": "node", "concurrency": 10}),
            json!({"message": "created host", "id": worker.peer_id().as_str(),
                "addresses.json": text(&worker.addresses()), "boot_nodes": 1, "dial_back_peers": 0}),
            json!({"message": "node starting", "role": "worker"}),
            json!({"message": "topics node will subscribe to", "component": "node",
                "topics.json": r#"["gpu","blockless/b7s/general"]"#}),
            json!({"message": "starting node main loop", "component": "node", "concurrency": 10}),
        ]
    );
}

#[tokio::test]
async fn execution_is_logged_as_in_document_1() {
    let recorder = Recorder::start();
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let answer = cluster.execute(request(&hello, 1)).await;
    let (id, function) = (&answer["request_id"], json!(hello.id.to_string()));
    let (head, worker) = (cluster.head.peer_id().as_str(), cluster.workers[0].peer_id().as_str());
    let lines = recorder.take("cluster");
    for (message, fields) in [
        ("peer connected", json!({"peer": worker})),
        (
            "performing roll call for request",
            json!({"request": id, "function": function, "topic": "blockless/b7s/general"}),
        ),
        ("roll call published", json!({"request": id})),
        ("received roll call request", json!({"request": id, "function": function, "peer": head})),
        ("roll call but function not installed, installing now", json!({"function": function})),
        ("reporting for roll call", json!({"request": id, "code": "202"})),
        ("execution complete", json!({"request": id, "function": function, "code": "200"})),
        (
            "received execution responses",
            json!({"request": id, "cluster_size": 1, "responded": 1, "code": "200"}),
        ),
    ] {
        let found = with(&lines, message);
        let is_logged = found.iter().any(|line| {
            fields.as_object().unwrap().iter().all(|(name, value)| line[name] == *value)
        });
        assert!(is_logged, "{message} {fields}: {found:?}");
    }
}

#[tokio::test]
async fn executions_with_too_few_nodes_or_too_few_results_are_logged() {
    let recorder = Recorder::start();
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker(&[], LIMITS_DEFAULT, 2).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let request = request_within(&hello, 2, 1);
    cluster.execute(request.clone()).await;
    offered(&cluster, &hello).await;
    // From now on, the worker has the compiled function and responds immediately.
    until(WITHIN, || async {
        let answer = cluster.execute(super::request(&hello, 1)).await;
        if answer["code"] == "200" { Ok(()) } else { Err(answer) }
    })
    .await
    .unwrap();
    impostor(&cluster, &hello.id.to_string(), Reaction::Refusal).await;
    cluster.execute(request).await;
    let lines = recorder.take("cluster::head");
    // The head can notice either condition first.
    let short = ["roll call timed out", "the group has fewer peers than requested"];
    let short = short.into_iter().find_map(|message| with(&lines, message).pop()).unwrap();
    assert_eq!((&short["ready"], &short["refused"]), (&json!(1), &json!(0)));
    let unmet = with(&lines, "threshold condition not met");
    let unmet = unmet.last().unwrap();
    assert_eq!((&unmet["expected"], &unmet["have"]), (&json!(0.6), &json!(0.5)));
}

#[tokio::test]
async fn stopping_node_logs_the_work_in_progress() {
    let recorder = Recorder::start();
    let work = WorkOptions {
        response_within: Duration::from_mins(10),
        drain_within: Duration::from_millis(100),
        ..WorkOptions::usual()
    };
    let mut cluster = Cluster::with(work.clone()).await;
    cluster
        .add_worker_with(|options| {
            options.limits.wall = Duration::from_mins(10);
            options.work = work;
        })
        .await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let stopping = async {
        busy(&cluster.workers[0]).await;
        recorder.take("cluster");
        cluster.head.shutdown().await;
        recorder.take("cluster")
    };
    let (answer, lines) = tokio::join!(cluster.execute(request(&sleep, 1)), stopping);
    let waiting = with(&lines, "waiting for executions in progress");
    assert_eq!(waiting[0]["n_in_progress"], 1);
    let ended = with(&lines, "canceled an execution: the node is stopping");
    assert_eq!(
        (&ended[0]["request"], &ended[0]["function"]),
        (&answer["request_id"], &json!(sleep.id.to_string()))
    );
    for message in ["node stopping", "Node API stopped", "node stopped"] {
        assert_eq!(with(&lines, message).len(), 1, "{message}");
    }
    cluster.workers[0].shutdown().await;
    let lines = recorder.take("cluster::node");
    assert!(with(&lines, "Node API stopped").is_empty(), "a worker serves none");
    assert_eq!(with(&lines, "node stopped").len(), 1);
}

#[tokio::test]
async fn unprotected_api_is_logged_as_a_warning_once() {
    for (token, n_warnings) in [(None, 1), (Some("correct-horse".parse().unwrap()), 0)] {
        let recorder = Recorder::start();
        let cluster = Cluster::headed_by(|options| {
            options.role = RoleOptions::Head { rest_api: ":0".to_owned() };
            options.work.rest.token = token;
        })
        .await;
        let port = format!(":{}", cluster.head.api_address().unwrap().port());
        let lines = recorder.take("cluster::node");
        let starting = with(&lines, "Node API starting");
        assert_eq!(starting, [&json!({"message": "Node API starting", "port": port})]);
        let warnings = lines.iter().filter(|line| {
            line["message"].as_str().is_some_and(|text| text.contains("set --rest-token"))
        });
        assert_eq!(warnings.count(), n_warnings);
        cluster.group.shutdown().await;
    }
}
