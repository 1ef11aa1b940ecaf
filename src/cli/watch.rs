//! `triptych watch`: evaluates rules and reports each change, by text, a command and a webhook.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use alerts::notify::{Message, Notifier, SECRET_VARIABLE};
use alerts::rules::Rules;
use alerts::state::{Alert, AlertState, Watcher};
use alerts::watch::{Clients, Event, watch};
use anyhow::Context as _;
use clap::Args;
use client::functions::Functions;
use client::transport::Transport;
use model::escape::escape_line;
use stack::data_dir::project_dirs;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cli::config::{self, AddressFlags};
use crate::cli::output::{print, print_body, tell, write};
use crate::cli::parse::read_text;
use crate::cli::services::{KeyFlag, Services};
use crate::cli::stop;

/// Name of the file with rules in the configuration directory.
pub(crate) const RULES_FILE: &str = "rules.toml";

/// Maximum size of a file with rules.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of events that wait to be printed.
const EVENTS_CAPACITY: usize = 64;

/// Maximum number of alerts that wait for the command and the webhook. Further ones are only printed.
const NOTIFICATIONS_CAPACITY: usize = 64;

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
    let head = match services.profile.heads.first() {
        Some(address) => {
            let transport = Transport::new(address, None).context("cannot use the head")?;
            Some(Functions::new(transport.with_token(config::head_token()?)))
        }
        None => None,
    };
    let (datasets, inference) = (Some(services.datasets()?), Some(services.inference()?));
    let clients = Clients { head, datasets, inference };
    let has_recipients = rules.notify.is_any();
    let n_rules = rules.rules.len();
    let watcher = Watcher::new(rules.rules, Instant::now()).with_repeat(rules.notify.repeat);
    let notifier = Notifier::new(rules.notify, config::variable(SECRET_VARIABLE)?)?;

    let group = Group::default();
    let (events, received) = mpsc::channel(EVENTS_CAPACITY);
    let (sender, alerts) = mpsc::channel(NOTIFICATIONS_CAPACITY);
    group.spawn("send alerts", send_alerts(notifier, alerts));
    let printer = Printer {
        is_json: command.json,
        rings: command.bell && io::stdout().is_terminal(),
        notifications: has_recipients.then_some(sender),
    };
    tell(&format!("watching {n_rules} rules"));
    let work = async {
        tokio::select! {
            result = watch(watcher, &clients, events) => Ok(result?),
            result = printer.print_events(received) => result,
        }
    };
    stop::run_until_stopped(&group, work).await
}

/// Sends alerts one by one, so that their order is kept.
async fn send_alerts(notifier: Notifier, mut alerts: mpsc::Receiver<(Alert, String)>) {
    while let Some((alert, time)) = alerts.recv().await {
        for error in notifier.send(&alert, &time).await {
            tell(&format!("alert was not sent: {}", task::causes::chain(&error)));
        }
    }
}

struct Printer {
    is_json: bool,
    rings: bool,
    /// Recipient of alerts for the command and the webhook, if there are any.
    notifications: Option<mpsc::Sender<(Alert, String)>>,
}

impl Printer {
    async fn print_events(&self, mut events: mpsc::Receiver<Event>) -> anyhow::Result<()> {
        while let Some(event) = events.recv().await {
            match event {
                Event::Problem(text) => tell(&text),
                Event::Alert(alert) => self.print(alert)?,
            }
        }
        Ok(())
    }

    fn print(&self, alert: Alert) -> anyhow::Result<()> {
        let time = Clock::system().now().to_string();
        if self.is_json {
            print_body(&Message { alert: &alert, time: &time })?;
        } else {
            print(&line_of(&alert, &time))?;
        }
        if self.rings {
            let text = escape_line(&alert.text);
            write(format!("\x1b]9;{}: {text}\x1b\\\x07", escape_line(&alert.rule)).as_bytes())?;
        }
        if let Some(notifications) = &self.notifications
            && notifications.try_send((alert, time)).is_err()
        {
            tell("alert was not sent: the command or the webhook is too slow");
        }
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
