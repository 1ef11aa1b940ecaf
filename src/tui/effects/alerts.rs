//! Watches the rules in the user's file and sends alerts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use alerts::notify::{AlertSender, SECRET_VARIABLE};
use alerts::rules::{Notify, Rule, Rules, RulesError};
use alerts::state::Watcher;
use alerts::watch::{Clients, watch};
use task::causes::chain;
use task::group::Group;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::effects::{Runner, read_optional, write_private};
use crate::event::{AlertEvent, Event};
use crate::state::resource::{Failure, Outcome};

/// Maximum number of alerts that wait for the event loop.
const EVENTS_CAPACITY: usize = 16;

impl Runner {
    /// Reads the rules and watches them until the services change. If `continues` is true, rules
    /// that fire already still fire. After a change of services, every rule starts from the
    /// beginning, without firing.
    pub(super) fn watch_rules(&mut self, continues: bool) {
        let Some(path) = self.files.rules.clone() else { return };
        let clients = Clients {
            head: self.clients.heads.first().cloned().flatten(),
            datasets: self.clients.datasets.clone(),
            inference: self.clients.inference.clone(),
        };
        let (events, watcher) = (self.call_events.clone(), Arc::clone(&self.watcher));
        let (sender, tasks) = (Arc::clone(&self.sender), self.tasks.clone());
        let task_events = self.events.clone();
        self.start("alerts", async move {
            // An earlier watch releases it when it is cancelled.
            let mut watcher = watcher.lock_owned().await;
            let read = match read(&path).await {
                Ok(read) => read,
                Err(failure) => {
                    *watcher = Watcher::new(Vec::new(), None, Instant::now());
                    events.send(Event::Alerts(AlertEvent::Unreadable(failure))).await.ok();
                    return;
                }
            };
            let started =
                set_recipients(&mut sender.lock(), read.notify.clone(), &tasks, &task_events);
            if let Err(failure) = started {
                events.send(Event::Alerts(AlertEvent::Failed(failure))).await.ok();
            }
            let is_watched = |rule: &Rule| clients.has(rule.condition.service());
            let (rules, others): (Vec<Rule>, Vec<Rule>) =
                read.rules.into_iter().partition(is_watched);
            let names = |rules: &[Rule]| rules.iter().map(|rule| rule.name.clone()).collect();
            let event = AlertEvent::Watched {
                watched: names(&rules),
                unwatched: names(&others),
                continues,
            };
            events.send(Event::Alerts(event)).await.ok();
            let now = Instant::now();
            let repeat = read.notify.repeat;
            if continues {
                watcher.replace_rules(rules, repeat, now);
            } else {
                *watcher = Watcher::new(rules, repeat, now);
            }
            let (sender, mut received) = mpsc::channel(EVENTS_CAPACITY);
            let forward = async {
                while let Some(event) = received.recv().await {
                    events.send(Event::Alerts(AlertEvent::Watch(event))).await.ok();
                }
            };
            tokio::join!(watch(&mut watcher, &clients, sender), forward);
        });
    }
}

/// Reads the rules in the file at `path`. Returns no rules if there is no file.
async fn read(path: &Path) -> Outcome<Rules> {
    let failed = |why: String| Failure::new(format!("read {}", path.display()), why, "correct it");
    let text = read_optional(path).await.map_err(|error| failed(error.to_string()))?;
    let Some(text) = text else {
        return Ok(Rules { rules: Vec::new(), notify: Notify::default() });
    };
    text.parse().map_err(|error: RulesError| failed(error.to_string()))
}

/// Appends a section to the file at `path`. Creates the file if it is missing.
pub(super) async fn append(path: Option<PathBuf>, section: String) -> Outcome<()> {
    let Some(path) = path else {
        return Err(Failure::new("add the rule", "there is no configuration directory", ""));
    };
    let failed = |why: String| Failure::new("add the rule", why, "");
    let work = spawn_blocking(move || {
        let mut text = match std::fs::read_to_string(&path) {
            Ok(text) => text + "\n",
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error.to_string()),
        };
        match text.parse::<Rules>() {
            Ok(_) | Err(RulesError::Count { n_rules: 0 }) => {}
            Err(error) => return Err(format!("{} is invalid: {error}", path.display())),
        }
        text.push_str(&section);
        // The whole file is checked, since the names of its rules must differ.
        text.parse::<Rules>().map_err(|error| error.to_string())?;
        write_private(&path, &text).map_err(|error| error.to_string())
    });
    work.await.map_err(|error| failed(error.to_string()))?.map_err(failed)
}

/// Starts to send alerts to the recipients in `notify`. Keeps a sender with the same recipients, so that
/// its alerts are not overtaken.
fn set_recipients(
    sender: &mut Option<(Notify, AlertSender)>,
    notify: Notify,
    tasks: &Group,
    events: &mpsc::Sender<Event>,
) -> Outcome<()> {
    if sender.as_ref().is_some_and(|(current, _)| *current == notify) {
        return Ok(());
    }
    let failed = |why| Failure::new("send alerts", why, "correct [notify] in rules.toml");
    let events = events.clone();
    let report = move |why: String| {
        tracing::warn!("failed to send alerts: {why}");
        drop(events.try_send(Event::Alerts(AlertEvent::Failed(failed(why)))));
    };
    let secret = std::env::var(SECRET_VARIABLE).ok().filter(|text| !text.is_empty());
    let started = AlertSender::start(notify.clone(), secret, tasks, report);
    *sender = Some((notify, started.map_err(|error| failed(chain(&error)))?));
    Ok(())
}
