//! Measures many concurrent writers of single rows, each of which is durable before the response.

use std::time::Duration;

use test_bench::http::Request;
use test_bench::{Row, note, per_second, quantile};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::Outcome;
use crate::market::timestamp_of;
use crate::program::Bench;

/// Number of concurrent writers.
const N_WRITERS: usize = 64;

/// Duration of the measurement.
const PERIOD: Duration = Duration::from_secs(8);

/// Duration of the warm-up, which is not measured.
const UNCOUNTED: Duration = Duration::from_secs(2);

/// Minimum commits per second.
const RATE_BAR: f64 = 5_000.0;

/// Maximum duration of 99 % of the commits.
const P99_BAR: Duration = Duration::from_millis(50);

/// Measures writers that each have their own dataset, then writers that share a dataset.
pub(crate) async fn both(bench: &Bench) -> Outcome<Vec<Row>> {
    let mut own = Vec::new();
    for writer in 0..N_WRITERS {
        own.push(bench.create(&format!("writer_{writer}"), &["close", "volume"]).await?);
    }
    let one = vec![bench.create("writers_all", &["close", "volume"]).await?; N_WRITERS];
    let own = sustained(bench, &own, "64 writers, a dataset each").await?;
    let one = sustained(bench, &one, "64 writers of one dataset").await?;
    Ok(vec![own, one])
}

async fn sustained(bench: &Bench, datasets: &[i64], name: &str) -> Outcome<Row> {
    let counted_from = Instant::now() + UNCOUNTED;
    let end = counted_from + PERIOD;
    let mut writers: JoinSet<Outcome<Vec<Duration>>> = JoinSet::new();
    for (writer, dataset) in datasets.iter().enumerate() {
        let mut connection = bench.connect().await?;
        let (key, path) = (bench.key.clone(), format!("/api/rows/bulk_insert/?dataset={dataset}"));
        writers.spawn(async move {
            let mut took = Vec::new();
            // Each writer uses different timestamps.
            for minute in (writer..).step_by(N_WRITERS) {
                let line = format!(
                    "{{\"timestamp\":\"{}\",\"close\":{minute},\"volume\":1}}\n",
                    timestamp_of(minute)
                );
                let request = Request::post(&path, &key, "application/x-ndjson", &line);
                let began = Instant::now();
                let Ok(answer) = timeout_at(end, connection.send(&request)).await else { break };
                answer?.ok()?;
                if began >= counted_from {
                    took.push(began.elapsed());
                }
            }
            Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(writer) = writers.join_next().await {
        took.extend(writer??);
    }
    took.sort_unstable();
    let (rate, p50, p99) =
        (per_second(took.len(), PERIOD), quantile(&took, 50), quantile(&took, 99));
    let value = format!("{rate:.0}/s, p50 {p50:.1?}, p99 {p99:.1?}");
    note(&format!("{name}: {value}"))?;
    let is_met = rate >= RATE_BAR && p99 <= P99_BAR;
    Ok(Row::new(name, value, "5 000/s at least, p99 50 ms at most", is_met))
}
