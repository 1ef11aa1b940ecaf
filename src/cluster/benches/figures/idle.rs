//! Memory of an idle worker.

use std::time::Duration;

use test_bench::process::Usage;
use test_bench::{Row, mib, note};
use tokio::time::sleep;

use crate::Outcome;
use crate::cluster::Cluster;
use crate::nodes::Nodes;

/// Time for which a worker is idle before it is measured: it only sends offers and gossip.
const IDLE_BEFORE: Duration = Duration::from_secs(5);

/// Number of runs before the worker is measured again.
const N_RUNS: usize = 2000;

/// Maximum memory.
const MEMORY_BYTES_MAX: u64 = 40 * 1024 * 1024;

/// Measures a new worker and a worker that has run functions.
pub(crate) async fn idle(nodes: &Nodes) -> Outcome<Row> {
    let cluster = Cluster::start(nodes, 2).await?;
    sleep(IDLE_BEFORE).await;
    let fresh = usage(&cluster)?;
    note(&format!("idle worker, fresh: {}", usage_text(fresh)))?;
    let (hello, mut client) = cluster.warm_hello(2).await?;
    for _ in 0..N_RUNS {
        client.ask(&hello).await?.good(&hello)?;
    }
    sleep(IDLE_BEFORE).await;
    let used = usage(&cluster)?;
    note(&format!("idle worker, after {N_RUNS} runs: {}", usage_text(used)))?;
    let most = fresh.resident_bytes.max(used.resident_bytes);
    let value =
        format!("{:.1} MiB, {:.1} after runs", mib(fresh.resident_bytes), mib(used.resident_bytes));
    Ok(Row::new("memory of an idle worker", value, "40 MiB at most", most <= MEMORY_BYTES_MAX))
}

fn usage(cluster: &Cluster) -> Outcome<Usage> {
    cluster.workers.first().ok_or("no worker")?.usage()
}

fn usage_text(usage: Usage) -> String {
    let Usage { resident_bytes, anonymous_bytes, n_files, n_threads } = usage;
    format!(
        "{:.1} MiB, {:.1} of them its own; {n_files} files, {n_threads} threads",
        mib(resident_bytes),
        mib(anonymous_bytes)
    )
}
