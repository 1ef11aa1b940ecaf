//! Compiling functions in the background before their first run, and the set of compiled ones.
//!
//! A function is queued when it was installed or fetched, and at start if its code is not on disk.
//! A first run in the meantime waits for the same compilation. If too many functions are queued,
//! further ones are compiled by their first run.
//!
//! Any peer can cause compilations that take minutes. Functions of unnamed peers are therefore
//! compiled one at a time, separately from the others.

use std::{collections::BTreeSet, sync::Arc};

use content::Requester;
use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use task::{
    causes::chain,
    tally::{Counted, Tally},
};
use tokio::sync::Semaphore;
use tracing::{debug, info};

use super::Worker;

/// Maximum number of queued functions of one author, to leave room for others.
const QUEUED_OF_AUTHOR_MAX: usize = 64;

/// Number of queued functions above which those of unnamed peers are not added.
const QUEUED_MAX: usize = 256;

/// Compiled functions, and the queue of others.
#[derive(Debug)]
pub(super) struct Compilations {
    /// Permits for functions of named peers. One that takes minutes does not delay the others.
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
    /// Has function `id` of `author` compiled in the background.
    pub(super) fn compile_soon(&self, author: &PeerId, id: FunctionId) {
        let Compilations { named, unnamed, queued, .. } = &self.0.compilations;
        let is_named = matches!(self.requester(author), Requester::Named(_));
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
        // As many as an offer contains.
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
            Ok(true) => {
                info!(function = %id, "function is compiled and ready");
                self.note_compiled(id);
            }
            Ok(false) => {}
            Err(error) => info!(function = %id, reason = chain(&error), "function is not compiled"),
        }
    }

    /// Records that function `id` is compiled.
    pub(super) fn note_compiled(&self, id: FunctionId) {
        if self.0.compilations.ready.lock().insert(id) {
            // The offer changes.
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
