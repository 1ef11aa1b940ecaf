//! Notifications of an alert: a command that is run, and a signed request to a webhook.

use std::collections::{BTreeMap, VecDeque};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac as _};
use model::address::redact_address;
use model::count::counted;
use parking_lot::Mutex;
use reqwest::redirect::Policy;
use serde::Serialize;
use sha2::Sha256;
use task::group::Group;
use task::process::{GroupLeader, install_crypto};
use tokio::process::Command;
use tokio::sync::Notify as Signal;
use tokio::time::{sleep, timeout};
use wire::accounts::Secret;

use crate::rules::{Notify, RULES_MAX};
use crate::state::{Alert, AlertState};

/// Maximum duration of a command, and of a single request.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Pauses before a failed request is repeated.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Maximum number of alerts that wait to be sent. With one alert of each rule, the queue is not full,
/// so a full queue always has two alerts of the same rule.
const OUTBOX_CAPACITY: usize = RULES_MAX;

/// Maximum time to send the remaining alerts when the sender stops.
const LAST_WITHIN: Duration = Duration::from_secs(15);

/// Environment variable with the secret that signs requests to the webhook.
pub const SECRET_VARIABLE: &str = "TRIPTYCH_WEBHOOK_SECRET";

/// Header with the signature of a request: `sha256=`, followed by the HMAC-SHA256 of its body in
/// hexadecimal.
pub const SIGNATURE_HEADER: &str = "X-Triptych-Signature";

/// Sends alerts to each configured recipient one by one. A slow recipient does not delay the other.
///
/// Dropping the sender stops it. The alerts that still wait are then sent for at most 15 s.
#[expect(missing_debug_implementations, reason = "the function that reports has none")]
pub struct AlertSender {
    outboxes: Vec<Arc<Outbox>>,
    stop: Group,
}

/// Function that reports why alerts are not sent.
type Report = Arc<dyn Fn(String) + Send + Sync>;

/// Alerts that wait to be sent to a recipient, with their times, at most [`OUTBOX_CAPACITY`].
struct Outbox {
    waiting: Mutex<VecDeque<(Alert, String)>>,
    added: Signal,
    report: Report,
}

#[derive(Debug)]
enum Recipient {
    /// A program and its arguments.
    Command(Vec<String>),
    Webhook(Webhook),
}

#[derive(Debug)]
struct Webhook {
    http: reqwest::Client,
    address: String,
    /// Secret that signs requests.
    secret: Option<Secret>,
}

/// Body of a request to the webhook: an alert and its time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Message<'a> {
    /// Alert that the message describes.
    #[serde(flatten)]
    pub alert: &'a Alert,
    /// Time of the alert in RFC 3339.
    pub time: &'a str,
}

impl AlertSender {
    /// Starts a task in `group` for each configured recipient. If `secret` is given, requests to the
    /// webhook are signed with it. `report` is called with the reason why alerts are not sent.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn start(
        notify: Notify,
        secret: Option<String>,
        group: &Group,
        report: impl Fn(String) + Send + Sync + 'static,
    ) -> Result<Self, reqwest::Error> {
        let (report, stop): (Report, _) = (Arc::new(report), group.child());
        let start = |recipient| {
            let outbox = Arc::new(Outbox::new(Arc::clone(&report)));
            let work = Arc::clone(&outbox).send_all(recipient, stop.clone());
            group.spawn_to_end("send alerts", work);
            outbox
        };
        let outboxes = recipients(notify, secret)?.into_iter().map(start).collect();
        Ok(Self { outboxes, stop })
    }

    /// Adds an alert to the alerts that wait. It replaces the previous alert of the same rule if it
    /// only repeats its state. `time` is the time of the alert in RFC 3339.
    pub fn add(&self, alert: &Alert, time: &str) {
        for outbox in &self.outboxes {
            outbox.add(alert.clone(), time.to_owned());
        }
    }
}

impl Drop for AlertSender {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl Outbox {
    fn new(report: Report) -> Self {
        Self { waiting: Mutex::default(), added: Signal::new(), report }
    }

    /// Adds an alert. If too many alerts wait, drops the two oldest alerts that are consecutive for a
    /// rule, so that its state after them is still sent.
    fn add(&self, alert: Alert, time: String) {
        let mut waiting = self.waiting.lock();
        if let Some(last) = waiting.iter().rposition(|(it, _)| it.rule == alert.rule)
            && waiting[last].0.state == alert.state
        {
            waiting.remove(last);
        }
        waiting.push_back((alert, time));
        self.added.notify_one();
        if waiting.len() <= OUTBOX_CAPACITY {
            return;
        }
        // There is no pair if rules were renamed meanwhile.
        let (first, second) = oldest_pair(&waiting).unwrap_or_default();
        if let Some((alert, _)) = waiting.remove(second) {
            waiting.remove(first);
            drop(waiting);
            (self.report)(format!("too many wait, so 2 of rule `{}` were dropped", alert.rule));
        }
    }

