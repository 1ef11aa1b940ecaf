//! `triptych doctor`: finds faults of this machine's configuration and services with advice for each.
//!
//! The checks change nothing: they only send requests that any client can send, and open files in the
//! same way as services.

mod database;
mod services;
mod state;

use std::error::Error as StdError;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use db::postgres::DatabaseUrl;
use model::address::redact_address;
use model::count::counted;
use serde_json::json;
use stack::running::find_running;
use task::causes::chain;
use task::process::install_crypto;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tsdb::archive::objects::ArchiveUrl;

use crate::cli::config::AddressFlags;
use crate::cli::gate::check_accounts_service;
use crate::cli::log::Collector;
use crate::cli::output;
use crate::cli::services::KeyFlag;
use crate::cli::stop::OTLP_VARIABLE;
use crate::cli::tui;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  triptych doctor                                    everything that this user's commands and services use
  triptych doctor --listen :8081                     also checks that this address is free to serve at
  triptych doctor --store postgres://triptych@db/triptych    also a database
  triptych doctor --archive s3://triptych/rows       also an archive of old rows
  triptych doctor --otlp http://otel:4318            also the collector that services send spans to
  triptych doctor --json | jq 'select(.state != \"ok\")'

Exit codes: 0 nothing is wrong, warnings aside; 1 something is wrong, and the list says what to do.";

/// The flags of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorCommand {
    /// The services' data directory [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address at which a service of this machine is to be served, such as :8081; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Database of services, as for `triptych datasets serve --store`
    #[arg(long, env = "TRIPTYCH_STORE", hide_env_values = true, value_name = "URL")]
    store: Option<DatabaseUrl>,
    /// Archive of old rows, as for `triptych datasets serve --archive`
    #[arg(long, env = "TRIPTYCH_ARCHIVE", hide_env_values = true, value_name = "URL")]
    archive: Option<ArchiveUrl>,
    /// Service with the accounts, as for `triptych datasets serve --accounts`
    #[arg(long, env = "TRIPTYCH_ACCOUNTS", hide_env_values = true, value_name = "URL")]
    accounts: Option<String>,
    /// Collector of spans, as for every service
    #[arg(
        long, env = OTLP_VARIABLE, hide_env_values = true, value_name = "URL",
        value_parser = Collector::parse
    )]
    otlp: Option<Collector>,
    /// Print a line of JSON for each check
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    addresses: AddressFlags,
    #[command(flatten)]
    key: KeyFlag,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Severity {
    Ok,
    /// The checked item works, but has a weakness that an operator should know.
    Warning,
    Wrong,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    what: String,
    state: Severity,
    /// What the check observed.
    seen: String,
    /// Advice to the operator, or empty if no action is needed.
    next: String,
}

impl Finding {
    fn ok(what: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { what: what.into(), state: Severity::Ok, seen: seen.into(), next: String::new() }
    }

    fn warning(what: impl Into<String>, seen: impl Into<String>, next: impl Into<String>) -> Self {
        let (seen, next) = (seen.into(), next.into());
        Self { what: what.into(), state: Severity::Warning, seen, next }
    }

    fn wrong(what: impl Into<String>, seen: impl Into<String>, next: impl Into<String>) -> Self {
        Self { state: Severity::Wrong, ..Self::warning(what, seen, next) }
    }

    /// Reports `error`, with the advice in its `hint:` line or, if it has none, with `next`.
    fn failed(what: impl Into<String>, error: &dyn StdError, next: &str) -> Self {
        let text = chain(error);
        let (seen, next) = text.split_once("\nhint: ").unwrap_or((&text, next));
        Self::wrong(what, seen, next)
    }
}

