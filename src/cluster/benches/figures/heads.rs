//! Distribution of workers among several heads, and the effects of killing a head.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use test_bench::{Row, note};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Outcome;
use crate::cluster::{Cluster, Folder};
use crate::http::{Client, Request};
use crate::nodes::Nodes;

/// Number of heads that share the workers.
const N_HEADS: usize = 3;
/// Number of workers.
const N_WORKERS: usize = 6;
/// Number of slots of each worker. Since it is not a multiple of three, three heads cannot have equal
/// parts of one worker.
const N_SLOTS: usize = 4;
/// Duration of a run. The function only sleeps, so that four cores suffice for all slots.
const RUN: Duration = Duration::from_millis(100);

/// File name of the function.
const METHOD: &str = "hello.wasm";

/// Number of connections to a head: twice its share of the slots, which is 8.
const N_CLIENTS: usize = 16;
/// Number of connections to a head that requests less than its share of the slots.
const N_CLIENTS_OF_SMALL: usize = 4;
/// Number of connections to a head that requests far more than its share of the slots.
const N_CLIENTS_OF_GREEDY: usize = 200;

/// Time for which only the first head has load, so that it occupies all slots.
const AHEAD: Duration = Duration::from_secs(2);
/// Time for which all heads have load before executions are counted.
const WARM_UP: Duration = Duration::from_secs(1);
/// Time for which executions are counted.
const PERIOD: Duration = Duration::from_secs(8);

/// Minimum of Jain's index for heads with equal demand.
const JAIN_MIN: f64 = 0.95;
/// Maximum duration of a request without its run.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum share of refused requests.
const REFUSED_MAX: f64 = 0.05;
/// Minimum fraction of its demand that a head gets, if it demands less than its share of the slots.
const SMALL_SHARE_MIN: f64 = 0.9;

/// Maximum time until a client learns that its head was killed.
const ERROR_WITHIN: Duration = Duration::from_secs(1);
/// Maximum time until all slots serve the other head, after a client has learned that its head was
/// killed.
const FREE_WITHIN: Duration = Duration::from_secs(3);
/// Number of workers with slots held by the killed head.
const N_WORKERS_HELD: usize = 2;
/// Time limit for each step.
const STEP_WITHIN: Duration = Duration::from_secs(30);
/// Interval of checks.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// External runtime. If the variable `REQUEST` is set, it appends the value to the file `runs` and runs
/// for long. Otherwise, it prints a greeting immediately.
const WRITING_RUNTIME: &str = "#!/bin/sh\n[ \"$REQUEST\" ] || exec echo hello\necho \"$REQUEST\" >> \"${0%/*}/runs\"\nsleep 10\n";

