//! Strangers that offer what they do not have, forge answers, or give none.

use super::{executions::*, *};

/// Slots of a worker in these tests.
const SLOTS: u32 = 10;

/// A cluster of three workers that have answered for a while, and the function they answered for.
async fn experienced() -> (Cluster, content::Function) {
    let mut cluster = Cluster::of(&[]).await;
    for _ in 0..3 {
        cluster.add_worker(&[], LIMITS_DEFAULT, SLOTS).await;
    }
    let hello = cluster.add("hello.wasm", HELLO).await;
    cluster.execute(request(&hello, 3)).await;
    offered(&cluster, &hello).await;
    for _ in 0..40 {
        assert_eq!(cluster.execute(request(&hello, 1)).await["code"], "200");
    }
    (cluster, hello)
}

async fn answers(cluster: &Cluster, request: &Value, n: usize) -> Vec<Value> {
    let mut answers = Vec::new();
    for _ in 0..n {
        let answer = cluster.execute(request.clone()).await;
        assert_eq!(answer["code"], "200", "{answer}");
        answers.push(answer);
    }
    answers
}

#[tokio::test]
async fn strangers_that_offer_a_billion_slots_and_forge_answers_are_rarely_asked() {
    let (cluster, hello) = experienced().await;
    for _ in 0..3 {
        impostor(&cluster, &hello.id.to_string(), Reaction::Unsigned).await;
    }
    let is_forged = |answer: &&Value| answer["results"][0]["result"]["stdout"] == "";
    let alone = answers(&cluster, &request(&hello, 1), 60).await;
    let n_forged = alone.iter().filter(is_forged).count();
    assert!(n_forged <= 6, "{n_forged} of 60 were forged");
    let together = answers(&cluster, &request(&hello, 3), 37).await;
    let n_forged = together.iter().filter(is_forged).count();
    // A machine that is so busy that workers seem stalled has spares asked, who are the liars here.
    assert!(n_forged <= 7, "{n_forged} of 37 majorities were forged");
    cluster.group.shutdown().await;
}

#[tokio::test]
async fn load_above_the_slots_of_trusted_workers_waits_for_them_and_not_for_strangers() {
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
    cluster.group.shutdown().await;
}

#[tokio::test]
async fn strangers_that_say_nothing_delay_few_requests_and_none_for_long() {
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
        let mut took = Vec::new();
        for _ in 0..40 {
            let began = tokio::time::Instant::now();
            let answer = cluster.execute(request(&hello, 1)).await;
            assert_eq!(answer["code"], "200", "{answer}");
            took.push(began.elapsed());
        }
        took.sort();
        assert!(took[20] < Duration::from_millis(500), "half take longer than {:?}", took[20]);
        assert!(took[39] < Duration::from_secs(10), "one took {:?}", took[39]);
        cluster.group.shutdown().await;
    }
}
