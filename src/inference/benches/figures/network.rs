//! Inference service on loopback, with topics without a predictor.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use accounts::gate::{Gate, GateOptions};
use async_trait::async_trait;
use inference::Inference;
use inference::math::regret::ByRole;
use inference::network::signer::Signer;
use inference::network::topic::{Retention, SUBMISSIONS_MAX, Topic, demo_topics};
use inference::network::upstream::{
    Cause, DatasetColumn, Described, FlatRow, Job, PeerOutput, Rows, Runs,
};
use inference::server::{Consumers, InferenceService, ServiceOptions};
use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use model::topic::TopicId;
use task::clock::Clock;
use task::group::Group;

use crate::Outcome;

/// Running service and an API key for the service.
pub(crate) struct Network {
    pub(crate) address: SocketAddr,
    pub(crate) inference: Inference,
    pub(crate) key: String,
    pub(crate) group: Group,
}

/// Fake cluster. An execution returns no outputs.
struct Nobody;

#[async_trait]
impl Runs for Nobody {
    async fn run(&self, _: Job) -> Result<Vec<PeerOutput>, Cause> {
        Ok(Vec::new())
    }
}

/// Fake dataset with a single row.
struct Constant;

#[async_trait]
impl Rows for Constant {
    async fn describe(&self, _: &str, _: Option<DatasetId>) -> Result<Described, Cause> {
        let columns = vec![DatasetColumn { name: "value".to_owned(), is_numeric: true }];
        Ok(Described::Found { id: DatasetId::new(1).ok_or("dataset not found")?, columns })
    }

    async fn newest(&self, _: DatasetId, _: u32) -> Result<Vec<FlatRow>, Cause> {
        let values = [("value".to_owned(), 1.0)].into();
        Ok(vec![FlatRow { timestamp: Clock::system().now(), values }])
    }

    async fn rows_between(
        &self,
        _: DatasetId,
        _: &str,
        span: RangeInclusive<Timestamp>,
        _: u32,
    ) -> Result<Vec<FlatRow>, Cause> {
        Ok(vec![FlatRow { timestamp: *span.start(), values: [("value".to_owned(), 1.0)].into() }])
    }
}

impl Network {
    /// Starts a service with `topics` on the system clock, with its database in `folder`.
    pub(crate) async fn start(
        folder: &Path,
        listen: &str,
        block_time: Duration,
        topics: Vec<Topic>,
    ) -> Outcome<Self> {
        Self::start_by(Clock::system(), folder, listen, block_time, topics).await
    }

    /// Starts a service with `topics` on `clock`, with its database in `folder`.
    pub(crate) async fn start_by(
        clock: Clock,
        folder: &Path,
        listen: &str,
        block_time: Duration,
        topics: Vec<Topic>,
    ) -> Outcome<Self> {
        let accounts = Accounts::open(folder.join("accounts.db"), clock.clone()).await?;
        let (_, key) = accounts.renew_key("figures").await?;
        let signer = Signer::from_bytes(&[7; 32]).ok_or("invalid signer")?;
        let options = ServiceOptions {
            // No limit of workers per key, since one key submits for all actors.
            quota: inference::network::submission::WorkerQuota(0),
            listen: listen.to_owned(),
            store: folder.join("inference.db").into(),
            gate: Gate::new(accounts, GateOptions::unlimited(), clock.clone()),
            block_time,
            retention: Retention::USUAL,
            topics,
            consumers: Consumers { signer, chains: [].into(), prices: [].into() },
        };
        let group = Group::default();
        let (runs, rows) = (Arc::new(Nobody), Arc::new(Constant));
        let service = InferenceService::start(options, runs, rows, &group, clock).await?;
        let InferenceService { address, inference } = service;
        Ok(Self { address, inference, key: key.reveal().to_owned(), group })
    }
}

/// Returns topic `number` with epochs of `epoch_length` blocks. The submission window is half an epoch.
pub(crate) fn topic(number: u64, epoch_length: u64) -> Outcome<Topic> {
    let mut topic = demo_topics().into_iter().next().ok_or("no demo topic")?;
    topic.id = TopicId::new(number).ok_or("invalid topic id")?;
    topic.predictor = None;
    // Every actor that submits is active.
    topic.active_max = ByRole { inferer: SUBMISSIONS_MAX, forecaster: SUBMISSIONS_MAX };
    "value".clone_into(&mut topic.source.column);
    topic.timing.epoch_length = epoch_length;
    topic.timing.worker_submission_window = (epoch_length / 2).max(1);
    topic.timing.ground_truth_lag = epoch_length;
    Ok(topic)
}
