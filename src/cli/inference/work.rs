//! `triptych inference work`: runs a program in any language as a worker of a topic.
//!
//! In each window for submissions, the command passes the latest rows of the topic's dataset to the
//! program and submits the program's response. A program that fails is started again after increasing
//! pauses, at the latest when the next window opens. With `--keep-running`, one process of the program
//! handles all epochs. Loading the program can then take longer than a window.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroU64;
use std::time::Duration;

use ::inference::network::upstream::{FlatRow, Rows as _, lines};
use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use client::error::ClientError;
use client::inference::Inference;
use model::dataset::DatasetId;
use model::escape::escape_line;
use model::timestamp::Timestamp;
use model::topic::{SINGLE_LABEL, TopicId};
use serde_json::{Map, Value, json};
use stack::program::Program;
use task::backoff::Backoff;
use task::causes::chain;
use task::clock::Clock;
use task::group::Group;
use tokio::time::{Instant, sleep};
use wire::inference::cases::Decimal;
use wire::inference::network::{Accepted, SubmissionBody};
use wire::inference::{TopicList, TopicSummary};

use super::upstream::DatasetRows;
use super::watch::is_final;
use crate::cli::config::AddressFlags;
use crate::cli::output::{print, print_body, tell};
use crate::cli::services::Services;
use crate::cli::stop;

/// First pause after a failure. It is short, so that even a window of a few seconds allows several
/// attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Maximum pause after a failure of the program. A pause ends early when the next window opens.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Maximum interval between requests for the topic, so that a change of its settings or state is
/// noticed soon.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Minimum interval between requests for the topic.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(50);

/// Maximum length of a program's response in an error, in characters.
const RESPONSE_CHARS_SHOWN: usize = 120;

/// Time reserved for the request that submits. The program must respond this long before the window
/// closes.
const SUBMIT_WITHIN: Duration = Duration::from_millis(300);

/// Flags of `inference work`.
#[derive(Debug, Args)]
pub(crate) struct WorkCommand {
    /// Number of the topic
    topic: TopicId,
    /// Program that infers or forecasts, as a shell command
    #[arg(long, value_name = "COMMAND")]
    command: String,
    /// Work as one of several workers of the key, each with its own address
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Number of latest rows to pass to the program, from 1 to 10000
    #[arg(long, value_name = "N", default_value_t = super::N_ROWS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rows: u32,
    /// Start the program once, and pass it the rows of each epoch; for programs that take long to
    /// load
    #[arg(long)]
    keep_running: bool,
    /// Maximum time for a response, in seconds [default: until the window closes]; loading does not
    /// count with --keep-running
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    time_limit: Option<u32>,
    /// Exit after this many submissions
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,
    /// Print each submission as a line of JSON
    #[arg(long)]
    json: bool,
    /// Address of the dataset service, ending in /api. It is called with the same key as the
    /// inference service
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: Option<String>,
    #[command(flatten)]
    service: super::ServiceFlags,
}

/// The open window for submissions to an epoch.
#[derive(Debug, Clone)]
struct EpochWindow {
    topic: TopicSummary,
    nonce: u64,
    /// Time at which the window closes, by this machine's clock.
    closes_at: Instant,
    /// Time at which the next window opens.
    next_opens_at: Instant,
}

struct ProgramWorker {
    command: WorkCommand,
    inference: Inference,
    rows: DatasetRows,
    group: Group,
    /// The running program with `--keep-running`. `None` while an epoch is passed to the program, and
    /// after a failure.
    program: Option<Program>,
    /// Nonce of the latest epoch that needs no further attempt.
    done: Option<u64>,
    /// Response whose submission failed and is retried, with its nonce and the program's response time.
    unsent: Option<(u64, SubmissionBody, Duration)>,
    /// Pauses after failures of the program.
    backoff: Backoff,
    /// Pauses after failures of the inference service.
    service_backoff: Backoff,
    /// Last note that was printed, so that the same note is not printed again.
    noted: Option<String>,
    n_submitted: u64,
}

/// Runs the worker until a signal arrives or the limit of submissions is reached.
///
/// # Errors
/// If the topic does not exist, or a service rejects the key.
pub(crate) async fn run(mut command: WorkCommand) -> anyhow::Result<()> {
    let (inference, profile) = (command.service.inference.take(), command.service.profile.take());
    let flags = AddressFlags {
        inference,
        profile,
        datasets: command.datasets.take(),
        ..AddressFlags::default()
    };
    let services = Services::choose(flags, command.service.key.clone()).await?;
    let group = Group::default();
    let mut worker = ProgramWorker {
        command,
        inference: services.inference()?,
        rows: DatasetRows::new(services.datasets()?),
        group: group.clone(),
        program: None,
        done: None,
        unsent: None,
        backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        // The maximum is shorter than for the program, since a failed request does not tell when the
        // next window opens.
        service_backoff: Backoff::new(FIRST_PAUSE, LOOK_EVERY),
        noted: None,
        n_submitted: 0,
    };
    stop::run_until_stopped(&group, async move { worker.work().await }).await
}

