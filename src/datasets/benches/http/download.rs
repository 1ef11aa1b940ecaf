//! Measures downloads of a whole dataset over one connection: rate, processor time, memory, and the gain
//! of the cache of compressed pieces.

use std::time::Duration;

use test_bench::http::{Connection, Drained, Request};
use test_bench::{Row, mib, note, per_second};
use tokio::select;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Outcome;
use crate::program::{Bench, Loaded};
use crate::rows::millions;

/// Interval at which the service's memory is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Minimum number of rows per second, both of elapsed time and of processor time.
const RATE_BAR: f64 = 2e6;

/// Maximum additional memory of the service during a download, compared with the idle service.
const MEMORY_BAR_MIB: f64 = 64.0;

/// Minimum factor by which a download from the cache is faster than a download with an empty cache.
const GZIP_BAR: f64 = 5.0;

/// Number of repetitions of each download. Only the fastest is reported, since other programs also use
/// the machine.
const N_TAKES: usize = 3;

/// Time, processor time and memory of one download.
#[derive(Debug, Clone, Copy)]
struct Taken {
    drained: Drained,
    time: Duration,
    cpu: Duration,
    /// Maximum additional memory, compared with the idle service.
    above_mib: f64,
}

/// Measures downloads as JSON and CSV without compression.
pub(crate) async fn plain(bench: &mut Bench, loaded: &Loaded) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (output, mark, n_extra) in [("json", b'{', 0), ("csv", b'\n', 1)] {
        // Restarts the service, so that memory of earlier requests does not count as idle memory.
        bench.restart().await?;
        let path = format!("/api/rows/bulk_download/?dataset={}&output={output}", loaded.dataset);
        let request = Request::get(&path, &bench.key);
        let mut best: Option<(f64, Taken)> = None;
        let mut above_mib: f64 = 0.0;
        for _ in 0..N_TAKES {
            let taken = take(bench, &request, mark).await?;
            check(&taken.drained, loaded.n_rows + n_extra)?;
            above_mib = above_mib.max(taken.above_mib);
            let by_time = per_second(loaded.n_rows, taken.time);
            let rate = by_time.min(per_second(loaded.n_rows, taken.cpu));
            note(&format!(
                "{output}: {} bytes in {:.2?}, {:.2?} of processor time, {:.1} MiB above idle",
                taken.drained.n_bytes, taken.time, taken.cpu, taken.above_mib
            ))?;
            if best.is_none_or(|(most, _)| rate > most) {
                best = Some((rate, taken));
            }
        }
        let Some((rate, taken)) = best else { return Err("no download was taken".into()) };
        let cores = taken.cpu.as_secs_f64() / taken.time.as_secs_f64();
        let value =
            format!("{} with {cores:.2} cores", millions(per_second(loaded.n_rows, taken.time)));
        let name = format!("bulk_download as {output}, one connection");
        let bar = "2 M rows/s at least, of one core";
        rows.push(Row::new(&name, value, bar, rate >= RATE_BAR));
        let name = format!("bulk_download as {output}, memory above idle");
        let is_met = above_mib <= MEMORY_BAR_MIB;
        rows.push(Row::new(&name, format!("{above_mib:.1} MiB"), "64 MiB at most", is_met));
    }
    Ok(rows)
}

/// Measures downloads with gzip, first with an empty cache and then from the cache.
pub(crate) async fn gzip(bench: &mut Bench, loaded: &Loaded) -> Outcome<Vec<Row>> {
    bench.restart().await?;
    let (n_rows, dataset) = (loaded.n_rows, loaded.dataset);
    let path = |output: &str| format!("/api/rows/bulk_download/?dataset={dataset}&output={output}");
    let mut rows = Vec::new();
    for output in ["json", "csv"] {
        let request = Request::get_with(&path(output), &bench.key, "accept-encoding: gzip\r\n");
        let cold = take(bench, &request, 0).await?;
        let plain = take(bench, &Request::get(&path(output), &bench.key), 0).await?;
        if cold.drained.n_bytes * 3 > plain.drained.n_bytes * 2 {
            return Err("the answer is not compressed".into());
        }
        let mut warm = take(bench, &request, 0).await?;
        for _ in 1..N_TAKES {
            let again = take(bench, &request, 0).await?;
            if again.drained.n_bytes != warm.drained.n_bytes {
                return Err("the answer changed between two requests".into());
            }
            warm = if again.time < warm.time { again } else { warm };
        }
        let (first, later) = (per_second(n_rows, cold.time), per_second(n_rows, warm.time));
        note(&format!(
            "{output}: {} bytes of {} compressed; on the fly {:.2?}, again {:.2?}, plain {:.2?}",
            warm.drained.n_bytes, plain.drained.n_bytes, cold.time, warm.time, plain.time
        ))?;
        let ratio = later / first;
        let value = format!("{} / {} = {ratio:.1}", millions(later), millions(first));
        let name = format!("gzip of sealed pieces / on the fly, {output}");
        rows.push(Row::new(&name, value, "5 at least", ratio >= GZIP_BAR));
    }
    Ok(rows)
}

async fn take(bench: &Bench, request: &Request, mark: u8) -> Outcome<Taken> {
    let mut connection: Connection = bench.connect().await?;
    connection.send(&Request::get("/health", "")).await?.ok()?;
    let idle = bench.resident_bytes()?;
    let mut most = idle;
    let mut look = interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (began, cpu) = (Instant::now(), bench.cpu()?);
    let drained = connection.drain(request, mark);
    tokio::pin!(drained);
    let drained = loop {
        select! {
            drained = &mut drained => break drained?,
            _ = look.tick() => most = most.max(bench.resident_bytes()?),
        }
    };
    let (time, cpu) = (began.elapsed(), bench.cpu()?.saturating_sub(cpu));
    if drained.status != 200 {
        return Err(format!("a download answered {}", drained.status).into());
    }
    Ok(Taken { drained, time, cpu, above_mib: mib(most.saturating_sub(idle)) })
}

fn check(drained: &Drained, n_marks: usize) -> Outcome<()> {
    if drained.n_marks == n_marks {
        return Ok(());
    }
    Err(format!("{} rows instead of {n_marks}", drained.n_marks).into())
}
