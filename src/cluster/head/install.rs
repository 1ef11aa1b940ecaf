//! Installing and evicting functions on workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use content::{FUNCTION_PROTOCOL, Function, InstallError, Requester};
use futures::{StreamExt as _, stream};
use model::function::FunctionId;
use model::node::{GENERAL_TOPIC, PeerId, Subgroup};
use task::causes::chain;
use task::tally::Tally;
use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};
use uuid::Uuid;
use wire::functions::{EvictResponse, EvictedBody, InstallResponse};

use super::inbox::shorten_reason;
use super::node_registry::Access;
use super::report::list_names;
use super::{Client, ClientShare, Head, admit};
use crate::message::{
    Code, EvictFunctions, EvictFunctionsResponse, InstallFunction, InstallFunctionResponse,
    Message, OFFER_PROTOCOL, WORK_PROTOCOL, json,
};
use crate::metrics;
use crate::network::PublishError;
use crate::peers::{FunctionPeers, Peer};

/// Installations and evictions in progress.
#[derive(Debug)]
pub(super) struct Installs {
    /// Simultaneous requests to install.
    shares: Tally<Client>,
    uploads: Arc<Semaphore>,
    answers: broadcast::Sender<(PeerId, InstallFunctionResponse)>,
    /// Reports from workers about evicted functions.
    reports: broadcast::Sender<(PeerId, EvictFunctionsResponse)>,
}

impl Default for Installs {
    fn default() -> Self {
        Self {
            shares: Tally::default(),
            // Limits simultaneous uploads. Each can need 260 MiB of memory.
            uploads: Arc::new(Semaphore::new(2)),
            // If a burst of responses overflows the channel, a request can miss its response. The request
            // then completes when the head itself has the function.
            answers: broadcast::Sender::new(256),
            // A worker whose report is lost in the same way counts as silent.
            reports: broadcast::Sender::new(256),
        }
    }
}

impl Installs {
    /// Counts an installation of `client`, unless too many are in progress. A quarter is reserved for the
    /// operator, who can use all of the rest, too.
    fn admit(&self, client: &Client, is_operator: bool) -> Option<ClientShare> {
        if is_operator {
            self.shares.add(client, |n_own, n_others| n_own + n_others < 32)
        } else {
            admit(&self.shares, client, 24).ok()
        }
    }
}

