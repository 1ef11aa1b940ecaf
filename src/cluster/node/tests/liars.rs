//! Strangers that offer more than they have, forge results, or do not respond.

use super::executions::*;
use super::*;

/// Number of slots of a worker in these tests.
const SLOTS: u32 = 10;

/// Starts a cluster whose three workers have returned many results of a function. Returns it with that
/// function.
async fn experienced() -> (Cluster, content::Function) {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..3 {
        cluster.add_worker(&[], LIMITS_DEFAULT, SLOTS).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 3)).await;
    offered(&cluster, &hello).await;
    for _ in 0..20 {
        // The request runs on all workers, since a worker delayed by a busy machine would otherwise
        // have few results.
        assert_eq!(cluster.execute(request(&hello, 3)).await["code"], "200");
    }
    (cluster, hello)
}

/// Returns true if no worker was so slow that a spare ran its order. After such a delay, the worker
/// is paused and strangers get its work.
fn is_undisturbed(cluster: &Cluster) -> bool {
    let executions = cluster.head.head().unwrap().executions().list(1000);
    let mut parts = executions.iter().flat_map(|execution| &execution.peers);
    parts.all(|part| part.state == "answered")
}

/// Executes `n` requests, each on `n_nodes`, in a cluster of experienced workers and of strangers that
/// forge results. Returns the number of executions whose most frequent result was forged, and the number
/// of executions after which [`is_undisturbed`] was false.
async fn count_forged(n_nodes: i64, n: usize) -> (usize, usize) {
    let (cluster, hello) = experienced().await;
    for _ in 0..3 {
        impostor(&cluster, &hello.id.to_string(), Reaction::Unsigned).await;
    }
    let (mut n_forged, mut n_disturbed) = (0, 0);
    for _ in 0..n {
        let answer = cluster.execute(request(&hello, n_nodes)).await;
        assert_eq!(answer["code"], "200", "{answer}");
        n_forged += usize::from(answer["results"][0]["result"]["stdout"] == "");
        n_disturbed += usize::from(!is_undisturbed(&cluster));
    }
    cluster.group.shutdown().await;
    (n_forged, n_disturbed)
}

#[tokio::test]
async fn strangers_with_forged_results_and_many_slots_get_few_orders() {
    let (n_alone, n_disturbed) = Box::pin(count_forged(1, 60)).await;
    assert!(n_alone <= 6 + n_disturbed, "{n_alone} of 60 were forged, {n_disturbed} disturbed");
    let (n_together, n_disturbed) = Box::pin(count_forged(3, 37)).await;
    assert!(
        n_together <= 4 + n_disturbed,
        "{n_together} of 37 majorities, {n_disturbed} disturbed"
    );
}

#[tokio::test]
async fn requests_beyond_the_trusted_slots_mostly_wait_for_trusted_workers() {
    let (cluster, hello) = experienced().await;
    for _ in 0..3 {
        impostor(&cluster, &hello.id.to_string(), Reaction::Unsigned).await;
    }
    let executions = (0..60).map(|_| cluster.execute(request(&hello, 1)));
    let answers = futures::future::join_all(executions).await;
    assert!(answers.iter().all(|answer| answer["code"] == "200"));
    let is_forged = |answer: &&Value| answer["results"][0]["result"]["stdout"] == "";
    let n_forged = answers.iter().filter(is_forged).count();
    assert!(n_forged <= 12, "{n_forged} of 60 were forged");
}

#[tokio::test]
async fn silent_strangers_delay_few_requests_and_let_no_request_fail() {
    for is_experienced in [true, false] {
        let (cluster, hello) = if is_experienced {
            experienced().await
        } else {
            let cluster = Cluster::of(&[&[], &[], &[]]).await;
            let hello = cluster.add("hello.wasm", HELLO).await;
            (cluster, hello)
        };
        for _ in 0..3 {
            impostor(&cluster, &hello.id.to_string(), Reaction::Silence).await;
        }
        let mut n_delayed = 0;
        for _ in 0..20 {
            let answer = cluster.execute(request(&hello, 1)).await;
            assert_eq!(answer["code"], "200", "{answer}");
            let execution = known(&cluster, &answer["request_id"]).await;
            n_delayed += usize::from(execution["peers"].as_array().unwrap().len() > 1);
        }
        assert!(n_delayed <= 10, "{n_delayed} of 20 requests were delayed by a stranger");
        cluster.group.shutdown().await;
    }
}
