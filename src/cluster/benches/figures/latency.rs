//! Latency of single requests: the echo, one node, many nodes.

use std::time::Duration;

use test_bench::{Row, note, quantile};
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::http::{Client, Request};
use crate::nodes::Nodes;
use crate::{Outcome, echo};

/// Number of requests for each figure.
const N_SAMPLES: usize = 2000;
/// Number of requests before each measurement, to fill caches and let the processor reach a stable
/// clock rate.
const N_WARM_UP: usize = 200;
/// Number of consecutive requests of one kind. The kinds alternate, so that other load on the machine
/// affects both kinds.
const N_CONSECUTIVE: usize = 100;
/// Maximum total duration of the requests to many nodes. When it is reached, no more requests are
/// sent.
const MANY_WITHIN: Duration = Duration::from_secs(20);
/// Number of workers of the large cluster.
const N_MANY: usize = 50;

/// Maximum latency with one node, as a multiple of the latency of the echo.
const ONE_TO_ECHO_MAX: f64 = 4.0;
/// Number of workers of the smallest cluster in comparisons.
const N_FEW: usize = 3;
/// Number of workers of the largest cluster of processes.
const N_LARGE: usize = 300;
/// Time for which a cluster is idle before it is measured: workers look for neighbors up to 90 s
/// after they have a head.
const SETTLED_AFTER: Duration = Duration::from_secs(100);
/// Maximum latency in a cluster of 300 workers, as a multiple of the latency in a cluster of three.
const LARGE_TO_FEW_MAX: f64 = 2.0;

/// Maximum latency with 50 nodes, as a multiple of the latency with one node.
const MANY_TO_ONE_MAX: f64 = 20.0;

/// Compares the latency of `hello` on one node, without a roll call, with the latency of the echo.
pub(crate) async fn one(nodes: &Nodes) -> Outcome<Row> {
    let mut echo = echo::Client::start().await?;
    let cluster = Cluster::start(nodes, 1).await?;
    let (hello, mut client) = cluster.warm_hello(1).await?;
    for _ in 0..N_WARM_UP {
        echo.ask().await?;
        client.ask(&hello).await?.good(&hello)?;
    }
    let (mut bare, mut ours) = (Latencies::default(), Latencies::default());
    while ours.0.len() < N_SAMPLES {
        for _ in 0..N_CONSECUTIVE {
            let began = Instant::now();
            echo.ask().await?;
            bare.0.push(began.elapsed());
        }
        for _ in 0..N_CONSECUTIVE {
            ours.take(&mut client, &hello).await?;
        }
    }
    note(&format!("echo: {bare}"))?;
    note(&format!("execute on 1 node: {ours}"))?;
    let ratio = ours.p50().as_secs_f64() / bare.p50().as_secs_f64();
    let value = format!("{:.0?} / {:.0?} = {ratio:.2}", ours.p50(), bare.p50());
    Ok(Row::new("execute on 1 node / echo, p50", value, "4 at most", ratio <= ONE_TO_ECHO_MAX))
}

/// Compares the latency of `hello` on 50 nodes with the latency on one node, both without a roll call.
pub(crate) async fn many(nodes: &Nodes) -> Outcome<Row> {
    let mut cluster = Cluster::start(nodes, 1).await?;
    let (hello, mut client) = cluster.warm_hello(1).await?;
    let (mut one, mut all) = (Latencies::default(), Latencies::default());
    for _ in 0..N_WARM_UP {
        client.ask(&hello).await?.good(&hello)?;
    }
    while one.0.len() < N_SAMPLES {
        one.take(&mut client, &hello).await?;
    }
    note(&format!("execute on 1 of 1 node: {one}"))?;
    cluster.grow(N_MANY).await?;
    let (hello_on_all, mut client) = cluster.warm_hello(N_MANY).await?;
    let end = Instant::now() + MANY_WITHIN;
    while all.0.len() < N_SAMPLES && Instant::now() < end {
        all.take(&mut client, &hello_on_all).await?;
    }
    note(&format!("execute on {N_MANY} of {N_MANY} nodes: {all}"))?;
    let ratio = all.p50().as_secs_f64() / one.p50().as_secs_f64();
    let value = format!("{:.0?} / {:.0?} = {ratio:.2}", all.p50(), one.p50());
    Ok(Row::new(
        "execute on 50 nodes / 1 node, p50",
        value,
        "less than 20",
        ratio < MANY_TO_ONE_MAX,
    ))
}

/// Compares the latency of `hello` on one of 300 nodes with the latency on one of three nodes, both
/// without a roll call.
pub(crate) async fn large(nodes: &Nodes) -> Outcome<Row> {
    let mut cluster = Cluster::start(nodes, N_FEW).await?;
    let hello = cluster.hello(1).await?;
    let mut p99 = Vec::new();
    for n_workers in [N_FEW, N_LARGE] {
        cluster.grow(n_workers).await?;
        cluster.warm_hello(n_workers).await?;
        // After this time, the workers have found their neighbors.
        sleep(SETTLED_AFTER).await;
        let mut client = Client::connect(cluster.rest).await?;
        let mut latencies = Latencies::default();
        for _ in 0..N_WARM_UP {
            client.ask(&hello).await?.good(&hello)?;
        }
        while latencies.0.len() < N_SAMPLES {
            latencies.take(&mut client, &hello).await?;
        }
        note(&format!("execute on 1 of {n_workers} nodes: {latencies}"))?;
        p99.push(latencies.at(99));
    }
    let [few, large] = p99[..] else { return Err("expected two figures".into()) };
    let ratio = large.as_secs_f64() / few.as_secs_f64();
    let value = format!("{large:.0?} / {few:.0?} = {ratio:.2}");
    let is_passed = ratio <= LARGE_TO_FEW_MAX;
    Ok(Row::new("execute on 1 of 300 nodes / 1 of 3, p99", value, "2 at most", is_passed))
}

/// Durations of requests.
#[derive(Default)]
pub(crate) struct Latencies(pub(crate) Vec<Duration>);

impl Latencies {
    async fn take(&mut self, client: &mut Client, request: &Request) -> Outcome<()> {
        let began = Instant::now();
        let answer = client.ask(request).await?;
        self.0.push(began.elapsed());
        answer.good(request)?;
        Ok(())
    }

    fn p50(&self) -> Duration {
        self.at(50)
    }

    /// Returns the duration that a percentage of the requests did not exceed.
    pub(crate) fn at(&self, percent: usize) -> Duration {
        quantile(&self.0, percent)
    }
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p50, p90, p99) = (self.at(50), self.at(90), self.at(99));
        write!(f, "p50 {p50:.1?}, p90 {p90:.1?}, p99 {p99:.1?} of {}", self.0.len())
    }
}
