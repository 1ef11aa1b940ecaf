//! `triptych inference work`: a program of any language as a worker of a topic.
//!
//! It follows the topic's epochs. In each window it gives the dataset's newest rows to the program
//! and submits the answer. A program that fails is started again after pauses that grow, in the same
//! window where there is time.

use std::{collections::BTreeMap, num::NonZeroU64, time::Duration};

use ::inference::network::rows::{FlatRow, Rows as _, lines};
use anyhow::{Context as _, bail};
use clap::Args;
use client::{error::ClientError, inference::Inference};
use model::{dataset::DatasetId, escape::escape_line, timestamp::Timestamp, topic::TopicId};
use serde_json::{Value, json};
use stack::program::Program;
use task::{backoff::Backoff, clock::Clock, group::Group};
use tokio::time::{Instant, sleep};
use wire::inference::{
    TopicList, TopicSummary,
    cases::Decimal,
    network::{Accepted, SubmissionBody},
};

use super::{upstream::Series, watch::is_final};
use crate::cli::{
    config::AddressFlags,
    output::{print, print_body, tell},
    services::Services,
    stop,
};

/// The first pause after a failure: several tries fit into a window of seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The longest wait between two looks at the topic: it may be paused, resumed or updated.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The shortest wait between two looks.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(50);

/// What is left of a window for submitting: an answer that comes later would be late.
const SUBMIT_WITHIN: Duration = Duration::from_millis(300);

/// The flags of `inference work`.
#[derive(Debug, Args)]
pub(crate) struct WorkCommand {
    /// The topic's number
    topic: TopicId,
    /// The program that answers, as a shell reads it
    #[arg(long, value_name = "COMMAND")]
    command: String,
    /// Work as one of several workers of the key, each with an address of its own
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The newest rows that it reads, from 1 to 10000
    #[arg(long, value_name = "N", default_value_t = super::backtest::N_ROWS, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rows: u32,
    /// Start the program once, and ask it in each epoch
    #[arg(long)]
    keep_running: bool,
    /// How long it may take for an answer, in seconds [default: until the window closes]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    time_limit: Option<u32>,
    /// End after this many submissions
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroU64>,
    /// Print each submission as a line of JSON
    #[arg(long)]
    json: bool,
    /// The dataset service, ending in /api; its key is that of the inference service
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: Option<String>,
    #[command(flatten)]
    service: super::ServiceFlags,
}

/// A window that takes submissions.
#[derive(Debug, Clone)]
struct Window {
    topic: TopicSummary,
    nonce: u64,
    /// When it closes, by this machine's clock.
    closes_at: Instant,
}

struct Worker {
    command: WorkCommand,
    inference: Inference,
    rows: Series,
    group: Group,
    /// With `--keep-running`, the program between two epochs.
    program: Option<Program>,
    /// The dataset, once it is known.
    dataset: Option<DatasetId>,
    /// The newest epoch that is over for this worker.
    done: Option<u64>,
    backoff: Backoff,
    /// What was last said of the topic's standing, so that it is said once.
    noted: Option<String>,
    n_submitted: u64,
}

/// Works until it is asked to stop, or has submitted as often as wanted.
///
/// # Errors
/// If the topic does not exist, or the services refuse the key.
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
    let mut worker = Worker {
        command,
        inference: services.inference()?,
        rows: Series::new(services.datasets()?),
        group: group.clone(),
        program: None,
        dataset: None,
        done: None,
        backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
        noted: None,
        n_submitted: 0,
    };
    stop::run_until_stopped(&group, async move { worker.work().await }).await
}

