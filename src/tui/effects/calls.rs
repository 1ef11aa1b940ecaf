//! What calls to all services share: asking one, checking its health, forwarding its events.

use client::error::ClientError;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{Clients, Runner, absent, failure};
use crate::{
    event::Event,
    state::{
        loadable::Failure,
        services::{HeadId, PROBE_WITHIN, Service},
    },
};

/// Events of a stream that wait for the event loop. When it is full the stream waits, then its server.
pub(super) const NEWS_MAX: usize = 16;

/// Calls `service`, if its address is known. `what` completes "failed to".
pub(super) async fn ask<S, T, F>(
    service: Option<S>,
    what: &str,
    call: impl FnOnce(S) -> F + Send,
) -> Result<T, Failure>
where
    S: Send,
    T: Send,
    F: Future<Output = Result<T, ClientError>> + Send,
{
    match service {
        Some(service) => call(service).await.map_err(|error| failure(what, &error)),
        None => Err(absent(what)),
    }
}

/// Waits for `call`, a health check, for at most [`PROBE_WITHIN`].
pub(super) async fn probe(
    service: Service,
    call: impl Future<Output = Result<(), ClientError>> + Send,
) -> Event {
    let what = match service {
        Service::Head(_) => "reach the head",
        Service::Data => "reach the dataset service",
        Service::Inference => "reach the inference service",
    };
    let started = Instant::now();
    let answer = timeout_at(started + PROBE_WITHIN, call).await.ok();
    let answer = answer.map(|result| result.map_err(|error| failure(what, &error)));
    Event::Probed { service, answer, latency: started.elapsed() }
}

/// Sends each event of `inbox` as `convert` makes it, until there is no receiver.
pub(super) async fn forward<T>(
    mut inbox: mpsc::Receiver<T>,
    events: mpsc::Sender<Event>,
    convert: impl Fn(T) -> Event,
) {
    while let Some(event) = inbox.recv().await {
        if events.send(convert(event)).await.is_err() {
            return;
        }
    }
}

impl Runner {
    /// Checks the health of `heads`, and of each other service whose address is known.
    pub(super) fn probe(&mut self, heads: Vec<HeadId>) {
        let Clients { datasets, inference, .. } = self.clients.clone();
        for id in heads {
            if let Some(head) = self.clients.head(id) {
                let call = probe(Service::Head(id), async move { head.health().await });
                self.call(format!("probe head {}", id.idx), call);
            }
        }
        if let Some(datasets) = datasets {
            let call = probe(Service::Data, async move { datasets.health().await });
            self.call("probe data", call);
        }
        if let Some(inference) = inference {
            let call = probe(Service::Inference, async move { inference.health().await });
            self.call("probe inference", call);
        }
    }
}
