//! Parts of the REST API apart from executing: results, executions, events, metrics and the token.

use std::net::SocketAddr;
use std::path::Path;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::*;

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn result_of_an_asynchronous_execution_can_be_read_later() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let address = cluster.head.api_address().unwrap();
    let line = "POST /api/v1/functions/execute";
    let mut asked = request(&hello, 1);
    asked["config"]["async"] = json!(true);
    let prefers = format!("{JSON}prefer: respond-async\r\n");
    for (headers, body) in [(prefers.as_str(), request(&hello, 1)), (JSON, asked)] {
        let (head, body) = raw(address, line, headers, &body.to_string()).await;
        assert!(head.starts_with("HTTP/1.1 202"), "{head}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        let id = answer["request_id"].as_str().unwrap();
        assert_eq!((&answer["code"], &answer["cluster"]), (&json!("202"), &json!({})));
        assert!(head.contains(&format!("location: /api/v1/executions/{id}")), "{head}");
        let lookup = json!({"id": id}).to_string();
        let answer = until(WITHIN, || async {
            let line = "POST /api/v1/functions/requests/result";
            let (status, answer) = send(address, line, "application/json", &lookup).await;
            assert_eq!(status, 200);
            if answer["code"] == "202" { Err(answer) } else { Ok(answer) }
        });
        let answer = answer.await.unwrap();
        assert_eq!((&answer["code"], &answer["request_id"]), (&json!("200"), &json!(id)));
        assert_eq!(answer["results"][0]["result"]["stdout"], "hello\n");
    }
}

#[tokio::test]
async fn event_stream_contains_the_events_of_an_execution() {
    let mut cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let address = cluster.head.api_address().unwrap();
    let stream = opened(address, "GET /api/v1/events", "", "").await;
    let mut lines = BufReader::new(stream).lines();
    let mut next = async || {
        let mut name = String::new();
        loop {
            let line = timeout(WITHIN, lines.next_line()).await.unwrap().unwrap()?;
            if let Some(kind) = line.strip_prefix("event: ") {
                kind.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).unwrap();
                assert_eq!(data["event"], name.as_str());
                return Some(data);
            }
        }
    };
    assert_eq!(next().await.unwrap()["event"], "connected");
    cluster.add_worker(&[], LIMITS_DEFAULT, 2).await;
    let worker = cluster.workers[0].peer_id().to_string();
    let joined = next().await.unwrap();
    assert_eq!((&joined["event"], &joined["peer_id"]), (&json!("peer_joined"), &json!(worker)));
    let answer = cluster.execute(request(&hello, 1)).await;
    // These events are optional: the worker might offer its slot before it reports, or have compiled
    // the function before the order.
    let is_optional = |event: &Value| {
        ["reported", "compiling", "compiled"].contains(&event["event"].as_str().unwrap())
    };
    for kind in ["roll_call", "dispatched", "result", "done"] {
        let mut event = next().await.unwrap();
        while is_optional(&event) {
            event = next().await.unwrap();
        }
        assert_eq!((&event["event"], &event["request_id"]), (&json!(kind), &answer["request_id"]));
        assert!(event["time"].is_string());
        let has_function = matches!(kind, "roll_call" | "dispatched");
        assert!(!has_function || event["function_id"] == hello.id.to_string(), "{event}");
    }
    cluster.workers[0].shutdown().await;
    assert_eq!(next().await.unwrap()["event"], "peer_left");
    cluster.head.shutdown().await;
    assert!(next().await.is_none(), "a stopping head closes the stream");
}

