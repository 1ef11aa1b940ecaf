//! Services that share a database, and their responses while the database is unreachable.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use test_postgres::new_database;

/// Proxy of the database server that can be stopped.
struct Line {
    address: SocketAddr,
    group: Group,
    /// True to lose the connection after the next commit, before its response is forwarded.
    loses_answer: Arc<AtomicBool>,
}

/// Forwards data in both directions until either side closes the connection or a response is to be
/// lost.
async fn pass_on(mut client: TcpStream, mut server: TcpStream, loses_answer: Arc<AtomicBool>) {
    let (mut params, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            n = client.read(&mut params) => {
                let Ok(n @ 1..) = n else { return };
                let bytes = &params[..n];
                let is_commit = bytes.windows(7).any(|word| word == b"COMMIT\0");
                server.write_all(bytes).await.unwrap();
                if is_commit && loses_answer.swap(false, Ordering::SeqCst) {
                    let n = server.read(&mut answered).await.unwrap();
                    assert!(answered[..n].windows(6).any(|word| word == b"COMMIT"), "committed");
                    return;
                }
            }
            n = server.read(&mut answered) => {
                let Ok(n @ 1..) = n else { return };
                if client.write_all(&answered[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

impl Line {
    /// Starts a proxy of the database at `url`. It listens at the address `before`, or else at any free
    /// port.
    async fn to(url: &str, before: Option<SocketAddr>) -> Self {
        let (_, rest) = url.split_once('@').unwrap();
        let server = rest.split_once('/').unwrap().0.to_owned();
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = TcpListener::bind(before.unwrap_or(any)).await.unwrap();
        let (address, group) = (listener.local_addr().unwrap(), Group::default());
        let connections = group.clone();
        let loses_answer = Arc::new(AtomicBool::default());
        let loses = Arc::clone(&loses_answer);
        group.spawn("line", async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, loses) = (server.clone(), Arc::clone(&loses));
                connections.spawn("connection", async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    pass_on(client, server, loses).await;
                });
            }
        });
        Self { address, group, loses_answer }
    }

    fn url(&self, url: &str) -> String {
        let (user, rest) = url.split_once('@').unwrap();
        let (_, name) = rest.split_once('/').unwrap();
        format!("{user}@{}/{name}", self.address)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stream_sends_bundles_that_another_service_closed() {
    let Some(url) = new_database() else { return };
    let one = Fixture::on(Some(&url), GateOptions::unlimited()).await;
    let other = Fixture::on(Some(&url), GateOptions::unlimited()).await;
    other.group.spawn("other services", other.inference.clone().follow_services());
    let response = other.respond("/api/v1/topics/1/stream", &other.key).await;
    let mut events = response.into_body().into_data_stream();
    for nonce in [1, 13, 25] {
        one.epoch(1, [&[("y", "1")], &[("y", "3")]], 2.0).await;
        let event = events.next().await.unwrap().unwrap();
        let event = String::from_utf8(event.to_vec()).unwrap();
        assert!(event.starts_with(&format!("event: bundle\nid: {nonce}\n")), "{event}");
        let (status, body) = other.get(&format!("{LATEST}/1")).await;
        assert_eq!((status, &body["inference_block_height"]), (200, &json!(nonce.to_string())));
    }
    other.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn topic_of_one_service_is_immediately_visible_in_another() {
    let Some(url) = new_database() else { return };
    let one = Fixture::on(Some(&url), GateOptions::unlimited()).await;
    let other = Fixture::on(Some(&url), GateOptions::unlimited()).await;
    let (status, created) = create(&one, &json!({})).await;
    assert_eq!(status, 200, "{created}");
    let path = format!("/api/v1/topics/{}", created["topic"]["id"].as_str().unwrap());
    let (status, topic) = other.get(&format!("{path}/health")).await;
    assert_eq!((status, &topic["state"]), (200, &json!("working")), "{topic}");
    let key = Some(("x-api-key", one.key.reveal()));
    let (status, deleted) = one.send("DELETE", &path, key).await;
    assert_eq!(status, 204, "{deleted}");
    assert_eq!(other.get(&format!("{path}/health")).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_return_503_without_data_loss_while_the_database_is_unreachable() {
    let Some(url) = new_database() else { return };
    let line = Line::to(&url, None).await;
    let fixture = Fixture::on(Some(&line.url(&url)), GateOptions::unlimited()).await;
    let topic = "1".parse().unwrap();
    fixture.inference.open_epoch(topic, 1).await.unwrap();
    let path = "/api/v1/topics/1/submissions";
    let body = |model: &str| json!({"model": model, "value": "1.5"});
    assert_eq!(fixture.put("POST", path, &body("a")).await.0, 200);
    let address = line.address;
    line.group.shutdown().await;
    let payload = body("b");
    let health = fixture.request("GET", "/health", &[], String::new());
    let ((status, refused), health) = tokio::join!(fixture.put("POST", path, &payload), health);
    let message = "database of the service is unreachable; retry";
    assert_eq!((status, &refused["message"]), (503, &json!(message)), "{refused}");
    assert_eq!((health.status().as_u16(), &health.headers()["retry-after"]), (503, &5_u16.into()));
    let lost = "database_lost{for=\"network\"}";
    metrics::check(&metrics::counts(&fixture).await, lost, "1");
    let line = Line::to(&url, Some(address)).await;
    assert_eq!(fixture.put("POST", path, &body("b")).await.0, 200, "without a restart");
    metrics::check(&metrics::counts(&fixture).await, lost, "0");
    let another = json!({"model": "a", "value": "2.5"});
    assert_eq!(fixture.put("POST", path, &another).await.0, 409, "the first one is stored");
    assert!(fixture.inference.close(topic, 1).await.unwrap());
    let bundle = fixture.inference.latest(topic).await.unwrap();
    assert_eq!(bundle.bundle.inferer_values.len(), 2);
    line.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn submission_with_a_lost_response_is_stored_once() {
    let Some(url) = new_database() else { return };
    let line = Line::to(&url, None).await;
    let fixture = Fixture::on(Some(&line.url(&url)), GateOptions::unlimited()).await;
    let topic = "1".parse().unwrap();
    fixture.inference.open_epoch(topic, 1).await.unwrap();
    let path = "/api/v1/topics/1/submissions";
    for model in ["a", "b", "c"] {
        line.loses_answer.store(true, Ordering::SeqCst);
        let body = json!({"model": model, "value": "1.5"});
        assert_eq!(fixture.put("POST", path, &body).await.0, 503);
        let another = json!({"model": model, "value": "2.5"});
        assert_eq!(fixture.put("POST", path, &another).await.0, 409, "the first one is stored");
        assert_eq!(fixture.put("POST", path, &body).await.0, 200, "identical payload");
    }
    line.loses_answer.store(true, Ordering::SeqCst);
    assert!(fixture.inference.close(topic, 1).await.is_err());
    assert!(!fixture.inference.close(topic, 1).await.unwrap(), "already closed");
    let bundle = fixture.inference.latest(topic).await.unwrap();
    assert_eq!(bundle.bundle.inferer_values.len(), 3);
    line.group.shutdown().await;
}
