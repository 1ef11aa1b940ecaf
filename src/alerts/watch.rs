//! Reads the facts that rules need from the services: rows and bundles from streams, executions
//! from the events of the head, and health by polling.

mod closed_epochs;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use client::datasets::{Datasets, NamedRow, RowsQuery};
use client::error::ClientError;
use client::executions;
use client::functions::Functions;
use client::inference::{Inference, bundles};
use client::stream::StreamEvent;
use client::stream::resume::{self, BatchKind, ResumeFrom};
use futures::future::{join_all, ready};
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::page::{self, Limit};
use model::resolution::Resolution;
use model::row::Value;
use model::timestamp::Timestamp;
use model::topic::TopicId;
use task::backoff::Backoff;
use task::clock::Clock;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use wire::executions::ClusterEventKind;
use wire::inference::{LatestBundle, TopicList, TopicSummary};

use crate::rules::{Condition, Rule, Service};
use crate::state::{Actor, Alert, Fact, Point, Watcher};

/// Interval at which durations are checked.
const TICK: Duration = Duration::from_millis(500);

/// Interval of health checks, and timeout of each check.
const HEALTH_EVERY: Duration = Duration::from_secs(2);

/// Maximum number of facts that wait to be judged. If there are more, reading from the services
/// pauses.
const FACTS_CAPACITY: usize = 64;

/// Maximum number of stream events that wait to be converted to facts.
const EVENTS_CAPACITY: usize = 8;

/// First and longest pause before a failed search for a dataset is repeated.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Maximum number of rows, and of requests, with which the spans of rules on changes are filled when
/// a watch starts. A request returns up to 10 000 rows of at most a day.
const HISTORY_MAX: (usize, usize) = (100_000, 400);

/// Number of epochs of the leaderboard from which ranks for [`Condition::Rank`] are computed.
const RANKED_EPOCHS: u32 = 100;

/// Clients of the services that rules can need. `None` for a service that is not configured.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    /// Head of a cluster.
    pub head: Option<Functions>,
    /// Dataset service.
    pub datasets: Option<Datasets>,
    /// Inference service.
    pub inference: Option<Inference>,
}

/// Error of [`watch`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// A rule needs a service that is not configured.
    #[error("rule `{rule}` requires the {}, but its address is not configured", service.name())]
    NoService {
        /// Name of the rule.
        rule: String,
        /// The service.
        service: Service,
    },
}

/// Message of [`watch`] to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A rule fires or is resolved, or its alert is repeated.
    Alert(Alert),
    /// Facts are missing for this reason. Durations are still checked.
    Problem(String),
}

/// Reads facts, judges the rules of `watcher` and sends alerts to `events` until the receiver is
/// dropped. Dropping the future closes all connections.
///
/// # Errors
/// If a rule needs a service that is not configured.
pub async fn watch(
    watcher: Watcher,
    clients: &Clients,
    events: Sender<Event>,
) -> Result<(), WatchError> {
    let (facts, received) = mpsc::channel(FACTS_CAPACITY);
    let source = FactSource { facts, events: events.clone() };
    let sources = sources(watcher.rules(), clients, &source)?;
    tokio::select! {
        _ = join_all(sources) => {}
        () = judge_facts(watcher, received, events) => {}
    }
    Ok(())
}

async fn judge_facts(mut watcher: Watcher, mut facts: Receiver<Fact>, events: Sender<Event>) {
    let mut ticks = interval(TICK);
    loop {
        let fact = tokio::select! {
            fact = facts.recv() => match fact {
                Some(fact) => fact,
                None => return,
            },
            _ = ticks.tick() => Fact::Tick,
        };
        for alert in watcher.observe(&fact, Instant::now()) {
            if events.send(Event::Alert(alert)).await.is_err() {
                return;
            }
        }
    }
}