#[tokio::test]
async fn metrics_and_api_description_are_served() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker_with(with_metrics).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 1)).await;
    let address = cluster.head.api_address().unwrap();
    let (head, text) = raw(address, "GET /metrics", "", "").await;
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let id = hello.id;
    for line in [
        format!("b7s_node_function_executions{{function=\"{id}\",consensus=\"none\"}} 1"),
        "b7s_head_answers{code=\"200\"} 1".to_owned(),
        "b7s_node_peers_connected 1".to_owned(),
        "b7s_node_topic_subscriptions 1".to_owned(),
    ] {
        assert!(text.lines().any(|actual| actual == line), "{line} is not in\n{text}");
    }
    let (_, worker) = raw(cluster.workers[0].api_address().unwrap(), "GET /metrics", "", "").await;
    for line in [
        format!("b7s_executor_function_executions_ok{{function=\"{id}\"}} 1"),
        "b7s_node_peers_connected 1".to_owned(),
    ] {
        assert!(worker.lines().any(|actual| actual == line), "{line} is not in\n{worker}");
    }
    for text in [text, worker] {
        assert!(text.contains("\nprocess_start_time_seconds "), "{text}");
    }
    let (status, described) = get(address, "/api/v1/openapi.json").await;
    assert_eq!((status, &described["openapi"]), (200, &json!("3.1.0")));
    let (_, nodes) = get(address, "/api/v1/nodes").await;
    let node = &nodes["nodes"][1];
    assert_eq!((&node["slots"], &node["agreement_percent"]), (&json!(10), &json!(100.0)));
}

/// Returns the status of the response to raw bytes.
async fn status(address: SocketAddr, request: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    std::str::from_utf8(&answer).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn token_is_required_locally_unless_loopback_is_trusted() {
    for is_loopback_trusted in [false, true] {
        let token = Some("correct-horse".parse().unwrap());
        let rest = RestOptions { token, is_loopback_trusted, ..RestOptions::default() };
        let cluster = Cluster::with(WorkOptions { rest, ..WorkOptions::usual() }).await;
        let address = cluster.head.api_address().unwrap();
        let near = if is_loopback_trusted { 200 } else { 401 };
        let host = format!("host: {address}\r\n");
        let bearing = |token: &str| format!("{host}authorization: Bearer {token}\r\n");
        for (headers, want) in [
            (host.clone(), near),
            (format!("{host}x-forwarded-for: 10.0.0.1\r\n"), 401),
            (format!("{host}origin: http://127.0.0.1:1\r\n"), 401),
            ("host: evil.example\r\n".to_owned(), 401),
            (bearing("wrong-horse"), near),
            (bearing("correct-horse"), 200),
        ] {
            // A request over HTTP/1.0 needs the token, since it might come from a proxy that adds no
            // header.
            let over_proxy = if headers.contains("correct-horse") { want } else { 401 };
            for (version, want) in [("1.0", over_proxy), ("1.1", want)] {
                let head = format!("GET /api/v1/nodes HTTP/{version}\r\n{headers}");
                let got = status(address, &format!("{head}connection: close\r\n\r\n")).await;
                assert_eq!(got, want, "{is_loopback_trusted} {head}");
            }
        }
        let delete = format!("DELETE /api/v1/functions/x HTTP/1.0\r\n{host}\r\n");
        assert_eq!(status(address, &delete).await, 401);
        let health = format!("GET /api/v1/health HTTP/1.0\r\n{host}\r\n");
        assert_eq!(status(address, &health).await, 200);
        cluster.group.shutdown().await;
    }
}

#[tokio::test]
async fn without_a_token_proxies_and_foreign_pages_cannot_change_anything() {
    let cluster = Cluster::of(&[]).await;
    let address = cluster.head.api_address().unwrap();
    let forwarded = "x-forwarded-for: 10.0.0.1\r\n";
    let (head, body) = raw(address, "DELETE /api/v1/executions/x", forwarded, "").await;
    assert!(head.starts_with("HTTP/1.1 403") && body.contains("token"), "{head}{body}");
    let host = format!("host: {address}\r\n");
    let evil = "host: evil.example:8080\r\n";
    for (line, headers, want) in [
        ("DELETE /api/v1/functions/x HTTP/1.1", host.clone(), 404),
        ("DELETE /api/v1/functions/x HTTP/1.0", host.clone(), 403),
        ("DELETE /api/v1/functions/x HTTP/1.0", String::new(), 403),
        (
            "DELETE /api/v1/functions/x HTTP/1.1",
            format!("{host}origin: http://localhost:1\r\n"),
            403,
        ),
        (
            "POST /api/v1/functions/execute HTTP/1.1",
            format!("{host}origin: http://[::1]:1\r\n"),
            403,
        ),
        ("POST /api/v1/functions/execute HTTP/1.1", evil.to_owned(), 403),
        ("GET /api/v1/nodes HTTP/1.1", evil.to_owned(), 403),
        ("GET /metrics HTTP/1.1", evil.to_owned(), 403),
        ("GET /api/v1/functions HTTP/1.1", evil.to_owned(), 403),
        ("GET /api/v1/nodes HTTP/1.0", String::new(), 200),
    ] {
        let request = format!("{line}\r\n{headers}connection: close\r\n\r\n");
        assert_eq!(status(address, &request).await, want, "{request}");
    }
}

#[tokio::test]
async fn api_with_a_certificate_is_served_only_over_tls() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tls");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
    let work = WorkOptions { rest_tls: Some(files), ..WorkOptions::usual() };
    let mut cluster = Cluster::with(work).await;
    cluster.add_worker(&[], LIMITS_DEFAULT, 2).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let address = cluster.head.api_address().unwrap();
    task::process::install_crypto();
    let pem = std::fs::read(certificate).unwrap();
    let trusted = reqwest::Certificate::from_pem(&pem).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([trusted]).resolve("localhost", address);
    let client = client.build().unwrap();
    let url =
        |scheme: &str| format!("{scheme}://localhost:{}/api/v1/functions/execute", address.port());
    let body = request(&hello, 1).to_string();
    let asked = |scheme: &str| {
        client.post(url(scheme)).header("content-type", "application/json").body(body.clone())
    };
    let answer = asked("https").send().await.unwrap().bytes().await.unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["code"], "200", "{answer}");
    assert!(asked("http").send().await.is_err(), "plain HTTP is rejected");
    cluster.group.shutdown().await;

    let dir = tempfile::tempdir().unwrap();
    let swapped = TlsFiles { certificate: key, key: folder.join("certificate.pem") };
    let work = WorkOptions { rest_tls: Some(swapped), ..WorkOptions::usual() };
    let options = NodeOptions { work, ..head_options(dir.path().to_owned()) };
    let refused = Node::start(options, &cluster.group, Clock::system()).await;
    assert!(matches!(refused, Err(NodeError::Tls(_))), "{refused:?}");
}