impl ProgramWorker {
    async fn work(&mut self) -> anyhow::Result<()> {
        loop {
            self.load();
            let list = match self.inference.topics().await {
                Ok(list) => list,
                Err(why) if is_final(&why) => return Err(why).context("cannot read the topics"),
                Err(why) => {
                    self.note(format!("cannot read the topics: {}", why.why()));
                    sleep(self.service_backoff.next_wait()).await;
                    continue;
                }
            };
            self.service_backoff.reset();
            let (window, wait) = self.window(list)?;
            let Some(window) = window else {
                sleep(wait).await;
                continue;
            };
            self.noted = None;
            match self.epoch(&window).await {
                Ok(()) => {
                    self.done = Some(window.nonce);
                    self.backoff.reset();
                    let limit = self.command.limit.map(NonZeroU64::get);
                    if limit.is_some_and(|limit| self.n_submitted >= limit) {
                        return Ok(());
                    }
                }
                Err(why) if why.downcast_ref::<ClientError>().is_some_and(is_denied) => {
                    return Err(why);
                }
                Err(why) => {
                    let until_next = window.next_opens_at.saturating_duration_since(Instant::now());
                    let wait = pause(self.backoff.next_wait(), until_next);
                    let (nonce, seconds) = (window.nonce, wait.as_secs_f64());
                    tell(&format!("nonce {nonce}: {why:#}; retrying in {seconds:.1} s"));
                    sleep(wait).await;
                }
            }
        }
    }

    /// Starts a persistent program that is not running, so that it loads before the next window opens.
    fn load(&mut self) {
        if self.command.keep_running && self.program.is_none() {
            // An error is ignored here, since the next epoch starts the program again and reports it.
            self.program = self.start().ok();
        }
    }

    fn start(&self) -> anyhow::Result<Program> {
        Program::start(&self.command.command, &BTreeMap::new(), &self.group, tell)
    }

    /// Returns the open window if it still needs a submission, and otherwise the time to wait before
    /// the next request.
    fn window(&mut self, list: TopicList) -> anyhow::Result<(Option<EpochWindow>, Duration)> {
        let id = self.command.topic;
        let numbers: Vec<String> =
            list.topics.iter().map(|topic| topic.topic_id.to_string()).collect();
        let topic = list.topics.into_iter().find(|topic| topic.topic_id == id.get());
        let topic = topic.with_context(|| match numbers.as_slice() {
            [] => format!("no topic {id}: the service has none yet"),
            _ => format!("no topic {id}, only {}", numbers.join(", ")),
        })?;
        let of_blocks =
            |n_blocks: u64| Duration::from_millis(list.block_time_ms.saturating_mul(n_blocks));
        if topic.is_paused {
            self.note(format!("topic {id} is paused: waiting until it resumes"));
            return Ok((None, LOOK_EVERY));
        }
        let until_next = of_blocks(topic.next_epoch_height.saturating_sub(list.block_height));
        let wait = until_next.clamp(LOOK_EVERY_MIN, LOOK_EVERY);
        let Some((nonce, close_height)) = topic.open_nonce.zip(topic.close_height) else {
            return Ok((None, wait));
        };
        let left = of_blocks(close_height.saturating_sub(list.block_height));
        if self.done == Some(nonce) || left <= SUBMIT_WITHIN {
            return Ok((None, wait));
        }
        let now = Instant::now();
        let (closes_at, next_opens_at) = (now + left, now + until_next);
        Ok((Some(EpochWindow { topic, nonce, closes_at, next_opens_at }), wait))
    }

    /// Runs the program for the epoch of `window` and submits the response.
    async fn epoch(&mut self, window: &EpochWindow) -> anyhow::Result<()> {
        // An unsent response for this epoch is submitted again rather than replaced: the service might
        // have stored it, and a new response could differ from it.
        let unsent = self.unsent.take().filter(|(nonce, ..)| *nonce == window.nonce);
        let (submission, took) = match unsent {
            Some((_, submission, took)) => (submission, took),
            None => match self.response(window).await? {
                Some(response) => response,
                None => return Ok(()),
            },
        };
        match self.inference.submit(self.command.topic, &submission).await {
            Ok(accepted) => {
                self.n_submitted += 1;
                report(&submission, &accepted, took, self.command.json)
            }
            Err(why) if is_denied(&why) => Err(why).context("cannot submit the program's response"),
            // The service would reject the same response again, so this epoch is given up.
            Err(why) if why.status().is_some_and(|status| status < 500 && status != 429) => {
                tell(&format!("nonce {}: the response was rejected: {}", window.nonce, why.why()));
                Ok(())
            }
            Err(why) => {
                self.unsent = Some((window.nonce, submission, took));
                Err(why).context("cannot submit the program's response")
            }
        }
    }

