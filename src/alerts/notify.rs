//! Notifications of an alert: a command that is run, and a signed request to a webhook.

use std::process::Stdio;
use std::time::Duration;

use client::transport::install_crypto;
use hmac::{Hmac, Mac as _};
use model::address::redact_address;
use reqwest::redirect::Policy;
use serde::Serialize;
use sha2::Sha256;
use task::process::GroupLeader;
use tokio::process::Command;
use tokio::time::{sleep, timeout};
use wire::accounts::Secret;

use crate::rules::Notify;
use crate::state::{Alert, AlertState};

/// Maximum duration of a command, and of a single request.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Pauses before a failed request is repeated.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Environment variable with the secret that signs requests to the webhook.
pub const SECRET_VARIABLE: &str = "TRIPTYCH_WEBHOOK_SECRET";

/// Header with the signature of a request: `sha256=`, followed by the HMAC-SHA256 of its body in
/// hexadecimal.
pub const SIGNATURE_HEADER: &str = "X-Triptych-Signature";

/// Reason why an alert could not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    /// The command could not be started.
    #[error("cannot start {program}")]
    Start {
        /// Name of the program that was to be started.
        program: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The command failed or exceeded the time limit.
    #[error("{program} {outcome}")]
    Command {
        /// Name of the program that was started.
        program: String,
        /// Exit status or the time limit, as text.
        outcome: String,
    },
    /// The HTTP client could not be created.
    #[error("cannot prepare requests to the webhook")]
    Prepare(#[source] reqwest::Error),
    /// The webhook could not be reached or rejected the alert.
    #[error("webhook {address} {outcome}")]
    Webhook {
        /// Scheme and host of the address. The rest is omitted, since it often contains a secret.
        address: String,
        /// Description of the failure.
        outcome: String,
    },
}

/// Sends alerts to a recipient.
#[derive(Debug)]
pub struct Notifier(Recipient);

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

impl Notifier {
    /// Creates a notifier for each configured recipient, so that a slow recipient does not delay the
    /// other. If `secret` is given, requests to the webhook are signed with it.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub fn all(notify: Notify, secret: Option<String>) -> Result<Vec<Self>, NotifyError> {
        install_crypto();
        let command = Some(notify.command).filter(|command| !command.is_empty());
        let webhook = notify.webhook.map(|address| {
            let http =
                reqwest::Client::builder().timeout(TIME_LIMIT).redirect(Policy::none()).build();
            let http = http.map_err(|error| NotifyError::Prepare(error.without_url()))?;
            Ok(Recipient::Webhook(Webhook { http, address, secret: secret.map(Secret) }))
        });
        let recipients = command.map(Recipient::Command).into_iter().chain(webhook.transpose()?);
        Ok(recipients.map(Self).collect())
    }

    /// Runs the command or calls the webhook. `time` is the time of the alert in RFC 3339.
    ///
    /// # Errors
    /// If the command or the webhook fails.
    pub async fn send(&self, alert: &Alert, time: &str) -> Result<(), NotifyError> {
        match &self.0 {
            Recipient::Command(command) => run_command(command, alert, time).await,
            Recipient::Webhook(webhook) => webhook.call(&Message { alert, time }).await,
        }
    }
}

async fn run_command(command: &[String], alert: &Alert, time: &str) -> Result<(), NotifyError> {
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
        .map_err(|source| NotifyError::Start { program: program.clone(), source })?;
    let outcome = match timeout(TIME_LIMIT, leader.0.wait()).await {
        Ok(Ok(status)) if status.success() => return Ok(()),
        Ok(Ok(status)) => format!("failed: {status}"),
        Ok(Err(error)) => format!("failed: {error}"),
        Err(_) => format!("was stopped after {} s", TIME_LIMIT.as_secs()),
    };
    Err(NotifyError::Command { program: program.clone(), outcome })
}

impl Webhook {
    async fn call(&self, message: &Message<'_>) -> Result<(), NotifyError> {
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
                let address = host_of(&self.address);
                return Err(NotifyError::Webhook { address, outcome });
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
        let notifiers = Notifier::all(Notify { command, ..Notify::default() }, None).unwrap();
        let alert = Alert { rule: "r".to_owned(), state: AlertState::Firing, text: "t".to_owned() };
        notifiers[0].send(&alert, "2026-07-30T21:57:00Z").await.unwrap_err().to_string()
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
}
