//! Spans of a request on a head and its worker, as a trace collector receives them.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Inner;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use reqwest::StatusCode;
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::support::cluster::Node;
use crate::support::command::{Home, demo};
use crate::support::http::Http;
use crate::support::process::Signal;

/// Trace id of the client.
const TRACE: [u8; 16] = [0xab; 16];

/// Id of the client's span.
const CALLER: [u8; 8] = [0xcd; 8];

/// A collector, with the spans that it received and the role of the node that sent each span.
struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<(String, Span)>>>,
    // Task that serves the collector. The task stops when this field is dropped.
    _serving: JoinSet<()>,
}

impl Collector {
    async fn start() -> Self {
        let spans = Arc::<Mutex<Vec<_>>>::default();
        let receive = |State(spans): State<Arc<Mutex<Vec<_>>>>, body: Bytes| async move {
            let sent = ExportTraceServiceRequest::decode(body).unwrap();
            for resource in sent.resource_spans {
                let attributes = resource.resource.unwrap().attributes;
                let role = attributes.iter().find(|pair| pair.key == "service.role").unwrap();
                let role = text(role.value.as_ref());
                let of_scopes = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                spans.lock().extend(of_scopes.map(|span| (role.clone(), span)));
            }
        };
        let router =
            Router::new().route("/v1/traces", post(receive)).with_state(Arc::clone(&spans));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, spans, _serving: serving }
    }

    /// Returns the spans of the trace as sorted lines `role: name < parent`.
    fn tree(&self) -> Vec<String> {
        let spans = self.spans.lock();
        let of_trace: Vec<_> = spans.iter().filter(|(_, span)| span.trace_id == TRACE).collect();
        let parent = |span: &Span| {
            let parent = of_trace.iter().find(|(_, other)| other.span_id == span.parent_span_id);
            let caller = if span.parent_span_id == CALLER { "the client" } else { "unknown" };
            parent.map_or(caller.to_owned(), |(_, parent)| parent.name.clone())
        };
        let line =
            |(role, span): &&(String, Span)| format!("{role}: {} < {}", span.name, parent(span));
        let mut tree: Vec<String> = of_trace.iter().map(line).collect();
        tree.sort();
        tree
    }
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Inner::StringValue(text)) => text.clone(),
        other => panic!("a text, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_of_head_and_worker_form_one_trace() {
    let (home, collector) = (Home::new(), Collector::start().await);
    let mut head = Node::head(&["--otlp", &collector.address]);
    // The collector is set by the options that b7s nodes have.
    let endpoint = collector.address.trim_start_matches("http://");
    let b7s = ["--enable-tracing", "--tracing-http-endpoint", endpoint];
    let mut worker = Node::worker(&head, &b7s);
    head.has_workers(1).await;
    let rest_api = head.rest_api();
    let function = home.run_ok(&["function", "add", &demo("hello.wasm"), "--head", &rest_api]);

    let traceparent = format!("00-{}-{}-01", "ab".repeat(TRACE.len()), "cd".repeat(CALLER.len()));
    let response = Http::new(&rest_api, None)
        .request(reqwest::Method::POST, "/api/v1/functions/execute")
        .header("traceparent", traceparent)
        .json(&json!({ "function_id": function.trim(), "method": "hello.wasm" }))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    for node in [&mut worker, &mut head] {
        node.signal(Signal::Terminate);
        assert_eq!(node.wait_exit(), Some(0));
    }

    let tree = collector.tree();
    for want in [
        "head: POST /api/v1/functions/execute < the client",
        "head: Execute < POST /api/v1/functions/execute",
        "worker: WorkOrder < Execute",
        "worker: ExecuteFunction < WorkOrder",
    ] {
        assert!(tree.iter().any(|line| line == want), "{want} is in {tree:#?}");
    }
    assert!(tree.iter().any(|line| line.starts_with("worker: FunctionInstall < ")), "{tree:#?}");
}

#[tokio::test]
async fn unreachable_collector_is_logged_and_does_not_delay_the_exit() {
    // The port is taken, so that no other process listens at it, but connections are refused.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let gone = socket.local_addr().unwrap();
    let mut head = Node::head(&["--otlp", &format!("http://{gone}")]);
    Http::new(&head.rest_api(), None).get_ok("/api/v1/health").await;
    head.signal(Signal::Terminate);
    let line = head.wait_log("spans cannot be sent and are dropped");
    assert_eq!(line["collector"], format!("http://{gone}/v1/traces"));
    assert_eq!(head.wait_exit(), Some(0));
}
