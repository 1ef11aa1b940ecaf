//! Compiling functions before their first run, in the background, and which of them are compiled.
//!
//! A function is queued when it was installed or fetched, and at start if its code is on no disk. A
//! first run that comes meanwhile waits for the same compilation. One that does not fit in the queue
//! is compiled by its first run.
//!
//! Any peer can have functions fetched whose compilation takes minutes. So those of peers that were not
//! named to this node have a queue of their own, and are compiled one at a time.

use std::{collections::BTreeSet, sync::Arc};

use content::Requester;
use futures::{Stream, StreamExt as _, future::join, stream};
use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use task::{
    causes::chain,
    tally::{Counted, Tally},
};
use tokio::sync::mpsc;
use tracing::{debug, info};

use super::Worker;

/// Functions that wait to be compiled in each queue. A burst of installations fits.
const QUEUED_MAX: usize = 256;

/// Of these, functions of one author: others find room.
const QUEUED_OF_AUTHOR_MAX: usize = 64;

/// Functions of named peers compiled at once in the background: one that takes minutes does not hold
/// up the others.
const AT_ONCE_MAX: usize = 2;

/// Functions that are looked at when the worker starts, as many as an offer names.
const AT_START_MAX: usize = 256;

/// A function to be compiled, and who had it fetched.
#[derive(Debug)]
pub(super) struct Job {
    function: FunctionId,
    author: Arc<str>,
    _place: Option<Counted<Arc<str>>>,
}

/// The functions that are compiled, and those that wait for it.
#[derive(Debug)]
pub(super) struct Compilations {
    named: mpsc::Sender<Job>,
    unnamed: mpsc::Sender<Job>,
    places: Tally<Arc<str>>,
    ready: Mutex<BTreeSet<FunctionId>>,
}

/// The jobs that will be queued.
#[derive(Debug)]
pub(super) struct QueuedJobs {
    /// Of peers that were named to this node.
    named: mpsc::Receiver<Job>,
    /// Of all others.
    unnamed: mpsc::Receiver<Job>,
}

impl Compilations {
    /// Returns the empty set and the jobs that will be queued.
    pub(super) fn new() -> (Self, QueuedJobs) {
        let (named, queued_named) = mpsc::channel(QUEUED_MAX);
        let (unnamed, queued_unnamed) = mpsc::channel(QUEUED_MAX);
        let queued = QueuedJobs { named: queued_named, unnamed: queued_unnamed };
        (Self { named, unnamed, places: Tally::default(), ready: Mutex::default() }, queued)
    }
}

/// Returns the jobs of a queue as they come.
fn jobs(queued: mpsc::Receiver<Job>) -> impl Stream<Item = Job> {
    stream::unfold(queued, |mut queued| async { Some((queued.recv().await?, queued)) })
}

impl Worker {
    /// Has function `id`, which `author` had installed or fetched, compiled in the background.
    pub(super) fn compile_soon(&self, author: &PeerId, id: FunctionId) {
        let compilations = &self.0.compilations;
        let is_named = matches!(self.requester(author), Requester::Named(_));
        let queue = if is_named { &compilations.named } else { &compilations.unnamed };
        let author: Arc<str> = author.as_str().into();
        let place = compilations.places.add(&author, |n_own, _| n_own < QUEUED_OF_AUTHOR_MAX);
        let is_queued = place.is_some_and(|place| {
            let job = Job { function: id, author, _place: Some(place) };
            queue.try_send(job).is_ok()
        });
        if !is_queued {
            debug!(function = %id, "a function is compiled by its first run: too many are queued");
        }
    }

    /// Compiles what is kept and what is queued, until it is dropped.
    pub(super) async fn compile_queued(self, queued: QueuedJobs) {
        // Those that the offer names.
        let kept = self.0.context.functions.foremost(AT_START_MAX).into_iter();
        let kept = kept.map(|function| Job { function, author: Arc::default(), _place: None });
        let named = stream::select(stream::iter(kept), jobs(queued.named));
        let compile = |job| self.clone().compile(job);
        let named = named.for_each_concurrent(AT_ONCE_MAX, compile);
        let unnamed = jobs(queued.unnamed).for_each(compile);
        join(named, unnamed).await;
    }

    async fn compile(self, job: Job) {
        let Some(function) = self.0.context.functions.get(job.function) else { return };
        match self.0.executor.compile_ahead(&function, &job.author).await {
            Ok(true) => {
                info!(function = %function.id, "function is compiled and ready");
                self.note_compiled(function.id);
            }
            Ok(false) => {}
            Err(error) => {
                info!(function = %function.id, reason = chain(&error), "function is not compiled");
            }
        }
    }

    /// Records that function `id` is compiled.
    pub(super) fn note_compiled(&self, id: FunctionId) {
        if self.0.compilations.ready.lock().insert(id) {
            // The offer changes.
            self.0.changed.notify_one();
        }
    }

    /// The functions that are kept and compiled.
    pub(crate) fn ready(&self) -> BTreeSet<FunctionId> {
        let functions = &self.0.context.functions;
        let mut ready = self.0.compilations.ready.lock();
        ready.retain(|id| functions.get(*id).is_some());
        ready.clone()
    }
}
