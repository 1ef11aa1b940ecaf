//! `triptych inference`: serve a prediction network.

mod services;

use std::{path::PathBuf, sync::Arc, time::Duration};

use ::inference::{
    server::{InferenceService, ServiceOptions},
    topic::demo_topics,
};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use client::{datasets::Datasets, functions::Functions, transport::Transport};
use task::{clock::Clock, group::Group};

use self::services::{Cluster, Series};
use crate::cli::{config, log, place::Place, stop};

/// The subcommands of `inference`.
#[derive(Debug, Subcommand)]
pub(crate) enum InferenceCommand {
    /// Serve a prediction network: its topics, epochs and bundles
    Serve(ServeCommand),
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
    /// The head whose workers run the topics' predictors
    #[arg(long, env = "TRIPTYCH_HEAD", value_name = "URL")]
    head: String,
    /// The dataset service that the topics read, ending in /api; its key comes from `TRIPTYCH_API_KEY`
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: String,
    /// Have the two demo topics: the machine's load, and the synthetic market's direction
    #[arg(long)]
    demo: bool,
    /// How long a block of the local chain takes, in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=600_000))]
    block_time_ms: u64,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Runs a subcommand of `inference`.
///
/// # Errors
/// If the service cannot be started.
pub(crate) async fn run(command: InferenceCommand) -> anyhow::Result<()> {
    let InferenceCommand::Serve(command) = command;
    log::to_stream(log::Output::Stdout, command.process.log_level)?;
    let place = Place::services(command.data_dir)?;
    let clock = Clock::system();
    let accounts = place.accounts(clock.clone()).await?;
    let head = Transport::new(&command.head, None).context("use --head")?;
    let head = head.with_token(config::head_token()?);
    let datasets =
        Transport::new(&command.datasets, config::api_key()?).context("use --datasets")?;
    let runs = Arc::new(Cluster::new(Functions::new(head)));
    let rows = Arc::new(Series::new(Datasets::new(datasets)));
    let topics = if command.demo { demo_topics().context("name the demo topics")? } else { vec![] };
    let options = ServiceOptions {
        listen: command.listen,
        store: place.inference(),
        accounts,
        block_time: Duration::from_millis(command.block_time_ms),
        topics,
    };
    let group = Group::default();
    InferenceService::start(options, runs, rows, &group, clock)
        .await
        .context("start the inference service")?;
    let asked = stop::asked(command.process.parent()).await;
    group.shutdown().await;
    asked
}
