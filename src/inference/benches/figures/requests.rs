//! Rate of requests for the latest bundle, compared with a constant response, and rate of durable
//! submissions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::routing::get;
use inference::Sender;
use inference::network::addresses;
use inference::network::submission::Payload;
use model::topic::TopicId;
use test_bench::http::{Connection, Request};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;
use web::serve::serve;

use crate::Outcome;
use crate::network::{Network, topic};
use crate::print;

/// Number of concurrent connections.
const CONNECTIONS: usize = 32;

/// Duration of each measurement.
const SPAN: Duration = Duration::from_secs(3);

/// Duration of a block that exceeds the measurement, so that no epoch closes.
const LONG: Duration = Duration::from_mins(5);

/// Measures the rate of requests for the latest bundle.
pub(crate) async fn latest() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let network = Network::start(folder.path(), "127.0.0.1:0", LONG, vec![topic(1, 12)?]).await?;
    let id = TopicId::FIRST;
    let nonce = network.inference.chain().height();
    network.inference.open_epoch(id, nonce).await?;
    for idx in 0..10 {
        let values = vec![("y".to_owned(), format!("{idx}.123456789"))];
        let worker = addresses::of_model(&idx.to_string());
        let sender = Sender { topic: id, nonce, worker, name: None };
        network.inference.submit(sender, Payload { values, ..Payload::default() }).await?;
    }
    network.inference.close(id, nonce).await?;
    let path = "/emissions/v10/latest_network_inferences/1";
    let request = Arc::new(Request::get(path, &network.key));
    let response = Connection::open(network.address).await?.send(&request).await?.ok()?;
    let n_bytes = response.body.len();
    let constant = Bytes::from(response.body);
    let answer = move || {
        let body = constant.clone();
        async move { ([(header::CONTENT_TYPE, "application/json")], body) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    serve(listener, Router::new().route(path, get(answer)), &network.group);
    // Alternates between the two kinds of requests, so that other load of the machine affects both.
    let (mut of_ours, mut of_constant) = (0.0, 0.0);
    let same = move |_: usize| Arc::clone(&request);
    for _ in 0..2 {
        of_constant += rate(address, same.clone()).await? / 2.0;
        of_ours += rate(network.address, same.clone()).await? / 2.0;
    }
    network.group.shutdown().await;
    let figure = format!("{of_ours:.0}/s, {:.2}x of {of_constant:.0}/s", of_ours / of_constant);
    print(&format!("latest_network_inferences, {n_bytes} bytes"), &figure, "0.6x")
}

/// Measures the rate of submissions. The submissions are distributed over many topics, since an epoch
/// accepts only a thousand.
pub(crate) async fn submissions() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let topics = (1..=64).map(|number| topic(number, 12)).collect::<Outcome<Vec<_>>>()?;
    let network = Network::start(folder.path(), "127.0.0.1:0", LONG, topics).await?;
    let nonce = network.inference.chain().height();
    for topic in network.inference.topics() {
        network.inference.open_epoch(topic.id, nonce).await?;
    }
    let key = network.key.clone();
    let submission = move |idx: usize| -> Arc<Request> {
        let path = format!("/api/v1/topics/{}/submissions", 1 + idx % 64);
        let body = format!("{{\"model\":\"{idx}\",\"value\":\"{idx}.5\",\"nonce\":\"{nonce}\"}}");
        Arc::new(Request::post(&path, &key, "application/json", &body))
    };
    let rate = rate(network.address, submission).await?;
    network.group.shutdown().await;
    print("submissions, durable", &format!("{rate:.0}/s"), "2000/s")
}

/// Sends requests created by `make` and returns the number of successful responses per second.
async fn rate(
    address: SocketAddr,
    make: impl Fn(usize) -> Arc<Request> + Clone + Send + 'static,
) -> Outcome<f64> {
    let began = Instant::now();
    let mut loads = JoinSet::new();
    for number in 0..CONNECTIONS {
        let make = make.clone();
        loads.spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut n_done = 0_u32;
            while began.elapsed() < SPAN {
                let idx = number + CONNECTIONS * usize::try_from(n_done)?;
                connection.send(&make(idx)).await?.ok()?;
                n_done += 1;
            }
            Outcome::Ok(n_done)
        });
    }
    let mut n_done = 0;
    while let Some(load) = loads.join_next().await {
        n_done += load??;
    }
    Ok(f64::from(n_done) / began.elapsed().as_secs_f64())
}
