//! Nodes on loopback, seen from outside, with misbehaving peers.

mod attributes;
mod executions;
mod filling;
mod frozen;
mod functions;
mod generations;
mod liars;
mod logs;
mod offers;
mod operator;
mod rest;
mod safety;
mod sharing;
mod shutdown;
mod spares;
mod stalls;
mod support;
mod waiting;

use content::{Answer, AnswerHead, Requester};
use model::function::FunctionId;
use model::node::Role;
use serde_json::{Value, json};
use task::wait::until;

use self::support::*;
use super::*;
use crate::message::{Code, Message, RollCall, json as message};
use crate::network::Event;
use crate::peers::FunctionPeers;
use crate::worker::LIMITS_DEFAULT;

fn texts(peers: &[PeerId]) -> Value {
    peers.iter().map(PeerId::to_string).collect()
}

#[tokio::test]
async fn equal_results_of_three_workers_are_one_group() {
    let cluster = Cluster::of(&[&[], &["gpu"], &["gpu"]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let answer = cluster.execute(request(&hello, 3)).await;
    assert_eq!(answer["code"], "200", "{answer}");
    assert_eq!(answer["request_id"].as_str().unwrap().len(), 36);
    let ids = texts(&cluster.ids());
    assert_eq!(
        answer["results"],
        json!([{
            "result": {"stdout": "hello\n", "stderr": "", "exit_code": 0},
            "peers": ids, "frequency": 100.0,
        }])
    );
    assert_eq!(answer["cluster"], json!({"peers": ids}));
    for worker in &cluster.workers {
        assert_eq!(
            worker.functions().list(),
            std::slice::from_ref(&hello),
            "the function was fetched"
        );
    }
    let mut long = request(&hello, 3);
    long["config"]["stdin"] = json!("\"".repeat(1024 * 1024));
    assert_eq!(cluster.execute(long).await["code"], "200", "2 MiB as JSON");
}

#[tokio::test]
async fn function_receives_arguments_variables_input_and_peer_id() {
    let cluster = Cluster::of(&[&[], &[]]).await;
    let show = cluster.add("show.wasm", SHOW).await;
    let mut request = request(&show, 2);
    request["parameters"] = json!([{"name": "n", "value": "one"}, {"value": ""}, {"value": "two"}]);
    request["config"]["env_vars"] =
        json!([{"name": "KEY", "value": "v"}, {"name": "PEER_ID", "value": "forged"}]);
    request["config"]["stdin"] = json!("input");
    let answer = cluster.execute(request).await;
    let groups = answer["results"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "each shows another peer: {answer}");
    for (group, peer) in groups.iter().zip(cluster.ids()) {
        assert_eq!((&group["frequency"], &group["peers"]), (&json!(50.0), &json!([peer.as_str()])));
        let want = format!("KEY=v\0PEER_ID={peer}\0show.wasm\0one\0two\0input");
        assert_eq!(group["result"]["stdout"], json!(want));
    }
}

#[tokio::test]
async fn request_for_a_subgroup_with_too_few_nodes_fails_with_408_and_the_reason() {
    let cluster = Cluster::of(&[&[], &["gpu"]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let gpu = cluster.workers[1].peer_id().to_string();
    let mut request = request(&hello, 1);
    request["subgroup"] = json!("gpu");
    let answer = cluster.execute(request.clone()).await;
    assert_eq!((&answer["code"], &answer["cluster"]), (&json!("200"), &json!({"peers": [gpu]})));

    let mut other = request.clone();
    other["subgroup"] = json!("");
    other["topic"] = json!("gpu");
    let answer = cluster.execute(other).await;
    assert_eq!(answer["cluster"], json!({"peers": [gpu]}), "as later clients of b7s call it");

    request["config"] = json!({"number_of_nodes": 2, "timeout": 1});
    let answer = cluster.execute(request.clone()).await;
    assert_eq!((&answer["code"], &answer["cluster"]), (&json!("408"), &json!({})));
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("asked subgroup gpu for 2 nodes, and 1 reported"), "{message}");
    let want = format!(" ({gpu}); 1 worker of it is connected");
    assert!(message.ends_with(&want) && answer.get("results").is_none(), "{answer}");

    request["subgroup"] = json!("nowhere");
    request["config"]["number_of_nodes"] = json!(1);
    let answer = cluster.execute(request).await;
    assert_eq!(answer["code"], "408");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("subgroup nowhere for 1 node, and 0 reported"), "{message}");
}

#[tokio::test]
async fn requests_for_all_or_too_many_nodes_end_before_their_timeout() {
    let cluster = Cluster::of(&[&[], &[], &["gpu"]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let execute = |n_nodes| timeout(WITHIN, cluster.execute(request_within(&hello, n_nodes, 60)));
    assert_eq!(execute(-1).await.unwrap()["cluster"]["peers"], texts(&cluster.ids()));
    let answer = execute(4).await.unwrap();
    assert_eq!(answer["code"], "408", "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("asked the cluster for 4 nodes, and 3 reported ("), "{message}");
}

#[tokio::test]
async fn refused_execution_contains_the_reasons_of_the_workers() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = cluster.workers[0].peer_id();
    let folder = functions::add_folder(&cluster).await;
    let mut wrong = request(&folder, 1);
    wrong["method"] = json!("other.wasm");
    let answer = cluster.execute(wrong).await;
    assert_eq!(answer["code"], "404", "{answer}");
    let want = format!(
        "0 of 1 node returned a result: {worker} refused (function has no module other.wasm, only \
         hello.wasm, howdy.wasm)"
    );
    assert_eq!(answer["message"], json!(want));

    let nowhere = json!({
        "function_id": FunctionId::from_module(b"nowhere").to_string(), "method": "m.wasm",
        "config": {"timeout": 3},
    });
    let answer = cluster.execute(nowhere).await;
    assert_eq!(answer["code"], "408", "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.contains(&format!("refused by {worker}: no node or gateway provided the function")),
        "{message}"
    );
}

#[tokio::test]
async fn worker_without_a_free_slot_gets_no_orders() {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_mins(10), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 1).await;
    let (sleep, hello) =
        (cluster.add("sleep.wasm", SLEEP).await, cluster.add("h.wasm", HELLO).await);
    let second = request_within(&hello, 1, 1);
    let meanwhile = async {
        busy(&cluster.workers[0]).await;
        cluster.execute(second).await
    };
    let second = tokio::select! {
        first = cluster.execute(request(&sleep, 1)) => panic!("the first execution ended: {first}"),
        second = meanwhile => second,
    };
    assert_eq!(second["code"], "408");
    assert!(second["message"].as_str().unwrap().contains("no free slot: all 1"), "{second}");
}

#[tokio::test]
async fn workers_reconnect_to_a_restarted_head() {
    let identity = Identity::random();
    let mut cluster = Cluster::headed_by(|options| options.identity = identity.clone()).await;
    cluster.add_worker(&[], LIMITS_DEFAULT, 1).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let port = cluster.head.addresses()[0].split('/').nth(4).unwrap().parse().unwrap();
    cluster.head.shutdown().await;

    let options = NodeOptions { identity, port, ..head_options(cluster.dir.path().join("head")) };
    cluster.head = Node::start(options, &cluster.group, Clock::system()).await.unwrap();
    let answer = cluster.execute(request(&hello, 1)).await;
    assert_eq!(answer["code"], "200", "within the roll call, without a wait before it: {answer}");
}

#[tokio::test]
async fn head_stops_waiting_for_workers_when_the_client_disconnects() {
    let cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let head = cluster.head.head().unwrap();
    let stream = executing(&cluster, &request_within(&hello, 1, 60)).await;
    until_true(|| !head.executions().in_progress().is_empty()).await;
    drop(stream);
    assert!(head.drain(Duration::from_secs(10)).await, "the roll call of 60 s was canceled");
}

#[tokio::test]
async fn malformed_messages_are_dropped_and_repeated_reports_counted_once() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (stranger, mut events) = cluster.stranger().await;
    let head = cluster.head.peer_id();
    for nonsense in
        ["", "{", "null", "\n\n", r#"{"type":"MsgOther"}"#, r#"{"type":"MsgWorkOrder"}"#]
    {
        stranger.tell(head, WORK_PROTOCOL, nonsense.as_bytes()).await.unwrap();
        stranger.publish(GENERAL_TOPIC, nonsense.as_bytes().to_vec()).await.unwrap();
        stranger.tell(head, OFFER_PROTOCOL, nonsense.as_bytes()).await.unwrap();
    }
    // The stranger accepts each roll call three times, and also accepts an unknown one.
    let insistent = stranger.clone();
    let to = head.clone();
    let (heard, mut hears) = tokio::sync::mpsc::channel(100);
    cluster.group.spawn("insistent", async move {
        while let Some(event) = events.recv().await {
            let Event::Gossip { bytes, .. } = event else { continue };
            let Ok(Message::RollCall(call)) = Message::read(&bytes) else { continue };
            for request_id in [&call.request_id, &call.request_id, &call.request_id, "other"] {
                let call = RollCall { request_id: request_id.to_owned(), ..call.clone() };
                let response = Message::RollCallResponse(acceptance(call));
                insistent.tell(&to, WORK_PROTOCOL, &message(&response)).await.unwrap();
            }
            heard.send(()).await.unwrap();
        }
    });
    let answer = cluster.execute(request_within(&hello, 3, 2)).await;
    assert!(hears.recv().await.is_some());
    assert_eq!(answer["code"], "408", "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("for 3 nodes, and 2 reported"), "{message}");
}

#[tokio::test]
async fn content_that_does_not_match_its_id_is_rejected_and_fetched_from_the_next_peer() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (liar, mut asked) = cluster.stranger().await;
    let addresses = [liar.addresses().remove(0), cluster.head.addresses().remove(0)];
    let (fetcher, mut events) =
        peer(&cluster.group, Identity::random(), &addresses, Protocols::default()).await;
    for _ in 0..2 {
        while !matches!(events.recv().await.unwrap(), Event::Connected(_)) {}
    }
    let (lied, mut lies) = tokio::sync::mpsc::channel(8);
    cluster.group.spawn("liar", async move {
        while let Some(event) = asked.recv().await {
            if let Event::Question { answer, .. } = event {
                let content = b"\0asm other content".as_slice();
                let head = AnswerHead::Here { method: "hello.wasm".into(), bytes: 18 }.to_line();
                answer.send(Answer::new(head, content.into())).unwrap();
                lied.send(()).await.unwrap();
            }
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let functions = Functions::open(dir.path().to_owned()).await.unwrap();
    let peers = [liar.peer_id().clone(), cluster.head.peer_id().clone()];
    let from = |peers| FunctionPeers { network: &fetcher, peers };
    let fails = functions.obtain(hello.id, &Requester::Unknown, &from(&peers[..1])).await;
    assert!(fails.is_err() && functions.list().is_empty(), "{fails:?}");
    assert_eq!(lies.recv().await, Some(()));
    assert_eq!(
        functions.obtain(hello.id, &Requester::Unknown, &from(&peers)).await.unwrap(),
        hello
    );
    assert_eq!(lies.recv().await, Some(()), "the lying peer was asked first again");
}

#[tokio::test]
async fn damaged_function_is_fetched_again() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let module = wat::parse_str(HELLO).unwrap();
    let kept = cluster.workers[0].functions();
    kept.add(hello.method.clone(), module.clone()).await.unwrap();
    let path = cluster.dir.path().join(format!("worker-0/{}/hello.wasm", hello.id));
    std::fs::write(&path, b"damaged").unwrap();
    let answer = cluster.execute(request(&hello, 1)).await;
    assert_eq!(answer["results"][0]["result"]["stdout"], "hello\n", "{answer}");
    assert_eq!(std::fs::read(&path).unwrap(), module);
}

#[tokio::test]
async fn rest_api_lists_nodes_and_functions_and_serves_health_checks() {
    let cluster = Cluster::of(&[&["gpu"], &[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 2)).await;
    let address = cluster.head.api_address().unwrap();
    for path in ["/health", "/api/v1/health"] {
        let health = get(address, path).await;
        assert_eq!(health, (200, json!({"code": 200, "type": "MsgHealthCheck"})));
    }
    let (_, functions) = get(address, "/api/v1/functions").await;
    let id = hello.id.to_string();
    let want = json!({"name": "hello", "function_id": id, "method": "hello.wasm", "bytes": hello.size_bytes});
    assert_eq!(functions, json!({"functions": [want]}));
    // The first ping and the offer after the run are delayed.
    let nodes = until(WITHIN, || async {
        let (_, nodes) = get(address, "/api/v1/nodes").await;
        let is_known =
            |node: &Value| node["latency_ms"].is_f64() && node["functions"] == json!([id]);
        let workers = nodes["nodes"].as_array().unwrap().iter().skip(1);
        if workers.clone().count() == 2 && { workers }.all(is_known) {
            Ok(nodes)
        } else {
            Err(nodes)
        }
    });
    let nodes = nodes.await.unwrap();
    let nodes = nodes["nodes"].as_array().unwrap();
    assert_eq!((nodes.len(), &nodes[0]["role"]), (3, &json!("head")));
    assert_eq!(nodes[0]["functions"], json!([id]));
    assert_eq!(nodes[0]["addresses"], json!(cluster.head.addresses()));
    let gpu = nodes.iter().find(|node| node["subgroups"] == json!(["gpu"])).unwrap();
    assert_eq!(gpu["peer_id"], cluster.workers[0].peer_id().as_str());
    assert_eq!((&gpu["role"], &gpu["connected"]), (&json!("worker"), &json!(true)));
    assert_eq!((&gpu["runs"], &gpu["agreed"]), (&json!(1), &json!(1)));
    assert_eq!(gpu["addresses"], json!(cluster.workers[0].addresses()));
    assert!(gpu["last_seen"].is_string());
    assert_eq!((&gpu["slots"], &gpu["slots_free"]), (&json!(10), &json!(10)));
    assert_eq!(gpu["attributes"], Value::Null);
    assert_eq!(gpu["agreement_percent"], 100.0);
}

#[tokio::test]
async fn too_long_body_is_rejected() {
    let cluster = Cluster::of(&[]).await;
    let address = cluster.head.api_address().unwrap();
    // The body exceeds the limit by a single byte. With a longer body, the response might be lost, since
    // the head would not read the whole body.
    let (status, answer) = post(address, &"x".repeat(3 * 1024 * 1024 + 1)).await;
    assert_eq!(
        (status, answer),
        (413, json!({"message": "Request Entity Too Large: the body exceeds 3 MiB"}))
    );
}

#[tokio::test]
async fn node_does_not_start_with_an_address_in_use() {
    let cluster = Cluster::of(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let taken = cluster.head.api_address().unwrap().to_string();
    let rest_api = RoleOptions::Head { rest_api: taken.clone() };
    for (role, want) in [(rest_api, "the REST API"), (RoleOptions::Worker, "the metrics")] {
        let mut options = NodeOptions { role, ..head_options(dir.path().to_owned()) };
        options.work.metrics_api = Some(taken.clone());
        let refused = Node::start(options, &cluster.group, Clock::system()).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("cannot serve {want}"));
    }
}

#[tokio::test]
async fn simultaneous_requests_to_a_head_all_succeed() {
    let cluster = Cluster::of(&[&[], &["gpu"], &["gpu"]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let executions = (0..20).map(|_| cluster.execute(request(&hello, 3)));
    for answer in futures::future::join_all(executions).await {
        assert_eq!(answer["code"], "200", "{answer}");
        assert_eq!(answer["results"][0]["frequency"], 100.0);
    }
}