/// Module that sleeps for [`RUN`] by `poll_oneoff` and prints a greeting.
const SLEEPER: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\06\00\00\00")
  (data (i32.const 16) "hello\n")
  (func (export "_start")
    (i32.store (i32.const 80) (i32.const 1))
    (i64.store (i32.const 88) (i64.const 100000000))
    (drop (call $poll (i32.const 64) (i32.const 128) (i32.const 1) (i32.const 192)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// Counts of the clients of a head.
#[derive(Debug, Default, Clone, Copy)]
struct Served {
    n_done: u32,
    n_refused: u32,
    longest_wait: Duration,
}

/// Compares the numbers of executions of heads that share saturated workers: if all demand the
/// same, if two demand less than their share, and if one demands far more.
pub(crate) async fn heads(nodes: &Nodes, rows: &mut Vec<Row>) -> Outcome<Row> {
    let cluster = Cluster::start_with(nodes, N_HEADS, (N_WORKERS, Some(N_SLOTS)), None).await?;
    let request = Request::new(&warmed(&cluster, SLEEPER).await?, METHOD, 1);
    let equal = served(&cluster, &request, [N_CLIENTS; N_HEADS]).await?;
    rows.push(row("3 heads, equal demand", &equal, &equal));
    let small = [N_CLIENTS, N_CLIENTS_OF_SMALL, N_CLIENTS_OF_SMALL];
    let unequal = served(&cluster, &request, small).await?;
    let wanted =
        f64::from(u32::try_from(N_CLIENTS_OF_SMALL)?) * PERIOD.as_secs_f64() / RUN.as_secs_f64();
    let least = unequal.iter().skip(1).map(|served| f64::from(served.n_done) / wanted);
    let least = least.fold(f64::INFINITY, f64::min);
    let (value, is_good) = judge_waits(unequal.get(1..).unwrap_or_default());
    let value = format!("{least:.2} of their demand, {value}");
    let bar = "0.9 at least, wait 1 s at most";
    rows.push(Row::new(
        "2 heads next to a larger one",
        value,
        bar,
        least >= SMALL_SHARE_MIN && is_good,
    ));
    let greedy = [N_CLIENTS_OF_GREEDY, N_CLIENTS, N_CLIENTS];
    let greedy = served(&cluster, &request, greedy).await?;
    Ok(row("3 heads, one of them greedy", &greedy, greedy.get(1..).unwrap_or_default()))
}

/// Returns a row with the fairness among `all` heads, and the waits and refusals of the `judged`
/// heads.
fn row(name: &str, all: &[Served], judged: &[Served]) -> Row {
    let index = jain(all);
    let (value, is_good) = judge_waits(judged);
    let n_done: Vec<u32> = all.iter().map(|served| served.n_done).collect();
    let value = format!("Jain {index:.3} of {n_done:?}, {value}");
    let bar = "0.95 at least, wait 1 s at most, 5 % refused at most";
    Row::new(name, value, bar, index >= JAIN_MIN && is_good)
}

/// Describes the maximum wait and the share of refused requests at these heads. Also returns true if both
/// are within their limits and at least one request was served.
fn judge_waits(served: &[Served]) -> (String, bool) {
    let wait = served.iter().map(|served| served.longest_wait).max().unwrap_or_default();
    let n_refused: u32 = served.iter().map(|served| served.n_refused).sum();
    let n_done: u32 = served.iter().map(|served| served.n_done).sum();
    let refused = f64::from(n_refused) / f64::from((n_done + n_refused).max(1));
    let value = format!("waited {wait:.2?} at most, {:.1} % refused", refused * 100.0);
    (value, wait <= WAIT_MAX && refused <= REFUSED_MAX && n_done > 0)
}

/// Returns Jain's fairness index: 1 if all numbers of executions are equal, 1/n if only one number is
/// not zero.
fn jain(served: &[Served]) -> f64 {
    let done: Vec<f64> = served.iter().map(|served| f64::from(served.n_done)).collect();
    let (sum, squares) = (done.iter().sum::<f64>(), done.iter().map(|n| n * n).sum::<f64>());
    let n = u32::try_from(done.len()).unwrap_or(u32::MAX);
    sum * sum / (f64::from(n) * squares).max(1.0)
}

/// Uploads a module to the heads and has all workers run the module for each head. Returns the id of the
/// module.
async fn warmed(cluster: &Cluster, module: &str) -> Outcome<String> {
    let module = wat::parse_str(module)?;
    let mut function = String::new();
    for rest in &cluster.rests {
        function = Client::connect(*rest).await?.upload(METHOD, &module).await?;
    }
    let on_all = Request::new(&function, METHOD, cluster.workers.len());
    for rest in &cluster.rests {
        drop(Cluster::warmed_at(*rest, &on_all).await?);
    }
    Ok(function)
}

/// Runs clients of each head. The clients of the first head start earlier.
async fn served(
    cluster: &Cluster,
    request: &Request,
    n_clients: [usize; N_HEADS],
) -> Outcome<Vec<Served>> {
    let counted_from = Instant::now() + AHEAD + WARM_UP;
    let end = counted_from + PERIOD;
    let mut heads: Vec<JoinSet<Outcome<Served>>> = Vec::new();
    for (idx, (rest, n_clients)) in cluster.rests.iter().zip(n_clients).enumerate() {
        if idx == 1 {
            sleep(AHEAD).await;
        }
        let mut clients = JoinSet::new();
        for _ in 0..n_clients {
            clients.spawn(one_client(*rest, request.clone(), counted_from, end));
        }
        heads.push(clients);
    }
    let mut all = Vec::new();
    for mut clients in heads {
        let mut sum = Served::default();
        while let Some(one) = clients.join_next().await {
            let one = one??;
            sum.n_done += one.n_done;
            sum.n_refused += one.n_refused;
            sum.longest_wait = sum.longest_wait.max(one.longest_wait);
        }
        all.push(sum);
    }
    note(&format!("{n_clients:?} clients: {all:?}"))?;
    Ok(all)
}

async fn one_client(
    rest: SocketAddr,
    request: Request,
    counted_from: Instant,
    end: Instant,
) -> Outcome<Served> {
    let mut client = Client::connect(rest).await?;
    let mut served = Served::default();
    loop {
        let began = Instant::now();
        let answer = timeout_at(end, client.ask(&request)).await;
        // A request that `end` interrupts counts with the time that it has waited until then.
        served.longest_wait = served.longest_wait.max(began.elapsed().saturating_sub(RUN));
        let Ok(answer) = answer else { return Ok(served) };
        let is_counted = counted_from <= Instant::now();
        let is_good = answer?.is_good(&request);
        served.n_done += u32::from(is_counted && is_good);
        served.n_refused += u32::from(is_counted && !is_good);
        if !is_good {
            // A refused client retries after a pause.
            sleep(RUN).await;
        }
    }
}

/// Kills a head that uses all slots, and measures when another head can use them.
pub(crate) async fn killed(nodes: &Nodes) -> Outcome<Row> {
    let folder = Folder::new()?;
    let program = folder.runtime(WRITING_RUNTIME)?;
    let runs = folder.path().join("runs");
    let workers = (N_WORKERS_HELD, Some(N_SLOTS));
    let mut cluster = Cluster::start_with(nodes, 2, workers, Some(program)).await?;
    let function = warmed(&cluster, "(module (func (export \"_start\")))").await?;
    let n_slots = N_WORKERS_HELD * N_SLOTS;
    let [first, second] = cluster.rests[..] else { return Err("expected two heads".into()) };
    let mut lost = ask(first, &function, "first", n_slots);
    written(&runs, "first", n_slots).await?;
    let killed_at = Instant::now();
    cluster.kill_head().await?;
    let mut n_told = 0;
    while let Ok(Some(answer)) = timeout_at(killed_at + STEP_WITHIN, lost.join_next()).await {
        n_told += usize::from(answer?.is_err());
    }
    let error_after = killed_at.elapsed();
    let waiting = ask(second, &function, "second", n_slots);
    written(&runs, "second", n_slots).await?;
    let free_after = killed_at.elapsed();
    drop(waiting);
    let n_twice = n_twice(&runs);
    let value = format!(
        "{n_told} of {n_slots} clients got an error in {error_after:.2?}, all slots taken again in \
         {free_after:.2?}, {n_twice} run twice"
    );
    let is_passed = n_told == n_slots
        && error_after <= ERROR_WITHIN
        && free_after <= FREE_WITHIN
        && n_twice == 0;
    Ok(Row::new(
        "head killed in mid-request",
        value,
        "error in 1 s, free in 3 s, none twice",
        is_passed,
    ))
}

/// Starts `n` simultaneous runs, each of which records its name: `prefix` and a number.
fn ask(rest: SocketAddr, function: &str, prefix: &str, n: usize) -> JoinSet<Outcome<()>> {
    let mut clients = JoinSet::new();
    for number in 0..n {
        let variable = ("REQUEST".to_owned(), format!("{prefix}-{number}"));
        let request = Request::with_variable(function, METHOD, &variable);
        clients.spawn(async move {
            Client::connect(rest).await?.ask(&request).await?;
            Ok(())
        });
    }
    clients
}

/// Waits until `n` runs with names that begin with `prefix` are recorded.
async fn written(runs: &Path, prefix: &str, n: usize) -> Outcome<()> {
    let looking = async {
        while names(runs).iter().filter(|name| name.starts_with(prefix)).count() < n {
            sleep(CHECK_EVERY).await;
        }
    };
    timeout(STEP_WITHIN, looking).await.map_err(|_| {
        let found = names(runs);
        format!("{n} runs of the {prefix} head were not started: {found:?}").into()
    })
}

fn names(runs: &Path) -> Vec<String> {
    // Without a file, no function has run yet.
    let text = fs::read_to_string(runs).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the number of runs that were started more than once.
fn n_twice(runs: &Path) -> usize {
    let mut all = names(runs);
    let n_begun = all.len();
    all.sort();
    all.dedup();
    n_begun - all.len()
}
