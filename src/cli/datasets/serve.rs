//! `triptych datasets serve`: the service itself.

use std::{path::PathBuf, time::Duration};

use ::datasets::{
    DatasetsOptions, DatasetsService, LoadOptions, MarketOptions, MetadataFilters, ReadOptions,
};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use stack::data_dir::DataDir;
use task::{clock::Clock, group::Group};
use web::cors::ReaderSites;

use crate::cli::{
    datasets::archive_flags::ArchiveFlags,
    gate::{GateFlags, PortalFlags, StoreFlags},
    stop,
};

/// The flags of `datasets serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Where to serve; `:8081` means port 8081 on every interface
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    listen: String,
    /// Keep all state in this folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlags,
    /// Poll the database for rows that other services stored so often, for streams of them
    #[arg(long, default_value_t = 250, value_name = "MS", requires = "store",
        value_parser = clap::value_parser!(u64).range(20..=60_000))]
    poll_ms: u64,
    #[command(flatten)]
    archive: ArchiveFlags,
    /// Fill datasets with live data: this machine's own load, and a synthetic market
    #[arg(long)]
    demo: bool,
    /// The widest range of raw rows between the `start` and `end` of a page, in hours; 0: any
    #[arg(long, default_value_t = 24, value_name = "HOURS")]
    raw_range_cap: u32,
    /// Keep at most so much of compressed downloads beside the store, to send them again; 0: none
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    piece_cache_mib: u32,
    /// How many metadata filters a search takes: the documented one, or any number
    #[arg(long, value_enum, default_value = "one", value_name = "N")]
    metadata_filters: Filters,
    /// Let web pages of this origin read with a key, such as `https://example.com`; `*` for every
    /// origin. May be repeated
    #[arg(long, value_name = "ORIGIN", help_heading = "Browsers")]
    cors: Vec<ReaderSites>,
    #[command(flatten)]
    gate: GateFlags,
    #[command(flatten)]
    portal: PortalFlags,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// How many metadata filters a search takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Filters {
    /// One; more are an error
    One,
    /// Any number; what is found fits all of them
    All,
}

impl From<Filters> for MetadataFilters {
    fn from(filters: Filters) -> Self {
        match filters {
            Filters::One => Self::One,
            Filters::All => Self::All,
        }
    }
}

/// Serves until asked to stop.
///
/// # Errors
/// If the service cannot be started.
pub(crate) async fn run(command: ServeCommand) -> anyhow::Result<()> {
    let _log = command.process.log("datasets", None)?;
    let data_dir = DataDir::of_services(command.data_dir)?;
    let clock = Clock::system();
    let group = Group::default();
    let (gate, accounts) = command.gate.gate(&data_dir, &command.store, &clock, &group).await?;
    let (addresses, hosts) = (command.gate.addresses(), command.gate.hosts());
    let portal = accounts.map(|accounts| command.portal.router(accounts, addresses, hosts));
    let portal = portal.transpose()?;
    let options = DatasetsOptions {
        listen: command.listen,
        store_path: data_dir.datasets(),
        database: command.store.store,
        is_read_only: command.store.read_only,
        archive: command.archive.storage(),
        poll_every: Duration::from_millis(command.poll_ms),
        gate,
        portal,
        load: command.demo.then_some(LoadOptions::USUAL),
        market: command.demo.then_some(MarketOptions::USUAL),
        reads: ReadOptions {
            raw_span_max: (command.raw_range_cap > 0)
                .then(|| Duration::from_hours(command.raw_range_cap.into())),
            piece_bytes_max: u64::from(command.piece_cache_mib) << 20,
        },
        metadata_filters: command.metadata_filters.into(),
        reader_sites: command.cors,
    };
    DatasetsService::start(options, &group, clock).await.context("start the dataset service")?;
    let stopped = stop::wait_for_stop(command.process.stop_events()).await;
    group.shutdown().await;
    stopped
}
