//! Performs effects: calls the services through the client, and sends events back.

mod machine;
mod run;
mod services;

use std::{collections::HashMap, future::Future, path::PathBuf, sync::Arc};

use client::{
    datasets::Datasets, error::ClientError, functions::Functions, inference::Inference,
    transport::Transport,
};
use model::key::ApiKey;
use task::group::Group;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    event::{Effect, Event, Timer},
    local::{Addresses, LocalEvent, LocalStack},
    profiles::Profiles,
    state::{loadable::Failure, runs::RunId, services::HeadId},
};

/// Clients of the services whose addresses are known.
#[derive(Debug, Clone, Default)]
struct Clients {
    /// By [`HeadId::idx`]; none for an address that cannot be used.
    heads: Vec<Option<Functions>>,
    datasets: Option<Datasets>,
    inference: Option<Inference>,
}

impl Clients {
    /// The client of `head`. Effects are of the connection in use: its place says which it is.
    fn head(&self, head: HeadId) -> Option<Functions> {
        self.heads.get(head.idx)?.clone()
    }
}

/// The timers that are set, one of each kind.
#[derive(Debug, Default)]
pub(crate) struct Timers(HashMap<Timer, Instant>);

impl Timers {
    /// Sets `timer`, in place of an earlier setting.
    fn set(&mut self, timer: Timer, due: Instant) {
        self.0.insert(timer, due);
    }

    fn clear(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    /// Time at which the next timer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Removes and returns the timers that are due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Timer> {
        self.0.extract_if(|_, at| *at <= now).map(|(timer, _)| timer).collect()
    }
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
    /// The calls under way, each by its subject, such as `rows 3 5m`. A new call replaces an older one
    /// of the same subject, so that there are never more calls than subjects on the screen.
    running: HashMap<String, CancellationToken>,
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

    /// Starts to perform `effect`, without waiting. Returns what only the event loop can do.
    pub(crate) fn perform(&mut self, effect: Effect) -> Option<Effect> {
        let effect = self.call_head(effect)?;
        let effect = self.call_datasets(effect)?;
        let effect = self.call_inference(effect)?;
        let effect = self.use_machine(effect)?;
        match effect {
            Effect::SetTimer(timer, wait) => self.timers.set(timer, Instant::now() + wait),
            Effect::ClearTimer(timer) => self.timers.clear(timer),
            Effect::Connect(addresses) => self.connect(&addresses),
            Effect::Cancel(id, at_head) => self.cancel(id, at_head),
            Effect::Probe(heads) => self.probe(heads),
            effect => return Some(effect),
        }
        None
    }

    /// Drops every call, and waits until it has ended.
    pub(crate) async fn shutdown(self) {
        self.tasks.stop();
        self.calls.shutdown().await;
        self.tasks.shutdown().await;
    }

    fn connect(&mut self, addresses: &Addresses) {
        self.calls.stop();
        self.calls = Group::default();
        self.running.clear();
        let Addresses { heads, datasets, inference, api_key, head_token } = addresses;
        let open = |address: &str, key: Option<ApiKey>, what: &str| {
            let transport = Transport::new(address, key);
            transport.map_err(|error| tracing::warn!(%error, "failed to use the {what}")).ok()
        };
        // A service gets its own secret alone.
        let head = |address: &String| {
            let head = open(address, None, "head")?.with_token(head_token.clone());
            Some(Functions::new(head))
        };
        let with_key =
            |address: &Option<String>, what| open(address.as_ref()?, api_key.clone(), what);
        self.clients = Clients {
            heads: heads.iter().map(head).collect(),
            datasets: with_key(datasets, "dataset service").map(Datasets::new),
            inference: with_key(inference, "inference service").map(Inference::new),
        };
    }

    /// Stops waiting for a run, and asks its head to end it.
    fn cancel(&mut self, id: RunId, at_head: Option<(HeadId, String)>) {
        self.drop_call(&format!("run {}", id.0));
        let Some((head, request_id)) = at_head else { return };
        if let Some(head) = self.clients.head(head) {
            self.calls.spawn("cancel a run", async move {
                if let Err(error) = head.cancel(&request_id).await {
                    tracing::warn!(%error, "failed to cancel run {request_id}; it continues on the head");
                }
            });
        }
    }

    fn drop_call(&mut self, subject: &str) {
        if let Some(call) = self.running.remove(subject) {
            call.cancel();
        }
    }

    /// Runs `work` beside all others, whatever the screen is connected to, and sends its event.
    fn report(
        &self,
        name: &'static str,
        work: impl Future<Output = Option<Event>> + Send + 'static,
    ) {
        let events = self.events.clone();
        self.tasks.spawn(name, async move {
            if let Some(event) = work.await {
                events.send(event).await.ok();
            }
        });
    }

    /// Runs a call in place of an older one of the same subject, and sends its event.
    fn call(
        &mut self,
        subject: impl Into<String>,
        call: impl Future<Output: Into<Event>> + Send + 'static,
    ) {
        let events = self.events.clone();
        self.start(subject, async move {
            let event = call.await.into();
            events.send(event).await.ok();
        });
    }

    fn start(
        &mut self,
        subject: impl Into<String>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.running.retain(|_, call| !call.is_cancelled());
        let token = CancellationToken::new();
        if let Some(older) = self.running.insert(subject.into(), token.clone()) {
            older.cancel();
        }
        self.calls.spawn("call", async move {
            // Cancels itself when done, so that the table above drops it.
            let _done = token.clone().drop_guard();
            token.run_until_cancelled(work).await;
        });
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
        is_timeout: matches!(error, ClientError::TimedOut { .. }),
    }
}

/// The failure of a call to a service whose address is not known.
fn absent(what: &str) -> Failure {
    Failure::new(what.to_owned(), "no address of the service is known", "name one in the profile")
}

#[cfg(test)]
mod tests;
