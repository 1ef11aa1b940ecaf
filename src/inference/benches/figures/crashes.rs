//! Checks that `kill -9` at any moment of an epoch loses no acknowledged submission, changes no stored
//! bundle, and leaves no epoch without a bundle or a recorded reason.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use inference::Inference;
use inference::math::pair_values::FullBundle;
use model::topic::TopicId;
use test_bench::http::{Connection, Request};
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::network::{Network, topic};
use crate::print;

/// Environment variable with the directory of the service's files. If set, this program runs the
/// service instead of the benchmark.
pub(crate) const FOLDER: &str = "FIGURES_FOLDER";

/// Environment variable with the address on which the service listens.
const LISTEN: &str = "FIGURES_LISTEN";

/// Number of kills.
const KILLS: u64 = 200;

/// Duration of a block, short enough for several epochs per second.
const BLOCK_TIME: Duration = Duration::from_millis(20);

/// Number of blocks per epoch. An epoch lasts a quarter of a second.
const EPOCH_LENGTH: u64 = 12;

/// Maximum time from the start of the service until it responds.
const START_WITHIN: Duration = Duration::from_secs(20);

/// Runs the service until the process is killed.
pub(crate) async fn serve(folder: &Path) -> Outcome<()> {
    let listen = env::var(LISTEN)?;
    let network =
        Network::start(folder, &listen, BLOCK_TIME, vec![topic(1, EPOCH_LENGTH)?]).await?;
    // Each start creates a new key. The rename ensures that the other process reads a complete file.
    let key = folder.join("key.tmp");
    std::fs::write(&key, &network.key)?;
    std::fs::rename(&key, folder.join("key"))?;
    network.group.stopped().await;
    Ok(())
}

pub(crate) async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut acknowledged: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    let mut seen: BTreeMap<u64, String> = BTreeMap::new();
    for kill in 0..KILLS {
        let (mut service, key) = start(folder.path(), address).await?;
        // Kills the service at a different point of an epoch each time.
        let alive = Duration::from_micros(20_000 + (kill * 7919) % 480 * 1000);
        let began = Instant::now();
        let mut connection = Connection::open(address).await?;
        let mut n_sent = 0;
        while began.elapsed() < alive {
            let worker = format!("{kill}-{n_sent}");
            n_sent += 1;
            let body = format!("{{\"model\":\"{worker}\",\"value\":\"{n_sent}\"}}");
            let path = "/api/v1/topics/1/submissions";
            let request = Request::post(path, &key, "application/json", &body);
            let response = connection.send(&request).await?;
            if response.status == 200 {
                let body = response.body;
                let (nonce, worker) = (number(&body, "nonce")?, text(&body, "worker")?);
                acknowledged.entry(nonce).or_default().insert(worker);
            }
        }
        service.kill()?;
        service.wait()?;
        remember(folder.path(), &mut seen).await?;
    }
    let (n_lost, n_twice, n_skipped) = judge(folder.path(), &acknowledged, &seen).await?;
    let n_acknowledged: usize = acknowledged.values().map(BTreeSet::len).sum();
    let what = format!("kill -9, {KILLS} times, {n_acknowledged} submissions acknowledged");
    let figure = format!("{n_lost} lost, {n_twice} twice, {n_skipped} skipped silently");
    print(&what, &figure, "0, 0, 0")
}

/// Starts the service and waits until it responds.
async fn start(folder: &Path, address: SocketAddr) -> Outcome<(Child, String)> {
    let key = folder.join("key");
    if key.exists() {
        std::fs::remove_file(&key)?;
    }
    let child = Command::new(env::current_exe()?)
        .env(FOLDER, folder)
        .env(LISTEN, address.to_string())
        .stdin(Stdio::null())
        .spawn()?;
    let began = Instant::now();
    while !key.exists() {
        if began.elapsed() > START_WITHIN {
            return Err("service did not start".into());
        }
        sleep(Duration::from_millis(2)).await;
    }
    Ok((child, std::fs::read_to_string(key)?))
}

