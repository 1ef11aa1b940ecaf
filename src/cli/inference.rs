//! `triptych inference`: serve a prediction network, and compute single epochs of one.

mod backtest;
mod compute;
mod leaderboard;
mod retention;
mod signing;
mod submit;
mod topics;
mod upstream;
mod watch;
mod work;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ::inference::{
    network::{submission::WorkerQuota, topic::demo_topics},
    server::{InferenceService, ServiceOptions},
    store::Store,
};
use accounts::Accounts;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use client::{
    datasets::Datasets, functions::Functions, inference::Inference, transport::Transport,
};
use model::{address::redact_address, topic::TopicId};
use stack::{data_dir::DataDir, start::KEY_VARIABLE};
use task::{clock::Clock, group::Group};
use tracing::warn;

use self::{
    backtest::BacktestCommand,
    compute::ComputeCommand,
    leaderboard::LeaderboardCommand,
    retention::RetentionFlags,
    signing::SigningFlags,
    submit::SubmitCommand,
    topics::TopicsCommand,
    upstream::{Cluster, Series},
    watch::{ShowCommand, WatchCommand},
    work::WorkCommand,
};
use crate::cli::{
    config::{self, AddressFlags},
    copy_tables::{self, CopyFlags},
    gate::{GateFlags, StoreFlags},
    output, secret,
    services::{KeyFlag, Services, key_of},
    stop,
};

/// The subcommands of `inference`.
#[derive(Debug, Subcommand)]
pub(crate) enum InferenceCommand {
    /// Serve a prediction network: its topics, epochs and bundles
    Serve(Box<ServeCommand>),
    /// Print a topic's newest bundle: values, actors, what each changes, weights
    Show(ShowCommand),
    /// Print a topic's actors by their mean loss, and what its values lost
    Leaderboard(LeaderboardCommand),
    /// Print each new bundle of a topic
    Watch(WatchCommand),
    /// Print the address of the account that signs values for contracts
    Signer(ServiceFlags),
    /// List, create, update, pause, resume and delete topics
    #[command(subcommand)]
    Topics(TopicsCommand),
    /// Submit an inference or a forecast for the epoch that is open
    Submit(SubmitCommand),
    /// Have a program of any language infer or forecast in each epoch of a topic
    Work(WorkCommand),
    /// See how models would have fared in a topic over a dataset's past
    Backtest(BacktestCommand),
    /// Copy topics and epochs to another store: files on this machine, or PostgreSQL databases
    Copy(CopyFlags),
    /// Combine what was submitted in one epoch, or several, that a file describes
    Synthesize(ComputeCommand),
}

/// The flags of `inference serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Where to serve; `:8082` means port 8082 on every interface
    #[arg(long, default_value = "127.0.0.1:8082", value_name = "ADDRESS")]
    listen: String,
    /// Keep all state in this folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlags,
    /// The head whose workers run the topics' predictors
    #[arg(long, env = "TRIPTYCH_HEAD", value_name = "URL")]
    head: String,
    /// The dataset service that the topics read, ending in /api
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: String,
    #[command(flatten)]
    key: KeyFlag,
    /// Have the two demo topics: the machine's load, and the synthetic market's direction
    #[arg(long)]
    demo: bool,
    /// How long a block of the local chain takes, in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=600_000))]
    block_time_ms: u64,
    #[command(flatten)]
    signing: SigningFlags,
    #[command(flatten)]
    retention: RetentionFlags,
    /// Workers that an epoch of a topic takes of one account under all its keys, or of one key of
    /// the operator; 0 for no limit
    #[arg(long, default_value_t = WorkerQuota::USUAL.0, value_name = "N", help_heading = "Limits")]
    workers_per_account: u32,
    #[command(flatten)]
    gate: GateFlags,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Which inference service is meant.
#[derive(Debug, Args)]
pub(crate) struct ServiceFlags {
    /// The inference service's address [default: the profile's, else that of the local stack that
    /// runs, else that of `inference serve` on this machine]
    #[arg(long, env = "TRIPTYCH_INFERENCE", value_name = "URL")]
    inference: Option<String>,
    /// The profile of the configuration file to take the address from
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    key: KeyFlag,
}

