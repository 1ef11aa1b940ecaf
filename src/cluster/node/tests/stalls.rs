//! Workers that stall for a while: slow workers among fast workers, and many workers at the same time.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use wire::executions::ExecutionPeerBody;

use super::executions::*;
use super::operator::changed;
use super::*;
use crate::message::Offer;
use crate::worker::ExternalRuntime;

/// Adds a worker that responds as `hello` does until the flag is set and then stops responding. Returns
/// its id.
async fn add_faltering(cluster: &Cluster, function: &str, is_stalled: Arc<AtomicBool>) -> PeerId {
    let offer = Offer {
        role: "worker".into(),
        functions: vec![function.to_owned()],
        slots: 10,
        slots_free: 10,
        ..Offer::default()
    };
    let reply = move |_: &PeerId, received| match received {
        Message::WorkOrder(order) if !is_stalled.load(Relaxed) => {
            Some(Message::WorkOrderResponse(answer_to(order, "hello\n")))
        }
        _ => None,
    };
    cluster.replying(Some(offer), reply).await
}

/// Returns the parts of `peer` in all executions.
fn parts_of(cluster: &Cluster, peer: &PeerId) -> Vec<ExecutionPeerBody> {
    let executions = cluster.head.head().unwrap().executions().list(1000);
    let parts = executions.into_iter().flat_map(|execution| execution.peers);
    parts.filter(|part| part.peer_id == peer.as_str()).collect()
}

fn is_overtaken(part: &ExecutionPeerBody) -> bool {
    part.state == "replaced" && part.reason.contains("a spare responded first")
}

#[tokio::test]
async fn requests_neither_fail_nor_time_out_while_a_worker_is_stalled() {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..4 {
        cluster.add_worker(&[], LIMITS_DEFAULT, 10).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 4)).await;
    offered(&cluster, &hello).await;
    let is_stalled = Arc::<AtomicBool>::default();
    let function = hello.id.to_string();
    let stalled = add_faltering(&cluster, &function, Arc::clone(&is_stalled)).await;
    for _ in 0..3 {
        // The request is repeated, so that the new worker is as trusted as the other workers.
        assert_eq!(cluster.execute(request(&hello, 5)).await["code"], "200");
    }
    // Two workers are cordoned, so that the other three, one of which stalls, have to run the order
    // until there are spares.
    let (some, spares) = (request(&hello, 3), &cluster.ids()[..2]);
    for spare in spares {
        changed(&cluster.head, spare, json!({"cordoned": true})).await;
    }
    is_stalled.store(true, Relaxed);
    let uncordoned = async {
        until_true(|| parts_of(&cluster, &stalled).iter().any(|part| part.state == "running"))
            .await;
        for spare in spares {
            changed(&cluster.head, spare, json!({"cordoned": false})).await;
        }
    };
    let (answer, ()) = tokio::join!(cluster.execute(some.clone()), uncordoned);
    assert_eq!(answer["code"], "200", "{answer}");
    assert!(parts_of(&cluster, &stalled).iter().any(is_overtaken));
    let clients = (0..8).map(|_| async {
        for _ in 0..25 {
            let answer = cluster.execute(some.clone()).await;
            assert_eq!(answer["code"], "200", "{answer}");
            let peers = answer["results"][0]["peers"].as_array().unwrap();
            assert_eq!(peers.len(), 3, "three results, each counted once: {answer}");
            assert_eq!(answer["cluster"]["peers"], answer["results"][0]["peers"]);
        }
    });
    futures::future::join_all(clients).await;
    for part in parts_of(&cluster, &stalled) {
        let is_in_time =
            part.state == "answered" || part.state == "canceled" || is_overtaken(&part);
        assert!(is_in_time, "the stalled worker was not awaited: {part:?}");
    }
}

/// Adds a worker of 64 slots with a runtime that needs a fifth of a second.
async fn add_slow_worker(cluster: &mut Cluster) {
    let program = cluster.dir.path().join("slow-runtime");
    std::fs::write(&program, "#!/bin/sh\nsleep 0.2\necho hello\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let workspace = cluster.dir.path().join("workspace");
    cluster
        .add_worker_with(|options| {
            options.concurrency = NonZeroU32::new(64).unwrap();
            options.execution.workspace = Some(workspace);
            options.execution.external =
                Some(ExternalRuntime { program, variables: BTreeSet::new() });
        })
        .await;
}

/// Runs 20 executions by each of 16 clients. Returns the number of executions by the last worker.
async fn run_load(cluster: &Cluster, request: &Value) -> usize {
    let last = json!([cluster.workers.last().unwrap().peer_id().as_str()]);
    let clients = (0..16).map(|_| async {
        let mut n_by_last = 0;
        for _ in 0..20 {
            let answer = cluster.execute(request.clone()).await;
            assert_eq!(answer["code"], "200", "{answer}");
            n_by_last += usize::from(answer["cluster"]["peers"] == last);
        }
        n_by_last
    });
    futures::future::join_all(clients).await.into_iter().sum()
}

#[tokio::test]
async fn slow_worker_with_many_slots_gets_less_than_a_quarter_of_the_orders() {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..3 {
        cluster.add_worker(&[], LIMITS_DEFAULT, 10).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 3)).await;
    offered(&cluster, &hello).await;
    add_slow_worker(&mut cluster).await;
    cluster.execute(request(&hello, 4)).await;
    offered(&cluster, &hello).await;
    let alone = request(&hello, 1);
    // First, the head measures the speed of the slow worker.
    run_load(&cluster, &alone).await;
    let n_slow = run_load(&cluster, &alone).await;
    assert!(n_slow < 320 / 4, "{n_slow} of 320; its share of the slots would be 217");
}

#[tokio::test]
async fn first_request_reaches_all_workers_that_have_just_joined() {
    const N_WORKERS: usize = 24;
    let cluster = Cluster::of(&[&[] as &[&str]; N_WORKERS]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let asked = request_within(&hello, i64::try_from(N_WORKERS).unwrap(), 0);
    let answer = cluster.execute(asked).await;
    assert_eq!(answer["code"], "200", "{answer}");
    assert_eq!(answer["cluster"]["peers"], texts(&cluster.ids()));
}
