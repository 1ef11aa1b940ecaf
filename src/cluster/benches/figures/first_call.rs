//! First call of a function that only the head has.

use std::time::Duration;

use test_bench::{Row, note};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::Outcome;
use crate::cluster::Cluster;
use crate::compiled::{compile_time, module};
use crate::http::{Client, Request};
use crate::nodes::Nodes;

/// Number of workers without the function. All workers compile the function, on the same cores.
const N_WORKERS: usize = 3;

/// Maximum total duration of the roll call, fetching and the run. The time to compile is not included.
const RESERVE: Duration = Duration::from_secs(1);

/// Calls a function of 1 MiB on all workers as soon as the head has it.
pub(crate) async fn first_call(nodes: &Nodes) -> Outcome<Row> {
    let (large, other) = spawn_blocking(|| {
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((module(0)?, module(1)?))
    })
    .await??;
    let n_bytes = large.len();
    let compiling = spawn_blocking(move || compile_time(other)).await??;
    note(&format!("compile {n_bytes} bytes, without other load: {compiling:.2?}"))?;

    let cluster = Cluster::start(nodes, N_WORKERS).await?;
    // The workers know one another, but not the function.
    cluster.warm_hello(N_WORKERS).await?;
    let function = cluster.add("large.wasm", &large).await?;
    let request = Request::new(&function, "large.wasm", N_WORKERS);
    let mut client = Client::connect(cluster.rest).await?;
    let began = Instant::now();
    let answer = client.ask(&request).await?;
    let first = began.elapsed();
    let is_good = answer.is_good(&request);
    let code = answer.code;
    if !is_good {
        note(&answer.body)?;
    }
    let began = Instant::now();
    client.ask(&request).await?;
    note(&format!(
        "first call on {N_WORKERS} of {N_WORKERS} nodes: {first:.2?}, code {code}; the second: {:.2?}",
        began.elapsed()
    ))?;
    let bound = compiling * u32::try_from(N_WORKERS)? + RESERVE;
    let value = format!("{first:.2?}, code {code}, compiling {compiling:.2?}");
    let bar = format!("code 200, {bound:.2?} at most");
    Ok(Row::new("first call of 1 MiB on 3 workers", value, &bar, is_good && first <= bound))
}
