//! Installing: a head tells nodes of a function, and gets it itself, so that it can give it to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use content::{FUNCTION_PROTOCOL, Function, InstallError, Requester};
use futures::{StreamExt as _, stream};
use model::{
    function::FunctionId,
    node::{GENERAL_TOPIC, PeerId, Subgroup},
};
use task::causes::chain;
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot},
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};
use uuid::Uuid;
use wire::functions::{EvictResponse, EvictedBody, InstallResponse};

use super::{Head, inbox::reason, report::list_names};
use crate::{
    message::{
        Code, EvictFunctions, EvictFunctionsResponse, InstallFunction, InstallFunctionResponse,
        Message, OFFER_PROTOCOL, WORK_PROTOCOL, json,
    },
    metrics,
    network::PublishError,
    peers::{FunctionPeers, Peer},
};

/// Installations and evictions in progress.
#[derive(Debug)]
pub(super) struct Installs {
    permits: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    answers: broadcast::Sender<(PeerId, InstallFunctionResponse)>,
    /// Reports of workers on functions that they evicted.
    reports: broadcast::Sender<(PeerId, EvictFunctionsResponse)>,
}

impl Default for Installs {
    fn default() -> Self {
        Self {
            // Simultaneous requests to install. More are refused.
            permits: Arc::new(Semaphore::new(32)),
            // Simultaneous uploads. Each may take 260 MiB of memory. More are refused.
            uploads: Arc::new(Semaphore::new(2)),
            // Past these, the oldest are lost, possibly the one that a request waits for. The request then
            // ends when the head itself has the function.
            answers: broadcast::Sender::new(256),
            // Past these, the oldest are lost, and their workers count as silent.
            reports: broadcast::Sender::new(256),
        }
    }
}

impl Head {
    /// Has the nodes that listen to `subgroup`, or all, install a function, and gets it itself. Returns
    /// as soon as one of them has it, none can get it, or 10 s have passed; the nodes go on.
    ///
    /// # Errors
    /// [`PublishError`] if the nodes were not told; that nobody listens is none.
    pub async fn install(
        &self,
        function: InstallFunction,
        subgroup: Option<&Subgroup>,
    ) -> Result<InstallResponse, PublishError> {
        let Ok(permit) = Arc::clone(&self.0.installs.permits).try_acquire_owned() else {
            let message = "too many functions are being installed; try again later".to_owned();
            return Ok(outcome(&Code::UNAVAILABLE, message));
        };
        // Version 1 of b7s takes as long to send the message.
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut answers = self.0.installs.answers.subscribe();
        let topic = subgroup.map_or(GENERAL_TOPIC, Subgroup::as_str);
        let published = self.publish_install(function.clone(), topic).await;
        let mut waited: BTreeSet<PeerId> = match published {
            Ok(()) => self.0.context.peers.listening(topic).into_iter().collect(),
            Err(PublishError::Unheard) => BTreeSet::new(),
            Err(error) => return Err(error),
        };
        let cid = function.cid.clone();
        let mut own = Some(self.fetch_and_announce(function, topic.to_owned(), permit));
        let mut reasons = Vec::new();
        while own.is_some() || !waited.is_empty() {
            select! {
                got = async { own.as_mut()?.await.ok() }, if own.is_some() => {
                    own = None;
                    match got {
                        Some(Ok(_)) => return Ok(outcome(&Code::OK, String::new())),
                        Some(Err(error)) => reasons.push(format!("the head failed to {}", chain(&error))),
                        None => reasons.push("the head is stopping".to_owned()),
                    }
                }
                answer = answers.recv() => {
                    let Ok((peer, answer)) = answer else { continue };
                    if answer.cid != cid || !waited.remove(&peer) {
                        continue;
                    }
                    if answer.code == Code::ACCEPTED {
                        return Ok(outcome(&Code::OK, String::new()));
                    }
                    reasons.push(format!("{peer} refused: {}", reason(&answer.message)));
                }
                () = sleep_until(deadline) => break,
            }
        }
        let (code, what) = if own.is_some() {
            (Code::TIMEOUT, "the function is still being fetched")
        } else {
            (Code::ERROR, "no node has the function")
        };
        let message = match reasons.as_slice() {
            [] => what.to_owned(),
            reasons => format!("{what}: {}", list_names(reasons)),
        };
        Ok(outcome(&code, message))
    }

    /// Takes in a worker's answer to an installation.
    pub(crate) fn note_installed(&self, peer: PeerId, answer: InstallFunctionResponse) {
        // Nobody may be waiting.
        drop(self.0.installs.answers.send((peer, answer)));
    }

    /// Lets one more function be uploaded, unless too many are.
    pub(crate) fn upload_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.installs.uploads).try_acquire_owned().ok()
    }

    /// Gets a function in a task of its own. Where the head did not have it, nodes that can get it from
    /// nobody else get the message again when it has.
    fn fetch_and_announce(
        &self,
        function: InstallFunction,
        topic: String,
        permit: OwnedSemaphorePermit,
    ) -> oneshot::Receiver<Result<Function, InstallError>> {
        let (done, outcome) = oneshot::channel();
        let head = self.clone();
        self.0.context.group.spawn("install a function", async move {
            let id = FunctionId::parse_any(&function.cid);
            let was_here = id.is_ok_and(|id| head.0.context.functions.get(id).is_some());
            let peers = head.0.context.peers.speaking(FUNCTION_PROTOCOL);
            let peers = FunctionPeers { network: &head.0.context.network, peers: &peers };
            let (cid, address) = (&function.cid, &function.manifest_url);
            let requester = if function.pinned {
                Requester::Operator
            } else {
                // All clients that do not prove to be the operator are one.
                Requester::Peer(head.0.context.network.peer_id().clone())
            };
            let got = head.0.context.functions.install(cid, address, &requester, &peers).await;
            match &got {
                Ok(_) if !was_here => {
                    if let Err(error) = head.publish_install(function, &topic).await {
                        debug!(topic, %error, "could not tell nodes of a function again");
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    warn!(
                        function = function.cid,
                        reason = chain(error),
                        "could not get a function"
                    );
                }
            }
            // The request may have been answered.
            drop(done.send(got));
            drop(permit);
        });
        outcome
    }

    async fn publish_install(
        &self,
        function: InstallFunction,
        topic: &str,
    ) -> Result<(), PublishError> {
        self.0.context.metrics.add(metrics::PUBLISHED, &["MsgInstallFunction", topic]);
        self.0.context.network.publish(topic, json(&Message::InstallFunction(function))).await
    }
}

fn outcome(code: &Code, message: String) -> InstallResponse {
    InstallResponse { code: code.as_str().to_owned(), message }
}

impl Head {
    /// Has all connected workers remove function `id`, pinned or not, or all functions that are not
    /// pinned if there is none. Returns what each worker reports within 30 s. Workers remove functions
    /// only for heads that were named to them.
    pub async fn evict(&self, id: Option<FunctionId>) -> EvictResponse {
        let mut reports = self.0.installs.reports.subscribe();
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
        // A slow disk takes most of this time to remove ten thousand functions.
        let deadline = Instant::now() + Duration::from_secs(30);
        let telling = stream::iter(waited.clone()).for_each_concurrent(64, |peer| {
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
        drop(self.0.installs.reports.send((peer, report)));
    }
}

fn evicted(report: EvictFunctionsResponse) -> EvictedBody {
    let EvictFunctionsResponse { code, functions, bytes, left, message, .. } = report;
    let message = if code == Code::OK { String::new() } else { reason(&message) };
    EvictedBody { peer_id: String::new(), functions, bytes, left, message }
}
