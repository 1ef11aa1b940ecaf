//! A slow worker among fast workers, a worker that is stopped for a while, and many new workers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use test_bench::{Row, note};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Outcome;
use crate::cluster::{Cluster, Folder};
use crate::http::{Client, Request};
use crate::latency::Latencies;
use crate::nodes::Nodes;
use crate::part::RUNTIME_NAME;
use crate::rate::N_CONNECTIONS;

/// Runtime of the slow worker, as slow as a program that starts an interpreter.
const SLOW_RUNTIME: &str = "#!/bin/sh\nsleep 0.14\necho hello\n";
/// Number of fast workers.
const N_FAST: usize = 3;
/// Duration of each measurement.
const PERIOD: Duration = Duration::from_secs(8);
/// Duration of the load before each measurement.
const WARM_UP: Duration = Duration::from_secs(2);
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
    let program = folder.path().join(RUNTIME_NAME);
    fs::write(&program, SLOW_RUNTIME)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let mut cluster = Cluster::start(nodes, N_FAST).await?;
    let on_all = cluster.hello(N_FAST).await?;
    drop(cluster.warmed(&on_all).await?);
    let hello = cluster.hello(1).await?;
    let (without, p50_without) = load(&cluster, &hello).await?;
    note(&format!("{N_FAST} fast workers: {without:.0}/s, p50 {p50_without:.1?}"))?;
    cluster.grow_slow(&program).await?;
    let on_all = cluster.hello(N_FAST + 1).await?;
    drop(cluster.warmed(&on_all).await?);
    let (with, p50_with) = load(&cluster, &hello).await?;
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
    let on_all = cluster.hello(N_STOPPABLE).await?;
    drop(cluster.warmed(&on_all).await?);
    let hello = cluster.hello(N_NODES).await?;
    let stopped = cluster.workers.first().ok_or("no worker")?;
    let end = Instant::now() + BEFORE_AND_AFTER + STOPPED + BEFORE_AND_AFTER;
    let clients = ask_until(&cluster, &hello, end).await?;
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

/// Returns the executions per second on [`N_CONNECTIONS`] connections and their median duration.
async fn load(cluster: &Cluster, request: &Request) -> Outcome<(f64, Duration)> {
    collect(ask_until(cluster, request, Instant::now() + WARM_UP).await?).await?;
    let clients = ask_until(cluster, request, Instant::now() + PERIOD).await?;
    let (latencies, n_short) = collect(clients).await?;
    if n_short > 0 {
        return Err(format!("{n_short} responses were incomplete").into());
    }
    Ok((f64::from(u32::try_from(latencies.0.len())?) / PERIOD.as_secs_f64(), latencies.at(50)))
}

type Clients = JoinSet<Outcome<(Latencies, usize)>>;

/// Runs clients on [`N_CONNECTIONS`] connections until `end`. Each client returns the durations of its
/// requests and the number of incomplete responses.
async fn ask_until(cluster: &Cluster, request: &Request, end: Instant) -> Outcome<Clients> {
    let mut clients = JoinSet::new();
    for _ in 0..N_CONNECTIONS {
        let (mut client, request) = (Client::connect(cluster.rest).await?, request.clone());
        clients.spawn(async move {
            let (mut latencies, mut n_short) = (Latencies::default(), 0);
            loop {
                let began = Instant::now();
                // A request without a response at `end` is not counted.
                let Ok(answer) = timeout_at(end, client.ask(&request)).await else { break };
                latencies.0.push(began.elapsed());
                n_short += usize::from(!answer?.is_good(&request));
            }
            Ok((latencies, n_short))
        });
    }
    Ok(clients)
}

async fn collect(mut clients: Clients) -> Outcome<(Latencies, usize)> {
    let (mut all, mut n_short) = (Latencies::default(), 0);
    while let Some(client) = clients.join_next().await {
        let (latencies, n) = client??;
        all.0.extend(latencies.0);
        n_short += n;
    }
    Ok((all, n_short))
}

async fn signal(name: &str, pid: u32) -> Outcome<()> {
    let status = Command::new("kill").arg(name).arg(pid.to_string()).status().await?;
    if status.success() { Ok(()) } else { Err(format!("kill {name} {pid}: {status}").into()) }
}
