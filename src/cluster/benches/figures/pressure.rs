//! A slow worker among fast workers, a worker that is stopped for a while, and many new workers.

use std::time::Duration;

use test_bench::{Row, note};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::cluster::{Cluster, Folder};
use crate::http::Client;
use crate::nodes::Nodes;
use crate::rate::{ask_until, collect, sustained};

/// Runtime of the slow worker, as slow as a program that starts an interpreter.
const SLOW_RUNTIME: &str = "#!/bin/sh\nsleep 0.14\necho hello\n";
/// Number of fast workers.
const N_FAST: usize = 3;
/// Number of slots of the slow worker, more than all fast workers have together.
const N_SLOW_SLOTS: usize = 64;
/// Minimum rate with a slow worker, as a fraction of the rate without it. The median duration without
/// the slow worker must also be at least this fraction of the median duration with it.
const SLOW_RATIO_MIN: f64 = 0.9;

/// Number of workers of the cluster in which a worker is stopped.
const N_STOPPABLE: usize = 12;
/// Number of workers that run each request in the cluster in which a worker is stopped.
const N_NODES: usize = 6;
/// Time for which the worker is stopped.
const STOPPED: Duration = Duration::from_secs(20);
/// Time for which requests are sent before the worker is stopped, and after it continues.
const BEFORE_AND_AFTER: Duration = Duration::from_secs(3);
/// Maximum duration of a request.
const STOPPED_WITHIN: Duration = Duration::from_secs(3);

/// Number of workers that join simultaneously.
const N_JOINED: usize = 200;
/// Maximum duration of the first call on all new workers.
const JOINED_WITHIN: Duration = Duration::from_secs(1);

/// Compares the rate of three fast workers with and without a slow worker with many slots.
pub(crate) async fn slow(nodes: &Nodes) -> Outcome<Row> {
    let folder = Folder::new()?;
    let program = folder.runtime(SLOW_RUNTIME)?;
    let mut cluster = Cluster::start(nodes, N_FAST).await?;
    cluster.warm_hello(N_FAST).await?;
    let hello = cluster.hello(1).await?;
    let (without, p50_without) = sustained(cluster.rest, &hello).await?;
    note(&format!("{N_FAST} fast workers: {without:.0}/s, p50 {p50_without:.1?}"))?;
    cluster.grow_slow(&program, N_SLOW_SLOTS).await?;
    cluster.warm_hello(N_FAST + 1).await?;
    let (with, p50_with) = sustained(cluster.rest, &hello).await?;
    note(&format!("with a slow worker: {with:.0}/s, p50 {p50_with:.1?}"))?;
    let ratio = with / without;
    let p50_ratio = p50_without.as_secs_f64() / p50_with.as_secs_f64();
    let value = format!("{with:.0}/s / {without:.0}/s = {ratio:.2}, p50 {p50_ratio:.2}");
    let is_passed = ratio >= SLOW_RATIO_MIN && p50_ratio >= SLOW_RATIO_MIN;
    Ok(Row::new("executions/s with a slow worker / without", value, "0.9 at least", is_passed))
}

/// Stops one of twelve workers for a while, under load.
pub(crate) async fn stopped(nodes: &Nodes) -> Outcome<Row> {
    let cluster = Cluster::start(nodes, N_STOPPABLE).await?;
    cluster.warm_hello(N_STOPPABLE).await?;
    let hello = cluster.hello(N_NODES).await?;
    let stopped = cluster.workers.first().ok_or("no worker")?;
    let end = Instant::now() + BEFORE_AND_AFTER + STOPPED + BEFORE_AND_AFTER;
    let clients = ask_until(cluster.rest, &hello, end).await?;
    sleep(BEFORE_AND_AFTER).await;
    signal("-STOP", stopped.pid()?).await?;
    sleep(STOPPED).await;
    signal("-CONT", stopped.pid()?).await?;
    let (latencies, n_short) = collect(clients).await?;
    note(&format!("one of {N_STOPPABLE} workers stopped: {latencies}"))?;
    let longest = latencies.at(100);
    let value = format!("{longest:.1?}, {n_short} incomplete");
    let is_passed = longest <= STOPPED_WITHIN && n_short == 0;
    Ok(Row::new(
        "one of 12 workers stopped, longest",
        value,
        "3 s at most, 0 incomplete",
        is_passed,
    ))
}

/// Runs `hello` on all of many workers that have just joined.
pub(crate) async fn joined(nodes: &Nodes) -> Outcome<Row> {
    let cluster = Cluster::start(nodes, N_JOINED).await?;
    let hello = cluster.hello(N_JOINED).await?;
    let mut client = Client::connect(cluster.rest).await?;
    let began = Instant::now();
    let answer = client.ask(&hello).await?;
    let took = began.elapsed();
    let is_good = answer.is_good(&hello);
    let value = format!("{took:.2?}, code {}", answer.code);
    let is_passed = is_good && took <= JOINED_WITHIN;
    Ok(Row::new("first call on 200 workers", value, "code 200, 1 s at most", is_passed))
}

async fn signal(name: &str, pid: u32) -> Outcome<()> {
    let status = Command::new("kill").arg(name).arg(pid.to_string()).status().await?;
    if status.success() { Ok(()) } else { Err(format!("kill {name} {pid}: {status}").into()) }
}
