//! Attributes of workers and requests that require them.

use super::*;
use crate::message::{OFFER_PROTOCOL, Offer};

/// Starts a head and a worker for each value of `zone`. The first worker declares no attributes.
async fn cluster_of_zones(zones: &[&str]) -> Cluster {
    let mut cluster = Cluster::of(&[&[]]).await;
    for zone in zones {
        let attributes = [("zone".to_owned(), (*zone).to_owned())].into();
        cluster.add_worker_with(|options| options.work.attributes = attributes).await;
    }
    cluster
}

/// Executes a request. Returns the workers, and true if no roll call was needed.
async fn execute_once(cluster: &Cluster, request: &Value) -> (Value, bool) {
    let answer = cluster.execute(request.clone()).await;
    let execution = executions::known(cluster, &answer["request_id"]).await;
    (answer["cluster"]["peers"].clone(), execution["warm"].as_bool().unwrap())
}

#[tokio::test]
async fn workers_with_requested_attributes_get_orders_without_a_roll_call() {
    let cluster = cluster_of_zones(&["a", "b"]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let mut exact = request(&hello, 1);
    exact["config"]["attributes"] = json!({"values": [{"name": "zone", "value": "b"}]});
    let mut selected = request(&hello, 1);
    selected["config"]["selector"] = json!("zone in (b, c)");
    let want = json!([cluster.workers[2].peer_id().as_str()]);
    assert_eq!(execute_once(&cluster, &exact).await.0, want);
    let head = cluster.head.head().unwrap();
    until_true(|| {
        head.peers().iter().any(|(id, peer)| {
            id == cluster.workers[2].peer_id() && !peer.offer.functions.is_empty()
        })
    })
    .await;
    assert_eq!(execute_once(&cluster, &exact).await, (want.clone(), true));
    assert_eq!(execute_once(&cluster, &selected).await, (want, true));
    for attributes in [
        json!({"values": [{"name": "zone", "value": "c"}]}),
        json!({"values": [{"name": "zone", "value": "a"}], "attestation_required": true}),
        json!({"attestors": {"each": ["12D3KooWpeer1"]}}),
    ] {
        let mut unmet = request_within(&hello, 1, 1);
        unmet["config"]["attributes"] = attributes;
        let answer = cluster.execute(unmet).await;
        let want = "; 3 workers of it are connected, with these attributes or without them";
        let message = answer["message"].as_str().unwrap();
        assert!(answer["code"] == "408" && message.ends_with(want), "{answer}");
    }
}

#[tokio::test]
async fn only_reporting_workers_that_fit_the_selector_are_chosen() {
    let cluster = cluster_of_zones(&["a", "b"]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let (silent, a) = (cluster.workers[0].peer_id(), cluster.workers[1].peer_id());
    for (selector, want) in [("zone!=b,zone", vec![a]), ("!zone", vec![silent])] {
        let mut asked = request(&hello, 1);
        asked["config"]["selector"] = json!(selector);
        let answer = cluster.execute(asked.clone()).await;
        let want: Vec<String> = want.into_iter().map(PeerId::to_string).collect();
        assert_eq!(answer["cluster"]["peers"], json!(want), "{selector}: {answer}");
        // Requests all workers with these attributes.
        asked["config"]["number_of_nodes"] = json!(-1);
        let answer = cluster.execute(asked).await;
        assert_eq!(answer["cluster"]["peers"], json!(want), "{selector}: {answer}");
    }
    let mut asked = request(&hello, 1);
    asked["config"] = json!({"selector": "zone=c", "timeout": 1});
    let answer = cluster.execute(asked.clone()).await;
    assert_eq!(answer["code"], "408");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("for 1 node that `zone=c` selects"), "{message}");
    assert!(message.ends_with("; 0 workers of it that the selector selects are connected"));
    asked["config"]["selector"] = json!("zone of (c)");
    let body = asked.to_string();
    let (status, answer) = post(cluster.head.api_address().unwrap(), &body).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("selector"), "{answer}");
}

#[tokio::test]
async fn attributes_of_a_peer_are_limited() {
    let cluster = Cluster::of(&[]).await;
    let (bad, _events) = cluster.stranger().await;
    let mut attributes: BTreeMap<_, _> =
        (0..1000).map(|n| (format!("n{n:04}"), "x".to_owned())).collect();
    attributes.insert("a".repeat(10_000), "x".to_owned());
    attributes.insert("b".to_owned(), "x".repeat(10_000));
    let offer = Offer { role: "worker".into(), attributes, ..Offer::default() };
    bad.tell(cluster.head.peer_id(), OFFER_PROTOCOL, &message(&offer)).await.unwrap();
    let head = cluster.head.head().unwrap();
    let known = until(WITHIN, || async {
        let known = head.peers().into_iter().find(|(id, _)| id == bad.peer_id());
        known.filter(|(_, peer)| peer.offer.role.is_some()).ok_or("not seen")
    });
    let (_, peer) = known.await.unwrap();
    assert_eq!(peer.offer.attributes.len(), 64);
    let attributes = &peer.offer.attributes;
    assert!(attributes.keys().all(|name| name.len() == 5), "{attributes:?}");
}
