//! A topic with a thousand inferers and fifty forecasters: time to close an epoch and to learn from it,
//! time of queries, memory and disk space.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use inference::math::sortition::Record;
use inference::network::addresses;
use inference::network::submission::{Origin, Payload, Submitter};
use inference::network::topic::Topic;
use inference::store::Input;
use inference::{Inference, Sender};
use model::topic::{Address, BlockHeight, TopicId};
use rustix::time::{ClockId, clock_gettime};
use task::clock::Clock;
use test_bench::http::{Connection, Request};
use test_bench::process::resident_bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Outcome;
use crate::network::{Network, topic};
use crate::print;
use crate::synthesis::Numbers;

/// Number of inferers.
const N_INFERERS: usize = 1000;

/// Number of forecasters. Each forecaster forecasts the losses of all inferers.
const N_FORECASTERS: usize = 50;

/// Number of epochs, more than fit in [`LIMIT`].
const N_EPOCHS: u64 = 16;

/// Retention of the topic in bytes. Two copies of the learned state need nearly 9 MB each, so fewer than
/// ten epochs fit in the remaining bytes.
const LIMIT: u64 = 50_000_000;

/// Maximum number of bytes by which the file and its write-ahead log can exceed [`LIMIT`].
const EXCESS_BYTES_MAX: u64 = 25_000_000;

/// Number of submissions per epoch to each of two topics: a topic that learned from earlier epochs, and
/// a new topic. Each submission is from a different account, so all are from newcomers, of which an
/// epoch accepts 512.
const N_SUBMISSIONS: usize = 500;

/// Number of epochs in which submissions are timed. The median time is reported.
const N_ROUNDS: u64 = 40;

/// Duration of a block. The clock stands still within an epoch, so that no epoch closes.
const BLOCK_TIME: Duration = Duration::from_secs(5);

/// Number of blocks per epoch: the minimum on the chain.
const EPOCH_LENGTH: u64 = 12;

/// Number of requests with which each query is measured.
const N_READS: usize = 200;

pub(crate) async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let mut topic = topic(1, EPOCH_LENGTH)?;
    topic.is_active = false;
    topic.keep.bytes = Some(LIMIT);
    let fresh = Topic { id: "2".parse()?, ..topic.clone() };
    let topics = vec![topic, fresh];
    let clock = Clock::manual(Clock::system().now());
    let listen = "127.0.0.1:0";
    let network =
        Network::start_by(clock.clone(), folder.path(), listen, BLOCK_TIME, topics).await?;
    let inference = &network.inference;
    let mut numbers = Numbers(7);
    let (mut closings, mut lessons) = (Vec::new(), Vec::new());
    let mut epoch_bytes = 0;
    for epoch in 1..=N_EPOCHS {
        let nonce = begin_epoch(inference, &clock, epoch);
        submit(inference, nonce, &mut numbers).await?;
        let began = cpu();
        inference.close(TopicId::FIRST, nonce).await?;
        closings.push(cpu().saturating_sub(began));
        let began = cpu();
        inference.learn(TopicId::FIRST, nonce, Some(3000.1)).await?;
        lessons.push(cpu().saturating_sub(began));
        if epoch == 3 {
            epoch_bytes = inference.holdings(TopicId::FIRST).await?.n_bytes / epoch;
        }
    }
    // Skips the first epochs, in which no forecaster is active.
    let what = format!("close of epoch, {N_INFERERS} x {N_FORECASTERS}, durable, CPU");
    print(&what, &milliseconds(closings.split_off(4)), "80 ms")?;
    print("learning of the epoch, durable, CPU", &milliseconds(lessons.split_off(4)), "none")?;
    let figure = format!(
        "{:.1} MB; {:.1} MB an epoch",
        megabytes(file_bytes(folder.path())?),
        megabytes(epoch_bytes)
    );
    let bar = format!("{:.1} MB", megabytes(LIMIT + EXCESS_BYTES_MAX));
    print(&format!("disk after {N_EPOCHS} epochs"), &figure, &bar)?;
    submissions(inference, &clock).await?;
    reads(&network).await?;
    network.group.shutdown().await;
    Ok(())
}

/// Moves `clock` to the start of `epoch`, counted from 1. Returns its nonce.
fn begin_epoch(inference: &Inference, clock: &Clock, epoch: u64) -> BlockHeight {
    let nonce = 1 + (epoch - 1) * EPOCH_LENGTH;
    clock.advance(inference.chain().until(nonce));
    nonce
}

/// Submits an inference, a forecast or both for each actor.
async fn submit(inference: &Inference, nonce: BlockHeight, numbers: &mut Numbers) -> Outcome<()> {
    let topic = TopicId::FIRST;
    inference.open_epoch(topic, nonce).await?;
    let input = Input { at: inference.chain().now(), value: 3000.0 };
    inference.put_input(topic, nonce, input).await?;
    let mut sending = JoinSet::new();
    let mut send = |worker: Address, payload: Payload| {
        let inference = inference.clone();
        let sender = Sender { topic, nonce, worker, name: Some("model".to_owned()) };
        sending.spawn(async move { inference.submit(sender, payload).await });
    };
    let inferers = (0..N_INFERERS)
        .map(|idx| addresses::of_model(&format!("inferer {idx}")))
        .collect::<Vec<_>>();
    for (idx, worker) in inferers.iter().enumerate() {
        let values = vec![("y".to_owned(), format!("{}", 3000.0 + numbers.next()))];
        // The first inferers are also the forecasters, since an epoch accepts only 1024 submissions.
        let forecast: BTreeMap<Address, String> = if idx < N_FORECASTERS {
            inferers.iter().map(|name| (name.clone(), format!("{}", numbers.next()))).collect()
        } else {
            BTreeMap::new()
        };
        send(worker.clone(), Payload { values, forecast });
    }
    while let Some(sent) = sending.join_next().await {
        sent??;
    }
    Ok(())
}

