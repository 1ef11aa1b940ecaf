//! `triptych inference`: serve a prediction network, take part in one and compute single epochs.

mod backtest;
mod compute;
mod leaderboard;
mod submit;
mod topics;
mod upstream;
mod watch;
mod work;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::inference::network::signer::{Domain, Signer};
use ::inference::network::submission::WorkerQuota;
use ::inference::network::topic::{Retention, demo_topics};
use ::inference::server::{Consumers, InferenceService, ServiceOptions};
use ::inference::store::{Store, StorePlace};
use accounts::Accounts;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use client::datasets::Datasets;
use client::functions::Functions;
use client::inference::Inference;
use client::transport::Transport;
use model::address::redact_address;
use model::count::parse_bytes;
use model::topic::TopicId;
use stack::data_dir::DataDir;
use stack::start::KEY_VARIABLE;
use task::clock::Clock;
use task::file::{FileMode, write_new};
use task::group::Group;
use tracing::warn;

use self::backtest::BacktestCommand;
use self::compute::ComputeCommand;
use self::leaderboard::LeaderboardCommand;
use self::submit::SubmitCommand;
use self::topics::TopicsCommand;
use self::upstream::{ClusterRuns, DatasetRows};
use self::watch::{ShowCommand, WatchCommand};
use self::work::WorkCommand;
use crate::cli::config::{self, AddressFlags};
use crate::cli::copy_tables::{self, CopyFlags};
use crate::cli::gate::{GateFlags, StoreFlags};
use crate::cli::services::{KeyFlag, Services, read_key_file};
use crate::cli::{output, secret, stop};

/// Number of rows that are passed to a model if neither a flag nor the topic's settings contain a number.
const N_ROWS: u32 = 120;

/// The subcommands of `inference`.
#[derive(Debug, Subcommand)]
pub(crate) enum InferenceCommand {
    /// Serve a prediction network: its topics, epochs and bundles
    Serve(Box<ServeCommand>),
    /// Print a topic's latest bundle: values, actors, one-out values, weights
    Show(ShowCommand),
    /// Rank a topic's actors by their mean loss, and print the losses of the network's values
    Leaderboard(LeaderboardCommand),
    /// Print each new bundle of a topic
    Watch(WatchCommand),
    /// Print the address of the account that signs values for contracts
    Signer(ServiceFlags),
    /// List, create, update, pause, resume and delete topics
    #[command(subcommand)]
    Topics(TopicsCommand),
    /// Submit an inference or a forecast for the open epoch
    Submit(SubmitCommand),
    /// Have a program in any language infer or forecast in each epoch of a topic
    Work(WorkCommand),
    /// Evaluate models of a topic on the past rows of a dataset
    Backtest(BacktestCommand),
    /// Copy topics and epochs to another store: files on this machine, or PostgreSQL databases
    Copy(CopyFlags),
    /// Combine the submissions of epochs that a file describes
    Synthesize(ComputeCommand),
}

/// The flags of `inference serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeCommand {
    /// Address to serve at; `:8082` means port 8082 on all interfaces
    #[arg(long, default_value = "127.0.0.1:8082", value_name = "ADDRESS")]
    listen: String,
    /// Directory of all state [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlags,
    /// Head whose workers run the topics' predictors
    #[arg(long, env = "TRIPTYCH_HEAD", value_name = "URL")]
    head: String,
    /// Dataset service that the topics read, ending in /api
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: String,
    #[command(flatten)]
    key: KeyFlag,
    /// Serve two demo topics: the machine's load, and the synthetic market's direction
    #[arg(long)]
    demo: bool,
    /// Time between blocks of the local chain, in milliseconds
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=600_000))]
    block_time_ms: u64,
    #[command(flatten)]
    signing: SigningFlags,
    #[command(flatten)]
    retention: RetentionFlags,
    /// Maximum number of workers per epoch of a topic for an account with all its keys, or for a
    /// key of the operator; 0 for no limit
    #[arg(long, default_value_t = WorkerQuota::USUAL.0, value_name = "N", help_heading = "Limits")]
    workers_per_account: u32,
    #[command(flatten)]
    gate: GateFlags,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Default retention of epochs. The settings of a topic override it.
#[derive(Debug, Args)]
struct RetentionFlags {
    /// Maximum size of past epochs of a topic, such as 500MB or 2GB. The oldest epochs are deleted
    /// first. Above half of this size, old epochs lose their forecasts and the values for pairs of
    /// an inferer and a forecaster. A topic's setting `keep_bytes` overrides it
    #[arg(long, default_value = "2GB", value_name = "BYTES", value_parser = parse_retained_bytes, help_heading = "Limits")]
    keep_bytes: u64,
    /// Maximum age of an epoch, in days, from an hour after the service's start. A topic's setting
    /// `keep_days` overrides it [default: no limit]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    keep_days: Option<u32>,
}