/// Future that reads the facts of a dataset, a topic or a service until the future is dropped.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns work for each dataset, topic and service that the rules need.
fn sources<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    clients: &Clients,
    source: &FactSource,
) -> Result<Vec<Work>, WatchError> {
    let mut columns: BTreeMap<&'a str, ColumnNeeds> = BTreeMap::new();
    let mut topics: BTreeMap<TopicId, TopicNeeds> = BTreeMap::new();
    let mut polled = BTreeSet::new();
    let mut needs_executions = false;
    for rule in rules {
        let service = rule.condition.service();
        if !clients.has(service) {
            return Err(WatchError::NoService { rule: rule.name.clone(), service });
        }
        match &rule.condition {
            Condition::Level { dataset, column, .. } => {
                columns.entry(dataset).or_default().names.insert(column.clone());
            }
            Condition::Change { dataset, column, within, .. } => {
                let needs = columns.entry(dataset).or_default();
                needs.names.insert(column.clone());
                needs.within = needs.within.max(*within);
            }
            Condition::Silence { dataset, .. } => _ = columns.entry(dataset).or_default(),
            Condition::Missed { topic, .. } => topics.entry(*topic).or_default().misses = true,
            Condition::Weight { topic, .. } => _ = topics.entry(*topic).or_default(),
            Condition::Rank { topic, .. } => topics.entry(*topic).or_default().ranks = true,
            Condition::Down { service, .. } => _ = polled.insert(*service),
            Condition::Agreement { .. } => needs_executions = true,
        }
    }
    let mut work: Vec<Work> = Vec::new();
    if let Some(datasets) = &clients.datasets {
        for (name, columns) in columns {
            let (source, datasets, name) = (source.clone(), datasets.clone(), name.to_owned());
            work.push(Box::pin(
                async move { source.follow_rows(&datasets, &name, &columns).await },
            ));
        }
    }
    if let Some(inference) = &clients.inference {
        for (topic, needs) in topics {
            if needs.misses {
                let (source, inference) = (source.clone(), inference.clone());
                work.push(Box::pin(
                    async move { source.poll_closed_epochs(&inference, topic).await },
                ));
            }
            let (source, inference) = (source.clone(), inference.clone());
            work.push(Box::pin(async move {
                // The call returns if the service does not have the stream. It is repeated, since
                // this can be temporary, for example while a proxy is set up.
                loop {
                    source.follow_epochs(&inference, topic, needs.ranks).await;
                    sleep(RETRY.1).await;
                }
            }));
        }
    }
    for service in polled {
        work.push(Box::pin(poll_health(service, clients.clone(), source.facts.clone())));
    }
    if let Some(head) = clients.head.clone().filter(|_| needs_executions) {
        let source = source.clone();
        work.push(Box::pin(async move {
            loop {
                source.follow_executions(&head).await;
                sleep(RETRY.1).await;
            }
        }));
    }
    Ok(work)
}

/// Values of a dataset that the rules need.
#[derive(Default)]
struct ColumnNeeds {
    /// Names of the columns. Empty if only the arrival of rows is needed.
    names: BTreeSet<String>,
    /// Longest span of the rules on changes.
    within: Duration,
}

/// Facts of a topic that the rules need, in addition to its bundles.
#[derive(Clone, Copy, Default)]
struct TopicNeeds {
    ranks: bool,
    misses: bool,
}

impl Clients {
    /// Returns true if the service is configured.
    #[must_use]
    pub fn has(&self, service: Service) -> bool {
        match service {
            Service::Head => self.head.is_some(),
            Service::Datasets => self.datasets.is_some(),
            Service::Inference => self.inference.is_some(),
        }
    }

    /// Checks that a service responds. Succeeds for a service that is not configured.
    async fn check(&self, service: Service) -> Result<(), ClientError> {
        match (service, &self.head, &self.datasets, &self.inference) {
            (Service::Head, Some(head), ..) => head.health().await,
            (Service::Datasets, _, Some(datasets), _) => datasets.health().await,
            (Service::Inference, .., Some(inference)) => inference.health().await,
            _ => Ok(()),
        }
    }
}

fn summary_of(list: &TopicList, topic: TopicId) -> Option<&TopicSummary> {
    list.topics.iter().find(|summary| summary.topic_id == topic.get())
}