impl Worker {
    async fn work(&mut self) -> anyhow::Result<()> {
        loop {
            let list = match self.inference.topics().await {
                Ok(list) => list,
                Err(why) if is_final(&why) => return Err(why).context("read the topics"),
                Err(why) => {
                    self.note(format!("cannot read the topics: {}", why.why()));
                    sleep(self.backoff.next_wait()).await;
                    continue;
                }
            };
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
                    self.program = None;
                    let wait = self.backoff.next_wait();
                    let (nonce, seconds) = (window.nonce, wait.as_secs_f64());
                    tell(&format!("nonce {nonce}: {why:#}; tried again in {seconds:.1} s"));
                    sleep(wait).await;
                }
            }
        }
    }

    /// The window that is open and not answered yet; without one, how long to wait for the next.
    fn window(&mut self, list: TopicList) -> anyhow::Result<(Option<Window>, Duration)> {
        let id = self.command.topic;
        let numbers = list.topics.iter().map(|topic| topic.topic_id.to_string());
        let numbers: Vec<String> = numbers.collect();
        let topic = list.topics.into_iter().find(|topic| topic.topic_id == id.get());
        let topic = topic.with_context(|| match numbers.as_slice() {
            [] => format!("find topic {id}: the service has none yet"),
            _ => format!("find topic {id}: there are {}", numbers.join(", ")),
        })?;
        let of_blocks =
            |n_blocks: u64| Duration::from_millis(list.block_time_ms.saturating_mul(n_blocks));
        if topic.is_paused {
            self.note(format!("topic {id} is paused: waiting until it is resumed"));
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
        let closes_at = Instant::now() + left;
        Ok((Some(Window { topic, nonce, closes_at }), wait))
    }

    /// Asks the program, and submits what it answers.
    async fn epoch(&mut self, window: &Window) -> anyhow::Result<()> {
        let rows = self.newest_rows(&window.topic).await?;
        let asked_at = Instant::now();
        let left = window.closes_at.saturating_duration_since(asked_at + SUBMIT_WITHIN);
        let limit = self.command.time_limit.map(|seconds| Duration::from_secs(seconds.into()));
        let line = self.ask(window, &rows, limit.map_or(left, |limit| limit.min(left))).await?;
        let took = asked_at.elapsed();
        let Some(submission) = submission(&line, window.nonce, self.command.model.as_deref())?
        else {
            return Ok(());
        };
        match self.inference.submit(self.command.topic, &submission).await {
            Ok(accepted) => {
                self.n_submitted += 1;
                report(&submission, &accepted, took, self.command.json)
            }
            Err(why) if is_denied(&why) => Err(why).context("submit the program's answer"),
            // A second try would be refused, too: with the next epoch comes another answer.
            Err(why) if why.status().is_some_and(|status| status < 500 && status != 429) => {
                tell(&format!("nonce {}: the answer was refused: {}", window.nonce, why.why()));
                Ok(())
            }
            Err(why) => Err(why).context("submit the program's answer"),
        }
    }

    async fn newest_rows(&mut self, topic: &TopicSummary) -> anyhow::Result<Vec<FlatRow>> {
        let known = topic.dataset_id.and_then(DatasetId::new).or(self.dataset);
        let of = |error| anyhow::Error::from_boxed(error);
        let dataset = if let Some(id) = known {
            id
        } else {
            let found = self.rows.find(&topic.dataset).await.map_err(of);
            found.with_context(|| format!("find dataset {}", topic.dataset))?
        };
        self.dataset = Some(dataset);
        let rows = self.rows.newest(dataset, self.command.rows).await.map_err(of);
        let rows = rows.with_context(|| format!("read rows of dataset {}", topic.dataset))?;
        if rows.is_empty() {
            bail!("read rows of dataset {}: it has none yet", topic.dataset);
        }
        Ok(rows)
    }

    async fn ask(
        &mut self,
        window: &Window,
        rows: &[FlatRow],
        within: Duration,
    ) -> anyhow::Result<String> {
        let command = &self.command.command;
        if !self.command.keep_running {
            let program = Program::start(command, &environment(window), &self.group, tell)?;
            return program.finish(&lines(rows), within).await;
        }
        let mut program = match self.program.take() {
            Some(program) => program,
            None => Program::start(command, &BTreeMap::new(), &self.group, tell)?,
        };
        let answer = program.ask(&epoch_line(window, rows)?, within).await?;
        self.program = Some(program);
        Ok(answer)
    }

    /// Says how the topic or its service stands, unless that was said last.
    fn note(&mut self, text: String) {
        if self.noted.as_deref() != Some(&text) {
            tell(&text);
            self.noted = Some(text);
        }
    }
}

/// Whether the service refuses the key.
fn is_denied(why: &ClientError) -> bool {
    matches!(why.status(), Some(401 | 403))
}

/// What a program that is started for an epoch finds in its environment.
fn environment(Window { topic, nonce, .. }: &Window) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("TRIPTYCH_TOPIC", topic.topic_id.to_string()),
        ("TRIPTYCH_NONCE", nonce.to_string()),
        ("TRIPTYCH_COLUMN", topic.column.clone()),
        ("TRIPTYCH_LABELS", topic.labels.join(",")),
    ])
}

/// An epoch as one line, for a program that keeps running.
fn epoch_line(window: &Window, rows: &[FlatRow]) -> anyhow::Result<String> {
    let Window { topic, nonce, closes_at } = window;
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

/// What to submit for the answer in `line`; none where it is for nothing.
fn submission(
    line: &str,
    nonce: u64,
    model: Option<&str>,
) -> anyhow::Result<Option<SubmissionBody>> {
    /// The most characters of an answer that an error shows.
    const SHOWN: usize = 120;
    let shown: String = line.trim().chars().take(SHOWN).collect();
    let answer: SubmissionBody = serde_json::from_str(line)
        .with_context(|| format!("read the program's answer `{}`", escape_line(&shown)))?;
    if answer.nonce.is_some() || answer.model.is_some() {
        bail!("read the program's answer: it has a nonce or a model, which are the command's");
    }
    if answer.value.is_some() && !answer.values.is_empty() {
        bail!("read the program's answer: it has both value and values");
    }
    if answer == SubmissionBody::default() {
        return Ok(None);
    }
    let nonce = Some(Decimal(nonce.to_string()));
    Ok(Some(SubmissionBody { nonce, model: model.map(str::to_owned), ..answer }))
}

/// Prints what was submitted.
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
