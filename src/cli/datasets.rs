//! `triptych datasets`: serve datasets.

use std::path::PathBuf;

use ::datasets::{DatasetsOptions, DatasetsService, HEARTBEAT_EVERY, LoadOptions, MarketOptions};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use task::{clock::Clock, group::Group};

use crate::cli::{log, place::Place, stop};

/// The subcommands of `datasets`.
#[derive(Debug, Subcommand)]
pub(crate) enum DatasetsCommand {
    /// Serve datasets: rows, buckets, bulk downloads and streams
    Serve(ServeCommand),
}

/// The flags of `datasets serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Where to serve; `:8081` means port 8081 on every interface
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    listen: String,
    /// Keep all state in this folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Fill datasets with live data: this machine's own load, and a synthetic market
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Runs a subcommand of `datasets`.
///
/// # Errors
/// If the service cannot be started.
pub(crate) async fn run(command: DatasetsCommand) -> anyhow::Result<()> {
    let DatasetsCommand::Serve(command) = command;
    log::to_stream(log::Output::Stdout, command.process.log_level)?;
    let place = Place::services(command.data_dir)?;
    let clock = Clock::system();
    let options = DatasetsOptions {
        listen: command.listen,
        store_path: place.datasets(),
        accounts: place.accounts(clock.clone()).await?,
        load: command.demo.then_some(LoadOptions::USUAL),
        market: command.demo.then_some(MarketOptions::USUAL),
        heartbeat_every: HEARTBEAT_EVERY,
    };
    let group = Group::default();
    DatasetsService::start(options, &group, clock).await.context("start the dataset service")?;
    let asked = stop::asked(command.process.parent()).await;
    group.shutdown().await;
    asked
}