async fn poll_health(service: Service, clients: Clients, facts: Sender<Fact>) {
    let mut polls = interval(HEALTH_EVERY);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        polls.tick().await;
        let failure = match timeout(HEALTH_EVERY, clients.check(service)).await {
            Ok(result) => result.err().map(|error| error.why()),
            Err(_) => Some(format!("no response within {} s", HEALTH_EVERY.as_secs())),
        };
        if facts.send(Fact::Health { service, failure }).await.is_err() {
            return;
        }
    }
}

/// Returns the values in `columns` of rows that arrived at `now`.
///
/// A timestamp in the future is replaced by `now`. Otherwise, after a single wrong timestamp, rules
/// would ignore the following rows as older than the latest row.
fn points_of(rows: &[NamedRow], columns: &BTreeSet<String>, now: Timestamp) -> Vec<Point> {
    let points = rows.iter().flat_map(|row| {
        columns.iter().map(move |column| {
            let value = row.values.get(column).and_then(Value::as_f64);
            let micros = row.timestamp.min(now).micros();
            Point { column: column.clone(), micros, value }
        })
    });
    points.collect()
}

/// Returns a problem for each of `columns` that is missing in `existing` or has no numbers.
fn column_problems(columns: &BTreeSet<String>, existing: &[Column], dataset: &str) -> Vec<String> {
    let problem = |name: &String| match existing.iter().find(|column| column.name == *name) {
        None => Some(format!("dataset {dataset} has no column {name}")),
        Some(Column { dtype: Dtype::Float | Dtype::Integer, .. }) => None,
        Some(Column { dtype, .. }) => {
            Some(format!("column {name} of dataset {dataset} has no numbers: its type is {dtype}"))
        }
    };
    columns.iter().filter_map(problem).collect()
}

/// Sends facts, and problems with reading them.
#[derive(Clone)]
struct FactSource {
    facts: Sender<Fact>,
    events: Sender<Event>,
}

impl FactSource {
    async fn report(&self, problem: String) {
        // If the receiver is gone, sending the next fact fails, too, and ends the task.
        drop(self.events.send(Event::Problem(problem)).await);
    }

    /// Sends the facts of each item until the stream ends, or until the service reports that it does
    /// not exist. `stream` describes the stream in problems.
    async fn read<T, F: Future<Output = Vec<Fact>>>(
        &self,
        mut received: Receiver<StreamEvent<T>>,
        stream: &str,
        facts_of: impl Fn(T) -> F,
    ) {
        while let Some(event) = received.recv().await {
            match event {
                StreamEvent::Item(item) => {
                    for fact in facts_of(item).await {
                        if self.facts.send(fact).await.is_err() {
                            return;
                        }
                    }
                }
                StreamEvent::Lost { why, .. } => {
                    self.report(format!("lost {stream}: {}", why.why())).await;
                    if why.status() == Some(404) {
                        return;
                    }
                }
                StreamEvent::NotServed => self.report(format!("{stream} does not exist")).await,
                _ => {}
            }
        }
    }

    async fn follow_rows(&self, datasets: &Datasets, name: &str, needs: &ColumnNeeds) {
        let stream = format!("the stream of dataset {name}");
        // After a dataset was deleted, a new dataset can have its name.
        loop {
            let (id, rows) = self.find(datasets, name, needs).await;
            self.check_columns(datasets, id, name, &needs.names).await;
            let newest = rows.iter().map(|row| row.timestamp).max();
            let points = points_of(&rows, &needs.names, Clock::system().now());
            let history = Fact::History { dataset: name.to_owned(), points };
            if self.facts.send(history).await.is_err() {
                return;
            }
            let (sender, received) = mpsc::channel(EVENTS_CAPACITY);
            let resume_from = ResumeFrom { newest, changes: true, ..ResumeFrom::default() };
            let follow = resume::follow(datasets.clone(), id, resume_from, sender);
            let read = self.read(received, &stream, |batch| {
                let dataset = name.to_owned();
                ready(vec![match batch.kind {
                    BatchKind::Rows | BatchKind::Corrections => {
                        let points = points_of(&batch.rows, &needs.names, Clock::system().now());
                        Fact::Rows { dataset, points }
                    }
                    BatchKind::Deletion { start, end } => {
                        let start = start.map_or(i64::MIN, Timestamp::micros);
                        Fact::Deletion { dataset, micros: start..=end.micros() }
                    }
                }])
            });
            tokio::select! {
                () = follow => {}
                () = read => {}
            }
            sleep(RETRY.0).await;
        }
    }