/// Which topic of which inference service is meant.
#[derive(Debug, Args)]
pub(crate) struct TopicFlags {
    /// The topic's number
    topic: TopicId,
    #[command(flatten)]
    service: ServiceFlags,
}

impl TopicFlags {
    async fn connect(self) -> anyhow::Result<(TopicId, Inference)> {
        Ok((self.topic, self.service.service().await?))
    }
}

impl ServiceFlags {
    async fn service(self) -> anyhow::Result<Inference> {
        let Self { inference, profile, key } = self;
        let flags = AddressFlags { inference, profile, ..AddressFlags::default() };
        Services::choose(flags, key).await?.inference()
    }
}

/// Runs a subcommand of `inference`.
///
/// # Errors
/// If the service cannot be started, or a file is unfit.
pub(crate) async fn run(command: InferenceCommand) -> anyhow::Result<()> {
    match command {
        InferenceCommand::Serve(command) => serve(*command).await,
        InferenceCommand::Show(command) => watch::show(command).await,
        InferenceCommand::Leaderboard(command) => leaderboard::run(command).await,
        InferenceCommand::Watch(command) => watch::watch(command).await,
        InferenceCommand::Signer(service) => {
            let signer = service.service().await?.signer().await.context("ask who signs")?;
            output::print(&signer.address)
        }
        InferenceCommand::Topics(command) => topics::run(command).await,
        InferenceCommand::Submit(command) => submit::run(command).await,
        InferenceCommand::Work(command) => work::run(command).await,
        InferenceCommand::Backtest(command) => backtest::run(command).await,
        InferenceCommand::Copy(flags) => {
            copy_tables::run(flags, Store::copied_tables(), DataDir::inference).await
        }
        InferenceCommand::Synthesize(command) => compute::synthesize(&command),
    }
}

/// Lets only operators make accounts, unless they said otherwise: every key can submit, and the service
/// signs what it makes of submissions.
async fn close_sign_up(accounts: &Accounts) -> anyhow::Result<()> {
    if accounts.close_sign_up_by_default().await.context("close sign-up")? {
        warn!(
            "sign-up at the portal is closed, since this service signs what accounts submit; \
             `triptych keys sign-up open` opens it"
        );
    }
    Ok(())
}

async fn serve(command: ServeCommand) -> anyhow::Result<()> {
    let _log = command.process.log("inference", None)?;
    let data_dir = DataDir::of_services(command.data_dir)?;
    let clock = Clock::system();
    let group = Group::default();
    let (gate, accounts) = command.gate.gate(&data_dir, &command.store, &clock, &group).await?;
    if let Some(accounts) = accounts.filter(|_| !command.store.read_only) {
        close_sign_up(&accounts).await?;
    }
    // The environment may name several, for the screen.
    let head = config::split_heads(&command.head).next().unwrap_or_default();
    let head = Transport::new(&head, None).context("use --head")?;
    let head = head.with_token(config::head_token()?);
    let key = match &command.key.key_file {
        Some(path) => Some(key_of(path)?),
        None => secret::key(None).await?,
    };
    if key.is_none() {
        warn!(
            "there is no API key for the dataset service at {}, so that its topics get no rows: set \
             {KEY_VARIABLE}, or keep a key with `triptych keys store`, and start again",
            redact_address(&command.datasets)
        );
    }
    let datasets = Transport::new(&command.datasets, key).context("use --datasets")?;
    let runs = Arc::new(Cluster::new(Functions::new(head)));
    let rows = Arc::new(Series::new(Datasets::new(datasets)));
    let topics = if command.demo { demo_topics() } else { vec![] };
    let options = ServiceOptions {
        listen: command.listen,
        store: data_dir.inference(),
        database: command.store.store,
        is_read_only: command.store.read_only,
        gate,
        block_time: Duration::from_millis(command.block_time_ms),
        retention: command.retention.retention(),
        topics,
        consumers: command.signing.consumers(data_dir.folder())?,
        quota: WorkerQuota(command.workers_per_account),
    };
    InferenceService::start(options, runs, rows, &group, clock)
        .await
        .context("start the inference service")?;
    let stopped = stop::wait_for_stop(command.process.stop_events()).await;
    group.shutdown().await;
    stopped
}
