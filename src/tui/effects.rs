//! Performs effects: calls the services through the client, and sends events back.

mod calls;
mod export;
mod machine;
mod pager;
mod profiles;
mod run;
mod timers;

use std::{collections::HashMap, future::Future, path::PathBuf, sync::Arc};

use client::{
    datasets::Datasets, error::ClientError, functions::Functions, inference::Inference,
    transport::Transport,
};
use model::{dataset::DatasetId, key::ApiKey, topic::TopicId};
use task::{causes::chain, group::Group};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use self::timers::Timers;
use crate::{
    event::{Effect, Event},
    local::{Addresses, LocalEvent, LocalStack},
    profiles::Profiles,
    state::{loadable::Failure, runs::RunId, services::Service},
};

/// The subject of a call. A new call replaces an older one of the same subject, so that there are
/// never more calls than there are subjects on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Subject {
    Probe(Service),
    Nodes,
    Functions,
    Profile,
    Key,
    Cluster,
    Run(RunId),
    NewFunction,
    Datasets,
    Columns(DatasetId),
    Rows(DatasetId, model::resolution::Resolution),
    Stream(DatasetId),
    Tag,
    Tags,
    Pinned(DatasetId),
    Table,
    Export,
    Topics,
    Latest(TopicId),
    Confidence(TopicId),
    PastBundles(TopicId),
    Bundles,
    History(TopicId),
    Leaderboard(TopicId),
}

/// Clients of the services whose addresses are known.
#[derive(Debug, Clone, Default)]
struct Clients {
    head: Option<Functions>,
    datasets: Option<Datasets>,
    inference: Option<Inference>,
}

/// Performs effects, each in a task of its own.
pub(crate) struct Runner {
    events: mpsc::Sender<Event>,
    local: Option<Arc<dyn LocalStack>>,
    local_events: mpsc::Sender<LocalEvent>,
    profiles: Option<Arc<dyn Profiles>>,
    /// The file of presets; `None` if there is no folder for it.
    presets: Option<PathBuf>,
    /// Calls to the services in use.
    calls: Group,
    /// Tasks that outlive a change of services.
    tasks: Group,
    running: HashMap<Subject, CancellationToken>,
    clients: Clients,
    pub(crate) timers: Timers,
}

impl Runner {
    pub(crate) fn new(
        events: mpsc::Sender<Event>,
        local_events: mpsc::Sender<LocalEvent>,
        local: Option<Arc<dyn LocalStack>>,
        profiles: Option<Arc<dyn Profiles>>,
        presets: Option<PathBuf>,
    ) -> Self {
        Self {
            events,
            local,
            local_events,
            profiles,
            presets,
            calls: Group::default(),
            tasks: Group::default(),
            running: HashMap::new(),
            clients: Clients::default(),
            timers: Timers::default(),
        }
    }