    /// Returns the program's response and response time, or `None` if the program is still loading or
    /// declines to submit.
    async fn response(
        &mut self,
        window: &EpochWindow,
    ) -> anyhow::Result<Option<(SubmissionBody, Duration)>> {
        if !self.is_ready(window).await? {
            return Ok(None);
        }
        let rows = self.latest_rows(&window.topic).await?;
        let started_at = Instant::now();
        let Some(line) = self.request(window, &rows).await? else { return Ok(None) };
        let took = started_at.elapsed();
        let submission = submission(&line, &window.topic.labels)?;
        let nonce = Some(Decimal(window.nonce.to_string()));
        let model = self.command.model.clone();
        Ok(submission.map(|submission| (SubmissionBody { nonce, model, ..submission }, took)))
    }

    async fn latest_rows(&self, topic: &TopicSummary) -> anyhow::Result<Vec<FlatRow>> {
        let id = topic.dataset_id.and_then(DatasetId::new);
        let dataset = self.rows.id_of(&topic.dataset, id).await?;
        let rows = self.rows.newest(dataset, self.command.rows).await;
        let rows = rows.map_err(|cause| unreadable(&topic.dataset, cause.as_ref()))?;
        if rows.is_empty() {
            bail!("dataset {} has no rows yet", topic.dataset);
        }
        Ok(rows)
    }

    /// Returns true if the program can be passed the epoch of `window`. A persistent program is not
    /// ready if it was passed an earlier epoch and is still loading.
    async fn is_ready(&mut self, window: &EpochWindow) -> anyhow::Result<bool> {
        let Some(mut program) = self.program.take() else { return Ok(true) };
        let is_ready = program.is_ready(window.left()).await?;
        self.program = Some(program);
        if !is_ready {
            report_loading(window);
        }
        Ok(is_ready)
    }

    /// Passes an epoch to the program and returns its response, or `None` if the program is still
    /// loading when the window closes.
    async fn request(
        &mut self,
        window: &EpochWindow,
        rows: &[FlatRow],
    ) -> anyhow::Result<Option<String>> {
        let left = window.left();
        let limit = self.command.time_limit.map(|seconds| Duration::from_secs(seconds.into()));
        let within = limit.map_or(left, |limit| limit.min(left));
        if !self.command.keep_running {
            let command = &self.command.command;
            let program = Program::start(command, &environment(window), &self.group, tell)?;
            return program.finish(&lines(rows), within).await.map(Some);
        }
        let mut program = match self.program.take() {
            Some(program) => program,
            None => self.start()?,
        };
        // The user's time limit does not apply to the first response, which includes the time for
        // loading.
        let within = if program.has_responded() { within } else { left };
        let response = program.request(&epoch_line(window, rows)?, within).await?;
        self.program = Some(program);
        if response.is_none() {
            report_loading(window);
        }
        Ok(response)
    }

    /// Prints a note about the topic or its service, unless the last note was the same.
    fn note(&mut self, text: String) {
        if self.noted.as_deref() != Some(&text) {
            tell(&text);
            self.noted = Some(text);
        }
    }
}

impl EpochWindow {
    /// Returns the time that the program has left to respond.
    fn left(&self) -> Duration {
        self.closes_at.saturating_duration_since(Instant::now() + SUBMIT_WITHIN)
    }
}

/// Returns the pause after a failure: `wait`, but no longer than until the next window opens.
fn pause(wait: Duration, until_next: Duration) -> Duration {
    wait.min(until_next.max(LOOK_EVERY_MIN))
}

/// Returns the error for rows that cannot be read, with a hint if the key lacks a tag of the dataset.
fn unreadable(dataset: &str, cause: &(dyn Error + Send + Sync + 'static)) -> anyhow::Error {
    let status = cause.downcast_ref::<ClientError>().and_then(ClientError::status);
    let hint = match status {
        Some(403 | 404) => {
            "; the key might lack the dataset's tag: `triptych datasets tags --acquire public` \
             acquires the public tag"
        }
        _ => "",
    };
    anyhow!("cannot read rows of dataset {dataset}: {}{hint}", chain(cause))
}

/// Prints that the persistent program has not finished loading.
fn report_loading(EpochWindow { nonce, .. }: &EpochWindow) {
    tell(&format!("nonce {nonce}: the program is still loading and has not responded yet"));
}

/// Returns true if the service rejects the key.
fn is_denied(why: &ClientError) -> bool {
    matches!(why.status(), Some(401 | 403))
}

/// Returns the environment variables of a program that is started for a single epoch.
fn environment(EpochWindow { topic, nonce, .. }: &EpochWindow) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("TRIPTYCH_TOPIC", topic.topic_id.to_string()),
        ("TRIPTYCH_NONCE", nonce.to_string()),
        ("TRIPTYCH_COLUMN", topic.column.clone()),
        ("TRIPTYCH_LABELS", topic.labels.join(",")),
    ])
}

