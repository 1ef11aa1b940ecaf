//! Functions of a worker: fetching, installing and evicting them, and compiling them in the background.
//!
//! A function is queued for compilation after it was installed or fetched. Stored functions are queued
//! again at start, in case their compiled code is not on disk. A run that starts before the compilation
//! has completed waits for it. If too many functions are queued, further functions are compiled by their
//! first run.
//!
//! Any peer can cause compilations that take minutes. Functions of unnamed peers are therefore compiled
//! one at a time, separately from functions of named peers.

use std::collections::BTreeSet;
use std::sync::Arc;

use content::{FUNCTION_PROTOCOL, Function, FunctionsError, Requester, Usage};
use model::function::FunctionId;
use model::node::PeerId;
use parking_lot::Mutex;
use task::causes::chain;
use task::tally::{Counted, Tally};
use task::traces;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, info, info_span, warn};

use super::{WorkRefusal, Worker};
use crate::message::{
    Code, EvictFunctions, EvictFunctionsResponse, InstallFunction, InstallFunctionResponse, Message,
};
use crate::metrics;
use crate::network::Standing;
use crate::peers::FunctionPeers;

/// Maximum number of queued functions of one author, so that there is room for other authors.
const QUEUED_OF_AUTHOR_MAX: usize = 64;

/// If this number of functions is queued, functions of unnamed peers are not added.
const QUEUED_MAX: usize = 256;

/// Compiled functions, and the queue of functions to compile.
#[derive(Debug)]
pub(super) struct Compilations {
    /// Permits for compiling functions of named peers. There are several permits, so that a compilation
    /// of minutes does not delay other compilations.
    named: Arc<Semaphore>,
    unnamed: Arc<Semaphore>,
    queued: Tally<Arc<str>>,
    ready: Mutex<BTreeSet<FunctionId>>,
}

impl Default for Compilations {
    fn default() -> Self {
        Self {
            named: Arc::new(Semaphore::new(2)),
            unnamed: Arc::new(Semaphore::new(1)),
            queued: Tally::default(),
            ready: Mutex::default(),
        }
    }
}

impl Worker {
    /// Fetches function `id` unless this worker holds it.
    pub(super) async fn ensure_fetched(
        &self,
        author: &PeerId,
        id: FunctionId,
    ) -> Result<(), WorkRefusal> {
        if self.0.context.functions.get(id).is_some() {
            return Ok(());
        }
        let sources = self.sources(author, id);
        let began = Instant::now();
        let peers = FunctionPeers { network: &self.0.context.network, peers: &sources };
        let requester = self.requester(author);
        let span = info_span!(target: traces::TARGET, "FunctionInstall", function.cid = %id);
        let obtaining = self.0.context.functions.obtain(id, &requester, &peers);
        let obtained = obtaining.instrument(span).await;
        self.0.context.metrics.observe(metrics::INSTALL_TIME, &[], began.elapsed());
        self.count_installed(obtained.as_ref().ok());
        self.compile_soon(author, obtained?.id);
        Ok(())
    }

    /// Returns the party for which a function is stored when `peer` requests it.
    pub(super) fn requester(&self, peer: &PeerId) -> Requester {
        self.standing(peer).requester(peer)
    }

    /// Records that function `id` ran for `head`, so that it is evicted later than functions that never
    /// ran.
    pub(super) fn note_run(&self, head: &PeerId, id: FunctionId) {
        let functions = &self.0.context.functions;
        let Some(noted) = functions.note_use(id, &self.requester(head), true) else { return };
        let functions = functions.clone();
        self.0.context.group.spawn("save the use of a function", async move {
            if let Err(error) = functions.save(noted).await {
                warn!(function = %id, reason = chain(&error), "cannot save the use of a function");
            }
        });
    }

    /// Counts an attempt to install a function.
    fn count_installed(&self, obtained: Option<&Function>) {
        let metrics = &self.0.context.metrics;
        metrics.add(metrics::INSTALLED, &[]);
        match obtained {
            Some(function) => {
                metrics.add(metrics::INSTALLED_OK, &[]);
                metrics.add_n(metrics::INSTALLED_BYTES, &[], function.size_bytes);
            }
            None => metrics.add(metrics::INSTALLED_ERR, &[]),
        }
    }

    /// Returns the peers to request function `id` from: `author` first, then peers that offer the
    /// function, then the rest.
    fn sources(&self, author: &PeerId, id: FunctionId) -> Vec<PeerId> {
        let peers = &self.0.context.peers;
        let speaking = peers.speaking(FUNCTION_PROTOCOL);
        // The author is asked even if its protocols are unknown, since it might have just connected.
        let is_source = speaking.contains(author) || peers.is_silent(author);
        let mut sources: Vec<PeerId> = is_source.then(|| author.clone()).into_iter().collect();
        let holding = peers.holding(id).into_iter().filter(|peer| speaking.contains(peer));
        for peer in holding.chain(speaking.iter().cloned()) {
            if !sources.contains(&peer) {
                sources.push(peer);
            }
        }
        sources
    }