#[tokio::test]
async fn executions_in_progress_are_limited_listed_and_canceled() {
    let cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let address = cluster.head.api_address().unwrap();
    let asked = request_within(&hello, 1, 60);
    let head = cluster.head.head().unwrap();
    let order =
        crate::head::order::Order::read(serde_json::from_value(asked.clone()).unwrap()).unwrap();
    let mut ids = Vec::new();
    let client = |peer: &str| crate::head::Client::Peer(peer.parse().unwrap());
    for (peer, n_let_in) in (1..).zip([256, 128, 64, 32, 16, 8, 4, 2, 1]) {
        let n_before = ids.len();
        while let Ok(id) = head.execute_soon(&client(&format!("12D3KooWpeer{peer}")), order.clone())
        {
            ids.push(id);
        }
        assert_eq!(ids.len() - n_before, n_let_in, "one client cannot use all executions");
    }
    let (status, answer) = post(address, &asked.to_string()).await;
    let busy = "too many executions are in progress; try again later";
    assert_eq!((status, answer), (503, json!({"message": busy})));
    let (_, list) = get(address, "/api/v1/executions?limit=2").await;
    let listed: Vec<&str> = list["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|execution| execution["request_id"].as_str().unwrap())
        .collect();
    assert_eq!(listed, [ids[510].as_str(), ids[509].as_str()], "the latest first");
    assert_eq!(list["executions"][0]["state"], "waiting");
    assert_eq!(get(address, "/api/v1/executions?limit=x").await.0, 400);
    for id in &ids {
        assert_eq!(head.executions().cancel(id), Some(true));
    }
    all_ended(&cluster).await;
    let (_, ended) = get(address, &format!("/api/v1/executions/{}", ids[0])).await;
    assert_eq!((&ended["state"], &ended["code"]), (&json!("canceled"), &json!("499")));
}