/// Measures submissions to the topic that has learned and to a new topic.
async fn submissions(inference: &Inference, clock: &Clock) -> Outcome<()> {
    let mut took = [Vec::new(), Vec::new()];
    for epoch in N_EPOCHS + 1..=N_EPOCHS + N_ROUNDS {
        let nonce = begin_epoch(inference, clock, epoch);
        // Alternates which topic is first, so that disturbances affect both topics equally.
        for turn in [epoch, epoch + 1] {
            let topic = TopicId::new(1 + turn % 2).ok_or("invalid topic id")?;
            let took = if topic == TopicId::FIRST { &mut took[0] } else { &mut took[1] };
            inference.open_epoch(topic, nonce).await?;
            let began = Instant::now();
            let mut sending = JoinSet::new();
            for idx in 0..N_SUBMISSIONS {
                let worker = addresses::of_model(&format!("inferer {idx}"));
                let sender = Sender { topic, nonce, worker, name: None };
                let values = vec![("y".to_owned(), "3000.5".to_owned())];
                let payload = Payload { values, ..Payload::default() };
                let submitter = Submitter::Account(i64::try_from(idx)?);
                let origin = Origin { submitter, record: Record::Newcomer, ..Origin::NETWORK };
                let inference = inference.clone();
                sending.spawn(async move { inference.submit_of(origin, sender, payload).await });
            }
            while let Some(sent) = sending.join_next().await {
                sent??;
            }
            took.push(began.elapsed());
        }
    }
    let [learned, fresh] = took.map(|took| median(took).as_secs_f64());
    let n = f64::from(u32::try_from(N_SUBMISSIONS)?);
    let figure = format!("{:.0}/s, {:.2}x of a new topic's", n / learned, fresh / learned);
    print(&format!("submissions to a topic that learned from {N_INFERERS}"), &figure, "0.9x")
}

/// Measures queries.
async fn reads(network: &Network) -> Outcome<()> {
    let inferer = addresses::of_model("inferer 0");
    let paths = [
        "/api/v1/topics".to_owned(),
        "/emissions/v10/latest_regret_stdnorm/1".to_owned(),
        format!("/emissions/v10/inferer_network_regret/1/{inferer}"),
        "/emissions/v10/latest_network_inferences/1".to_owned(),
        "/api/v1/topics/1/history".to_owned(),
    ];
    let before = resident_bytes(std::process::id())?;
    for path in paths {
        let mut connection = Connection::open(network.address).await?;
        let request = Request::get(&path, &network.key);
        let mut took = Vec::new();
        for _ in 0..N_READS {
            let began = Instant::now();
            connection.send(&request).await?.ok()?;
            took.push(began.elapsed());
        }
        let path = path.replace(inferer.as_str(), "…");
        let bar = if path.contains("latest_network") || path.contains("history") {
            "none"
        } else {
            "1 ms"
        };
        print(&format!("GET {path}"), &milliseconds(took), bar)?;
    }
    let more = resident_bytes(std::process::id())?.saturating_sub(before);
    let what = format!("memory after {N_READS} of each");
    print(&what, &format!("{:.0} MB more", megabytes(more)), "200 MB")?;
    let began = Instant::now();
    let path = "/emissions/v10/latest_network_inferences/1?leave_out=all";
    let mut connection = Connection::open(network.address).await?;
    let n_bytes = connection.drain(&Request::get(path, &network.key), 0).await?.n_bytes;
    let n_bytes = u64::try_from(n_bytes)?;
    let figure = format!("{:.1} MB in {:.0} ms", megabytes(n_bytes), ms(began.elapsed()));
    print("GET …?leave_out=all", &figure, "none")?;
    let more = resident_bytes(std::process::id())?.saturating_sub(before);
    print("memory after it", &format!("{:.0} MB more", megabytes(more)), "200 MB")
}

/// Formats the median and the maximum of `took` in milliseconds.
fn milliseconds(took: Vec<Duration>) -> String {
    let longest = took.iter().max().copied().unwrap_or_default();
    format!("{:.2} ms, at most {:.2}", ms(median(took)), ms(longest))
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn megabytes(n_bytes: u64) -> f64 {
    n_bytes as f64 / 1e6
}

/// Returns the CPU time of this process.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Returns the size of the database file and its write-ahead log.
fn file_bytes(folder: &Path) -> Outcome<u64> {
    let size = |name: &str| Ok::<_, std::io::Error>(fs::metadata(folder.join(name))?.len());
    Ok(size("inference.db")? + size("inference.db-wal")?)
}