/// Runs all checks and prints the findings.
///
/// # Errors
/// If a finding is [`Severity::Wrong`].
pub(crate) async fn run(command: DoctorCommand) -> anyhow::Result<()> {
    let DoctorCommand { data_dir, listen, store, archive, accounts, otlp, json, .. } = command;
    let mut findings = services::check(command.addresses, command.key).await;
    if let Err(error) = tui::check_settings() {
        findings.push(Finding::failed("settings of the screen", &*error, "correct the file"));
    }
    let stack_folder = find_running().map(|stack| stack.folder).filter(|_| data_dir.is_none());
    findings.extend(state::check(data_dir).await);
    if stack_folder.is_some() {
        findings.extend(state::check(stack_folder).await);
    }
    for address in &listen {
        findings.push(state::check_address(address).await);
    }
    if let Some(url) = &store {
        findings.push(database::check(url).await);
        findings.extend(database::check_other_tables(url).await);
    }
    if let Some(url) = archive {
        findings.push(database::check_archive(url).await);
    }
    if let Some(url) = &accounts {
        findings.push(check_accounts(url).await);
    }
    if let Some(collector) = &otlp {
        findings.push(check_collector(collector).await);
    }
    if json {
        for Finding { what, state, seen, next } in &findings {
            let state: &str = state.into();
            let line = json!({ "what": what, "state": state, "seen": seen, "next": next });
            output::print(&line.to_string())?;
        }
    } else {
        output::print(&text(&findings))?;
    }
    let n_wrong = findings.iter().filter(|it| it.state == Severity::Wrong).count();
    if n_wrong > 0 {
        bail!("found {}, listed above", counted(n_wrong, "fault"));
    }
    Ok(())
}

/// Formats a line for each finding, with the advice on a line below it.
fn text(findings: &[Finding]) -> String {
    let lines = findings.iter().map(|Finding { what, state, seen, next }| {
        let state: &str = state.into();
        let next = if next.is_empty() { String::new() } else { format!("\n         {next}") };
        format!("{state:<7}  {what}: {seen}{next}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Content type of spans. The body of a request without spans is empty.
const OTLP_TYPE: &str = "application/x-protobuf";

/// Maximum time to connect. It allows for a round trip to the other side of the world and a lost
/// packet.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Checks that `host` accepts TCP connections at `port`. The protocol of the server is not checked.
async fn check_port(what: String, host: &str, port: u16, next: &str) -> Finding {
    match timeout(CONNECT_WITHIN, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Finding::ok(what, "accepts connections"),
        Ok(Err(error)) => Finding::wrong(what, format!("cannot connect: {error}"), next),
        Err(_) => Finding::wrong(what, "does not respond", next),
    }
}

/// Checks that the collector accepts connections and a request without spans.
async fn check_collector(collector: &Collector) -> Finding {
    let what = format!("collector {}", collector.redacted());
    let (host, port) = collector.host_and_port();
    let next = "check that it runs, and --otlp or TRIPTYCH_OTLP";
    let reached = check_port(what.clone(), host, port, next).await;
    if reached.state != Severity::Ok {
        return reached;
    }
    install_crypto();
    let sent = async {
        let client = reqwest::Client::builder().timeout(CONNECT_WITHIN).build()?;
        let request = client.post(collector.as_str()).header("content-type", OTLP_TYPE);
        request.body(Vec::new()).send().await
    };
    match sent.await.map(|response| response.status().as_u16()) {
        Ok(200..300) => Finding::ok(what, "accepts spans"),
        // Only a warning, since the cause is unknown: the server may be a collector that requires
        // headers, or another program that requires a key.
        Ok(status @ (401 | 403)) => Finding::warning(
            what,
            format!("responds {status}"),
            "check OTEL_EXPORTER_OTLP_HEADERS, and that this is the address of a collector",
        ),
        Ok(status) => {
            let seen = format!("responds {status} to OTLP over HTTP: it is another program");
            Finding::wrong(what, seen, "name the port and path of OTLP over HTTP: 4318, /v1/traces")
        }
        Err(error) => {
            let next = "name the port of OTLP over HTTP, usually 4318";
            Finding::failed(what, &error.without_url(), next)
        }
    }
}

/// Checks that the service of accounts at `url` accepts the token in the environment.
async fn check_accounts(url: &str) -> Finding {
    let what = format!("accounts at {}", redact_address(url));
    match check_accounts_service(url).await {
        Ok(()) => Finding::ok(what, "responds, and accepts the token"),
        Err(error) => {
            let next = "check that it runs, and that TRIPTYCH_ACCOUNTS_TOKEN is the same there";
            Finding::failed(what, &*error, next)
        }
    }
}
