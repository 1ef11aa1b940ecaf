//! `triptych watch`: evaluates rules and reports each change as text, to a command and to a webhook.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use alerts::notify::{AlertSender, Message, SECRET_VARIABLE};
use alerts::rules::Rules;
use alerts::state::{Alert, AlertState, Watcher};
use alerts::watch::{Clients, Event, watch};
use anyhow::Context as _;
use clap::Args;
use model::count::counted;
use model::escape::escape_line;
use stack::data_dir::project_dirs;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cli::config::{self, AddressFlags};
use crate::cli::output::{print, show, tell, write};
use crate::cli::parse::read_text;
use crate::cli::services::{KeyFlag, Services};
use crate::cli::stop;

/// Name of the file with rules in the configuration directory.
pub(crate) const RULES_FILE: &str = "rules.toml";

/// Maximum size of a file with rules, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of events that wait to be printed.
const EVENTS_CAPACITY: usize = 64;

/// Flags of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchCommand {
    /// File with rules [default: `rules.toml` in the configuration directory]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Only check the file, and print the names of its rules
    #[arg(long)]
    check: bool,
    /// Print each alert as a line of JSON
    #[arg(long)]
    json: bool,
    /// Ring the terminal's bell and show a desktop notification through the terminal (OSC 9)
    #[arg(long)]
    bell: bool,
    #[command(flatten)]
    addresses: AddressFlags,
    #[command(flatten)]
    key: KeyFlag,
}

/// Watches the rules until the process has to stop.
///
/// # Errors
/// If the rules or the configuration are invalid, or standard output is closed.
pub(super) async fn run(command: WatchCommand) -> anyhow::Result<()> {
    let path = match command.rules {
        Some(path) => path,
        None => project_dirs()?.config_dir().join(RULES_FILE),
    };
    let rules: Rules = read_text(&path, FILE_BYTES_MAX)
        .with_context(|| "cannot read the rules\nhint: pass --rules FILE")?
        .parse()
        .with_context(|| format!("invalid rules in {}", path.display()))?;
    if command.check {
        let names: Vec<&str> = rules.rules.iter().map(|rule| rule.name.as_str()).collect();
        return print(&names.join("\n"));
    }
    let services = Services::choose(command.addresses, command.key).await?;
    let head = services.head()?;
    let (datasets, inference) = (Some(services.datasets()?), Some(services.inference()?));
    let clients = Clients { head, datasets, inference };
    for rule in &rules.rules {
        let (name, service) = (&rule.name, rule.condition.service());
        let needs = format!("rule `{name}` requires the {}", service.name());
        anyhow::ensure!(clients.has(service), "{needs}, but its address is not configured");
    }
    let n_rules = rules.rules.len();
    let mut watcher = Watcher::new(rules.rules, rules.notify.repeat, Instant::now());
    let secret = config::variable(SECRET_VARIABLE)?;

    let group = Group::default();
    let (events, received) = mpsc::channel(EVENTS_CAPACITY);
    let report = |why| tell(&format!("cannot send alerts: {why}"));
    let printer = Printer {
        is_json: command.json,
        rings: command.bell && io::stdout().is_terminal(),
        sender: AlertSender::start(rules.notify, secret, &group, report)
            .context("cannot prepare requests to the webhook")?,
    };
    tell(&format!("watching {}", counted(n_rules, "rule")));
    let work = async {
        tokio::select! {
            () = watch(&mut watcher, &clients, events) => Ok(()),
            result = printer.print_events(received) => result,
        }
    };
    stop::run_until_stopped(&group, work).await
}

struct Printer {
    is_json: bool,
    rings: bool,
    sender: AlertSender,
}

impl Printer {
    async fn print_events(&self, mut events: mpsc::Receiver<Event>) -> anyhow::Result<()> {
        while let Some(event) = events.recv().await {
            match event {
                Event::Problem { text, .. } => tell(&text),
                Event::Connected(_) => {}
                Event::Alert(alert) => self.print(&alert)?,
            }
        }
        Ok(())
    }

    fn print(&self, alert: &Alert) -> anyhow::Result<()> {
        let time = Clock::system().now().to_string();
        let message = Message { alert, time: &time };
        show(self.is_json, &message, |_| line_of(alert, &time))?;
        if self.rings {
            let text = escape_line(&alert.text);
            write(format!("\x1b]9;{}: {text}\x1b\\\x07", escape_line(&alert.rule)).as_bytes())?;
        }
        self.sender.add(alert, &time);
        Ok(())
    }
}

/// Formats an alert as a line: `2026-07-30T21:57:00Z  FIRING    btc falls  close of btc is 97`.
fn line_of(alert: &Alert, time: &str) -> String {
    let state = match alert.state {
        AlertState::Firing => "FIRING",
        AlertState::Resolved => "resolved",
    };
    let (rule, text) = (escape_line(&alert.rule), escape_line(&alert.text));
    format!("{time}  {state:8}  {rule}  {text}")
}
