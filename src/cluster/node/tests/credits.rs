//! Two heads that share a worker.

use content::Function;

use super::{executions::*, *};
use crate::message::Credit;

/// How many credits the worker has given each of the heads.
fn credits(worker: &Node, heads: [&Node; 2]) -> [usize; 2] {
    let NodeRole::Worker(worker) = &worker.role else { panic!("it is a worker") };
    heads.map(|head| {
        let Credit { credits, .. } = worker.credit_for(head.peer_id());
        credits
    })
}

/// Asks a head for a run without waiting for its end, and returns the path of the execution.
async fn begin(head: &Node, function: &Function) -> String {
    let mut request = request(function, 1);
    request["config"]["async"] = json!(true);
    let (status, answer) = post(head.api_address().unwrap(), &request.to_string()).await;
    assert_eq!(status, 202, "{answer}");
    format!("/api/v1/executions/{}", answer["request_id"].as_str().unwrap())
}

#[tokio::test]
async fn a_slot_that_one_head_gives_up_is_for_the_other_that_waits() {
    let mut cluster = Cluster::with(answering_within(Duration::from_mins(10))).await;
    let limits = Limits { wall: Duration::from_mins(10), ..LIMITS_DEFAULT };
    cluster.add_worker(&[], limits, 2).await;
    let spin = cluster.add("spin.wasm", SPIN).await;
    let worker = &cluster.workers[0];
    let work = WorkOptions { drain_within: Duration::ZERO, ..WorkOptions::usual() };
    let options = NodeOptions {
        boot_nodes: vec![worker.addresses()[0].parse().unwrap()],
        work,
        ..head_options(cluster.dir.path().join("second"), Identity::random(), 0)
    };
    let second = Node::start(options, &cluster.group, Clock::system()).await.unwrap();
    let both = [&cluster.head, &second];
    let have = async |wanted: [usize; 2]| {
        let look = || async {
            let found = credits(worker, both);
            if found == wanted { Ok(()) } else { Err(found) }
        };
        until(WITHIN, look).await.unwrap();
    };
    have([1, 1]).await;
    // A worker that has never answered is left alone once it takes long.
    for head in both {
        let hello = wat::parse_str(HELLO).unwrap();
        let hello = head.functions().add("hello.wasm".parse().unwrap(), hello).await.unwrap();
        let body = request(&hello, 1).to_string();
        let (_, answer) = post(head.api_address().unwrap(), &body).await;
        assert_eq!(answer["code"], "200", "{answer}");
    }

    let first_run = begin(&cluster.head, &spin).await;
    busy(worker).await;
    // From here on neither head asks who is ready.
    for head in both {
        let holds = || async {
            let peers = head.head().unwrap().peers().into_iter();
            let mut holding = peers.filter(|(_, peer)| peer.functions.contains(&spin.id));
            holding.next().map(drop).ok_or("the worker did not say that it holds the function")
        };
        until(WITHIN, holds).await.unwrap();
    }
    begin(&cluster.head, &spin).await;
    begin(&cluster.head, &spin).await;
    have([2, 0]).await;

    begin(&second, &spin).await;
    have([1, 0]).await;
    let address = cluster.head.api_address().unwrap();
    let (status, _) = send(address, &format!("DELETE {first_run}"), "", "").await;
    assert!((200..300).contains(&status), "{status}");
    have([1, 1]).await;

    second.shutdown().await;
    have([2, 0]).await;
    cluster.group.shutdown().await;
}
