//! `triptych watch`: evaluates rules and reports each change as text, to a command and to a webhook.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use alerts::notify::{Message, Notifier, SECRET_VARIABLE};
use alerts::rules::{RULES_MAX, Rules};
use alerts::state::{Alert, AlertState, Watcher};
use alerts::watch::{Clients, Event, watch};
use anyhow::Context as _;
use clap::Args;
use model::count::counted;
use model::escape::escape_line;
use parking_lot::Mutex;
use stack::data_dir::project_dirs;
use task::causes::chain;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

use crate::cli::config::{self, AddressFlags};
use crate::cli::output::{print, show, tell, write};
use crate::cli::parse::read_text;
use crate::cli::services::{self, KeyFlag, Services};
use crate::cli::stop;

/// Name of the file with rules in the configuration directory.
pub(crate) const RULES_FILE: &str = "rules.toml";

/// Maximum size of a file with rules, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of events that wait to be printed.
const EVENTS_CAPACITY: usize = 64;

/// Maximum number of alerts that wait to be sent. With one alert of each rule, the queue is not full,
/// so a full queue always has two alerts of the same rule.
const OUTBOX_CAPACITY: usize = RULES_MAX;

/// Maximum time to send the remaining alerts when the program stops.
const LAST_WITHIN: Duration = Duration::from_secs(15);

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
    let head = services.profile.heads.first().map(|address| services::head(address)).transpose()?;
    let (datasets, inference) = (Some(services.datasets()?), Some(services.inference()?));
    let clients = Clients { head, datasets, inference };
    let n_rules = rules.rules.len();
    let mut watcher = Watcher::new(rules.rules, rules.notify.repeat, Instant::now());
    let notifiers = Notifier::all(rules.notify, config::variable(SECRET_VARIABLE)?)?;

    let group = Group::default();
    let (events, received) = mpsc::channel(EVENTS_CAPACITY);
    let mut outboxes = Vec::new();
    for notifier in notifiers {
        let outbox = Arc::new(Outbox::default());
        outboxes.push(Arc::clone(&outbox));
        group.spawn_to_end("send alerts", send_alerts(notifier, outbox, group.clone()));
    }
    let printer = Printer {
        is_json: command.json,
        rings: command.bell && io::stdout().is_terminal(),
        outboxes,
    };
    tell(&format!("watching {n_rules} rules"));
    let work = async {
        tokio::select! {
            result = watch(&mut watcher, &clients, events) => Ok(result?),
            result = printer.print_events(received) => result,
        }
    };
    stop::run_until_stopped(&group, work).await
}

/// Sends alerts one by one until `group` stops. Then sends the alerts that still wait, for at most
/// [`LAST_WITHIN`].
async fn send_alerts(notifier: Notifier, outbox: Arc<Outbox>, group: Group) {
    let send = async {
        while let Some((alert, time)) = outbox.next(&group).await {
            if let Err(error) = notifier.send(&alert, &time).await {
                tell(&format!("alert was not sent: {}", chain(&error)));
            }
        }
    };
    let time_out = async {
        group.stopped().await;
        sleep(LAST_WITHIN).await;
    };
    tokio::select! {
        () = send => {}
        () = time_out => {
            let n_left = outbox.waiting.lock().len() + 1;
            tell(&format!("{} not sent: the program was stopped", counted(n_left, "alert")));
        }
    }
}

/// Alerts that wait to be sent to the command or to the webhook, with their times, at most
/// [`OUTBOX_CAPACITY`].
#[derive(Default)]
struct Outbox {
    waiting: Mutex<VecDeque<(Alert, String)>>,
    added: Notify,
}

impl Outbox {
    /// Adds an alert. It replaces the previous alert of the same rule if it only repeats its state.
    ///
    /// If too many alerts wait, drops the two oldest alerts that are consecutive for a rule, so that its
    /// state after them is still sent. Returns the name of this rule.
    fn add(&self, alert: Alert, time: String) -> Option<String> {
        let mut waiting = self.waiting.lock();
        if let Some(last) = waiting.iter().rposition(|(it, _)| it.rule == alert.rule)
            && waiting[last].0.state == alert.state
        {
            waiting.remove(last);
        }
        waiting.push_back((alert, time));
        self.added.notify_one();
        if waiting.len() <= OUTBOX_CAPACITY {
            return None;
        }
        let (first, second) = oldest_pair(&waiting)?;
        waiting.remove(second);
        waiting.remove(first).map(|(alert, _)| alert.rule)
    }

    /// Waits for the next alert to send. Returns `None` if no alert waits and `group` is stopped.
    async fn next(&self, group: &Group) -> Option<(Alert, String)> {
        loop {
            let first = self.waiting.lock().pop_front();
            if first.is_some() || group.is_stopped() {
                return first;
            }
            tokio::select! {
                () = self.added.notified() => {}
                () = group.stopped() => {}
            }
        }
    }
}

/// Returns the indices of the first two alerts of the same rule.
fn oldest_pair(waiting: &VecDeque<(Alert, String)>) -> Option<(usize, usize)> {
    let mut firsts = BTreeMap::new();
    waiting.iter().zip(0..).find_map(|((alert, _), at)| {
        firsts.insert(alert.rule.as_str(), at).map(|first| (first, at))
    })
}

struct Printer {
    is_json: bool,
    rings: bool,
    /// Queues of alerts for the command and the webhook, as far as they are configured.
    outboxes: Vec<Arc<Outbox>>,
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
        for outbox in &self.outboxes {
            if let Some(rule) = outbox.add(alert.clone(), time.clone()) {
                tell(&format!("2 alerts of rule `{rule}` are not sent: too many alerts wait"));
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsent_firing_alert_is_still_sent_after_it_is_resolved() {
        let outbox = Outbox::default();
        let add = |rule: &str, state, time: &str| {
            let (rule, text) = (rule.to_owned(), String::new());
            assert_eq!(outbox.add(Alert { rule, state, text }, time.to_owned()), None);
        };
        let times = || -> Vec<String> {
            outbox.waiting.lock().iter().map(|(_, time)| time.clone()).collect()
        };
        add("slow", AlertState::Firing, "1");
        add("down", AlertState::Firing, "2");
        add("slow", AlertState::Firing, "3");
        add("slow", AlertState::Resolved, "4");
        assert_eq!(times(), ["2", "3", "4"], "only the repeated alert is replaced");
        add("slow", AlertState::Firing, "5");
        assert_eq!(times(), ["2", "3", "4", "5"]);
    }

    #[test]
    fn full_queue_drops_the_oldest_pair_of_alerts() {
        let outbox = Outbox::default();
        let add = |rule: &str, state| {
            let (rule, text) = (rule.to_owned(), String::new());
            outbox.add(Alert { rule, state, text }, String::new())
        };
        add("down", AlertState::Firing);
        let states = [AlertState::Firing, AlertState::Resolved];
        for state in states.into_iter().cycle().take(OUTBOX_CAPACITY - 1) {
            assert_eq!(add("slow", state), None);
        }
        assert_eq!(add("slow", AlertState::Resolved), Some("slow".to_owned()));
        let waiting = outbox.waiting.lock();
        assert_eq!((waiting.len(), waiting[0].0.rule.as_str()), (OUTBOX_CAPACITY - 1, "down"));
        assert_eq!(waiting[1].0.state, AlertState::Firing);
    }
}