    /// Installs a function for `author` and sends the outcome. A b7s worker sends no response after a
    /// failure. Cancel-safe.
    pub async fn install(&self, author: PeerId, install: InstallFunction) {
        let mut peers = self.0.context.peers.speaking(FUNCTION_PROTOCOL);
        // The author is asked first, since it most likely has the function.
        peers.sort_by_key(|peer| *peer != author);
        let peers = FunctionPeers { network: &self.0.context.network, peers: &peers };
        let (cid, address) = (&install.cid, &install.manifest_url);
        let requester = match self.requester(&author) {
            Requester::Named(_) if install.pinned => Requester::Operator,
            requester => requester,
        };
        let got = self.0.context.functions.install(cid, address, &requester, &peers).await;
        self.count_installed(got.as_ref().ok());
        let (code, message) = match got.map_err(WorkRefusal::from) {
            Ok(function) => {
                self.compile_soon(&author, function.id);
                info!(function = install.cid, peer = %author, "installed a function");
                // Response of b7s workers after success.
                (Code::ACCEPTED, "installed".to_owned())
            }
            Err(refusal) => {
                let reason = refusal.public_text();
                warn!(function = install.cid, peer = %author, reason, "cannot install a function");
                (refusal.code(), reason)
            }
        };
        let response = InstallFunctionResponse { code, message, cid: install.cid };
        self.tell(&author, &Message::InstallFunctionResponse(response)).await;
    }

    /// Removes functions for a head that the operator of this worker named, and sends the head their
    /// number. Refuses other heads.
    pub async fn evict(&self, head: PeerId, request: EvictFunctions) {
        let request_id = request.request_id.clone();
        let is_named = self.standing(&head) == Standing::Named;
        let left = self.0.context.functions.usage().functions;
        let report =
            EvictFunctionsResponse { request_id, left, ..EvictFunctionsResponse::default() };
        let report = if is_named {
            match self.evicted(&request).await {
                Ok(Usage { functions, bytes }) => {
                    info!(peer = %head, functions, bytes, "evicted functions");
                    let left = self.0.context.functions.usage().functions;
                    EvictFunctionsResponse { code: Code::OK, functions, bytes, left, ..report }
                }
                Err(error) => {
                    warn!(peer = %head, reason = chain(&error), "cannot evict functions");
                    let message = "failed to evict: see its log".to_owned();
                    EvictFunctionsResponse { code: Code::ERROR, message, ..report }
                }
            }
        } else {
            // The head shows this text after the worker's id.
            let message = "does not obey this head: see --obey and --boot-nodes".to_owned();
            EvictFunctionsResponse { code: Code::FORBIDDEN, message, ..report }
        };
        self.tell(&head, &Message::EvictFunctionsResponse(report)).await;
    }

    async fn evicted(&self, request: &EvictFunctions) -> Result<Usage, FunctionsError> {
        let functions = &self.0.context.functions;
        if request.cid.is_empty() {
            return functions.remove_unpinned().await;
        }
        let mut removed = Usage::default();
        for id in std::iter::once(&request.cid).chain(&request.content_id) {
            let function = FunctionId::parse_any(id).ok().and_then(|id| functions.get(id));
            let Some(function) = function else { continue };
            if functions.remove(function.id).await? {
                removed.functions += 1;
                removed.bytes += function.kept_bytes;
            }
        }
        Ok(removed)
    }
}

impl Worker {
    /// Has function `id` of `author` compiled in the background.
    pub(super) fn compile_soon(&self, author: &PeerId, id: FunctionId) {
        let Compilations { named, unnamed, queued, .. } = &self.0.compilations;
        let is_named = self.standing(author) == Standing::Named;
        let author: Arc<str> = author.as_str().into();
        let place = queued.add(&author, |n_own, n_others| {
            n_own < QUEUED_OF_AUTHOR_MAX && (is_named || n_own + n_others < QUEUED_MAX)
        });
        if place.is_some() {
            self.spawn_compile(if is_named { named } else { unnamed }, id, author, place);
        } else {
            debug!(function = %id, "a function is compiled by its first run: too many are queued");
        }
    }

    /// Has the stored functions compiled in the background.
    pub(super) fn compile_kept(&self) {
        // Only as many functions as fit in an offer.
        for id in self.0.context.functions.foremost(256) {
            self.spawn_compile(&self.0.compilations.named, id, Arc::default(), None);
        }
    }

    fn spawn_compile(
        &self,
        permits: &Arc<Semaphore>,
        id: FunctionId,
        author: Arc<str>,
        place: Option<Counted<Arc<str>>>,
    ) {
        let (worker, permits) = (self.clone(), Arc::clone(permits));
        self.0.context.group.spawn("compile", async move {
            if let Ok(_permit) = permits.acquire().await {
                worker.compile(id, &author).await;
            }
            drop(place);
        });
    }

    async fn compile(&self, id: FunctionId, author: &Arc<str>) {
        let Some(function) = self.0.context.functions.get(id) else { return };
        match self.0.executor.compile_ahead(&function, author).await {
            Ok(true) => self.note_compiled(id),
            Ok(false) => {}
            Err(error) => info!(function = %id, reason = chain(&error), "function is not compiled"),
        }
    }

    /// Records that function `id` has been compiled.
    pub(super) fn note_compiled(&self, id: FunctionId) {
        if self.0.compilations.ready.lock().insert(id) {
            info!(function = %id, "function is compiled and ready");
            // Offers name the compiled functions, so a new offer must be sent.
            self.0.changed.notify_one();
        }
    }

    /// Returns the stored functions that are compiled.
    pub(crate) fn ready(&self) -> BTreeSet<FunctionId> {
        let functions = &self.0.context.functions;
        let mut ready = self.0.compilations.ready.lock();
        ready.retain(|id| functions.get(*id).is_some());
        ready.clone()
    }
}