impl RetentionFlags {
    fn retention(&self) -> Retention {
        let age = self.keep_days.map(|days| Duration::from_hours(u64::from(days) * 24));
        Retention { bytes: self.keep_bytes, age }
    }
}

/// Parses a limit of the size of epochs. Rejects a limit that is too small for the latest epochs.
fn parse_retained_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < Retention::BYTES_MIN {
        return Err(format!("minimum is {} bytes", Retention::BYTES_MIN));
    }
    Ok(bytes)
}

/// Flags that name an inference service.
#[derive(Debug, Args)]
pub(crate) struct ServiceFlags {
    /// Address of the inference service [default: the address in the profile. Without one and without
    /// an API key, the service of the running local stack, or else `inference serve` on this machine]
    #[arg(long, env = "TRIPTYCH_INFERENCE", value_name = "URL")]
    inference: Option<String>,
    /// Profile in the configuration file that supplies the address
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    key: KeyFlag,
}

/// Flags that name a topic and its service.
#[derive(Debug, Args)]
pub(crate) struct TopicFlags {
    /// Number of the topic
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
/// Errors of the subcommand.
pub(crate) async fn run(command: InferenceCommand) -> anyhow::Result<()> {
    match command {
        InferenceCommand::Serve(command) => serve(*command).await,
        InferenceCommand::Show(command) => watch::show(command).await,
        InferenceCommand::Leaderboard(command) => leaderboard::run(command).await,
        InferenceCommand::Watch(command) => watch::watch(command).await,
        InferenceCommand::Signer(service) => {
            let signer = service.service().await?.signer().await;
            let signer = signer.context("cannot read the signer's address")?;
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

/// Formats a loss or a score: with six decimals, or as a power of ten below 0.001 and from a billion.
fn figure(value: f64) -> String {
    // Adding 0 removes the sign of -0.
    let value = value + 0.0;
    let is_usual = value == 0.0 || (0.001..1e9).contains(&value.abs());
    if is_usual { format!("{value:.6}") } else { format!("{value:.3e}") }
}

/// Closes sign-up, so that only operators create accounts, unless an operator has already opened or
/// closed it. The reason is that every key can submit, and that the service signs values that are
/// computed from submissions.
async fn close_sign_up(accounts: &Accounts) -> anyhow::Result<()> {
    if accounts.close_sign_up_by_default().await.context("cannot close sign-up")? {
        warn!(
            "sign-up at the portal is closed, since this service signs values that depend on what accounts submit; \
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
    // `TRIPTYCH_HEAD` can contain several heads, for the screen. The service uses the first.
    let head = config::split_heads(&command.head).next().unwrap_or_default();
    let head = Transport::new(&head, None).context("invalid --head")?;
    let head = head.with_token(config::head_token()?);
    let key = match &command.key.key_file {
        Some(path) => Some(read_key_file(path)?),
        None => secret::key(None).await?,
    };
    if key.is_none() {
        warn!(
            "no API key for the dataset service at {}, so topics receive no rows: set {KEY_VARIABLE}, or \
             store a key with `triptych keys store`, and start again",
            redact_address(&command.datasets)
        );
    }
    let datasets = Transport::new(&command.datasets, key).context("invalid --datasets")?;
    let runs = Arc::new(ClusterRuns::new(Functions::new(head)));
    let rows = Arc::new(DatasetRows::new(Datasets::new(datasets)));
    let topics = if command.demo { demo_topics() } else { vec![] };
    let options = ServiceOptions {
        listen: command.listen,
        store: match command.store.store {
            Some(url) if command.store.read_only => StorePlace::ReadOnly(url),
            Some(url) => StorePlace::Database(url),
            None => StorePlace::File(data_dir.inference()),
        },
        gate,
        block_time: Duration::from_millis(command.block_time_ms),
        retention: command.retention.retention(),
        topics,
        consumers: command.signing.consumers(data_dir.folder())?,
        quota: WorkerQuota(command.workers_per_account),
    };
    let started = InferenceService::start(options, runs, rows, &group, clock).await;
    started.context("cannot start the inference service")?;
    command.process.run(&group).await
}

/// Default of `--consumer`: the contract in the public examples of the Allora network, on the test
/// chain Sepolia, which existing clients expect.
const CONSUMER_DEFAULT: &str = "ethereum-11155111=0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6";

/// Name of the file with the private key in the services' data directory.
const KEY_NAME: &str = "signer.key";

/// Maximum number of attempts to draw a random private key. Only one draw in 2¹²⁸ is invalid.
const DRAWS: usize = 3;

/// Flags about signatures.
#[derive(Debug, Args)]
struct SigningFlags {
    /// Sign for this contract on a chain; may be repeated
    #[arg(long = "consumer", value_name = "CHAIN=CONTRACT", default_value = CONSUMER_DEFAULT)]
    consumers: Vec<String>,
    /// Topic whose value consumers get as a price: with BTC/8h=14, the value of topic 14 is the
    /// price of BTC in 8 hours; may be repeated
    #[arg(long = "price", value_name = "ASSET/AHEAD=TOPIC")]
    prices: Vec<String>,
    /// File with the private key that signs, 64 hexadecimal digits [default: a file in the data
    /// directory, created if missing]
    #[arg(long, env = "TRIPTYCH_SIGNER_KEY", value_name = "FILE")]
    signer_key: Option<PathBuf>,
}

impl SigningFlags {
    /// Returns the consumers that the flags name. By default, the key is read from a file in `folder`,
    /// the services' data directory.
    ///
    /// # Errors
    /// If a flag or the key is invalid.
    fn consumers(&self, folder: &Path) -> anyhow::Result<Consumers> {
        let signer = match &self.signer_key {
            Some(path) => read_key(path)?,
            None => load_or_create_key(&folder.join(KEY_NAME))?,
        };
        let chains =
            self.consumers.iter().map(|text| parse_consumer(text)).collect::<Result<_, _>>()?;
        let prices = self.prices.iter().map(|text| parse_price(text)).collect::<Result<_, _>>()?;
        Ok(Consumers { signer, chains, prices })
    }
}

fn read_key(path: &Path) -> anyhow::Result<Signer> {
    let path_text = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read key {path_text}"))?;
    text.parse().with_context(|| format!("invalid key {path_text}"))
}

/// Returns the private key in the file at `path`. If the file is missing, creates it with a random key
/// and permissions for its owner only.
fn load_or_create_key(path: &Path) -> anyhow::Result<Signer> {
    if path.exists() {
        return read_key(path);
    }
    let signer =
        (0..DRAWS).find_map(|_| Signer::random()).context("cannot draw a valid random key")?;
    let text = format!("{}\n", signer.reveal());
    match write_new(path, text.as_bytes(), FileMode::Private) {
        Ok(()) => Ok(signer),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read_key(path),
        Err(error) => Err(error).with_context(|| format!("cannot create key {}", path.display())),
    }
}

fn parse_consumer(text: &str) -> anyhow::Result<(String, Domain)> {
    let named = text.split_once('=').and_then(|(name, contract)| {
        let id = name.rsplit_once('-')?.1.parse().ok()?;
        Some((name, id, contract))
    });
    let Some((name, chain_id, contract)) = named else {
        bail!(
            "invalid --consumer {text}, expected CHAIN=CONTRACT with a chain whose name ends in its number"
        )
    };
    let contract = contract.parse().with_context(|| format!("invalid --consumer {text}"))?;
    Ok((name.to_owned(), Domain { chain_id, contract }))
}

fn parse_price(text: &str) -> anyhow::Result<(String, TopicId)> {
    let Some((name, topic)) = text.split_once('=').filter(|(name, _)| name.contains('/')) else {
        bail!("invalid --price {text}, expected ASSET/AHEAD=TOPIC, such as BTC/8h=14")
    };
    Ok((name.to_owned(), topic.parse().with_context(|| format!("invalid --price {text}"))?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn consumer_flag_requires_a_chain_id_and_a_contract() {
        let prices: BTreeMap<_, _> = [parse_price("BTC/8h=14").unwrap()].into();
        assert_eq!(prices["BTC/8h"].get(), 14);
        let (name, domain) = parse_consumer(CONSUMER_DEFAULT).unwrap();
        assert_eq!((name.as_str(), domain.chain_id), ("ethereum-11155111", 11_155_111));
        for text in ["", "ethereum", "ethereum-x=0x8E45", "ethereum-1=0x8E45"] {
            assert!(parse_consumer(text).is_err(), "{text}");
        }
        assert!(parse_price("BTC=14").is_err() && parse_price("BTC/8h=0").is_err());
    }

    #[test]
    fn existing_key_file_is_read_and_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_NAME);
        let account = load_or_create_key(&path).unwrap().account();
        assert_eq!(load_or_create_key(&path).unwrap().account(), account);
        fs::write(&path, "no key").unwrap();
        assert!(load_or_create_key(&path).is_err());
    }

    /// A service that reads the file while another creates it never sees a partial key.
    #[test]
    fn key_is_created_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_NAME);
        let whole = load_or_create_key(&path).unwrap().reveal().trim().len();
        fs::remove_file(&path).unwrap();
        let is_watched = std::sync::atomic::AtomicBool::new(true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while is_watched.load(std::sync::atomic::Ordering::Relaxed) {
                    if let Ok(text) = fs::read_to_string(&path) {
                        assert_eq!(text.trim().len(), whole);
                    }
                }
            });
            for _ in 0..200 {
                load_or_create_key(&path).unwrap();
                fs::remove_file(&path).unwrap();
            }
            is_watched.store(false, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
