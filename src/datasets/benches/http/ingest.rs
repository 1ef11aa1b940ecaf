//! Fills a dataset over HTTP in batches, each of which is durable before the next batch is sent.

use test_bench::http::Request;
use test_bench::{note, per_second};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Outcome;
use crate::market::{COLUMNS, Market};
use crate::program::{Bench, Loaded};

/// Number of rows per request.
const BATCH_ROWS: usize = 1_000;

/// Number of batches that are rendered in advance, so that rendering is not measured.
const READY: usize = 16;

/// Number of batches between two progress messages.
const NOTE_EVERY: usize = 500;

/// Inserts `n_rows` rows in batches of [`BATCH_ROWS`] on one connection.
pub(crate) async fn load(bench: &Bench, n_rows: usize) -> Outcome<Loaded> {
    let dataset = bench.create("bench_btcusd_1min", &COLUMNS).await?;
    let path = format!("/api/rows/bulk_insert/?dataset={dataset}");
    let (sender, mut ready) = mpsc::channel(READY);
    let key = bench.key.clone();
    let writing = tokio::task::spawn_blocking(move || {
        let mut market = Market::new();
        let mut n_left = n_rows;
        while n_left > 0 {
            let n_batch = n_left.min(BATCH_ROWS);
            let lines = market.lines(n_batch);
            let request = Request::post(&path, &key, "application/x-ndjson", &lines);
            // The receiver is dropped if sending a batch has failed.
            if sender.blocking_send((n_batch, request)).is_err() {
                return;
            }
            n_left -= n_batch;
        }
    });
    let mut connection = bench.connect().await?;
    let (began, cpu) = (Instant::now(), bench.cpu()?);
    let (mut n_done, mut n_batches) = (0, 0);
    while let Some((n_batch, request)) = ready.recv().await {
        connection.send(&request).await?.ok()?;
        n_done += n_batch;
        n_batches += 1;
        if n_batches % NOTE_EVERY == 0 {
            note(&format!("{n_done} rows, {:.0} rows/s", per_second(n_done, began.elapsed())))?;
        }
    }
    let (took, cpu) = (began.elapsed(), bench.cpu()?.saturating_sub(cpu));
    writing.await?;
    let rate = per_second(n_done, took);
    note(&format!("{n_done} rows in {took:.1?}: {rate:.0} rows/s, {cpu:.1?} of processor time"))?;
    Ok(Loaded { dataset, n_rows: n_done, rate })
}