    /// Finds a dataset by its name or id, and reads the rows that the rules need at the start. Repeats
    /// this until the dataset exists and the service responds.
    async fn find(
        &self,
        datasets: &Datasets,
        name: &str,
        needs: &ColumnNeeds,
    ) -> (DatasetId, Vec<NamedRow>) {
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        let mut last_problem = String::new();
        loop {
            let found = match datasets.find_by_name(name).await {
                Ok(None) => match name.parse::<DatasetId>() {
                    Ok(id) => datasets.dataset(id).await.map(Some),
                    Err(_) => Ok(None),
                },
                found => found,
            };
            let problem = match found {
                Ok(Some(dataset)) => {
                    match self.read_history(datasets, &dataset, needs.within).await {
                        Ok(rows) => return (dataset.id, rows),
                        Err(error) => format!("cannot read dataset {name}: {}", error.why()),
                    }
                }
                Ok(None) => format!("no dataset {name} is visible to this key"),
                Err(error) => format!("cannot find dataset {name}: {}", error.why()),
            };
            if problem != last_problem {
                self.report(problem.clone()).await;
                last_problem = problem;
            }
            sleep(backoff.next_wait()).await;
        }
    }

    /// Reports columns of rules that the dataset does not have or that have no numbers.
    async fn check_columns(
        &self,
        datasets: &Datasets,
        id: DatasetId,
        name: &str,
        columns: &BTreeSet<String>,
    ) {
        if columns.is_empty() {
            return;
        }
        match datasets.columns(id).await {
            Ok(existing) => {
                for problem in column_problems(columns, &existing, name) {
                    self.report(problem).await;
                }
            }
            Err(error) => {
                let why = error.why();
                self.report(format!("cannot read the columns of dataset {name}: {why}")).await;
            }
        }
    }

    /// Reads the latest rows of a dataset and the rows within `within` of the latest row, as far as
    /// [`HISTORY_MAX`] allows.
    async fn read_history(
        &self,
        datasets: &Datasets,
        dataset: &Dataset,
        within: Duration,
    ) -> Result<Vec<NamedRow>, ClientError> {
        let latest =
            RowsQuery::newest(dataset.id, Resolution::Raw, Limit::clamp(page::REPLAY_ROWS));
        let mut rows = datasets.rows(&latest).await?.rows.into_raw();
        let Some(newest) = rows.first().map(|row| row.timestamp) else { return Ok(rows) };
        let start = newest - within;
        let mut before = rows.last().map_or(newest, |row| row.timestamp);
        let mut n_requests = 0;
        while before > start {
            if rows.len() >= HISTORY_MAX.0 || n_requests == HISTORY_MAX.1 {
                let name = &dataset.name;
                self.report(format!("rows of dataset {name} before {before} are ignored")).await;
                break;
            }
            // A request cannot exceed the maximum time range of raw rows.
            let first = start.max(before - Resolution::Raw.span_max().unwrap_or(within));
            let query = RowsQuery {
                start: Some(first),
                end: Some(before),
                after: Some(before),
                ..RowsQuery::newest(dataset.id, Resolution::Raw, Limit::clamp(page::ROWS_MAX))
            };
            let page = datasets.rows(&query).await?;
            before = page.next.unwrap_or(first);
            rows.extend(page.rows.into_raw());
            n_requests += 1;
        }
        Ok(rows)
    }

    async fn follow_epochs(&self, inference: &Inference, topic: TopicId, needs_ranks: bool) {
        let (sender, received) = mpsc::channel(EVENTS_CAPACITY);
        let follow = bundles::follow(inference.clone(), topic, sender);
        let stream = format!("the stream of topic {topic}");
        let read = self.read(received, &stream, |latest| async move {
            self.facts_of_epoch(inference, &latest, topic, needs_ranks).await
        });
        tokio::join!(follow, read);
    }

