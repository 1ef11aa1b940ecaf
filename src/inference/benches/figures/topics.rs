//! Time until the bundles of a thousand topics, all of which close in the same block, are served.

use std::time::Duration;

use inference::Sender;
use inference::network::submission::Payload;
use inference::network::{addresses, epoch};
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::network::{Network, topic};
use crate::print;

/// Number of topics.
const N_TOPICS: u64 = 1000;

/// Number of workers per topic.
const N_WORKERS: u32 = 5;

/// Duration of a block. All bundles should be served before the next block.
const BLOCK_TIME: Duration = Duration::from_secs(5);

/// Time after which the benchmark stops waiting for bundles.
const WITHIN: Duration = Duration::from_mins(2);

pub(crate) async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    // The submission window, half of an epoch's twelve blocks, is long enough for five thousand
    // submissions.
    let topics = (1..=N_TOPICS).map(|number| topic(number, 12)).collect::<Outcome<Vec<_>>>()?;
    let network = Network::start(folder.path(), "127.0.0.1:0", BLOCK_TIME, topics).await?;
    let inference = &network.inference;
    let topics = inference.topics();
    let first = topics.first().ok_or("no topic")?.timing;
    let nonce = 1;
    for topic in &topics {
        inference.open_epoch(topic.id, nonce).await?;
        for idx in 0..N_WORKERS {
            let values = vec![("y".to_owned(), format!("{idx}.5"))];
            let worker = addresses::of_model(&idx.to_string());
            let sender = Sender { topic: topic.id, nonce, worker, name: None };
            inference.submit(sender, Payload { values, ..Payload::default() }).await?;
        }
    }
    sleep(inference.chain().until(epoch::close_height(first, nonce))).await;
    let began = Instant::now();
    let mut left: Vec<_> = topics.iter().map(|topic| topic.id).collect();
    while !left.is_empty() {
        if began.elapsed() > WITHIN {
            return Err(format!("{} topics are not served", left.len()).into());
        }
        let mut unserved = Vec::new();
        for topic in left {
            let newest = inference.latest(topic).await;
            if !newest.is_ok_and(|bundles| bundles.bundle.nonce == nonce) {
                unserved.push(topic);
            }
        }
        left = unserved;
        sleep(Duration::from_millis(20)).await;
    }
    let took = began.elapsed().as_secs_f64();
    network.group.shutdown().await;
    print(&format!("{N_TOPICS} topics closing in one block"), &format!("{took:.2} s"), "5 s")
}