    /// Sends alerts one by one until `stop` is stopped. Then sends the alerts that still wait, for at
    /// most [`LAST_WITHIN`].
    async fn send_all(self: Arc<Self>, recipient: Recipient, stop: Group) {
        let send = async {
            while let Some((alert, time)) = self.next(&stop).await {
                if let Err(why) = recipient.send(&alert, &time).await {
                    (self.report)(why);
                }
            }
        };
        let time_out = async {
            stop.stopped().await;
            sleep(LAST_WITHIN).await;
        };
        tokio::select! {
            () = send => {}
            () = time_out => {
                let left = counted(self.waiting.lock().len() + 1, "alert");
                (self.report)(format!("{left} not sent before the program stopped"));
            }
        }
    }

    /// Waits for the next alert to send. Returns `None` if no alert waits and `stop` is stopped.
    async fn next(&self, stop: &Group) -> Option<(Alert, String)> {
        loop {
            let first = self.waiting.lock().pop_front();
            if first.is_some() || stop.is_stopped() {
                return first;
            }
            tokio::select! {
                () = self.added.notified() => {}
                () = stop.stopped() => {}
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

/// Returns the configured recipients.
fn recipients(notify: Notify, secret: Option<String>) -> Result<Vec<Recipient>, reqwest::Error> {
    install_crypto();
    let command = Some(notify.command).filter(|command| !command.is_empty());
    let webhook = notify.webhook.map(|address| {
        let http = reqwest::Client::builder().timeout(TIME_LIMIT).redirect(Policy::none());
        Ok(Recipient::Webhook(Webhook { http: http.build()?, address, secret: secret.map(Secret) }))
    });
    Ok(command.map(Recipient::Command).into_iter().chain(webhook.transpose()?).collect())
}

impl Recipient {
    /// Runs the command or calls the webhook. Returns the reason of a failure.
    async fn send(&self, alert: &Alert, time: &str) -> Result<(), String> {
        match self {
            Self::Command(command) => run_command(command, alert, time).await,
            Self::Webhook(webhook) => webhook.call(&Message { alert, time }).await,
        }
    }
}

async fn run_command(command: &[String], alert: &Alert, time: &str) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let state = match alert.state {
        AlertState::Firing => "firing",
        AlertState::Resolved => "resolved",
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("TRIPTYCH_ALERT_RULE", &alert.rule)
        .env("TRIPTYCH_ALERT_STATE", state)
        .env("TRIPTYCH_ALERT_TEXT", &alert.text)
        .env("TRIPTYCH_ALERT_TIME", time)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .env_remove(SECRET_VARIABLE);
    let mut leader = GroupLeader::spawn(&mut command)
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let outcome = match timeout(TIME_LIMIT, leader.0.wait()).await {
        Ok(Ok(status)) if status.success() => return Ok(()),
        Ok(Ok(status)) => format!("failed: {status}"),
        Ok(Err(error)) => format!("failed: {error}"),
        Err(_) => format!("was stopped after {} s", TIME_LIMIT.as_secs()),
    };
    Err(format!("{program} {outcome}"))
}

impl Webhook {
    async fn call(&self, message: &Message<'_>) -> Result<(), String> {
        let body = serde_json::to_string(message).unwrap_or_default();
        let mut retries = RETRIES.into_iter();
        loop {
            let (outcome, is_final) = match self.post(&body).await {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) => {
                    let is_transient =
                        status.is_server_error() || matches!(status.as_u16(), 408 | 429);
                    (format!("responded with {status}"), !is_transient)
                }
                Err(error) => (format!("cannot be reached: {}", error.without_url()), false),
            };
            let Some(pause) = retries.next().filter(|_| !is_final) else {
                return Err(format!("webhook {} {outcome}", host_of(&self.address)));
            };
            sleep(pause).await;
        }
    }

    async fn post(&self, body: &str) -> Result<reqwest::StatusCode, reqwest::Error> {
        let mut request = self
            .http
            .post(&self.address)
            .header("Content-Type", "application/json")
            .body(body.to_owned());
        let secret = self.secret.as_ref();
        if let Some(signature) = secret.and_then(|secret| sign(secret.0.as_bytes(), body)) {
            request = request.header(SIGNATURE_HEADER, signature);
        }
        Ok(request.send().await?.status())
    }
}

/// Returns the scheme and the host of `address`.
fn host_of(address: &str) -> String {
    let redacted = redact_address(address);
    match redacted.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
        }
        None => String::new(),
    }
}

/// Returns the value of [`SIGNATURE_HEADER`] for a request with this body.
#[must_use]
pub fn sign(secret: &[u8], body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(body.as_bytes());
    Some(format!("sha256={:x}", mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::spawn_blocking;

    use super::*;

    #[test]
    fn errors_show_only_the_host_of_a_webhook() {
        assert_eq!(host_of("https://me:pw@hooks.example/T0/secret?a=b"), "https://…@hooks.example");
        assert_eq!(host_of("http://127.0.0.1:80/x"), "http://127.0.0.1:80");
    }

    #[test]
    fn signature_is_hmac_sha256_of_the_body() {
        // Test case 2 of RFC 4231.
        let want = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign(b"Jefe", "what do ya want for nothing?").unwrap(), want);
    }

    /// Returns the error text after sending an alert by `command`, which must fail.
    async fn error_of(command: &[&str]) -> String {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let alert = Alert { rule: "r".to_owned(), state: AlertState::Firing, text: "t".to_owned() };
        let sent = Recipient::Command(command).send(&alert, "2026-07-30T21:57:00Z").await;
        sent.unwrap_err()
    }

    #[tokio::test]
    async fn failed_command_is_reported() {
        let error = error_of(&["false"]).await;
        assert!(error.starts_with("false failed: exit status"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_command_is_stopped_with_the_processes_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", path.display());
        // The paused clock does not advance while a blocking task runs.
        let started = spawn_blocking(move || {
            loop {
                match std::fs::read_to_string(&path) {
                    Ok(pid) if pid.ends_with('\n') => return pid.trim().to_owned(),
                    _ => std::thread::yield_now(),
                }
            }
        });
        assert_eq!(error_of(&["sh", "-c", &script]).await, "sh was stopped after 10 s");
        let command_line = format!("/proc/{}/cmdline", started.await.unwrap());
        // The command line of a process that has exited is empty, even before its exit is
        // collected.
        while std::fs::read(&command_line).is_ok_and(|text| !text.is_empty()) {
            std::thread::yield_now();
        }
    }

    fn alert(rule: &str, state: AlertState) -> Alert {
        Alert { rule: rule.to_owned(), state, text: String::new() }
    }

    #[test]
    fn unsent_firing_alert_is_still_sent_after_it_is_resolved() {
        let outbox = Outbox::new(Arc::new(|why| panic!("{why}")));
        let add = |rule: &str, state, time: &str| outbox.add(alert(rule, state), time.to_owned());
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
        let (sender, reported) = mpsc::channel();
        let outbox = Outbox::new(Arc::new(move |why| sender.send(why).unwrap()));
        let add = |rule: &str, state| outbox.add(alert(rule, state), String::new());
        add("down", AlertState::Firing);
        let states = [AlertState::Firing, AlertState::Resolved];
        for state in states.into_iter().cycle().take(OUTBOX_CAPACITY - 1) {
            add("slow", state);
        }
        assert!(reported.try_recv().is_err());
        add("slow", AlertState::Resolved);
        assert!(reported.try_recv().unwrap().contains("`slow`"));
        let waiting = outbox.waiting.lock();
        assert_eq!((waiting.len(), waiting[0].0.rule.as_str()), (OUTBOX_CAPACITY - 1, "down"));
        assert_eq!(waiting[1].0.state, AlertState::Firing);
    }

    #[tokio::test]
    async fn alerts_are_sent_in_order_and_each_failure_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sent");
        let script = format!("echo $TRIPTYCH_ALERT_STATE >> {}; exit 3", path.display());
        let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let notify = Notify { command, ..Notify::default() };
        let (report, reported) = mpsc::channel();
        let group = Group::default();
        let send = move |why| report.send(why).unwrap();
        let sender = AlertSender::start(notify, None, &group, send).unwrap();
        for state in [AlertState::Firing, AlertState::Resolved] {
            sender.add(&alert("r", state), "2026-07-30T21:57:00Z");
        }
        drop(sender);
        group.shutdown().await;
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "firing\nresolved\n");
        let reported: Vec<String> = reported.iter().collect();
        assert_eq!(reported, ["sh failed: exit status: 3"; 2]);
    }
}
