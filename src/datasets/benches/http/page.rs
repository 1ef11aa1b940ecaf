//! Measures pages of 250 rows relative to responses with bytes from memory. The pages are requested by
//! cursor, deep in history, while new rows arrive: repeated pages, successive pages of a client that
//! follows links slowly or quickly, and pages that no link leads to.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use test_bench::http::{Connection, Request, Response};
use test_bench::{Row, note, quantile, to_f64};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::market::{COLUMNS, timestamp_of};
use crate::memory::{Memory, hold};
use crate::program::{Bench, Loaded};

/// Number of rows of a page.
pub(crate) const PAGE_ROWS: usize = 250;

/// Number of different pages that are requested repeatedly.
const N_PAGES: usize = 200;

/// Number of times that each of these pages is requested.
const N_ROUNDS: usize = 20;

/// Number of different pages that are requested once each.
const N_FIRSTS: usize = 2000;

/// Distance in rows between pages that are requested once. It is a prime, so that all of these pages
/// differ.
const APART_ROWS: usize = 1_299_709;

/// Interval at which new rows are inserted into the same dataset.
const ROW_EVERY: Duration = Duration::from_millis(100);

/// Maximum duration of a page relative to a response from memory.
const BAR: f64 = 2.0;

/// A request to the service, the corresponding request to the reference process, and the length of the
/// page.
type Held = (Request, Request, usize);

/// Connections to the service and to the reference process.
struct Pair {
    here: Connection,
    there: Connection,
}

/// Durations of requests to the service and to the reference process.
#[derive(Default)]
struct Took {
    ours: Vec<Duration>,
    theirs: Vec<Duration>,
}

/// Sends requests to the service and to the reference process alternately, and compares their durations.
pub(crate) async fn against_memory(bench: &Bench, loaded: &Loaded) -> Outcome<Vec<Row>> {
    let memory = Memory::start().await?;
    let mut pair = Pair { here: bench.connect().await?, there: memory.connect().await? };
    let n_minutes = loaded.n_rows.saturating_sub(PAGE_ROWS + 1).max(1);
    let mut pages = Vec::new();
    for page in 0..N_PAGES {
        // Spreads the pages over history, so that consecutive requests never read the same chunk.
        let spread = (page * 79) % N_PAGES;
        let request = page_at(bench, loaded, n_minutes * spread / N_PAGES);
        let answer = pair.here.send(&request).await?.ok()?;
        hold(&mut pair.there, &answer.body).await?;
        pages.push((request, Request::get(&format!("/pages/{page}/"), ""), answer.body.len()));
    }
    let (stop, stopped) = oneshot::channel();
    let mut writing = JoinSet::new();
    writing.spawn(arrive(bench.connect().await?, newest(bench, loaded)?, stopped));
    let mut again = Took::default();
    for _ in 0..N_ROUNDS {
        for (request, same, n_bytes) in &pages {
            let answer = pair.send(&mut again, request, same).await?;
            if answer.body.len() != *n_bytes {
                return Err("a page changed between two requests".into());
            }
        }
    }
    let mut first = Took::default();
    for page in 0..N_FIRSTS {
        let request = page_at(bench, loaded, (page * APART_ROWS + PAGE_ROWS / 2) % n_minutes);
        let (_, same, _) = &pages[page % N_PAGES];
        pair.send(&mut first, &request, same).await?;
    }
    let mut next = Took::default();
    let mut request = page_at(bench, loaded, n_minutes / 3);
    for page in 0..N_FIRSTS {
        let (_, same, _) = &pages[page % N_PAGES];
        let answer = pair.send(&mut next, &request, same).await?;
        request = after(bench, loaded, link(&answer.body)?, page);
    }
    let tight = pair.walk(bench, loaded, n_minutes / 2, &pages).await?;
    drop(stop);
    let n_rows = writing.join_next().await.ok_or("rows that nobody writes")???;
    let n_bytes = pages.iter().map(|(_, _, n_bytes): &Held| n_bytes).sum::<usize>() / N_PAGES;
    note(&format!("pages of {n_bytes} bytes, while {n_rows} rows arrived"))?;
    Ok(vec![
        again.row("page of 250 by cursor, requested again / bytes from memory, p50")?,
        next.row("page of 250 by cursor, next of one read / bytes from memory, p50")?,
        tight.row("page of 250 by cursor, links in a tight loop / bytes from memory, p50")?,
        first.row("page of 250 by cursor, anywhere / bytes from memory, p50")?,
    ])
}

