//! Decisions of the operator: cordoned, drained, approved and refused nodes.

use super::*;
use crate::message::{OFFER_PROTOCOL, Offer};

const JSON: &str = "application/json";

/// Changes a node and returns the status and the body.
async fn patch(head: &Node, node: &str, body: Value) -> (u16, Value) {
    let line = format!("PATCH /api/v1/nodes/{node}");
    send(head.api_address().unwrap(), &line, JSON, &body.to_string()).await
}

/// Changes a node successfully.
pub(super) async fn changed(head: &Node, node: &PeerId, body: Value) -> Value {
    let (status, answer) = patch(head, node.as_str(), body).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Returns the head's entry of `node`.
async fn listed(head: &Node, node: &PeerId) -> Option<Value> {
    let (_, list) = get(head.api_address().unwrap(), "/api/v1/nodes").await;
    let mut nodes = list["nodes"].as_array().unwrap().iter();
    nodes.find(|listed| listed["peer_id"] == node.as_str()).cloned()
}

#[tokio::test]
async fn cordoned_worker_gets_no_work() {
    let cluster = Cluster::of(&[&[], &[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    assert_eq!(cluster.execute(request(&hello, 2)).await["code"], "200");
    let (first, other) = (cluster.workers[0].peer_id(), cluster.workers[1].peer_id());
    for _ in 0..2 {
        let answer = changed(&cluster.head, first, json!({"cordoned": true})).await;
        assert_eq!((&answer["cordoned"], &answer["orders"]), (&json!(true), &json!([])));
    }
    for n_nodes in [1, 1, 1, 1, -1] {
        let answer = cluster.execute(request(&hello, n_nodes)).await;
        assert_eq!(answer["cluster"]["peers"], texts(std::slice::from_ref(other)), "{answer}");
    }
    let two = request_within(&hello, 2, 1);
    let answer = cluster.execute(two).await;
    assert_eq!(answer["code"], "408");
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with("; 1 more is cordoned (see triptych nodes)"), "{message}");
    let answer = changed(&cluster.head, first, json!({"cordoned": false})).await;
    assert_eq!(answer["cordoned"], Value::Null);
    assert_eq!(cluster.execute(request(&hello, 2)).await["code"], "200");
}

#[tokio::test]
async fn waiting_request_is_served_once_its_worker_is_uncordoned() {
    let cluster = Cluster::of(&[&[]]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let worker = cluster.workers[0].peer_id();
    changed(&cluster.head, worker, json!({"cordoned": true})).await;
    let uncordoned = async {
        let head = cluster.head.head().unwrap();
        until_true(|| !head.executions().in_progress().is_empty()).await;
        changed(&cluster.head, worker, json!({"cordoned": false})).await;
    };
    let (answer, ()) = tokio::join!(cluster.execute(request(&hello, 1)), uncordoned);
    assert_eq!(answer["code"], "200", "{answer}");
}

#[tokio::test]
async fn drained_worker_completes_its_orders() {
    let mut cluster = Cluster::of(&[]).await;
    let limits = Limits { wall: Duration::from_secs(2), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 2).await;
    let sleep = cluster.add("sleep.wasm", SLEEP).await;
    let worker = cluster.workers[0].peer_id();
    let draining = async {
        busy(&cluster.workers[0]).await;
        let answer = changed(&cluster.head, worker, json!({"cordoned": true})).await;
        assert_eq!(answer["running"], 1, "{answer}");
        assert_eq!(answer["orders"][0]["function_id"], sleep.id.to_string(), "{answer}");
        let node = format!("{worker}?wait=60");
        let (status, answer) = patch(&cluster.head, &node, json!({"cordoned": true})).await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!((&answer["running"], &answer["orders"]), (&Value::Null, &json!([])));
    };
    let (answer, ()) = tokio::join!(cluster.execute(request(&sleep, 1)), draining);
    assert_eq!(answer["code"], "200", "its running orders were not canceled: {answer}");
}

#[tokio::test]
async fn changing_an_unknown_node_is_rejected() {
    let cluster = Cluster::of(&[]).await;
    let own = cluster.head.peer_id().as_str();
    let stranger = Identity::random().peer_id().to_string();
    for (node, body, want) in [
        (stranger.as_str(), json!({"cordoned": true}), 404),
        ("no id", json!({"cordoned": true}), 404),
        ("12D3KooWshort", json!({"approval": "approved"}), 404),
        (own, json!({"cordoned": true}), 409),
        (own, json!({"approval": "maybe"}), 400),
        (&format!("{own}?wait=61"), json!({}), 400),
    ] {
        let (status, answer) = patch(&cluster.head, &node.replace(' ', "%20"), body).await;
        assert_eq!(status, want, "{node}: {answer}");
    }
    let (status, answer) =
        get(cluster.head.api_address().unwrap(), &format!("/api/v1/nodes/{stranger}")).await;
    assert_eq!(status, 404);
    assert!(answer["message"].as_str().unwrap().contains("GET /api/v1/nodes"), "{answer}");
    let path = format!("/api/v1/nodes/{own}");
    assert_eq!(get(cluster.head.api_address().unwrap(), &path).await.1["role"], "head");
}

/// Returns options of a head that stores its decisions in `dir`.
fn keeping(dir: &std::path::Path) -> NodeOptions {
    let mut options = head_options(dir.join("functions"));
    options.connectivity.peer_db = Some(dir.join("peers"));
    options
}

/// Starts a head that gives work only to approved workers.
async fn approving() -> Cluster {
    Cluster::headed_by(|options| options.work.requires_approval = true).await
}

#[tokio::test]
async fn cordon_survives_a_head_restart_and_is_listed_while_the_worker_is_away() {
    let (dir, cordoned) = (tempfile::tempdir().unwrap(), Identity::random().peer_id().clone());
    for is_first in [true, false] {
        let group = Group::default();
        let head = Node::start(keeping(dir.path()), &group, Clock::system()).await.unwrap();
        if is_first {
            changed(&head, &cordoned, json!({"approval": "approved"})).await;
            changed(&head, &cordoned, json!({"cordoned": true})).await;
        }
        let node = listed(&head, &cordoned).await.unwrap();
        assert_eq!((&node["cordoned"], &node["connected"]), (&json!(true), &json!(false)));
        group.shutdown().await;
    }
}

/// Adds a worker with this identity that declares a zone. Waits until the head knows it.
async fn add(cluster: &mut Cluster, identity: Identity) {
    cluster
        .add_worker_with(|options| {
            options.identity = identity;
            options.work.attributes = [("zone".to_owned(), "a".to_owned())].into();
        })
        .await;
}

#[tokio::test]
async fn head_with_required_approval_gives_work_only_to_approved_workers() {
    let mut cluster = approving().await;
    let (early, late) = (Identity::random(), Identity::random());
    let known = changed(&cluster.head, early.peer_id(), json!({"approval": "approved"})).await;
    assert_eq!((&known["approval"], &known["connected"]), (&json!("approved"), &json!(false)));
    for identity in [early.clone(), late.clone()] {
        add(&mut cluster, identity).await;
    }
    let waiting = listed(&cluster.head, late.peer_id()).await.unwrap();
    assert_eq!(waiting["approval"], "pending", "{waiting}");
    assert_eq!(waiting["attributes"], json!({"zone": "a"}), "{waiting}");
    assert!(!waiting["addresses"].as_array().unwrap().is_empty(), "{waiting}");
    let hello = cluster.add("hello.wasm", HELLO).await;
    let early = texts(std::slice::from_ref(early.peer_id()));
    for _ in 0..3 {
        let answer = cluster.execute(request(&hello, 1)).await;
        assert_eq!(answer["cluster"]["peers"], early, "{answer}");
    }
    let evicted = cluster.head.head().unwrap().evict(None).await;
    let of_late = evicted.nodes.iter().find(|node| node.peer_id == late.peer_id().as_str());
    assert_eq!(of_late.unwrap().message, "is waiting for approval");
    let two = request_within(&hello, 2, 1);
    let answer = cluster.execute(two.clone()).await;
    let message = answer["message"].as_str().unwrap();
    assert!(message.ends_with("1 more is waiting for approval (see triptych nodes)"), "{message}");
    changed(&cluster.head, late.peer_id(), json!({"approval": "approved"})).await;
    assert_eq!(cluster.execute(request(&hello, 2)).await["code"], "200");
    changed(&cluster.head, late.peer_id(), json!({"approval": "refused"})).await;
    let answer = cluster.execute(two).await;
    let message = answer["message"].as_str().unwrap();
    assert!(
        message.ends_with("1 more is refused by the operator (see triptych nodes)"),
        "{message}"
    );
}

#[tokio::test]
async fn unapproved_strangers_get_no_orders_even_if_many_strangers_connect() {
    const N_STRANGERS: usize = 12;
    let mut cluster = approving().await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let approved = Identity::random();
    changed(&cluster.head, approved.peer_id(), json!({"approval": "approved"})).await;
    let mut strangers = Vec::new();
    for _ in 0..N_STRANGERS {
        let (network, events) = cluster.stranger().await;
        let offer = Offer {
            role: "worker".into(),
            functions: vec![hello.id.to_string()],
            slots: 1_000_000,
            slots_free: 1_000_000,
            ..Offer::default()
        };
        let offer = message(&offer);
        network.tell(cluster.head.peer_id(), OFFER_PROTOCOL, &offer).await.unwrap();
        strangers.push((network, events));
    }
    add(&mut cluster, approved.clone()).await;
    let approved = texts(std::slice::from_ref(approved.peer_id()));
    for _ in 0..20 {
        let answer = cluster.execute(request(&hello, 1)).await;
        assert_eq!(answer["cluster"]["peers"], approved, "{answer}");
    }
    for (network, mut events) in strangers {
        let waiting = listed(&cluster.head, network.peer_id()).await.unwrap();
        assert_eq!(waiting["approval"], "pending", "{waiting}");
        while let Ok(event) = events.try_recv() {
            assert!(!matches!(event, Event::Message { .. }), "{event:?}");
        }
    }
}

#[tokio::test]
async fn unapproved_worker_is_listed_only_while_it_is_connected() {
    let mut cluster = approving().await;
    let worker = Identity::random();
    add(&mut cluster, worker.clone()).await;
    cluster.workers[0].shutdown().await;
    until(WITHIN, || async { listed(&cluster.head, worker.peer_id()).await.map_or(Ok(()), Err) })
        .await
        .unwrap();
}
