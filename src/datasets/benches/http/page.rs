//! A page of 250 by cursor deep in history, beside the same bytes from memory: one that is asked for
//! again, which the service keeps, and one that it has to read and write.

use tokio::time::Instant;

use crate::{
    Outcome,
    connection::Request,
    market::moment,
    memory::{Memory, hold},
    program::{Bench, Loaded},
    rows::{Row, at, float, note},
};

/// Rows of a page, by the issue.
const PAGE_ROWS: usize = 250;

/// Different pages that are asked for.
const N_PAGES: usize = 200;

/// How often each is asked for.
const N_ROUNDS: usize = 20;

/// How many times as long as from memory a page may take.
const BAR: f64 = 2.0;

/// Asks the service and the yardstick in turn, each on one connection.
pub(crate) async fn against_memory(bench: &Bench, loaded: &Loaded) -> Outcome<Vec<Row>> {
    let memory = Memory::start().await?;
    let (mut here, mut there) = (bench.connect().await?, memory.connect().await?);
    let (mut pages, mut firsts) = (Vec::new(), Vec::new());
    for page in 0..N_PAGES {
        // Spread over history, and never the same chunk twice in a row.
        let spread = (page * 79) % N_PAGES;
        let minute = loaded.n_rows.saturating_sub(PAGE_ROWS + 1) * spread / N_PAGES;
        let (first, after) = (moment(0), moment(minute));
        let path = format!(
            "/api/rows/?after={after}&dataset={}&limit={PAGE_ROWS}&ordering=timestamp&start={first}",
            loaded.dataset
        );
        let asked = Request::get(&path, &bench.key);
        let began = Instant::now();
        let answer = here.ask(&asked).await?.good()?;
        firsts.push(began.elapsed());
        hold(&mut there, &answer.body).await?;
        pages.push((asked, Request::get(&format!("/pages/{page}/"), ""), answer.body.len()));
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..N_ROUNDS {
        for (asked, same, n_bytes) in &pages {
            let began = Instant::now();
            let answer = here.ask(asked).await?.good()?;
            ours.push(began.elapsed());
            let began = Instant::now();
            let copy = there.ask(same).await?.good()?;
            theirs.push(began.elapsed());
            if answer.body.len() != *n_bytes || copy.body.len() != *n_bytes {
                return Err("a page changed between two requests".into());
            }
        }
    }
    firsts.sort_unstable();
    ours.sort_unstable();
    theirs.sort_unstable();
    let n_bytes = pages.iter().map(|(_, _, n_bytes)| n_bytes).sum::<usize>() / N_PAGES;
    let (own, other) = (at(&ours, 50), at(&theirs, 50));
    note(&format!(
        "{n_bytes} bytes: p50 {own:.1?}, p99 {:.1?}; from memory p50 {other:.1?}, p99 {:.1?}; {:.0} requests/s",
        at(&ours, 99),
        at(&theirs, 99),
        float(ours.len()) / ours.iter().map(std::time::Duration::as_secs_f64).sum::<f64>(),
    ))?;
    let ratio = own.as_secs_f64() / other.as_secs_f64();
    let value = format!("{own:.1?} / {other:.1?} = {ratio:.2}");
    let name = "page of 250 by cursor / the same bytes from memory, p50";
    let again = Row::new(name, value, "2 at most", ratio <= BAR);
    let first = at(&firsts, 50);
    let ratio = first.as_secs_f64() / other.as_secs_f64();
    let value = format!("{first:.1?} / {other:.1?} = {ratio:.2}");
    Ok(vec![again, Row::told("the same, asked for the first time since a commit", value)])
}
