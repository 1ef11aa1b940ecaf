//! The runner: does what is due, block by block, for one topic.
//!
//! Each topic has a task of its own, so a slow answer for one delays no other. Within a topic
//! things go one after another: an epoch is asked, then closed, and losses are learned in order.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use model::{dataset::DatasetId, topic::BlockHeight};
use task::{causes::chain, group::Group, traces};
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, Span, debug, info, info_span, warn};
use wire::inference::network::PredictorModelSettings;

use crate::{
    Inference, InferenceError, News, Sender,
    network::{
        addresses,
        epoch::{self, Care, Step, due},
        problems::Failing,
        submission::Payload,
        topic::{Predictor, Topic},
        upstream::{
            Cause, FlatRow, Job, Nodes, PeerOutput, Rows, Runs, lines, parse_prediction,
            truth_after,
        },
    },
    store::Input,
};

/// The longest a worker's whole answer may be. A prediction is a line.
const STDOUT_BYTES_MAX: usize = 64 * 1024;

/// How many models of a topic run at once: as many as the local stack has workers, and one to spare.
const MODELS_AT_ONCE: usize = 4;

/// How long the dataset service has for a few rows. It answers in milliseconds or not at all.
pub(crate) const ROWS_WITHIN: Duration = Duration::from_secs(5);

/// What is asked of a dataset most often, as the beginning of an error.
const READ: &str = "read rows of";

/// The shortest pause between two looks at the chain, so that a clock that stands still does not
/// keep a task busy.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Does what is due for one topic.
#[derive(Clone, derive_more::Debug)]
#[debug("Runner({})", topic.id)]
pub struct Runner {
    inference: Inference,
    topic: Arc<Topic>,
    runs: Arc<dyn Runs>,
    rows: Arc<dyn Rows>,
    /// The newest epoch whose workers answered.
    asked: Option<BlockHeight>,
    /// The first epoch whose workers could not be asked.
    first: Option<BlockHeight>,
}

/// Why a step of an epoch failed: what was to be done, and what went wrong.
#[derive(Debug, thiserror::Error)]
#[error("{task}")]
struct StepError {
    task: String,
    source: Option<Cause>,
}

impl StepError {
    fn new(task: impl Into<String>) -> Self {
        Self { task: task.into(), source: None }
    }

    fn caused_by<E: Into<Cause>>(task: impl Into<String>) -> impl FnOnce(E) -> Self {
        let task = task.into();
        |source| Self { task, source: Some(source.into()) }
    }
}

impl Runner {
    /// A runner for `topic`.
    pub fn new(
        inference: Inference,
        topic: Arc<Topic>,
        runs: Arc<dyn Runs>,
        rows: Arc<dyn Rows>,
    ) -> Self {
        Self { inference, topic, runs, rows, asked: None, first: None }
    }