    /// Returns the facts of a new bundle: names and weights of its actors, and their ranks if
    /// needed.
    async fn facts_of_epoch(
        &self,
        inference: &Inference,
        latest: &LatestBundle,
        topic: TopicId,
        needs_ranks: bool,
    ) -> Vec<Fact> {
        let mut known = BTreeMap::new();
        match inference.topics().await {
            Ok(list) => {
                for actor in summary_of(&list, topic).iter().flat_map(|summary| &summary.actors) {
                    known.insert(actor.worker.clone(), (actor.name.clone(), actor.weight));
                }
            }
            Err(error) => self.report(format!("cannot read the topics: {}", error.why())).await,
        }
        let bundle = &latest.bundle;
        let actors = bundle.inferer_values.iter().chain(&bundle.forecaster_values).map(|actor| {
            let address = actor.worker.to_string();
            let (name, weight) = known.get(&address).cloned().unwrap_or_default();
            Actor { address, name, weight }
        });
        let actors = actors.collect();
        let mut facts = vec![Fact::Epoch { topic, nonce: bundle.nonce, actors }];
        if needs_ranks {
            match inference.leaderboard(topic, RANKED_EPOCHS, None, None).await {
                Ok(board) => {
                    let ranks = board.actors.into_iter();
                    let ranks = ranks.map(|actor| (actor.worker, actor.name, actor.rank)).collect();
                    facts.push(Fact::Ranks { topic, ranks });
                }
                Err(error) => {
                    let why = error.why();
                    self.report(format!("cannot read the leaderboard of topic {topic}: {why}"))
                        .await;
                }
            }
        }
        facts
    }

    async fn follow_executions(&self, head: &Functions) {
        let (sender, received) = mpsc::channel(EVENTS_CAPACITY);
        let follow = executions::follow(head.clone(), sender);
        let read = self.read(received, "the event stream of the head", |event| async move {
            let ClusterEventKind::Done { request_id, .. } = event.kind else { return Vec::new() };
            self.facts_of_execution(head, request_id).await
        });
        tokio::join!(follow, read);
    }

    /// Returns the agreement of an execution that has finished. Empty if the execution has no
    /// results.
    async fn facts_of_execution(&self, head: &Functions, request_id: String) -> Vec<Fact> {
        match head.execution(&request_id).await {
            Ok(body) if body.results.is_empty() => Vec::new(),
            Ok(body) => {
                let shares = body.results.iter().map(|group| group.frequency);
                let agreement = shares.fold(0.0, f64::max);
                vec![Fact::Execution { request_id, n_groups: body.results.len(), agreement }]
            }
            Err(error) => {
                let why = error.why();
                self.report(format!("cannot read execution {request_id}: {why}")).await;
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_columns_and_columns_without_numbers_are_reported() {
        let column = |name: &str, dtype| Column {
            id: 1,
            dataset_id: DatasetId::FIRST,
            name: name.to_owned(),
            dtype,
            created_at: Timestamp::from_micros(0),
        };
        let existing = [column("close", Dtype::Float), column("side", Dtype::String)];
        let columns = BTreeSet::from(["close", "clsoe", "side"].map(str::to_owned));
        assert_eq!(
            column_problems(&columns, &existing, "btc"),
            [
                "dataset btc has no column clsoe",
                "column side of dataset btc has no numbers: its type is string",
            ]
        );
    }

    #[test]
    fn timestamp_in_the_future_is_replaced_by_the_current_time() {
        let row = |time: &str, close: f64| NamedRow {
            timestamp: time.parse().unwrap(),
            values: BTreeMap::from([("close".to_owned(), Value::Float(close))]),
        };
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let rows = [row("2100-01-01T00:00:00Z", 1.0), row("2026-02-28T23:59:00Z", 2.0)];
        let points = points_of(&rows, &BTreeSet::from(["close".to_owned()]), now);
        let times: Vec<i64> = points.iter().map(|point| point.micros).collect();
        assert_eq!(times, [now.micros(), now.micros() - 60_000_000]);
    }
}
