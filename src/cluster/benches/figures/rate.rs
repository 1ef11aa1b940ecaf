//! Executions per second at a head, of functions run in process and by an external runtime.

use std::net::SocketAddr;
use std::time::Duration;
use std::{env, fs};

use test_bench::{Row, note};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::Outcome;
use crate::cluster::{Cluster, Folder};
use crate::http::{Client, Request};
use crate::latency::Latencies;
use crate::nodes::Nodes;
use crate::part::RUNTIME_NAME;

/// Number of connections.
pub(crate) const N_CONNECTIONS: u32 = 32;
/// Duration of each measurement.
const PERIOD: Duration = Duration::from_secs(8);
/// Duration of the load before each measurement.
const WARM_UP: Duration = Duration::from_secs(2);

/// Minimum rate in process, as a multiple of the rate with the external runtime.
const RATIO_MIN: f64 = 10.0;

/// Compares the rate of `hello` in process with the rate of `hello` in the external runtime.
pub(crate) async fn both(nodes: &Nodes) -> Outcome<Row> {
    let cluster = Cluster::start(nodes, 1).await?;
    let (hello, _) = cluster.warm_hello(1).await?;
    let (here, _) = sustained(cluster.rest, &hello).await?;
    note(&format!("in process: {here:.0} executions/s at {N_CONNECTIONS} connections"))?;
    drop(cluster);

    let folder = Folder::new()?;
    let program = folder.path().join(RUNTIME_NAME);
    let own = env::current_exe()?;
    // A copy, since a node does not start its own program as an external runtime.
    fs::copy(&own, &program)?;
    let cluster = Cluster::start_with(nodes, 1, (1, None), Some(program)).await?;
    let (hello, _) = cluster.warm_hello(1).await?;
    let (external, _) = sustained(cluster.rest, &hello).await?;
    note(&format!("external: {external:.0} executions/s at {N_CONNECTIONS} connections"))?;

    let ratio = here / external;
    let value = format!("{here:.0}/s / {external:.0}/s = {ratio:.1}");
    Ok(Row::new("executions/s in process / external", value, "10 at least", ratio >= RATIO_MIN))
}

/// Returns the executions per second on [`N_CONNECTIONS`] connections and their median duration.
pub(crate) async fn sustained(rest: SocketAddr, request: &Request) -> Outcome<(f64, Duration)> {
    collect(ask_until(rest, request, Instant::now() + WARM_UP).await?).await?;
    let clients = ask_until(rest, request, Instant::now() + PERIOD).await?;
    let (latencies, n_short) = collect(clients).await?;
    if n_short > 0 {
        return Err(format!("{n_short} responses were incomplete").into());
    }
    Ok((f64::from(u32::try_from(latencies.0.len())?) / PERIOD.as_secs_f64(), latencies.at(50)))
}

pub(crate) type Clients = JoinSet<Outcome<(Latencies, usize)>>;

/// Runs clients on [`N_CONNECTIONS`] connections until `end`. Each client returns the durations of its
/// requests and the number of incomplete responses.
pub(crate) async fn ask_until(
    rest: SocketAddr,
    request: &Request,
    end: Instant,
) -> Outcome<Clients> {
    let mut clients = JoinSet::new();
    for _ in 0..N_CONNECTIONS {
        let (mut client, request) = (Client::connect(rest).await?, request.clone());
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

pub(crate) async fn collect(mut clients: Clients) -> Outcome<(Latencies, usize)> {
    let (mut all, mut n_short) = (Latencies::default(), 0);
    while let Some(client) = clients.join_next().await {
        let (latencies, n) = client??;
        all.0.extend(latencies.0);
        n_short += n;
    }
    Ok((all, n_short))
}
