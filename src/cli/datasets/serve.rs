//! `triptych datasets serve`: runs the dataset service.

use std::path::PathBuf;
use std::time::Duration;

use ::datasets::{
    ArchiveStorage, DatasetsOptions, DatasetsService, LoadOptions, MarketOptions, ReadOptions,
};
use anyhow::Context as _;
use clap::Args;
use stack::data_dir::DataDir;
use task::clock::Clock;
use task::group::Group;
use tsdb::archive::objects::ArchiveUrl;
use web::cors::ReaderSites;

use crate::cli::gate::{GateFlags, PortalFlags, StoreFlags};
use crate::cli::stop;

/// The flags of `datasets serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Address to serve at; `:8081` means port 8081 on all interfaces
    #[arg(long, default_value = "127.0.0.1:8081", value_name = "ADDRESS")]
    listen: String,
    /// Directory of all state [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlags,
    /// Interval at which the database is polled for rows that other services stored, which streams
    /// then send
    #[arg(long, default_value_t = 250, value_name = "MS", requires = "store",
        value_parser = clap::value_parser!(u64).range(20..=60_000))]
    poll_ms: u64,
    #[command(flatten)]
    archive: ArchiveFlags,
    /// Fill datasets with live data: this machine's load, and a synthetic market
    #[arg(long)]
    demo: bool,
    /// Maximum range between `start` and `end` of a page of raw rows, in hours; 0 for no limit
    #[arg(long, default_value_t = 24, value_name = "HOURS")]
    raw_range_cap: u32,
    /// Size of the cache of compressed downloads next to the store; 0 for no cache
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    piece_cache_mib: u32,
    /// Let web pages of this origin read with a key, such as `https://example.com`; `*` for all
    /// origins. May be repeated
    #[arg(long, value_name = "ORIGIN", help_heading = "Browsers")]
    cors: Vec<ReaderSites>,
    #[command(flatten)]
    gate: GateFlags,
    #[command(flatten)]
    portal: PortalFlags,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Storage of old rows, and the age at which they move there.
#[derive(Debug, Args)]
struct ArchiveFlags {
    /// Store old rows as Parquet files: `s3://bucket/prefix?region=…`, with
    /// `endpoint=http://host:port` for a server other than Amazon's, or `file:///path`. Credentials
    /// come from `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or from the machine's role. All
    /// services on a database need the same archive
    #[arg(
        long,
        env = "TRIPTYCH_ARCHIVE",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Archive"
    )]
    archive: Option<ArchiveUrl>,
    /// Age at which a month is archived, in days after its end, such as `90d`
    #[arg(long, default_value = "90d", value_name = "DAYS", requires = "archive",
        value_parser = parse_days, help_heading = "Archive")]
    archive_after: Duration,
}

/// Parses a number of days, such as `90d`.
fn parse_days(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').unwrap_or(text).parse::<u16>();
    let days = days.map_err(|_| "invalid age, expected days such as 90d".to_owned())?;
    Ok(Duration::from_hours(u64::from(days) * 24))
}

/// Serves until a signal.
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
    let ArchiveFlags { archive, archive_after: after } = command.archive;
    let options = DatasetsOptions {
        listen: command.listen,
        store_path: data_dir.datasets(),
        database: command.store.store,
        is_read_only: command.store.read_only,
        archive: archive.map(|url| ArchiveStorage { url, after }),
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
        reader_sites: command.cors,
    };
    let started = DatasetsService::start(options, &group, clock).await;
    started.context("cannot start the dataset service")?;
    command.process.run(&group).await
}
