//! Reads the facts that rules need from the services: rows and bundles from streams, executions
//! from the events of the head, and health by polling.

mod closed_epochs;
mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use client::datasets::Datasets;
use client::error::ClientError;
use client::executions;
use client::functions::Functions;
use client::inference::{Inference, bundles};
use client::stream::StreamEvent;
use client::stream::resume;
use futures::future::join_all;
use model::topic::TopicId;
use task::backoff::Backoff;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use wire::executions::ClusterEventKind;
use wire::inference::{LatestBundle, TopicList, TopicSummary};

use self::rows::ColumnNeeds;
use crate::rules::{Condition, Rule, Service};
use crate::state::{Actor, Alert, Fact, Watcher};

/// Interval at which durations are checked.
const TICK: Duration = Duration::from_millis(500);

/// Interval of health checks, and timeout of each check.
const HEALTH_EVERY: Duration = Duration::from_secs(2);

/// Maximum number of facts that wait to be judged. If there are more, reading from the services
/// pauses.
const FACTS_CAPACITY: usize = 64;

/// Maximum number of stream events that wait to be converted to facts.
const EVENTS_CAPACITY: usize = 8;

/// First and longest pause before a dataset is searched for again, because it was not found or has no
/// stream.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Number of epochs of the leaderboard from which ranks for [`Condition::Rank`] are computed.
const RANKED_EPOCHS: u32 = 100;

/// Clients of the services that rules can need. `None` for a service that is not configured.
#[derive(Debug, Clone, Default)]
pub struct Clients {
    /// Head of a cluster.
    pub head: Option<Functions>,
    /// Client for rules on datasets.
    pub datasets: Option<Datasets>,
    /// Client for rules on topics.
    pub inference: Option<Inference>,
}

/// Message of [`watch`] to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A rule fires or is resolved, or its alert is repeated.
    Alert(Alert),
    /// Facts are missing. Durations are still checked.
    Problem {
        /// Reason, for people.
        text: String,
        /// Names of the rules without a stream of facts until [`Self::Connected`]. Empty if the stream
        /// is connected, but some facts are missing.
        rules: Vec<String>,
    },
    /// The facts of these rules arrive.
    Connected(Vec<String>),
}

/// Reads facts, judges the rules of `watcher` and sends alerts to `events` until the receiver is
/// dropped. Rules without their service get no facts. Dropping the future closes all connections.
pub async fn watch(watcher: &mut Watcher, clients: &Clients, events: Sender<Event>) {
    let (facts, received) = mpsc::channel(FACTS_CAPACITY);
    let rules = watcher.rules().cloned().collect();
    let source = FactSource { facts, events: events.clone(), rules };
    let sources = sources(watcher.rules(), clients, &source);
    let receiver = events.clone();
    tokio::select! {
        _ = join_all(sources) => {}
        () = judge_facts(watcher, received, events) => {}
        () = receiver.closed() => {}
    }
}

async fn judge_facts(watcher: &mut Watcher, mut facts: Receiver<Fact>, events: Sender<Event>) {
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
) -> Vec<Work> {
    let mut columns: BTreeMap<&'a str, ColumnNeeds> = BTreeMap::new();
    let mut topics: BTreeMap<TopicId, TopicNeeds> = BTreeMap::new();
    let mut polled = BTreeSet::new();
    let mut needs_executions = false;
    for rule in rules {
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
            let source = source.of_rules(|it| it.dataset() == Some(name));
            let (datasets, name) = (datasets.clone(), name.to_owned());
            work.push(Box::pin(
                async move { source.follow_rows(&datasets, &name, &columns).await },
            ));
        }
    }
    if let Some(inference) = &clients.inference {
        for (topic, needs) in topics {
            let source = source.of_rules(|it| it.topic() == Some(topic));
            if needs.misses {
                let (source, inference) = (source.clone(), inference.clone());
                work.push(Box::pin(
                    async move { source.poll_closed_epochs(&inference, topic).await },
                ));
            }
            let inference = inference.clone();
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
        let source = source.of_rules(|it| matches!(it, Condition::Agreement { .. }));
        work.push(Box::pin(async move {
            loop {
                source.follow_executions(&head).await;
                sleep(RETRY.1).await;
            }
        }));
    }
    work
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

/// Attempts to read a stream since it was last connected.
struct Attempts {
    backoff: Backoff,
    /// Problems that were reported and may last.
    reported: BTreeSet<String>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { backoff: Backoff::new(RETRY.0, RETRY.1), reported: BTreeSet::new() }
    }
}

/// Sends facts, and problems with reading them.
#[derive(Clone)]
struct FactSource {
    facts: Sender<Fact>,
    events: Sender<Event>,
    /// Rules that need the facts.
    rules: Vec<Rule>,
}

