//! Peers that fill a worker's function store, or occupy it with fetches.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use content::{Function, StoreLimits};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::functions::install;
use super::*;
use crate::message::{EvictFunctions, InstallFunction};

/// Limits of a store that is full with fewer than two hundred functions.
const SMALL: StoreLimits = StoreLimits { functions: 160, bytes: 1 << 30 };

/// Number of functions in the attack: more than fit in the store.
const N_FUNCTIONS: u32 = 200;

/// Returns a unique module.
fn module(n: u32) -> Vec<u8> {
    let n = n.to_be_bytes();
    [b"\0asm\x01\0\0\0\0\x05\x01".as_slice(), &n[..3], &[n[3]]].concat()
}

/// Makes `worker` fetch all functions of the attack from a stranger: publishes a roll call for one
/// function after the other, and waits for each response.
async fn fill(cluster: &Cluster, worker: &Node) {
    let (bad, mut events) = cluster.stranger_of(worker).await;
    for n in 0..N_FUNCTIONS {
        let id = FunctionId::from_module(&module(n)).to_string();
        let call = roll_call(&id, &format!("fill-{n}"));
        until(WITHIN, || bad.publish(GENERAL_TOPIC, call.clone())).await.unwrap();
        let answered = async {
            loop {
                match events.recv().await.unwrap() {
                    Event::Question { answer, .. } => {
                        let content = module(n);
                        let bytes = content.len() as u64;
                        let head = AnswerHead::Here { method: "m.wasm".into(), bytes }.to_line();
                        drop(answer.send(Answer::new(head, content.into())));
                    }
                    Event::Message { bytes, .. } => {
                        if let Ok(Message::RollCallResponse(answer)) = Message::read(&bytes) {
                            return answer.code;
                        }
                    }
                    _ => {}
                }
            }
        };
        assert_eq!(timeout(WITHIN, answered).await.unwrap(), Code::ACCEPTED);
    }
}

#[tokio::test]
async fn function_can_be_installed_after_a_stranger_filled_the_store() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker_of_store(SMALL).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    assert_eq!(cluster.execute(request(&hello, 1)).await["code"], "200");
    let installed = cluster.add("installed.wasm", SHOW).await;
    let answer = install(&cluster, json!({"cid": installed.id.to_string()})).await;
    assert_eq!(answer, (200, json!({"code": "200"})));
    let worker = &cluster.workers[0];
    until_true(|| worker.functions().get(installed.id).is_some()).await;
    fill(&cluster, worker).await;
    let held = worker.functions();
    let strange = |n: &u32| held.get(FunctionId::from_module(&module(*n))).is_some();
    assert_eq!(
        (0..N_FUNCTIONS).filter(strange).count(),
        SMALL.functions / 8,
        "number of functions within the quota"
    );
    assert!(held.get(hello.id).is_some() && held.get(installed.id).is_some());
    let new = cluster.add("new.wasm", &HELLO.replace("hello", "howdy")).await;
    let answer = cluster.execute(request(&new, 1)).await;
    assert_eq!(answer["results"][0]["result"]["stdout"], "howdy\n", "{answer}");
}

#[tokio::test]
async fn operator_of_a_head_can_evict_functions_and_a_stranger_cannot() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker_of_store(StoreLimits::default()).await;
    let (hello, show) = (cluster.add("h.wasm", HELLO).await, cluster.add("s.wasm", SHOW).await);
    for function in [&hello, &show] {
        assert_eq!(cluster.execute(request(function, 1)).await["code"], "200");
    }
    install(&cluster, json!({"cid": show.id.to_string()})).await;
    let worker = &cluster.workers[0];
    let held = worker.functions();
    let has = |function: &Function| held.get(function.id).is_some();
    let (bad, _events) = cluster.stranger_of(worker).await;
    let all = EvictFunctions { request_id: "x".into(), ..EvictFunctions::default() };
    let all = message(&Message::EvictFunctions(all));
    bad.tell(worker.peer_id(), WORK_PROTOCOL, &all).await.unwrap();

    let evict = async |body: Value| {
        let line = "POST /api/v1/functions/evict";
        let address = cluster.head.api_address().unwrap();
        send(address, line, "application/json", &body.to_string()).await
    };
    let id = worker.peer_id().to_string();
    let report = |functions: usize, bytes: u64, left: usize| json!({"nodes": [{"peer_id": id, "functions": functions, "bytes": bytes, "left": left}]});
    // The installation of `show`, which the worker pins, might still be in progress, so the eviction is
    // repeated.
    until(WITHIN, || async {
        let all = evict(json!({"all": true})).await.1;
        if has(&hello) || !has(&show) { Err(all) } else { Ok(()) }
    })
    .await
    .unwrap();
    assert_eq!(evict(json!({"all": true})).await, (200, report(0, 0, 1)));
    let cid = show.id.to_string();
    assert_eq!(evict(json!({"cid": cid})).await, (200, report(1, show.kept_bytes, 0)));
    assert!(!has(&show));
    assert_eq!(evict(json!({})).await.0, 400);
    assert_eq!(evict(json!({"cid": cid, "all": true})).await.0, 400);
    assert_eq!(
        cluster.execute(request(&hello, 1)).await["code"],
        "200",
        "the function is fetched again"
    );
}

/// Serves endless manifests. Returns the address, the number of requests, and a notification of each
/// request.
async fn dripping(group: &Group) -> (String, Arc<(AtomicUsize, Notify)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<(AtomicUsize, Notify)>::default();
    let counted = Arc::clone(&asked);
    let drip = async move || {
        counted.0.fetch_add(1, Relaxed);
        counted.1.notify_one();
        let start = futures::stream::iter([Ok::<_, std::convert::Infallible>("{")]);
        Body::from_stream(futures::StreamExt::chain(start, futures::stream::pending()))
    };
    let router = Router::new().route("/{n}", get(drip));
    group.spawn("drips", async move { axum::serve(listener, router).await.unwrap() });
    (address, asked)
}

#[tokio::test]
async fn slow_manifests_of_strangers_do_not_delay_new_functions() {
    let mut cluster = Cluster::of(&[]).await;
    cluster.add_worker_of_store(StoreLimits::default()).await;
    let worker = &cluster.workers[0];
    let (address, asked) = dripping(&cluster.group).await;
    let mut strangers = Vec::new();
    for n in 0..2 {
        let (bad, events) = cluster.stranger_of(worker).await;
        for m in 0..8 {
            let manifest_url = format!("{address}/{n}{m}");
            let cid = FunctionId::from_address(&manifest_url).to_string();
            let install = InstallFunction { manifest_url, cid, pinned: false };
            let install = message(&Message::InstallFunction(install));
            bad.tell(worker.peer_id(), WORK_PROTOCOL, &install).await.unwrap();
        }
        strangers.push((bad, events));
    }
    // Each of the two strangers has two fetches in progress, which is the maximum.
    timeout(WITHIN, async {
        while asked.0.load(Relaxed) < 4 {
            asked.1.notified().await;
        }
    })
    .await
    .unwrap();
    for n in 0..8 {
        let new = HELLO.replace("hello", &format!("new-{n}"));
        let new = cluster.add("new.wasm", &new).await;
        let answer = cluster.execute(request(&new, 1)).await;
        assert_eq!(answer["code"], "200", "{answer}");
    }
}