    /// Starts a task in `group` for each topic of `inference`, and for each that is created later.
    pub fn start_all(
        inference: &Inference,
        runs: &Arc<dyn Runs>,
        rows: &Arc<dyn Rows>,
        group: &Group,
    ) {
        group.spawn("clock", follow_clock(inference.clone()));
        let (inference, tasks) = (inference.clone(), group.clone());
        let (runs, rows) = (Arc::clone(runs), Arc::clone(rows));
        let mut news = inference.news();
        group.spawn("topics", async move {
            let mut started = BTreeSet::new();
            loop {
                let News { n_changes, .. } = *news.borrow_and_update();
                if let Err(error) = inference.drop_leftovers().await {
                    warn!(cause = chain(&error), "failed to drop epochs of deleted topics");
                }
                for topic in inference.topics() {
                    if started.insert(topic.id) {
                        let (runs, rows) = (Arc::clone(&runs), Arc::clone(&rows));
                        let runner = Self::new(inference.clone(), topic, runs, rows);
                        tasks.spawn("topic", runner.run());
                    }
                }
                // A bundle changes no topic.
                if news.wait_for(|news| news.n_changes != n_changes).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Does what is due at each block, until its topic is deleted or it is dropped. Cancel-safe:
    /// what was not done is still due at the next start.
    async fn run(mut self) {
        while self.inference.topic(self.topic.id).is_some() {
            let height = self.inference.chain().height();
            self.tick().await;
            let next = height.saturating_add(1);
            let chain = self.inference.chain();
            sleep(chain.until(next).clamp(PAUSE_MIN, chain.block_time().max(PAUSE_MIN))).await;
        }
    }

    /// Does what is due now. A step that fails is logged, and due again at the next block.
    pub async fn tick(&mut self) {
        let id = self.topic.id;
        if let Some(topic) = self.inference.topic(id) {
            self.topic = topic;
        }
        let height = self.inference.chain().height();
        // What another service did is noticed when this one is about to do the same.
        let progress = match self.inference.recent_epochs(id).await {
            Ok(progress) => progress,
            Err(error) => return self.file_failed("see what is due", &error),
        };
        let Topic { timing, source, is_active, .. } = self.topic.as_ref();
        let block_time = self.inference.chain().block_time();
        let patience = epoch::patience(*timing, source.horizon, block_time);
        let care = Care { timing: *timing, patience, opens: *is_active };
        for step in due(care, &progress, height) {
            let (what, done) = match step {
                Step::Close { nonce } => {
                    let close = self.inference.close(id, nonce);
                    let closed = close.instrument(self.span("CloseEpoch", nonce)).await;
                    ("close an epoch", closed.map(drop))
                }
                Step::Learn { nonce, is_last_try } => {
                    let learn = self.learn(nonce, is_last_try);
                    ("learn from an epoch", learn.instrument(self.span("LearnEpoch", nonce)).await)
                }
                Step::Open { nonce, n_skipped } => {
                    let open = self.open(nonce, n_skipped);
                    ("open an epoch", open.instrument(self.span("OpenEpoch", nonce)).await)
                }
            };
            if let Err(error) = done {
                return self.file_failed(what, &error);
            }
        }
        let newest = match self.inference.recent_epochs(id).await {
            Ok(progress) => progress.open.last().copied(),
            Err(error) => return self.file_failed("see what is open", &error),
        };
        self.inference.works(id, Failing::File);
        let is_unasked = |nonce: &BlockHeight| {
            self.asked != Some(*nonce) && epoch::is_open(self.topic.timing, *nonce, height)
        };
        if let Some(nonce) = newest.filter(is_unasked) {
            match self.inference.begin_asking(&self.topic, nonce).await {
                Ok(true) => self.ask_and_log(nonce).await,
                Ok(false) => {}
                Err(error) => return self.file_failed("see who asks the workers", &error),
            }
        }
        self.find_dataset().await;
    }

    /// Keeps the number of the dataset that has the topic's name for it, as soon as the topic is there:
    /// another dataset may get the name later.
    async fn find_dataset(&mut self) {
        let id = self.topic.id;
        if self.topic.source.dataset_id.is_some() {
            return;
        }
        match self.dataset().await {
            Ok(_) => {
                if let Some(topic) = self.inference.topic(id) {
                    self.topic = topic;
                }
            }
            // An epoch that asks for it says so.
            Err(error) => {
                debug!(topic.id = %id, cause = chain(&error), "no dataset yet for topic {id}");
            }
        }
    }

    /// The span of a step of the topic's epoch `nonce`.
    fn span(&self, name: &'static str, nonce: BlockHeight) -> Span {
        let topic = self.topic.id;
        info_span!(target: traces::TARGET, "epoch step", otel.name = name, topic.id = %topic, nonce)
    }

    fn file_failed(&self, what: &'static str, error: &InferenceError) {
        let reason = format!("cannot {what}: {}", chain(error));
        self.inference.fails(self.topic.id, Failing::File, reason);
    }

    async fn open(&self, nonce: BlockHeight, n_skipped: u64) -> Result<(), InferenceError> {
        let id = self.topic.id;
        if n_skipped > 0 {
            warn!(topic.id = %id, nonce, n_skipped, "skipped {n_skipped} epochs of topic {id}");
        }
        if self.inference.open_epoch(id, nonce).await? {
            debug!(topic.id = %id, nonce, "opened nonce {nonce} of topic {id}");
        }
        Ok(())
    }

    /// Looks for the truth of `nonce`, and learns from it if it is there.
    async fn learn(&self, nonce: BlockHeight, is_last_try: bool) -> Result<(), InferenceError> {
        let id = self.topic.id;
        let outcome = match self.inference.input(id, nonce).await? {
            Some(input) => self.outcome(input).await,
            // It was never asked, so what it predicts was never said.
            None => return self.inference.learn(id, nonce, None).await.map(drop),
        };
        match outcome {
            Ok(Some(outcome)) => {
                self.inference.works(id, Failing::Truth);
                self.inference.learn(id, nonce, Some(outcome)).await.map(drop)
            }
            // Or the dataset went on without it: it will not come.
            Ok(None) if is_last_try || self.is_past(nonce).await => {
                let column = &self.topic.source.column;
                let reason = format!("no row with column {column} came in time for nonce {nonce}");
                self.inference.fails(id, Failing::Truth, reason);
                self.inference.learn(id, nonce, None).await.map(drop)
            }
            Ok(None) => Ok(()),
            Err(error) => {
                self.inference.fails(id, Failing::Truth, chain(&error));
                if is_last_try {
                    self.inference.learn(id, nonce, None).await.map(drop)
                } else {
                    Ok(())
                }
            }
        }
    }

    /// The value of the topic's column at its horizon after `input`: that of the first row there or
    /// after, since a row may be missing. None while there is no such row.
    async fn outcome(&self, input: Input) -> Result<Option<f64>, StepError> {
        let dataset = self.dataset().await?;
        let truth = truth_after(self.rows.as_ref(), dataset, &self.topic.source, input.at);
        self.in_time(READ, truth).await
    }

    /// Whether the dataset is well past the time in which the truth of `nonce` would have been.
    async fn is_past(&self, nonce: BlockHeight) -> bool {
        let source = &self.topic.source;
        let Ok(Some(input)) = self.inference.input(self.topic.id, nonce).await else {
            return false;
        };
        let ends = input.at + source.horizon + source.horizon;
        let Ok(dataset) = self.dataset().await else { return false };
        let newest = self.in_time(READ, self.rows.newest(dataset, 1)).await.unwrap_or_default();
        newest.iter().any(|row| row.timestamp > ends + source.horizon)
    }

    /// Reads the newest rows, has the workers predict from them, and hands in what they said.
    async fn ask(&self, nonce: BlockHeight) -> Result<(), StepError> {
        let source = &self.topic.source;
        let n_rows = self.topic.predictor.as_ref().map_or(1, |predictor| predictor.n_rows);
        let dataset = self.dataset().await?;
        let rows = self.in_time(READ, self.rows.newest(dataset, n_rows)).await?;
        let with_column = rows.iter().filter_map(|row| {
            Some(Input { at: row.timestamp, value: *row.values.get(&source.column)? })
        });
        let input = with_column.max_by_key(|input| input.at).ok_or_else(|| {
            let (column, dataset) = (&source.column, &source.dataset);
            StepError::new(format!("find a row with column {column} in dataset {dataset}"))
        })?;
        let kept = self.inference.put_input(self.topic.id, nonce, input).await;
        kept.map_err(StepError::caused_by("keep what was asked"))?;
        match &self.topic.predictor {
            Some(predictor) => self.predict(nonce, predictor, &rows).await,
            None => Ok(()),
        }
    }

    /// Runs the predictor: each of its models on one worker, a few at once, or without models on several
    /// workers. Models that fail are left out while others do not.
    async fn predict(
        &self,
        nonce: BlockHeight,
        predictor: &Predictor,
        rows: &[FlatRow],
    ) -> Result<(), StepError> {
        let job = Job {
            function: predictor.function.clone(),
            method: predictor.method.clone(),
            subgroup: predictor.subgroup.clone(),
            n_nodes: self.nodes(nonce, predictor),
            env: predictor.env.clone(),
            stdin: lines(rows),
        };
        let running: Vec<_> = if predictor.models.is_empty() {
            vec![self.run_and_take(nonce, job, None)]
        } else {
            let run = |model: &PredictorModelSettings| {
                let env = predictor.env_of(model);
                let job = Job { n_nodes: Nodes::Exactly(1), env, ..job.clone() };
                self.run_and_take(nonce, job, Some(model.name.clone()))
            };
            predictor.models.iter().map(run).collect()
        };
        let mut finished = stream::iter(running).buffer_unordered(MODELS_AT_ONCE);
        let (mut n_outputs, mut n_taken, mut failure) = (0, 0, None);
        while let Some(done) = finished.next().await {
            let (outputs, taken) = done.unwrap_or_else(|error| {
                failure = Some(error);
                (1, 0)
            });
            n_outputs += outputs;
            n_taken += taken;
        }
        let id = self.topic.id;
        if n_taken == 0 {
            return Err(failure.unwrap_or_else(|| {
                StepError::new(format!("find a fit prediction among {n_outputs} outputs"))
            }));
        }
        if n_taken == n_outputs {
            self.inference.works(id, Failing::Outputs);
        } else {
            let n_missing = n_outputs - n_taken;
            let cause = failure.as_ref().map(|error| chain(error));
            debug!(topic.id = %id, nonce, cause, "{n_missing} outputs of topic {id} are missing");
        }
        Ok(())
    }

    /// Runs `job`, and takes its outputs: for `model`, only the first. Returns how many there should be,
    /// and how many were taken.
    async fn run_and_take(
        &self,
        nonce: BlockHeight,
        job: Job,
        model: Option<String>,
    ) -> Result<(usize, usize), StepError> {
        let outputs = self.run_in_time(nonce, job).await?;
        let n_outputs = if model.is_some() { 1 } else { outputs.len() };
        let mut n_taken = 0;
        for output in outputs.iter().take(n_outputs) {
            n_taken += usize::from(self.take(nonce, output, model.as_deref()).await);
        }
        Ok((n_outputs, n_taken))
    }

    /// What `job` gives before the window of `nonce` closes.
    async fn run_in_time(
        &self,
        nonce: BlockHeight,
        job: Job,
    ) -> Result<Vec<PeerOutput>, StepError> {
        let closes_at = epoch::close_height(self.topic.timing, nonce);
        let left = self.inference.chain().until(closes_at);
        let late = |_| StepError::new("run the predictor before the window closed");
        let outputs = timeout(left, self.runs.run(job)).await.map_err(late)?;
        outputs.map_err(StepError::caused_by("run the predictor"))
    }

    /// Takes what one worker said, for `model` if it ran one. Whether it is an inference of `nonce`;
    /// what is not is logged.
    async fn take(&self, nonce: BlockHeight, output: &PeerOutput, model: Option<&str>) -> bool {
        match self.hand_in(nonce, output, model).await {
            Ok(()) => true,
            Err(error) => {
                let (id, peer) = (self.topic.id, &output.peer_id);
                let cause = chain(&error);
                let who =
                    model.map_or_else(|| peer.to_string(), |model| format!("{model} on {peer}"));
                self.inference.fails(id, Failing::Outputs, format!("left out {who}: {cause}"));
                false
            }
        }
    }

    /// How many workers to ask. In the second half of the window it is too late to wait for all of
    /// them: then any that are there do.
    fn nodes(&self, nonce: BlockHeight, predictor: &Predictor) -> Nodes {
        let half = self.topic.timing.worker_submission_window / 2;
        if self.inference.chain().height() > nonce.saturating_add(half) {
            Nodes::All
        } else {
            Nodes::Exactly(predictor.n_nodes)
        }
    }

    /// Takes what one worker said as its inference, or as that of `model`.
    async fn hand_in(
        &self,
        nonce: BlockHeight,
        output: &PeerOutput,
        model: Option<&str>,
    ) -> Result<(), StepError> {
        if output.exit_code != 0 {
            let exit_code = output.exit_code;
            return Err(StepError::new(format!("take an output with exit code {exit_code}")));
        }
        if output.stdout.len() > STDOUT_BYTES_MAX {
            let task = format!("take an output of more than {STDOUT_BYTES_MAX} bytes");
            return Err(StepError::new(task));
        }
        let values = parse_prediction(&output.stdout);
        let values = values.map_err(StepError::caused_by("read the output"))?;
        let payload = Payload { values, ..Payload::default() };
        let sender = Sender {
            topic: self.topic.id,
            nonce,
            worker: match model {
                Some(model) => addresses::of_model(model),
                None => addresses::of_peer(&output.peer_id),
            },
            name: Some(model.map_or_else(|| output.peer_id.to_string(), str::to_owned)),
        };
        match self.inference.submit(sender, payload).await {
            Err(InferenceError::Repeated { .. }) => Ok(()),
            taken => taken.map_err(StepError::caused_by("submit the prediction")),
        }
    }

    /// The dataset that the topic reads: found by its name once, and then kept by its number.
    async fn dataset(&self) -> Result<DatasetId, StepError> {
        let source = &self.topic.source;
        if let Some(dataset) = source.dataset_id {
            return Ok(dataset);
        }
        let name = source.dataset.clone();
        let dataset = self.in_time("find", self.rows.find(&name)).await?;
        let kept = self.inference.put_dataset(self.topic.id, &name, dataset).await;
        kept.map_err(StepError::caused_by("keep which dataset it is"))
    }

    async fn in_time<T>(
        &self,
        task: &'static str,
        answer: impl Future<Output = Result<T, Cause>> + Send,
    ) -> Result<T, StepError> {
        let task = format!("{task} dataset {}", self.topic.source.dataset);
        let late = |_| StepError::new(format!("{task} within {ROWS_WITHIN:?}"));
        let answer = timeout(ROWS_WITHIN, answer).await.map_err(late)?;
        answer.map_err(StepError::caused_by(task))
    }

    async fn ask_and_log(&mut self, nonce: BlockHeight) {
        let id = self.topic.id;
        let asked = self.ask(nonce).instrument(self.span("AskWorkers", nonce)).await;
        if let Err(error) = self.inference.end_asking(id, nonce, asked.is_ok()).await {
            self.file_failed("note that the workers were asked", &error);
        }
        match asked {
            Ok(()) => {
                self.asked = Some(nonce);
                self.inference.works(id, Failing::Inferring);
            }
            // The dataset and the workers may still be starting while the first epoch is open. Should
            // they not be there for the next one either, that is a failure.
            Err(error) if self.asked.is_none() && *self.first.get_or_insert(nonce) == nonce => {
                info!(topic.id = %id, cause = chain(&error), "topic {id} waits for what it predicts from");
            }
            Err(error) => self.inference.fails(id, Failing::Inferring, chain(&error)),
        }
    }
}

/// Looks at the machine's clock once in each block, until it is dropped.
async fn follow_clock(inference: Inference) {
    loop {
        if let Err(error) = inference.follow_clock().await {
            warn!(cause = chain(&error), "failed to keep how the clock was moved");
        }
        sleep(inference.chain().block_time().max(PAUSE_MIN)).await;
    }
}