impl FactSource {
    /// Returns a source for those of the rules whose condition `is_included`.
    fn of_rules(&self, is_included: impl Fn(&Condition) -> bool) -> Self {
        let rules = self.rules.iter().filter(|rule| is_included(&rule.condition)).cloned();
        Self { facts: self.facts.clone(), events: self.events.clone(), rules: rules.collect() }
    }

    fn rule_names(&self) -> Vec<String> {
        self.rules.iter().map(|rule| rule.name.clone()).collect()
    }

    async fn send(&self, event: Event) {
        // An error means that the receiver was dropped, which ends the watch.
        drop(self.events.send(event).await);
    }

    /// Reports that some facts are missing, unless this was reported since the stream was last
    /// connected or all facts of an item were read.
    async fn report_once(&self, text: String, attempts: &mut Attempts) {
        self.of_rules(|_| false).report_outage_once(text, attempts).await;
    }

    /// Reports that all facts are missing, unless this was reported since the stream was last
    /// connected.
    async fn report_outage_once(&self, text: String, attempts: &mut Attempts) {
        if attempts.reported.insert(text.clone()) {
            self.send(Event::Problem { text, rules: self.rule_names() }).await;
        }
    }

    /// Sends the facts of each item until the stream ends. `facts_of` returns the facts, and the reasons
    /// why facts are missing. `stream` describes the stream in problems. Returns the error if the
    /// service would reject every further attempt to connect. This error is not reported.
    async fn read<T, F: Future<Output = Vec<Result<Fact, String>>>>(
        &self,
        mut received: Receiver<StreamEvent<T>>,
        stream: &str,
        attempts: &mut Attempts,
        facts_of: impl Fn(T) -> F,
    ) -> Option<ClientError> {
        while let Some(event) = received.recv().await {
            match event {
                StreamEvent::Connected => {
                    *attempts = Attempts::default();
                    self.send(Event::Connected(self.rule_names())).await;
                }
                StreamEvent::Item(item) => {
                    let facts = facts_of(item).await;
                    if !facts.is_empty() && facts.iter().all(Result::is_ok) {
                        attempts.reported.clear();
                    }
                    for fact in facts {
                        match fact {
                            Ok(fact) => self.facts.send(fact).await.ok()?,
                            Err(problem) => self.report_once(problem, attempts).await,
                        }
                    }
                }
                StreamEvent::Lost { why, .. } => {
                    if why.status() == Some(404) || resume::refuses_changes(&why) {
                        return Some(why);
                    }
                    let text = format!("lost {stream}: {}", why.why());
                    self.report_outage_once(text, attempts).await;
                }
                StreamEvent::NotServed => {
                    let text = format!("{stream} does not exist");
                    self.send(Event::Problem { text, rules: self.rule_names() }).await;
                }
                _ => {}
            }
        }
        None
    }

    async fn follow_epochs(&self, inference: &Inference, topic: TopicId, needs_ranks: bool) {
        let (sender, received) = mpsc::channel(EVENTS_CAPACITY);
        let follow = bundles::follow(inference.clone(), topic, sender);
        let stream = format!("the stream of topic {topic}");
        let mut attempts = Attempts::default();
        let read = self.read(received, &stream, &mut attempts, |latest| async move {
            facts_of_epoch(inference, &latest, topic, needs_ranks).await
        });
        tokio::join!(follow, read);
    }

    async fn follow_executions(&self, head: &Functions) {
        let (sender, received) = mpsc::channel(EVENTS_CAPACITY);
        let follow = executions::follow(head.clone(), sender);
        let stream = "the event stream of the head";
        let mut attempts = Attempts::default();
        let read = self.read(received, stream, &mut attempts, |event| async move {
            let ClusterEventKind::Done { request_id, .. } = event.kind else { return Vec::new() };
            facts_of_execution(head, request_id).await
        });
        tokio::join!(follow, read);
    }
}