/// Formats an epoch as one line of JSON, in the form in which a persistent program reads it.
fn epoch_line(window: &EpochWindow, rows: &[FlatRow]) -> anyhow::Result<String> {
    let EpochWindow { topic, nonce, closes_at, .. } = window;
    let rows: Vec<Value> =
        lines(rows).lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let left = closes_at.saturating_duration_since(Instant::now());
    let epoch = json!({
        "topic_id": topic.topic_id,
        "nonce": nonce,
        "name": topic.name,
        "column": topic.column,
        "labels": topic.labels,
        "closes_in_ms": u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        "actors": topic.actors,
        "rows": rows,
    });
    Ok(format!("{epoch}\n"))
}

/// Parses a program's response as a submission. Returns `None` for an empty object, with which a
/// program declines to submit.
///
/// # Errors
/// If the response is invalid. The error is one sentence with the response and the expected form.
pub(super) fn submission(line: &str, labels: &[String]) -> anyhow::Result<Option<SubmissionBody>> {
    if serde_json::from_str::<Map<String, Value>>(line).is_ok_and(|members| members.is_empty()) {
        return Ok(None);
    }
    let response = serde_json::from_str(line).ok();
    let response = response.filter(|response| is_valid(response, labels));
    response.map(Some).with_context(|| {
        let shown: String = line.trim().chars().take(RESPONSE_CHARS_SHOWN).collect();
        let shown = escape_line(&shown);
        format!("the program printed `{shown}`, expected {}", expected(labels))
    })
}

/// Returns true if `response` is a valid response of a program for a topic with these labels.
fn is_valid(response: &SubmissionBody, labels: &[String]) -> bool {
    let SubmissionBody { nonce, model, value, values, forecast, dry_run } = response;
    // The program must not set these members, since the flags of this command determine them.
    let has_others = nonce.is_some() || model.is_some() || *dry_run;
    let has_one_form = value.is_none() || (values.is_empty() && is_single(labels));
    let mut numbers = value.iter().chain(values.values()).chain(forecast.values()).peekable();
    let has_numbers = numbers.peek().is_some();
    let are_finite = numbers.all(|number| number.0.trim().parse().is_ok_and(f64::is_finite));
    !has_others && has_one_form && has_numbers && are_finite
}

fn is_single(labels: &[String]) -> bool {
    labels == [SINGLE_LABEL]
}

/// Returns examples of valid responses to a topic with these labels.
fn expected(labels: &[String]) -> String {
    if is_single(labels) {
        return "{\"value\":42.5}, or {} for no submission".to_owned();
    }
    let examples = labels.iter().zip([0.5, 0.3, 0.2]);
    let examples: Vec<String> =
        examples.map(|(label, number)| format!("\"{label}\":{number}")).collect();
    format!("{{\"values\":{{{}}}}}, or {{}} for no submission", examples.join(","))
}

/// Prints a submission.
fn report(
    submission: &SubmissionBody,
    accepted: &Accepted,
    took: Duration,
    is_json: bool,
) -> anyhow::Result<()> {
    let Accepted { topic_id, nonce, worker, .. } = accepted;
    let at: Timestamp = Clock::system().now();
    let seconds = took.as_secs_f64();
    if is_json {
        let line = json!({
            "time": at.to_string(),
            "topic_id": topic_id,
            "nonce": nonce,
            "worker": worker,
            "values": submission.labeled().collect::<BTreeMap<_, _>>(),
            "n_forecast": submission.forecast.len(),
            "seconds": seconds,
        });
        return print_body(&line);
    }
    let mut parts: Vec<String> =
        submission.labeled().map(|(label, value)| format!("{label}={value}")).collect();
    if !submission.forecast.is_empty() {
        parts.push(format!("a forecast of {}", submission.forecast.len()));
    }
    let (what, worker) = (parts.join(" "), escape_line(worker));
    print(&format!("{at}  nonce {nonce}: {what} as {worker}, after {seconds:.2} s"))
}

#[cfg(test)]
mod tests;
