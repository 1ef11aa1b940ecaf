//! What a node says in the log when it starts.

use std::{collections::BTreeMap, fmt, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::set_default,
};

use super::support::Cluster;

/// Keeps the events at info of this room, each as its fields.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<BTreeMap<String, Value>>>>);

struct Fields(BTreeMap<String, Value>);

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

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), json!(value));
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("cluster::node") && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_node_starts_with_the_lines_of_document_1() {
    let recorder = Recorder::default();
    let _guard = set_default(recorder.clone());
    let cluster = Cluster::of(&[&["gpu"]]).await;
    let (head, worker) = (&cluster.head, &cluster.workers[0]);
    let api = head.rest_address().unwrap();
    let lines = std::mem::take(&mut *recorder.0.lock());
    let lines: Vec<Value> = lines.into_iter().map(|line| json!(line)).collect();
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
    cluster.group.shutdown().await;
}