impl Pair {
    /// Sends a request to the service and a request to the reference process. Returns the service's
    /// response.
    async fn send(
        &mut self,
        took: &mut Took,
        request: &Request,
        same: &Request,
    ) -> Outcome<Response> {
        let began = Instant::now();
        let answer = self.here.send(request).await?.ok()?;
        took.ours.push(began.elapsed());
        let began = Instant::now();
        self.there.send(same).await?.ok()?;
        took.theirs.push(began.elapsed());
        Ok(answer)
    }

    /// Follows links from page to page of the service without pauses, then requests as many pages from
    /// the reference process.
    async fn walk(
        &mut self,
        bench: &Bench,
        loaded: &Loaded,
        minute: usize,
        pages: &[Held],
    ) -> Outcome<Took> {
        let mut took = Took::default();
        let mut request = page_at(bench, loaded, minute);
        for page in 0..N_FIRSTS {
            let began = Instant::now();
            let answer = self.here.send(&request).await?.ok()?;
            took.ours.push(began.elapsed());
            request = after(bench, loaded, link(head(&answer.body)?.as_bytes())?, page);
        }
        for page in 0..N_FIRSTS {
            let began = Instant::now();
            self.there.send(&pages[page % N_PAGES].1).await?.ok()?;
            took.theirs.push(began.elapsed());
        }
        Ok(took)
    }
}

impl Took {
    fn row(mut self, name: &str) -> Outcome<Row> {
        self.ours.sort_unstable();
        self.theirs.sort_unstable();
        let (own, other) = (quantile(&self.ours, 50), quantile(&self.theirs, 50));
        note(&format!(
            "p50 {own:.1?}, p99 {:.1?}; from memory p50 {other:.1?}, p99 {:.1?}; {:.0} requests/s",
            quantile(&self.ours, 99),
            quantile(&self.theirs, 99),
            to_f64(self.ours.len()) / self.ours.iter().map(Duration::as_secs_f64).sum::<f64>(),
        ))?;
        let ratio = own.as_secs_f64() / other.as_secs_f64();
        let value = format!("{own:.1?} / {other:.1?} = {ratio:.2}");
        Ok(Row::new(name, value, "2 at most", ratio <= BAR))
    }
}

/// Returns the request for the page after a minute.
fn page_at(bench: &Bench, loaded: &Loaded, minute: usize) -> Request {
    page_of(loaded.dataset, minute, &bench.key)
}

/// Returns the request for the page of `dataset` after a minute.
pub(crate) fn page_of(dataset: i64, minute: usize, key: &str) -> Request {
    let (first, after) = (timestamp_of(0), timestamp_of(minute));
    let path = format!(
        "/api/rows/?after={after}&dataset={dataset}&limit={PAGE_ROWS}&ordering=timestamp&start={first}"
    );
    Request::get(&path, key)
}

/// Parses a whole page and returns the link to the next page, or `None` for the last page.
fn link(page: &[u8]) -> Outcome<Option<String>> {
    let page: Value = serde_json::from_slice(page)?;
    Ok(page["next"].as_str().map(str::to_owned))
}

/// Returns the part of a page before its rows, which is JSON.
fn head(page: &[u8]) -> Outcome<String> {
    let at = page.windows(10).position(|part| part == b"\"results\":").ok_or("no rows")?;
    Ok(format!("{}\"results\":[]}}", std::str::from_utf8(&page[..at])?))
}

/// Returns the request for the page at `link`, or for the page after `minute` if `link` is `None`.
fn after(bench: &Bench, loaded: &Loaded, link: Option<String>, minute: usize) -> Request {
    link.map_or_else(|| page_at(bench, loaded, minute), |path| Request::get(&path, &bench.key))
}

/// Returns the request that inserts the latest row again. This is a commit, but leaves the number of
/// rows unchanged.
fn newest(bench: &Bench, loaded: &Loaded) -> Outcome<Request> {
    let mut line = format!("{{\"timestamp\":\"{}\"", timestamp_of(loaded.n_rows.saturating_sub(1)));
    for column in COLUMNS {
        write!(line, ",\"{column}\":1")?;
    }
    line.push_str("}\n");
    let path = format!("/api/rows/bulk_insert/?dataset={}", loaded.dataset);
    Ok(Request::post(&path, &bench.key, "application/x-ndjson", &line))
}

/// Inserts a row every [`ROW_EVERY`] until it is stopped. Returns the number of inserted rows.
async fn arrive(
    mut connection: Connection,
    row: Request,
    mut stopped: oneshot::Receiver<()>,
) -> Outcome<usize> {
    let mut n_rows = 0;
    loop {
        tokio::select! {
            _ = &mut stopped => return Ok(n_rows),
            () = sleep(ROW_EVERY) => {}
        }
        connection.send(&row).await?.ok()?;
        n_rows += 1;
    }
}
