//! Evicting: a head's operator has workers remove functions from their stores.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use model::{
    function::FunctionId,
    node::{GENERAL_TOPIC, PeerId},
};
use tokio::{
    select,
    sync::broadcast,
    time::{Duration, Instant, sleep_until},
};
use tracing::debug;
use uuid::Uuid;
use wire::functions::{EvictResponse, EvictedBody};

use super::{Head, answer::reason};
use crate::{
    message::{
        Code, EvictFunctions, EvictFunctionsResponse, Message, OFFER_PROTOCOL, WORK_PROTOCOL, json,
    },
    peers::Peer,
};

/// Time in which workers have to report. A full store of ten thousand functions takes a slow disk
/// most of it.
const EVICT_WITHIN: Duration = Duration::from_secs(30);

/// Reports of workers that wait to be looked at. The oldest go first, and their workers then count
/// as silent.
const REPORTS_CAPACITY: usize = 256;

/// Workers that are told at once.
const TOLD_AT_ONCE: usize = 64;

/// Requests to evict that are in progress.
#[derive(Debug)]
pub(super) struct Evictions {
    reports: broadcast::Sender<(PeerId, EvictFunctionsResponse)>,
}

impl Default for Evictions {
    fn default() -> Self {
        Self { reports: broadcast::Sender::new(REPORTS_CAPACITY) }
    }
}

impl Head {
    /// Has all connected workers remove function `id`, pinned or not, or all functions that are not
    /// pinned if there is none. Returns what each worker reports within 30 s. Workers remove functions
    /// only for heads that were named to them.
    pub async fn evict(&self, id: Option<FunctionId>) -> EvictResponse {
        let mut reports = self.0.evictions.reports.subscribe();
        let request_id = Uuid::new_v4().to_string();
        let cid = id.map(|id| id.to_string()).unwrap_or_default();
        let message = EvictFunctions { request_id: request_id.clone(), cid };
        let message = json(&Message::EvictFunctions(message));
        let is_worker =
            |(_, peer): &(PeerId, Peer)| peer.is_connected && peer.topics.contains(GENERAL_TOPIC);
        let workers = self.0.context.peers.list().into_iter().filter(is_worker);
        let workers = workers.map(|(id, _)| id).filter(|id| self.0.context.peers.is_worker(id));
        let (mut waited, others): (BTreeSet<PeerId>, BTreeSet<PeerId>) =
            workers.partition(|id| self.0.context.peers.speaks(id, OFFER_PROTOCOL));
        let missing = |peer: PeerId, why: &str| (peer, EvictedBody::failed(why));
        let mut found: BTreeMap<PeerId, EvictedBody> = others
            .into_iter()
            .map(|peer| missing(peer, "is a node of b7s, which evicts nothing"))
            .collect();
        let deadline = Instant::now() + EVICT_WITHIN;
        let telling = stream::iter(waited.clone()).for_each_concurrent(TOLD_AT_ONCE, |peer| {
            let (network, message) = (&self.0.context.network, &message);
            async move {
                if let Err(error) = network.tell(&peer, WORK_PROTOCOL, message).await {
                    debug!(%peer, %error, "a request to evict did not reach its worker");
                }
            }
        });
        let mut telling = std::pin::pin!(telling);
        let mut is_told = false;
        while !waited.is_empty() {
            select! {
                () = &mut telling, if !is_told => is_told = true,
                report = reports.recv() => {
                    let Ok((peer, report)) = report else { continue };
                    if report.request_id == request_id && waited.remove(&peer) {
                        found.insert(peer, evicted(report));
                    }
                }
                () = sleep_until(deadline) => break,
            }
        }
        found.extend(waited.into_iter().map(|peer| missing(peer, "did not report in time")));
        let nodes = found.into_iter();
        let nodes = nodes.map(|(peer, body)| EvictedBody { peer_id: peer.to_string(), ..body });
        EvictResponse { nodes: nodes.collect() }
    }

    /// Takes in what a worker evicted.
    pub(crate) fn note_evicted(&self, peer: PeerId, report: EvictFunctionsResponse) {
        // Nobody may be waiting.
        drop(self.0.evictions.reports.send((peer, report)));
    }
}

fn evicted(report: EvictFunctionsResponse) -> EvictedBody {
    let EvictFunctionsResponse { code, functions, bytes, left, message, .. } = report;
    let message = if code == Code::OK { String::new() } else { reason(&message) };
    EvictedBody { peer_id: String::new(), functions, bytes, left, message }
}
