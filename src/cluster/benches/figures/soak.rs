//! Half of the peak load, for long, while workers crash and come back.

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout},
};

use crate::{
    Outcome,
    cluster::Cluster,
    http::{Answer, Client, Request},
    nodes::Nodes,
    rate::{N_CONNECTIONS, sustained},
    rows::{Row, note},
    soak_usage::Watched,
};

/// Workers, one of which is away now and then.
const N_WORKERS: usize = 3;
/// How often one is killed, by the figure.
const CRASH_EVERY: Duration = Duration::from_secs(10);
/// How long it is away: as long as an operator's supervisor waits before it starts it anew.
const ABSENCE: Duration = Duration::from_secs(1);
/// How long the head is left alone before and after, so that what is open is what stays open.
const LEFT_ALONE: Duration = Duration::from_secs(5);
/// How long one request may take: far longer than any should, so that none is taken for lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// Of so many connections, one asks for two nodes at a time.
const ASKS_TWO_EACH: u32 = 8;
/// Wrong answers that are shown.
const SHOWN_MAX: usize = 5;

/// What came of the requests.
#[derive(Debug, Default)]
struct Tally {
    /// By code, as far as they were right.
    right: BTreeMap<String, u32>,
    wrong: u32,
    /// What some of the wrong ones said.
    shown: Vec<String>,
    slowest: Duration,
}

/// Asks for `period` at half the rate that the cluster has at most, and adds a row on what the head
/// then holds. Returns the row on the answers.
pub(crate) async fn soak(nodes: &Nodes, period: Duration, rows: &mut Vec<Row>) -> Outcome<Row> {
    let mut cluster = Cluster::start(nodes, N_WORKERS).await?;
    let (hello, hello_on_two) = (cluster.hello(1).await?, cluster.hello(2).await?);
    // Every worker has run it before any is killed.
    let hello_on_all = cluster.hello(N_WORKERS).await?;
    drop(cluster.warmed(&hello_on_all).await?);
    let peak = sustained(cluster.rest, &hello).await?;
    sleep(LEFT_ALONE).await;
    let mut watched = Watched::begin(&mut cluster.head).await?;
    note(&format!("peak {peak:.0} runs/s; at rest {}", watched.at_rest()))?;

    let n_runs_each = 1.0 + 1.0 / f64::from(ASKS_TWO_EACH);
    let between = Duration::from_secs_f64(n_runs_each * f64::from(N_CONNECTIONS) / (peak / 2.0));
    let (began, end) = (Instant::now(), Instant::now() + period);
    let mut clients = JoinSet::new();
    for idx in 0..N_CONNECTIONS {
        let request = if idx % ASKS_TWO_EACH == 0 { &hello_on_two } else { &hello };
        clients.spawn(one_client(cluster.rest, request.clone(), between, end));
    }
    let mut n_crashes = 0;
    while Instant::now() + CRASH_EVERY <= end {
        let next = Instant::now() + CRASH_EVERY;
        let idx = n_crashes % N_WORKERS;
        cluster.kill(idx).await?;
        sleep(ABSENCE).await;
        cluster.restart(idx).await?;
        n_crashes += 1;
        while Instant::now() < next {
            watched.look(&mut cluster.head).await?;
            sleep_until(next.min(Instant::now() + Duration::from_secs(1))).await;
        }
    }
    let mut tally = Tally::default();
    while let Some(one) = clients.join_next().await {
        tally.add(one?);
    }
    let rate = f64::from(tally.n_right()) / began.elapsed().as_secs_f64();
    sleep(LEFT_ALONE).await;
    rows.push(watched.end(&mut cluster.head).await?);
    for shown in &tally.shown {
        note(&format!("wrong: {shown}"))?;
    }
    let name = format!("{} s at half of the peak, {n_crashes} crashes", period.as_secs());
    let value = format!("{tally} at {rate:.0}/s");
    Ok(Row::new(&name, value, "every answer right", tally.wrong == 0))
}

/// Asks again and again, one request each time `between` has gone by, or at once while behind.
async fn one_client(
    rest: std::net::SocketAddr,
    request: Request,
    between: Duration,
    end: Instant,
) -> Tally {
    let mut tally = Tally::default();
    let mut ticks = interval(between);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut client = None;
    while Instant::now() < end {
        ticks.tick().await;
        let began = Instant::now();
        let asking = async {
            if client.is_none() {
                client = Some(Client::connect(rest).await?);
            }
            client.as_mut().ok_or("no connection")?.ask(&request).await
        };
        let asked = timeout(ANSWER_WITHIN, asking).await.unwrap_or_else(|late| Err(late.into()));
        match asked {
            Ok(answer) if is_right(&answer, &request) => {
                *tally.right.entry(answer.code).or_default() += 1;
            }
            Ok(answer) => tally.note(&format!("{} {}", answer.status, answer.body)),
            Err(error) => {
                tally.note(&error.to_string());
                client = None;
            }
        }
        tally.slowest = tally.slowest.max(began.elapsed());
    }
    tally
}

/// Whether an answer is what the specification has a head say here: two workers are there at any
/// time, so that all nodes give the greeting, but where the only spare is lost as well, some do.
fn is_right(answer: &Answer, request: &Request) -> bool {
    let is_part = answer.status == 200 && answer.code == "206" && answer.is_greeting();
    answer.is_good(request) || is_part
}

impl Tally {
    fn note(&mut self, what: &str) {
        self.wrong += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(what.to_owned());
        }
    }

    fn add(&mut self, other: Self) {
        for (code, n) in other.right {
            *self.right.entry(code).or_default() += n;
        }
        self.wrong += other.wrong;
        self.shown.extend(other.shown);
        self.shown.truncate(SHOWN_MAX);
        self.slowest = self.slowest.max(other.slowest);
    }

    fn n_right(&self) -> u32 {
        self.right.values().sum()
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (code, n) in &self.right {
            write!(f, "{code}: {n}, ")?;
        }
        write!(f, "wrong: {}, slowest {:.1?}", self.wrong, self.slowest)
    }
}