/// Adds the bundle of each closed epoch to `seen`.
async fn remember(folder: &Path, seen: &mut BTreeMap<u64, String>) -> Outcome<()> {
    let copy = copied(folder)?;
    // A block outlasts the test, so that this service neither opens nor closes an epoch.
    let network = Network::start(copy.path(), "127.0.0.1:0", LASTING, vec![resting()?]).await?;
    for (nonce, bundle) in bundles(&network.inference).await? {
        seen.entry(nonce).or_insert(format!("{bundle:?}"));
    }
    network.group.shutdown().await;
    Ok(())
}

/// Duration of a block that exceeds the duration of the test.
const LASTING: Duration = Duration::from_hours(24);

/// Returns the topic in the paused state, so that no epoch opens.
fn resting() -> Outcome<inference::network::topic::Topic> {
    let mut topic = topic(1, EPOCH_LENGTH)?;
    topic.is_active = false;
    topic.timing.ground_truth_lag = 1_000_000_000;
    Ok(topic)
}

/// Copies the database file and its write-ahead log in their current state, as a power cut would leave
/// them.
fn copied(folder: &Path) -> Outcome<tempfile::TempDir> {
    let copy = tempfile::tempdir()?;
    for name in ["inference.db", "inference.db-wal"] {
        if folder.join(name).exists() {
            std::fs::copy(folder.join(name), copy.path().join(name))?;
        }
    }
    Ok(copy)
}

/// Returns the number of lost submissions, the number of epochs with a changed bundle, and the number of
/// epochs that have no bundle and no state that explains why.
async fn judge(
    folder: &Path,
    acknowledged: &BTreeMap<u64, BTreeSet<String>>,
    seen: &BTreeMap<u64, String>,
) -> Outcome<(usize, usize, usize)> {
    let copy = copied(folder)?;
    let network = Network::start(copy.path(), "127.0.0.1:0", LASTING, vec![resting()?]).await?;
    let inference = &network.inference;
    let (mut n_lost, mut n_twice, mut n_skipped) = (0, 0, 0);
    let progress = inference.progress(TopicId::FIRST).await?;
    let bundles = bundles(inference).await?;
    for (nonce, workers) in acknowledged {
        let kept = inference.submissions(TopicId::FIRST, *nonce).await?;
        let kept: BTreeSet<String> = kept.into_iter().map(|s| s.worker.to_string()).collect();
        n_lost += workers.difference(&kept).count();
        match bundles.get(nonce) {
            Some(bundle) => {
                let inferers = bundle.inferer_values.iter();
                let inferers: BTreeSet<String> = inferers.map(|w| w.worker.to_string()).collect();
                n_lost += workers.difference(&inferers).count();
            }
            None if !progress.open.contains(nonce) => n_skipped += 1,
            None => {}
        }
    }
    for (nonce, bundle) in &bundles {
        let bundle = format!("{bundle:?}");
        n_twice += usize::from(seen.get(nonce).is_some_and(|seen| *seen != bundle));
    }
    network.group.shutdown().await;
    Ok((n_lost, n_twice, n_skipped))
}

/// Returns all bundles.
async fn bundles(inference: &Inference) -> Outcome<BTreeMap<u64, FullBundle>> {
    let mut bundles = BTreeMap::new();
    for nonce in inference.nonces(TopicId::FIRST, 0..=u64::MAX, 100_000).await? {
        bundles.insert(nonce, inference.bundle_at(TopicId::FIRST, nonce).await?.bundle);
    }
    Ok(bundles)
}

fn number(body: &[u8], name: &str) -> Outcome<u64> {
    let value: serde_json::Value = serde_json::from_slice(body)?;
    value.get(name).and_then(serde_json::Value::as_u64).ok_or_else(|| name.to_owned().into())
}

fn text(body: &[u8], name: &str) -> Outcome<String> {
    let value: serde_json::Value = serde_json::from_slice(body)?;
    let text = value.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    text.ok_or_else(|| name.to_owned().into())
}