    /// Starts to perform `effect`, without waiting; returns what only the event loop can do.
    pub(crate) fn perform(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::SetTimer(timer, wait) => self.timers.set(timer, Instant::now() + wait),
            Effect::ClearTimer(timer) => self.timers.forget(timer),
            Effect::StartLocal => self.start_local(),
            Effect::DetachNodes => self.local.iter().for_each(|local| local.keep()),
            Effect::Connect(addresses) => self.connect(&addresses),
            Effect::OpenProfile(name) => {
                let call = profiles::open(self.profiles.clone(), name);
                self.call(Subject::Profile, call);
            }
            Effect::KeepKey { profile, addresses, key } => {
                let call = profiles::keep(self.profiles.clone(), profile, addresses, key);
                self.call(Subject::Key, call);
            }
            Effect::ForgetKey(name) => {
                let call = profiles::forget(self.profiles.clone(), name);
                self.call(Subject::Key, call);
            }
            Effect::Cancel(id, request_id) => self.cancel(id, request_id),
            Effect::CloseStream { dataset } => self.drop_call(Subject::Stream(dataset)),
            Effect::DropTable => self.drop_call(Subject::Table),
            Effect::Save { path, text, what } => {
                let events = self.events.clone();
                self.tasks.spawn("save", async move {
                    let saved = export::save(&path, &text).await.map(|()| what);
                    events.send(Event::Saved(path, saved)).await.ok();
                });
            }
            Effect::DropExport => self.drop_call(Subject::Export),
            effect @ (Effect::Copy(_)
            | Effect::CaptureMouse(_)
            | Effect::Page(_)
            | Effect::Redraw
            | Effect::Suspend
            | Effect::Quit) => return Some(effect),
            effect @ (Effect::LoadNodes
            | Effect::LoadFunctions
            | Effect::FollowCluster
            | Effect::AddFunction { .. }
            | Effect::Execute(..)) => self.call_head(effect),
            effect @ (Effect::LoadPresets
            | Effect::SavePresets(_)
            | Effect::LoadUsage
            | Effect::FindDetachedNodes
            | Effect::AddNode(_)
            | Effect::StopProcess(_)
            | Effect::RestartProcess(_)) => self.use_machine(effect),
            Effect::Probe => self.probe(),
            Effect::CloseBundles => self.drop_call(Subject::Bundles),
            Effect::LoadTopics
            | Effect::LoadLatest { .. }
            | Effect::LoadResistant { .. }
            | Effect::LoadConfidence { .. }
            | Effect::LoadPastBundles { .. }
            | Effect::OpenBundles { .. }
            | Effect::LoadLeaderboard { .. }
            | Effect::LoadHistory { .. } => self.call_inference(&effect),
            effect => self.call_datasets(effect),
        }
        None
    }

    /// Starts the pager with `text`, without waiting for its end, which is [`Event::Paged`].
    pub(crate) fn start_pager(&self, text: String) {
        let events = self.events.clone();
        self.tasks.spawn("pager", async move {
            let paged = pager::show(&text).await;
            events.send(Event::Paged(paged)).await.ok();
        });
    }

    /// Drops every call, and waits until it has ended.
    pub(crate) async fn shutdown(self) {
        self.tasks.stop();
        self.calls.shutdown().await;
        self.tasks.shutdown().await;
    }

    fn start_local(&self) {
        let Some(local) = self.local.clone() else { return };
        let (events, local_events) = (self.events.clone(), self.local_events.clone());
        self.tasks.spawn("local stack", async move {
            if let Err(error) = local.start(local_events).await {
                let next = "look at the logs (5), or name services with --head";
                let failure = Failure::new(error.to_string(), chain(&*error.source), next);
                events.send(Event::LocalFailed(failure)).await.ok();
            }
        });
    }

    fn connect(&mut self, addresses: &Addresses) {
        self.calls.stop();
        self.calls = Group::default();
        self.running.clear();
        let Addresses { head, datasets, inference, api_key, head_token } = addresses;
        let open = |address: &Option<String>, key: Option<ApiKey>, what: &str| {
            let transport = Transport::new(address.as_ref()?, key);
            transport.map_err(|error| tracing::warn!(%error, "failed to use the {what}")).ok()
        };
        // A service gets its own secret alone.
        let head = open(head, None, "head").map(|head| head.with_token(head_token.clone()));
        self.clients = Clients {
            head: head.map(Functions::new),
            datasets: open(datasets, api_key.clone(), "dataset service").map(Datasets::new),
            inference: open(inference, api_key.clone(), "inference service").map(Inference::new),
        };
    }

    /// Stops waiting for a run, and asks the head to end it.
    fn cancel(&mut self, id: RunId, request_id: Option<String>) {
        self.drop_call(Subject::Run(id));
        if let (Some(head), Some(request_id)) = (self.clients.head.clone(), request_id) {
            self.calls.spawn("cancel a run", async move {
                if let Err(error) = head.cancel(&request_id).await {
                    tracing::warn!(%error, "failed to cancel run {request_id}; it continues on the head");
                }
            });
        }
    }

    fn drop_call(&mut self, subject: Subject) {
        if let Some(call) = self.running.remove(&subject) {
            call.cancel();
        }
    }

    /// Runs a call in place of an older one of the same subject, and sends its event.
    fn call(&mut self, subject: Subject, call: impl Future<Output = Event> + Send + 'static) {
        let events = self.events.clone();
        self.start(subject, async move {
            let event = call.await;
            events.send(event).await.ok();
        });
    }

    fn start(&mut self, subject: Subject, work: impl Future<Output = ()> + Send + 'static) {
        self.running.retain(|_, call| !call.is_cancelled());
        let token = CancellationToken::new();
        if let Some(older) = self.running.insert(subject, token.clone()) {
            older.cancel();
        }
        self.calls.spawn("call", async move {
            // Cancels itself when done, so that the table above drops it.
            let _done = token.clone().drop_guard();
            token.run_until_cancelled(work).await;
        });
    }

    /// Checks the health of each service whose address is known.
    fn probe(&mut self) {
        let Clients { head, datasets, inference } = self.clients.clone();
        if let Some(head) = head {
            let call = calls::probe(Service::Head, async move { head.health().await });
            self.call(Subject::Probe(Service::Head), call);
        }
        if let Some(datasets) = datasets {
            let call = calls::probe(Service::Data, async move { datasets.health().await });
            self.call(Subject::Probe(Service::Data), call);
        }
        if let Some(inference) = inference {
            let call = calls::probe(Service::Inference, async move { inference.health().await });
            self.call(Subject::Probe(Service::Inference), call);
        }
    }

    fn call_head(&mut self, effect: Effect) {
        let head = self.clients.head.clone();
        match effect {
            Effect::LoadNodes => self.call(Subject::Nodes, calls::nodes(head)),
            Effect::LoadFunctions => self.call(Subject::Functions, calls::functions(head)),
            Effect::FollowCluster => {
                self.start(Subject::Cluster, calls::cluster(head, self.events.clone()));
            }
            Effect::AddFunction { path } => {
                let call = machine::add_function(self.local.clone(), head, path);
                self.call(Subject::NewFunction, call);
            }
            Effect::Execute(id, order) => {
                let run = run::execute(self.clients.clone(), id, order, self.events.clone());
                self.call(Subject::Run(id), run);
            }
            _ => {}
        }
    }

    fn call_datasets(&mut self, effect: Effect) {
        let datasets = self.clients.datasets.clone();
        match effect {
            Effect::LoadDatasets { search } => {
                self.call(Subject::Datasets, calls::datasets(datasets, search));
            }
            Effect::LoadColumns { dataset } => {
                self.call(Subject::Columns(dataset), calls::columns(datasets, dataset));
            }
            Effect::LoadRows(query) => {
                let subject = Subject::Rows(query.dataset, query.resolution);
                self.call(subject, calls::rows(datasets, query));
            }
            Effect::FilterDatasets { field, value } => {
                self.call(Subject::Datasets, calls::filtered(datasets, field, value));
            }
            Effect::LoadTags { dataset } => {
                self.call(Subject::Tags, calls::tags(datasets, dataset));
            }
            Effect::LoadPinned { dataset } => {
                self.call(Subject::Pinned(dataset), calls::pinned(datasets, dataset));
            }
            Effect::LoadTable(query) => {
                self.call(Subject::Table, calls::table(datasets, query));
            }
            Effect::Export { query, path } => {
                let export = export::export(datasets, query, path, self.events.clone());
                self.start(Subject::Export, export);
            }
            Effect::AcquireTag { tag } => {
                self.call(Subject::Tag, calls::acquire(datasets, tag));
            }
            Effect::OpenStream { dataset } => {
                let stream = calls::stream(datasets, dataset, self.events.clone());
                self.start(Subject::Stream(dataset), stream);
            }
            _ => {}
        }
    }

    fn call_inference(&mut self, effect: &Effect) {
        let inference = self.clients.inference.clone();
        match *effect {
            Effect::LoadTopics => {
                self.call(Subject::Topics, calls::topics(inference));
            }
            Effect::LoadLatest { topic } => {
                self.call(Subject::Latest(topic), calls::latest(inference, topic));
            }
            Effect::LoadResistant { topic } => {
                self.call(Subject::Latest(topic), calls::resistant(inference, topic));
            }
            Effect::LoadConfidence { topic } => {
                self.call(Subject::Confidence(topic), calls::confidence(inference, topic));
            }
            Effect::LoadPastBundles { topic, limit } => {
                self.call(
                    Subject::PastBundles(topic),
                    calls::past_bundles(inference, topic, limit),
                );
            }
            Effect::OpenBundles { topic } => {
                let stream = calls::bundles(inference, topic, self.events.clone());
                self.start(Subject::Bundles, stream);
            }
            Effect::LoadLeaderboard { topic } => {
                self.call(Subject::Leaderboard(topic), calls::leaderboard(inference, topic));
            }
            Effect::LoadHistory { topic, limit } => {
                self.call(Subject::History(topic), calls::history(inference, topic, limit));
            }
            _ => {}
        }
    }
}

/// A failed call in words, for the state.
fn failure(what: &str, error: &ClientError) -> Failure {
    let why = match error {
        ClientError::Reach { address, .. } => format!("{address}: {}", error.why()),
        _ => error.why(),
    };
    Failure {
        what: what.to_owned(),
        why,
        next: error.next_step().to_owned(),
        status: error.status(),
        retry_after: error.retry_after(),
    }
}

/// The failure of a call to a service whose address is not known.
fn absent(what: &str) -> Failure {
    Failure::new(what.to_owned(), "no address of the service is known", "name one in the profile")
}

#[cfg(test)]
mod tests;
