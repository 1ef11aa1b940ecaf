//! Half of the peak load for a long time, while workers crash and return.

use std::collections::BTreeMap;
use std::time::Duration;

use test_bench::{Row, note};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use crate::Outcome;
use crate::cluster::Cluster;
use crate::http::{Answer, Client, Request};
use crate::nodes::Nodes;
use crate::rate::{N_CONNECTIONS, sustained};
use crate::soak_usage::SoakUsage;

/// Number of workers. At most one worker is down at a time.
const N_WORKERS: usize = 3;
/// Interval at which a worker is killed.
const CRASH_EVERY: Duration = Duration::from_secs(10);
/// Time until the killed worker is restarted, as by a supervisor.
const DOWN_FOR: Duration = Duration::from_secs(1);
/// Time for which the head is idle before it is measured at the beginning and the end, so that only
/// permanent resources are counted.
const IDLE_BEFORE: Duration = Duration::from_secs(5);
/// Time limit of a request: far above the usual time, so that a slow request does not count as lost.
const RESPONSE_WITHIN: Duration = Duration::from_secs(90);
/// One in this many clients sends requests for two nodes. The others send requests for one node.
const REQUESTS_PER_PAIR: u32 = 8;
/// Maximum number of wrong responses that are shown.
const SHOWN_MAX: usize = 5;

/// Counts of the requests.
#[derive(Debug, Default)]
struct Tally {
    /// Correct responses, by code.
    right: BTreeMap<String, u32>,
    wrong: u32,
    /// Some of the wrong responses.
    shown: Vec<String>,
    slowest: Duration,
}

/// Sends requests for `period` at half the maximum rate and adds a row on the resources of the head.
/// Returns the row on the responses.
pub(crate) async fn soak(nodes: &Nodes, period: Duration, rows: &mut Vec<Row>) -> Outcome<Row> {
    let mut cluster = Cluster::start(nodes, N_WORKERS).await?;
    let (hello, hello_on_two) = (cluster.hello(1).await?, cluster.hello(2).await?);
    // Has every worker run the function before any worker is killed.
    cluster.warm_hello(N_WORKERS).await?;
    let (peak, _) = sustained(cluster.rest, &hello).await?;
    sleep(IDLE_BEFORE).await;
    let mut watched = SoakUsage::begin(&mut cluster.head).await?;
    note(&format!("peak {peak:.0} runs/s; idle {}", watched.at_rest()))?;

    let n_runs_each = 1.0 + 1.0 / f64::from(REQUESTS_PER_PAIR);
    let between = Duration::from_secs_f64(n_runs_each * f64::from(N_CONNECTIONS) / (peak / 2.0));
    let (began, end) = (Instant::now(), Instant::now() + period);
    let mut clients = JoinSet::new();
    for idx in 0..N_CONNECTIONS {
        let request = if idx % REQUESTS_PER_PAIR == 0 { &hello_on_two } else { &hello };
        clients.spawn(one_client(cluster.rest, request.clone(), between, end));
    }
    let mut n_crashes = 0;
    while Instant::now() + CRASH_EVERY <= end {
        let next = Instant::now() + CRASH_EVERY;
        let idx = n_crashes % N_WORKERS;
        cluster.kill(idx).await?;
        sleep(DOWN_FOR).await;
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
    sleep(IDLE_BEFORE).await;
    rows.push(watched.end(&mut cluster.head).await?);
    for shown in &tally.shown {
        note(&format!("wrong: {shown}"))?;
    }
    let name = format!("{} s at half of the peak, {n_crashes} crashes", period.as_secs());
    let value = format!("{tally} at {rate:.0}/s");
    Ok(Row::new(&name, value, "all responses correct", tally.wrong == 0))
}

/// Sends one request in each interval `between`. After a slow response, sends the overdue requests
/// immediately.
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
        let asked = timeout(RESPONSE_WITHIN, asking).await.unwrap_or_else(|late| Err(late.into()));
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

/// Returns true if a response is correct in this test. At least two of the three workers run at any
/// time, so all requested nodes should return the greeting. Part of the results (206) is accepted too,
/// since a request for two nodes can lose a worker and then also its only spare.
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
