//! Starts the service and measures the catalog.

use std::io::{Write as _, stdout};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use accounts::Accounts;
use accounts::gate::{Gate, GateOptions};
use datasets::{DatasetsOptions, DatasetsService, POLL_EVERY, ReadOptions};
use serde_json::Value;
use task::clock::Clock;
use task::group::Group;
use test_bench::process::resident_bytes;
use test_bench::{Outcome, quantile};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::names;

/// Default number of datasets.
const DATASETS_DEFAULT: usize = 1_000_000;

/// Number of datasets that a request creates, the maximum of the service.
const BATCH: usize = 1000;

/// One in this number of datasets has the private tag.
const RARE: usize = 2000;

/// Number of measured requests for each line of the table.
const REQUESTS: usize = 200;

/// Maximum allowed median duration of a request.
const BAR: Duration = Duration::from_millis(10);

/// Creates the catalog, measures every figure and prints the table.
pub(crate) fn run() -> Outcome<()> {
    let mut words = env::args().skip_while(|word| word != "--datasets").skip(1);
    let n = words.next().map_or(Ok(DATASETS_DEFAULT), |number| number.parse())?;
    let folder = tempfile::tempdir()?;
    let runtime = Runtime::new()?;
    let group = Group::default();
    let (address, keys) = runtime.block_on(serve(folder.path(), &group))?;
    let mut connection = Connection::open(address)?;
    print("row", "figure", "bar", "met")?;
    create(&mut connection, &keys, n)?;
    figures(&mut connection, &keys, n)?;
    let size = fs::metadata(folder.path().join("datasets.sqlite"))?.len();
    print("file", &format!("{} MB", size / 1_000_000), "-", "-")?;
    print(
        "memory of the process",
        &format!("{} MB", resident_bytes(std::process::id())? / 1_000_000),
        "-",
        "-",
    )?;
    drop(connection);
    runtime.block_on(group.shutdown());
    let opened = Instant::now();
    let group = Group::default();
    let (address, keys) = runtime.block_on(serve(folder.path(), &group))?;
    print("open", &format!("{:?}", opened.elapsed()), "-", "-")?;
    let mut connection = Connection::open(address)?;
    let first = Instant::now();
    connection.get(&keys.holder, "/api/datasets/?search=tiingo&limit=250")?;
    print("first search after that", &format!("{:?}", first.elapsed()), "-", "-")?;
    runtime.block_on(group.shutdown());
    Ok(())
}

/// API keys that send the requests.
struct Keys {
    /// Key that owns all datasets.
    owner: String,
    /// Key to which all datasets are visible.
    holder: String,
    /// Key to which one in [`RARE`] datasets is visible.
    member: String,
}

async fn serve(folder: &Path, group: &Group) -> Outcome<(SocketAddr, Keys)> {
    let clock = Clock::system();
    let accounts = Accounts::open(folder.join("accounts.sqlite"), clock.clone()).await?;
    let key = async |name| -> Outcome<String> {
        Ok(accounts.renew_key(name).await?.1.reveal().to_owned())
    };
    let keys = Keys {
        owner: key("owner").await?,
        holder: key("holder").await?,
        member: key("member").await?,
    };
    let options = DatasetsOptions {
        listen: "127.0.0.1:0".to_owned(),
        store_path: folder.join("datasets.sqlite"),
        database: None,
        is_read_only: false,
        archive: None,
        poll_every: POLL_EVERY,
        gate: Gate::new(accounts, GateOptions::unlimited(), clock.clone()),
        portal: None,
        load: None,
        market: None,
        reads: ReadOptions::USUAL,
        reader_sites: Vec::new(),
    };
    let service = DatasetsService::start(options, group, clock).await?;
    Ok((service.address(), keys))
}

