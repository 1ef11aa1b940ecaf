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
    let hello = cluster.hello(1).await?;
    drop(cluster.warmed(&hello).await?);
    let here = sustained(cluster.rest, &hello).await?;
    note(&format!("in process: {here:.0} executions/s at {N_CONNECTIONS} connections"))?;
    drop(cluster);

    let folder = Folder::new()?;
    let program = folder.path().join(RUNTIME_NAME);
    let own = env::current_exe()?;
    // A copy, since a node does not start its own program as an external runtime.
    fs::copy(&own, &program)?;
    let cluster = Cluster::start_with(nodes, 1, Some(program)).await?;
    let hello = cluster.hello(1).await?;
    drop(cluster.warmed(&hello).await?);
    let external = sustained(cluster.rest, &hello).await?;
    note(&format!("external: {external:.0} executions/s at {N_CONNECTIONS} connections"))?;

    let ratio = here / external;
    let value = format!("{here:.0}/s / {external:.0}/s = {ratio:.1}");
    Ok(Row::new("executions/s in process / external", value, "10 at least", ratio >= RATIO_MIN))
}

/// Returns the executions per second on [`N_CONNECTIONS`] connections, each of which sends its next
/// request after the response.
pub(crate) async fn sustained(rest: SocketAddr, request: &Request) -> Outcome<f64> {
    let counted_from = Instant::now() + WARM_UP;
    let end = counted_from + PERIOD;
    let mut clients: JoinSet<Outcome<u32>> = JoinSet::new();
    for _ in 0..N_CONNECTIONS {
        let mut client = Client::connect(rest).await?;
        let request = request.clone();
        clients.spawn(async move {
            let mut n_done = 0;
            while let Ok(answer) = timeout_at(end, client.ask(&request)).await {
                answer?.good(&request)?;
                n_done += u32::from(counted_from <= Instant::now());
            }
            Ok(n_done)
        });
    }
    let mut n_done = 0;
    while let Some(client) = clients.join_next().await {
        n_done += client??;
    }
    Ok(f64::from(n_done) / PERIOD.as_secs_f64())
}
