//! Peers of both versions of b7s, and clients on the network.

use tokio::sync::mpsc;

use super::*;
use crate::message::{
    Execute, ExecuteReply, RollCall, RollCallResponse, WorkOrder, WorkOrderResponse,
};
use crate::peers::WorkProtocol;

async fn receive_message(events: &mut mpsc::Receiver<Event>) -> Value {
    let received = async {
        loop {
            if let Event::Message { bytes, .. } = events.recv().await.unwrap() {
                return serde_json::from_slice(&bytes).unwrap();
            }
        }
    };
    timeout(WITHIN, received).await.unwrap()
}

fn order(function: &content::Function, request_id: &str) -> WorkOrder {
    WorkOrder {
        function_id: function.id.to_string(),
        method: function.method.to_string(),
        request_id: request_id.to_owned(),
        ..WorkOrder::default()
    }
}

/// Has `worker` run `function`, by a message of one version.
async fn send_order(
    head: &Network,
    worker: &PeerId,
    function: &content::Function,
    generation: WorkProtocol,
) {
    let order = order(function, "r1");
    let sent = match generation {
        WorkProtocol::Line | WorkProtocol::B7sV2 => Message::WorkOrder(order),
        WorkProtocol::B7sV1 => {
            let from = head.peer_id().to_string();
            Message::Execute(Execute { order, from, ..Execute::default() })
        }
    };
    head.tell(worker, WORK_PROTOCOL, &message(&sent)).await.unwrap();
}

#[tokio::test]
async fn worker_executes_orders_of_b7s_heads_of_both_versions() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let worker = cluster.workers[0].peer_id().clone();
    let module = wat::parse_str(HELLO).unwrap();
    cluster.workers[0].functions().add(hello.method.clone(), module).await.unwrap();
    let head = cluster.stranger_of(&cluster.workers[0]).await;
    let (head, mut events) = head;
    let own_id = head.peer_id().to_string();
    for origin in [String::new(), own_id.clone()] {
        let is_older = !origin.is_empty();
        let call = RollCall {
            function_id: hello.id.to_string(),
            request_id: "r1".into(),
            origin,
            ..RollCall::default()
        };
        let call = message(&Message::RollCall(call));
        until(WITHIN, || head.publish(GENERAL_TOPIC, call.clone())).await.unwrap();
        let report = receive_message(&mut events).await;
        let mut want = json!({
            "type": "MsgRollCallResponse", "code": "202",
            "function_id": hello.id.to_string(), "request_id": "r1",
        });
        if is_older {
            want["from"] = json!(worker.as_str());
        }
        assert_eq!(report, want);
        let generation = if is_older { WorkProtocol::B7sV1 } else { WorkProtocol::B7sV2 };
        send_order(&head, &worker, &hello, generation).await;
        let answer = receive_message(&mut events).await;
        assert_eq!((&answer["request_id"], &answer["code"]), (&json!("r1"), &json!("200")));
        let outcome = json!({"stdout": "hello\n", "stderr": "", "exit_code": 0});
        if is_older {
            assert_eq!(answer["type"], "MsgExecuteResponse");
            assert_eq!(answer["from"], worker.as_str());
            assert_eq!(answer["results"][worker.as_str()]["result"], outcome);
        } else {
            assert_eq!(answer["type"], "MsgWorkOrderResponse");
            assert_eq!(answer["result"]["result"], outcome);
        }
    }
}

/// b7s heads read only the result and ignore the code around it.
#[tokio::test]
async fn refusal_is_sent_as_a_failure_to_b7s_heads_of_both_versions() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = cluster.workers[0].peer_id().clone();
    let functions = cluster.workers[0].functions();
    let cannot_link =
        r#"(module (import "blockless_http" "http_req" (func)) (func (export "_start")))"#;
    let cannot_link = wat::parse_str(cannot_link).unwrap();
    let cannot_link = functions.add("a.wasm".parse().unwrap(), cannot_link).await.unwrap();
    let unknown =
        content::Function { id: FunctionId::from_module(b"unknown"), ..cannot_link.clone() };
    let (head, mut events) = cluster.stranger_of(&cluster.workers[0]).await;
    for (function, code, reason) in [
        (cannot_link, "500", "blockless_http::http_req"),
        (unknown, "404", "no node or gateway provided the function"),
    ] {
        for generation in [WorkProtocol::B7sV2, WorkProtocol::B7sV1] {
            send_order(&head, &worker, &function, generation).await;
            let answer = receive_message(&mut events).await;
            assert_eq!(answer["code"], code, "{answer}");
            let result = match generation {
                WorkProtocol::B7sV2 => &answer["result"],
                _ => &answer["results"][worker.as_str()],
            };
            assert_eq!(result["code"], code, "{answer}");
            let outcome = &result["result"];
            assert_eq!((&outcome["exit_code"], &outcome["stdout"]), (&json!(255), &json!("")));
            let stderr = outcome["stderr"].as_str().unwrap();
            let is_told = stderr.starts_with("runtime: failed to run the function: ");
            assert!(is_told && stderr.contains(reason) && stderr.ends_with('\n'), "{answer}");
        }
    }
}