/// Creates `n` datasets. Lets the holder acquire the tag `public`, and grants the tag `members` to the
/// member.
fn create(connection: &mut Connection, keys: &Keys, n: usize) -> Outcome<()> {
    let began = Instant::now();
    for first in (0..n).step_by(BATCH) {
        let bodies: Vec<Value> =
            (first..n.min(first + BATCH)).map(|idx| names::dataset(idx, idx % RARE == 0)).collect();
        connection.post(&keys.owner, "/api/datasets/", &Value::Array(bodies))?;
    }
    let took = began.elapsed();
    let per_second = n as u64 * 1000 / u64::try_from(took.as_millis().max(1))?;
    let figure = format!("{took:.1?}, {per_second}/s");
    print(&format!("create {n} datasets, {BATCH} in a request"), &figure, "-", "-")?;
    let public = serde_json::json!({"tag_name": "public"});
    connection.post(&keys.holder, "/api/tags/acquire/", &public)?;
    // The number of the member's key is 3, since it was created third.
    let member = serde_json::json!({"key": 3});
    connection.post(&keys.owner, "/api/tags/members/holders/", &member)?;
    Ok(())
}

/// Measures each kind of request to the catalog and prints its median duration.
fn figures(connection: &mut Connection, keys: &Keys, n: usize) -> Outcome<()> {
    let (holder, member) = (&keys.holder, &keys.member);
    let pick = |round: usize| (round * 7919 + 13) % n;
    let name = |round| names::name(pick(round));
    let list = "/api/datasets/";
    let found = "/api/datasets/search/";
    row(connection, "list, 250", holder, |_| format!("{list}?limit=250"))?;
    row(connection, "list, 250 from anywhere", holder, |round| {
        format!("{list}?limit=250&offset={}", pick(round))
    })?;
    row(connection, "list, 250, of a private tag", member, |_| format!("{list}?limit=250"))?;
    row(connection, "exact name", holder, |round| {
        format!("{list}?search={}&limit=10", name(round))
    })?;
    row(connection, "exact name, by a private tag", member, |round| {
        format!("{list}?search={}&limit=10", name(round))
    })?;
    row(connection, "columns by name", holder, |round| {
        format!("/api/columns/?dataset_name={}", name(round))
    })?;
    row(connection, "part of a name, few matches", holder, |round| {
        format!("{list}?search={}", names::ticker(pick(round)))
    })?;
    for (what, text) in [
        ("start of a third of the names", "tiingo"),
        ("part of every name", "_1min"),
        ("part of every description", "minute ohlcv"),
        ("text that is nowhere", "qqqqqq"),
        ("two letters in many", "us"),
        ("two letters that are nowhere", "~~"),
        ("one letter", "k"),
    ] {
        let text = text.replace(' ', "+");
        row(connection, what, holder, |_| format!("{list}?search={text}&limit=250"))?;
    }
    row(connection, "part of every name, by a private tag", member, |_| {
        format!("{list}?search=_1min&limit=250")
    })?;
    row(connection, "metadata, one match", holder, |round| {
        format!("{found}?ticker={}", names::ticker(pick(round)))
    })?;
    row(connection, "metadata, a third match", holder, |_| format!("{found}?source=tiingo"))?;
    row(connection, "metadata, a third match, from anywhere", holder, |round| {
        format!("{found}?source=tiingo&offset={}", pick(round) / 4)
    })?;
    row(connection, "one dataset", holder, |round| format!("{list}{}/", pick(round) + 1))
}

/// Requests paths from the function `path`, and prints the median and the maximum duration.
fn row(
    connection: &mut Connection,
    what: &str,
    key: &str,
    path: impl Fn(usize) -> String,
) -> Outcome<()> {
    let mut times = Vec::with_capacity(REQUESTS);
    let mut count = Value::Null;
    for round in 0..REQUESTS {
        let path = path(round);
        let began = Instant::now();
        let body = connection.get(key, &path)?;
        times.push(began.elapsed());
        if round == 0 {
            count = serde_json::from_slice::<Value>(&body)?["count"].take();
        }
    }
    let (p50, p99) = (quantile(&times, 50), quantile(&times, 99));
    let figure = format!("p50 {p50:.2?}, p99 {p99:.2?}, count {count}");
    let met = if p50 <= BAR { "yes" } else { "NO" };
    print(what, &figure, &format!("p50 {BAR:?}"), met)
}

fn print(what: &str, figure: &str, bar: &str, met: &str) -> Outcome<()> {
    writeln!(stdout(), "{what:<44} | {figure:<46} | {bar:<9} | {met}")?;
    Ok(())
}