impl Head {
    /// Installs a function for `client` on the nodes that listen to `subgroup`, or on all nodes, and
    /// fetches it to this head. Returns as soon as a node has it, all nodes have failed, or 10 s have
    /// passed. The nodes continue in any case. A manifest that this head has installed is not read again.
    ///
    /// # Errors
    /// Returns [`PublishError`] if the message was not published. If no peer listens, this is no error:
    /// only the head fetches the function then.
    pub async fn install(
        &self,
        client: &Client,
        function: InstallFunction,
        subgroup: Option<&Subgroup>,
    ) -> Result<InstallResponse, PublishError> {
        let Some(share) = self.0.installs.admit(client, function.pinned) else {
            let message = "too many functions are being installed; try again later".to_owned();
            return Ok(outcome(&Code::UNAVAILABLE, message));
        };
        // The same time limit as in b7s version 1 for sending the message.
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut answers = self.0.installs.answers.subscribe();
        let topic = subgroup.map_or(GENERAL_TOPIC, Subgroup::as_str);
        let mut pending: BTreeSet<PeerId> =
            match self.publish_install(function.clone(), topic).await {
                Ok(()) => self.0.context.peers.listening(topic).into_iter().collect(),
                Err(PublishError::NoListeners) => BTreeSet::new(),
                Err(error) => return Err(error),
            };
        let cid = function.cid.clone();
        let id = FunctionId::parse_any(&cid).ok().filter(|id| !id.is_cid());
        let known = id.and_then(|id| self.0.context.functions.get(id));
        let message_if_known = known.map_or_else(String::new, |function| {
            format!(
                "already installed as {}, so its address was not read: to install it again, evict and \
                 remove it first",
                function.id
            )
        });
        let mut own = Some(self.fetch_and_announce(function, topic.to_owned(), share));
        let mut reasons = Vec::new();
        while own.is_some() || !pending.is_empty() {
            select! {
                got = async { own.as_mut()?.await.ok() }, if own.is_some() => {
                    own = None;
                    match got {
                        Some(Ok(_)) => return Ok(outcome(&Code::OK, message_if_known)),
                        Some(Err(error)) => reasons.push(format!("the head: {}", chain(&error))),
                        None => reasons.push("the head is stopping".to_owned()),
                    }
                }
                answer = answers.recv() => {
                    let Ok((peer, answer)) = answer else { continue };
                    if answer.cid != cid || !pending.remove(&peer) {
                        continue;
                    }
                    if answer.code == Code::ACCEPTED {
                        return Ok(outcome(&Code::OK, message_if_known));
                    }
                    reasons.push(format!("{peer} refused: {}", shorten_reason(&answer.message)));
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

    /// Handles a worker's response to an installation.
    pub(crate) fn note_installed(&self, peer: PeerId, answer: InstallFunctionResponse) {
        // Sending fails if no installation is in progress.
        drop(self.0.installs.answers.send((peer, answer)));
    }

    /// Returns a permit for one more upload, unless too many are in progress.
    pub(crate) fn upload_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.installs.uploads).try_acquire_owned().ok()
    }

    /// Fetches a function in the background. If the head did not have it before, the message is
    /// published again for nodes that can get the function only from this head.
    fn fetch_and_announce(
        &self,
        function: InstallFunction,
        topic: String,
        share: ClientShare,
    ) -> oneshot::Receiver<Result<Function, InstallError>> {
        let (done, outcome) = oneshot::channel();
        let head = self.clone();
        self.0.context.group.spawn("install a function", async move {
            let id = FunctionId::parse_any(&function.cid);
            let is_known = id.is_ok_and(|id| head.0.context.functions.get(id).is_some());
            let peers = head.0.context.peers.speaking(FUNCTION_PROTOCOL);
            let peers = FunctionPeers { network: &head.0.context.network, peers: &peers };
            let (cid, address) = (&function.cid, &function.manifest_url);
            let requester = if function.pinned {
                Requester::Operator
            } else {
                // Clients that are not known to be the operator share the quota of a single peer, for
                // which this head's own id is used.
                Requester::Peer(head.0.context.network.peer_id().clone())
            };
            let got = head.0.context.functions.install(cid, address, &requester, &peers).await;
            match &got {
                Ok(_) if !is_known => {
                    if let Err(error) = head.publish_install(function, &topic).await {
                        debug!(topic, %error, "cannot announce a function again");
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let reason = chain(error);
                    warn!(function = function.cid, reason, "cannot get a function");
                }
            }
            // The receiver is gone if the response was already sent.
            drop(done.send(got));
            drop(share);
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
    /// Has all connected workers remove function `id`, or all functions that are not pinned if `id` is
    /// `None`. Returns the report of each worker, or that it sent none within 30 s. Workers obey only
    /// heads that their operators named. This head ignores workers without access, so they are not
    /// asked.
    pub async fn evict(&self, id: Option<FunctionId>) -> EvictResponse {
        let mut reports = self.0.installs.reports.subscribe();
        let request_id = Uuid::new_v4().to_string();
        let cid = id.map(|id| id.to_string()).unwrap_or_default();
        let known = id.and_then(|id| self.0.context.functions.get(id));
        let content_id = known.map(|known| known.id.to_string()).filter(|known| *known != cid);
        let message = EvictFunctions { request_id: request_id.clone(), cid, content_id };
        let message = json(&Message::EvictFunctions(message));
        let is_worker =
            |(_, peer): &(PeerId, Peer)| peer.is_connected && peer.topics.contains(GENERAL_TOPIC);
        let workers = self.0.context.peers.list().into_iter().filter(is_worker);
        let workers = workers.map(|(id, _)| id).filter(|id| self.0.context.peers.is_worker(id));
        let (mut pending, mut reported) = (BTreeSet::new(), BTreeMap::new());
        for peer in workers {
            let access = self.0.registry.access(&peer);
            let why = match access.reason() {
                Some(why) if access != Access::Cordoned => format!("is {why}"),
                _ if self.0.context.peers.speaks(&peer, OFFER_PROTOCOL) => {
                    pending.insert(peer);
                    continue;
                }
                _ => "is a b7s node, which does not evict".to_owned(),
            };
            reported.insert(peer, EvictedBody::failed(&why));
        }
        // Removing ten thousand functions from a slow disk takes most of this time.
        let deadline = Instant::now() + Duration::from_secs(30);
        let sending = stream::iter(pending.clone()).for_each_concurrent(64, |peer| {
            let (network, message) = (&self.0.context.network, &message);
            async move {
                if let Err(error) = network.tell(&peer, WORK_PROTOCOL, message).await {
                    debug!(%peer, %error, "a request to evict did not reach its worker");
                }
            }
        });
        let mut sending = std::pin::pin!(sending);
        let mut is_sent = false;
        while !pending.is_empty() {
            select! {
                () = &mut sending, if !is_sent => is_sent = true,
                report = reports.recv() => {
                    let Ok((peer, report)) = report else { continue };
                    if report.request_id == request_id && pending.remove(&peer) {
                        reported.insert(peer, evicted(report));
                    }
                }
                () = sleep_until(deadline) => break,
            }
        }
        let silent = || EvictedBody::failed("did not report in time");
        reported.extend(pending.into_iter().map(|peer| (peer, silent())));
        let nodes = reported.into_iter();
        let nodes = nodes.map(|(peer, body)| EvictedBody { peer_id: peer.to_string(), ..body });
        EvictResponse { nodes: nodes.collect() }
    }

    /// Handles a worker's report about evicted functions.
    pub(crate) fn note_evicted(&self, peer: PeerId, report: EvictFunctionsResponse) {
        // Sending fails if no eviction is in progress.
        drop(self.0.installs.reports.send((peer, report)));
    }
}

fn evicted(report: EvictFunctionsResponse) -> EvictedBody {
    let EvictFunctionsResponse { code, functions, bytes, left, message, .. } = report;
    let message = if code == Code::OK { String::new() } else { shorten_reason(&message) };
    EvictedBody { peer_id: String::new(), functions, bytes, left, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_can_have_all_installations_and_a_client_leaves_a_part_to_others() {
        let installs = Installs::default();
        let client = Client::Peer("12D3KooWpeer1".parse().unwrap());
        let count = |client: &Client, is_operator: bool| {
            std::iter::from_fn(|| installs.admit(client, is_operator)).collect::<Vec<_>>().len()
        };
        assert_eq!((count(&Client::Program, true), count(&client, false)), (32, 12));
        let _held: Vec<_> = std::iter::from_fn(|| installs.admit(&client, false)).collect();
        assert_eq!(count(&Client::Program, true), 20);
    }
}