/// Returns the facts of a new bundle: names and weights of its actors, and their ranks if needed.
/// Without the list of topics, the epoch is left out: an actor without a name would count as missing.
async fn facts_of_epoch(
    inference: &Inference,
    latest: &LatestBundle,
    topic: TopicId,
    needs_ranks: bool,
) -> Vec<Result<Fact, String>> {
    let list = match inference.topics().await {
        Ok(list) => list,
        Err(error) => return vec![Err(format!("cannot read the topics: {}", error.why()))],
    };
    let mut known = BTreeMap::new();
    for actor in summary_of(&list, topic).iter().flat_map(|summary| &summary.actors) {
        known.insert(actor.worker.clone(), (actor.name.clone(), actor.weight));
    }
    let bundle = &latest.bundle;
    let actors = bundle.inferer_values.iter().chain(&bundle.forecaster_values).map(|actor| {
        let address = actor.worker.to_string();
        let (name, weight) = known.get(&address).cloned().unwrap_or_default();
        Actor { address, name, weight }
    });
    let mut facts = vec![Ok(Fact::Epoch { topic, nonce: bundle.nonce, actors: actors.collect() })];
    if needs_ranks {
        let board = inference.leaderboard(topic, RANKED_EPOCHS, None, None).await;
        facts.push(match board {
            Ok(board) => {
                let ranks = board.actors.into_iter();
                let ranks = ranks.map(|actor| (actor.worker, actor.name, actor.rank)).collect();
                Ok(Fact::Ranks { topic, ranks })
            }
            Err(error) => {
                Err(format!("cannot read the leaderboard of topic {topic}: {}", error.why()))
            }
        });
    }
    facts
}

/// Returns the agreement of an execution that has finished. Empty if the execution has no results.
async fn facts_of_execution(head: &Functions, request_id: String) -> Vec<Result<Fact, String>> {
    match head.execution(&request_id).await {
        Ok(body) if body.results.is_empty() => Vec::new(),
        Ok(body) => {
            let shares = body.results.iter().map(|group| group.frequency);
            let agreement = shares.fold(0.0, f64::max);
            vec![Ok(Fact::Execution { request_id, n_groups: body.results.len(), agreement })]
        }
        // Without the id, so that the problem is reported once for many executions.
        Err(error) => vec![Err(format!("cannot read executions: {}", error.why()))],
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use client::transport::Transport;

    use super::*;
    use crate::rules::Rules;

    #[tokio::test]
    async fn problems_name_the_rules_that_lack_facts_until_the_stream_is_connected() {
        let rules = "
            [[rules]]
            topic = 99
            actor = 'a'
            misses = 3
            [[rules]]
            dataset = 'btc'
            silent_for = '1m'
        ";
        let (facts, _facts) = mpsc::channel(1);
        let (events, mut reported) = mpsc::channel(EVENTS_CAPACITY);
        let rules = rules.parse::<Rules>().unwrap().rules;
        let names = vec![rules[0].name.clone()];
        let source = FactSource { facts, events, rules };
        let source = source.of_rules(|it| it.topic() == TopicId::new(99));
        let (stream, received) = mpsc::channel(EVENTS_CAPACITY);
        for event in [StreamEvent::NotServed, StreamEvent::Connected] {
            stream.send(event).await.unwrap();
        }
        drop(stream);
        let facts_of = |()| ready(Vec::new());
        source.read(received, "the stream", &mut Attempts::default(), facts_of).await;
        let text = "the stream does not exist".to_owned();
        assert_eq!(reported.try_recv(), Ok(Event::Problem { text, rules: names.clone() }));
        assert_eq!(reported.try_recv(), Ok(Event::Connected(names)));
    }

    #[tokio::test]
    async fn epoch_is_left_out_if_the_names_of_its_actors_are_unknown() {
        let inference = Inference::new(Transport::new("http://127.0.0.1:1", None).unwrap());
        let latest = serde_json::json!({
            "network_inferences": {
                "topic_id": "1", "nonce": "10", "combined_value": [], "inferer_values": [],
                "forecaster_values": [], "naive_value": [],
            },
            "inference_block_height": "10",
        });
        let latest = serde_json::from_value(latest).unwrap();
        let facts = facts_of_epoch(&inference, &latest, TopicId::FIRST, true).await;
        assert!(matches!(facts.as_slice(), [Err(_)]), "{facts:?}");
    }

    #[tokio::test]
    async fn missing_facts_are_reported_once_until_the_facts_of_an_item_are_read() {
        let (facts, _facts) = mpsc::channel(1);
        let (events, mut reported) = mpsc::channel(EVENTS_CAPACITY);
        let source = FactSource { facts, events, rules: Vec::new() };
        let (stream, received) = mpsc::channel(EVENTS_CAPACITY);
        let missing = || Err("cannot read executions: busy".to_owned());
        // Items without facts do not show that facts can be read.
        for facts in
            [vec![missing()], vec![], vec![missing()], vec![Ok(Fact::Tick)], vec![missing()]]
        {
            stream.send(StreamEvent::Item(facts)).await.unwrap();
        }
        drop(stream);
        source.read(received, "the stream", &mut Attempts::default(), ready).await;
        for _ in 0..2 {
            assert!(matches!(reported.try_recv(), Ok(Event::Problem { .. })));
        }
        assert!(reported.try_recv().is_err());
    }
}