#[tokio::test]
async fn unknown_function_ids_share_one_metrics_label() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker_with(with_metrics).await;
    let (head, mut events) = cluster.stranger_of(&cluster.workers[0]).await;
    for n in 0..3 {
        let call = roll_call(&format!("made-up-{n}"), &format!("r{n}"));
        until(WITHIN, || head.publish(GENERAL_TOPIC, call.clone())).await.unwrap();
        receive_message(&mut events).await;
    }
    let counts = counts(&cluster.workers[0]).await;
    let line = "b7s_node_rollcalls_seen{function=\"other\"} 3";
    assert!(counts.lines().any(|counted| counted == line), "{counts}");
    assert!(!counts.contains("made-up"), "{counts}");
}

/// Starts a b7s worker of one version, which accepts roll calls and responds to orders with this
/// standard output. Returns its id and the types of the messages that it responds to.
async fn b7s_worker(
    cluster: &Cluster,
    is_older: bool,
    stdout: String,
) -> (PeerId, mpsc::Receiver<String>) {
    let (heard, hears) = mpsc::channel(8);
    let id = cluster.replying(None, move |own_id, received| {
        let kind = received.kind().to_owned();
        let from = if is_older { own_id.to_string() } else { String::new() };
        let reply = match received {
            Message::RollCall(call) => {
                Message::RollCallResponse(RollCallResponse { from, ..acceptance(call) })
            }
            Message::WorkOrder(order) if !is_older => {
                Message::WorkOrderResponse(answer_to(order, &stdout))
            }
            Message::Execute(request) if is_older => {
                let WorkOrderResponse { request_id, result, .. } =
                    answer_to(request.order, &stdout);
                let results = [(from.clone(), result)].into();
                let code = Code::OK;
                let reply = ExecuteReply { request_id, from, code, results, ..Default::default() };
                Message::ExecuteResponse(reply)
            }
            _ => return None,
        };
        heard.try_send(kind).unwrap();
        Some(reply)
    });
    (id.await, hears)
}

#[tokio::test]
async fn b7s_workers_of_both_versions_execute_orders_of_our_head() {
    for (is_older, order) in [(false, "MsgWorkOrder"), (true, "MsgExecute")] {
        let cluster = Cluster::of(&[]).await;
        let hello = cluster.add("hello.wasm", HELLO).await;
        let (worker, mut heard) = b7s_worker(&cluster, is_older, "b7s\n".to_owned()).await;
        let answer = cluster.execute(request(&hello, 1)).await;
        assert_eq!(answer["code"], "200", "{answer}");
        assert_eq!(answer["results"][0]["result"]["stdout"], "b7s\n");
        assert_eq!(answer["cluster"]["peers"], json!([worker.as_str()]));
        assert_eq!(heard.recv().await.unwrap(), "MsgRollCall");
        assert_eq!(heard.recv().await.unwrap(), order);
        cluster.group.shutdown().await;
    }
}

/// b7s workers do not limit their output.
#[tokio::test]
async fn too_long_response_of_a_b7s_worker_is_an_error_immediately() {
    let cluster = Cluster::headed_by(|options| options.limits.output_bytes = 1024).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (peer, _heard) = b7s_worker(&cluster, false, "x".repeat(5 * 1024 * 1024)).await;
    let answer = cluster.execute(request(&hello, 1)).await;
    assert_eq!(answer["code"], "500", "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(peer.as_str()) && message.contains("--output-limit"), "{answer}");
}

#[tokio::test]
async fn execution_requested_over_libp2p_succeeds_as_over_the_rest_api() {
    let cluster = Cluster::of(&[&[], &["gpu"]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (client, mut events) = cluster.stranger().await;
    let head = cluster.head.peer_id();
    let gpu = cluster.workers[1].peer_id().to_string();
    let request = Execute { order: order(&hello, ""), topic: "gpu".into(), ..Execute::default() };
    client.tell(head, WORK_PROTOCOL, &message(&Message::Execute(request))).await.unwrap();
    let answer = receive_message(&mut events).await;
    assert_eq!((&answer["type"], &answer["code"]), (&json!("MsgExecuteResponse"), &json!("200")));
    assert_eq!(answer["cluster"], json!({"peers": [gpu]}));
    let result = &answer["results"][&gpu];
    assert_eq!((&result["code"], &result["result"]["stdout"]), (&json!("200"), &json!("hello\n")));
    assert_eq!(result["call_signature"].as_str().unwrap().len(), 128);

    let mut wrong = Execute { order: order(&hello, ""), ..Execute::default() };
    wrong.order.config.consensus_algorithm = Some("raft".into());
    client.tell(head, WORK_PROTOCOL, &message(&Message::Execute(wrong))).await.unwrap();
    let answer = receive_message(&mut events).await;
    assert_eq!(answer["code"], "400");
    assert!(answer["message"].as_str().unwrap().contains("raft is not supported"), "{answer}");
}
