//! The runner of a topic, which executes the topic's due steps at each block.
//!
//! Each topic has its own task, so that slow responses for one topic do not delay other topics. The
//! steps of a topic are executed in sequence: the workers of an epoch run, the epoch closes, and finally
//! the network learns from it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use model::dataset::DatasetId;
use model::topic::BlockHeight;
use task::causes::chain;
use task::group::Group;
use task::traces;
use tokio::time::{sleep, timeout};
use tracing::{Instrument as _, Span, debug, info, info_span, warn};
use wire::inference::network::{PredictorModelSettings, PredictorSettings};

use crate::network::addresses;
use crate::network::epoch::{self, Care, EpochStep, due};
use crate::network::problems::Failing;
use crate::network::submission::Payload;
use crate::network::topic::{Topic, TopicSource};
use crate::network::upstream::{
    Cause, FlatRow, Job, PeerOutput, Rows, Runs, lines, newest_with_column, outcome_after,
    parse_prediction,
};
use crate::store::Input;
use crate::{Inference, InferenceError, News, Result, Sender};

/// Maximum size of a worker's output, in bytes. A prediction needs only a line.
const STDOUT_BYTES_MAX: usize = 64 * 1024;

/// Timeout of a request to the dataset service. A request for a few rows normally takes milliseconds.
pub(crate) const ROWS_WITHIN: Duration = Duration::from_secs(5);

/// Name of the failed task in errors of reading rows. The name of the dataset follows.
const READ: &str = "reading rows of";

/// Minimum pause between two ticks, so that the task does not spin if the chain's clock has stopped.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Task that executes the due steps of a topic.
#[derive(Clone, derive_more::Debug)]
#[debug("Runner({})", topic.id)]
pub struct Runner {
    inference: Inference,
    topic: Arc<Topic>,
    runs: Arc<dyn Runs>,
    rows: Arc<dyn Rows>,
    /// Latest epoch for which workers ran successfully.
    last_run: Option<BlockHeight>,
    /// First epoch for which the run of the workers failed, if no run had succeeded before.
    first: Option<BlockHeight>,
}

/// Error of a step, with the failed task and its cause.
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
    /// Creates a runner for `topic`.
    pub fn new(
        inference: Inference,
        topic: Arc<Topic>,
        runs: Arc<dyn Runs>,
        rows: Arc<dyn Rows>,
    ) -> Self {
        Self { inference, topic, runs, rows, last_run: None, first: None }
    }

    /// Starts a task in `group` for each topic of `inference`, including topics that are created later.
    pub fn start_all(
        inference: &Inference,
        runs: &Arc<dyn Runs>,
        rows: &Arc<dyn Rows>,
        group: &Group,
    ) {
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
                // Ignores new bundles and waits for new or changed topics.
                if news.wait_for(|news| news.n_changes != n_changes).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Executes the due steps at each block until the topic is deleted. Cancel-safe: a step that was
    /// not completed is due again after the next start.
    async fn run(mut self) {
        while self.inference.topic(self.topic.id).is_some() {
            let height = self.inference.chain().height();
            self.tick().await;
            let next = height.saturating_add(1);
            let chain = self.inference.chain();
            sleep(chain.until(next).clamp(PAUSE_MIN, chain.block_time().max(PAUSE_MIN))).await;
        }
    }

    /// Executes the due steps. A failed step is logged and retried at the next block.
    pub async fn tick(&mut self) {
        let id = self.topic.id;
        if let Some(topic) = self.inference.topic(id) {
            self.topic = topic;
        }
        let height = self.inference.chain().height();
        // The progress might lack the latest steps of other services. If this service then repeats such
        // a step, the store does nothing.
        let progress = match self.inference.recent_epochs(id).await {
            Ok(progress) => progress,
            Err(error) => return self.file_failed("epochs could not be read", &error),
        };
        let Topic { timing, source, is_active, .. } = self.topic.as_ref();
        let block_time = self.inference.chain().block_time();
        let patience = epoch::patience(*timing, source.horizon, block_time);
        let care = Care { timing: *timing, patience, opens: *is_active };
        for step in due(care, &progress, height) {
            let (what, done) = match step {
                EpochStep::Close { nonce } => {
                    let close = self.inference.close(id, nonce);
                    let closed = close.instrument(self.span("CloseEpoch", nonce)).await;
                    ("epoch could not be closed", closed.map(drop))
                }
                EpochStep::Learn { nonce, is_last_try } => {
                    let learn = self.learn(nonce, is_last_try);
                    (
                        "epoch could not be learned from",
                        learn.instrument(self.span("LearnEpoch", nonce)).await,
                    )
                }
                EpochStep::Open { nonce, n_skipped } => {
                    let open = self.open(nonce, n_skipped);
                    (
                        "epoch could not be opened",
                        open.instrument(self.span("OpenEpoch", nonce)).await,
                    )
                }
            };
            if let Err(error) = done {
                return self.file_failed(what, &error);
            }
        }
        let newest = match self.inference.recent_epochs(id).await {
            Ok(progress) => progress.open.last().copied(),
            Err(error) => return self.file_failed("epochs could not be read", &error),
        };
        self.inference.works(id, Failing::File);
        let is_pending = |nonce: &BlockHeight| {
            self.last_run != Some(*nonce) && epoch::is_open(self.topic.timing, *nonce, height)
        };
        if let Some(nonce) = newest.filter(is_pending) {
            match self.inference.reserve_run(&self.topic, nonce).await {
                Ok(true) => self.run_and_log(nonce).await,
                Ok(false) => {}
                Err(error) => self.file_failed("run of the workers could not be reserved", &error),
            }
        }
    }

    /// Returns the tracing span for a step of the epoch `nonce`.
    fn span(&self, name: &'static str, nonce: BlockHeight) -> Span {
        let topic = self.topic.id;
        info_span!(target: traces::TARGET, "epoch step", otel.name = name, topic.id = %topic, nonce)
    }

    fn file_failed(&self, what: &'static str, error: &InferenceError) {
        let reason = format!("{what}: {}", chain(error));
        self.inference.fails(self.topic.id, Failing::File, reason);
    }

    async fn open(&self, nonce: BlockHeight, n_skipped: u64) -> Result<()> {
        let id = self.topic.id;
        if n_skipped > 0 {
            warn!(topic.id = %id, nonce, n_skipped, "skipped {n_skipped} epochs of topic {id}");
        }
        if self.inference.open_epoch(id, nonce).await? {
            debug!(topic.id = %id, nonce, "opened nonce {nonce} of topic {id}");
        }
        Ok(())
    }

    /// Learns from the epoch `nonce` if its ground truth is known.
    async fn learn(&self, nonce: BlockHeight, is_last_try: bool) -> Result<()> {
        let id = self.topic.id;
        let outcome = match self.inference.input(id, nonce).await? {
            Some(input) => self.outcome(input).await,
            // Without an input there is no ground truth, since no workers ran in this epoch. The epoch
            // ends without learning.
            None => return self.inference.learn(id, nonce, None).await.map(drop),
        };
        match outcome {
            Ok(Some(outcome)) => {
                self.inference.works(id, Failing::Truth);
                self.inference.learn(id, nonce, Some(outcome)).await.map(drop)
            }
            // Gives up, since the dataset has rows long after the time of the ground truth, or has been
            // late for too long.
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

    /// Returns the result of the epoch with this `input`, or `None` if it is not known yet.
    async fn outcome(&self, input: Input) -> Result<Option<f64>, StepError> {
        let dataset = self.dataset().await?;
        let truth = outcome_after(self.rows.as_ref(), dataset, &self.topic, input);
        self.in_time(READ, truth).await
    }

    /// Returns true if the dataset's latest row is more than three horizons after the input of the epoch
    /// `nonce`, so its ground truth cannot be expected any more.
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

    /// Reads the latest rows, stores the input of the epoch, runs the workers, and submits their
    /// predictions.
    async fn run_workers(&self, nonce: BlockHeight) -> Result<(), StepError> {
        let n_rows = self.topic.predictor.as_ref().and_then(|predictor| predictor.n_rows);
        let dataset = self.dataset().await?;
        let (input, rows) = self.latest_rows(dataset, n_rows.unwrap_or(1)).await?;
        let kept = self.inference.put_input(self.topic.id, nonce, input).await;
        kept.map_err(StepError::caused_by("input of the epoch could not be stored"))?;
        match &self.topic.predictor {
            Some(predictor) => self.predict(nonce, predictor, &rows).await,
            None => Ok(()),
        }
    }

    /// Returns the latest rows of `dataset` with the topic's column, latest first, at most `n_rows`, and
    /// the input that the first of them contains. Fails if the dataset has rows so long after them that
    /// the ground truth of this input cannot be expected any more.
    async fn latest_rows(
        &self,
        dataset: DatasetId,
        n_rows: u32,
    ) -> Result<(Input, Vec<FlatRow>), StepError> {
        let TopicSource { column, horizon, dataset: name, .. } = &self.topic.source;
        let read = newest_with_column(self.rows.as_ref(), dataset, column, n_rows);
        let mut rows = self.in_time(READ, read).await?;
        rows.sort_by_key(|row| Reverse(row.timestamp));
        let (n_read, newest) = (rows.len(), rows.first().map(|row| row.timestamp));
        rows.retain(|row| row.values.contains_key(column));
        rows.truncate(usize::try_from(n_rows).unwrap_or(usize::MAX));
        let input = rows
            .first()
            .and_then(|row| Some(Input { at: row.timestamp, value: *row.values.get(column)? }));
        let Some(input) = input else {
            return Err(StepError::new(match n_read {
                0 => format!("dataset {name} has no rows yet"),
                n => format!("none of the latest {n} rows of dataset {name} has column {column}"),
            }));
        };
        // Other columns can have rows that are ahead of the clock.
        let newest = newest.map(|newest| newest.min(self.inference.chain().now()));
        if newest.is_some_and(|newest| newest > input.at + *horizon + *horizon) {
            return Err(StepError::new(format!(
                "latest row of dataset {name} with column {column} is from {}, more than two \
                 horizons before the latest row",
                input.at
            )));
        }
        Ok((input, rows))
    }

    /// Runs the predictor and submits its outputs. If the predictor has models, each of them runs on
    /// one worker, a few at a time. Otherwise it runs on several workers. Returns an error only if no
    /// output could be submitted.
    async fn predict(
        &self,
        nonce: BlockHeight,
        predictor: &PredictorSettings,
        rows: &[FlatRow],
    ) -> Result<(), StepError> {
        let job = Job {
            function: predictor.function.clone(),
            method: predictor.method.clone(),
            subgroup: predictor.subgroup.as_deref().and_then(|name| name.parse().ok()),
            n_nodes: self.nodes(nonce, predictor),
            env: predictor.env.clone(),
            stdin: lines(rows),
        };
        let running: Vec<_> = if predictor.models.is_empty() {
            vec![self.run_and_take(nonce, job, None)]
        } else {
            let run = |model: &PredictorModelSettings| {
                let mut env = predictor.env.clone();
                env.extend(model.env.clone());
                let job = Job { n_nodes: Some(1), env, ..job.clone() };
                self.run_and_take(nonce, job, Some(model.name.clone()))
            };
            predictor.models.iter().map(run).collect()
        };
        // Limits concurrent executions to one more than the workers of the local stack.
        let mut finished = stream::iter(running).buffer_unordered(4);
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
                StepError::new(format!("no valid prediction among {n_outputs} outputs"))
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

    /// Runs `job`, at the latest until the window of `nonce` closes, and submits its outputs, or only the
    /// first output if the job runs `model`. Returns the number of expected outputs and the number of
    /// submitted outputs.
    async fn run_and_take(
        &self,
        nonce: BlockHeight,
        job: Job,
        model: Option<String>,
    ) -> Result<(usize, usize), StepError> {
        let closes_at = epoch::close_height(self.topic.timing, nonce);
        let left = self.inference.chain().until(closes_at);
        let late = |_| StepError::new("predictor did not finish before the window closed");
        let outputs = timeout(left, self.runs.run(job)).await.map_err(late)?;
        let outputs = outputs.map_err(StepError::caused_by("predictor failed"))?;
        let n_outputs = if model.is_some() { 1 } else { outputs.len() };
        let mut n_taken = 0;
        for output in outputs.iter().take(n_outputs) {
            n_taken += usize::from(self.take(nonce, output, model.as_deref()).await);
        }
        Ok((n_outputs, n_taken))
    }

    /// Submits the output of a worker. If the output is invalid or refused, records a problem and
    /// returns false.
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

    /// Returns the number of workers to run, or `None` for all available workers. In the second half of
    /// the window, it is always `None`, since it is too late to wait for the configured number.
    fn nodes(&self, nonce: BlockHeight, predictor: &PredictorSettings) -> Option<u32> {
        let half = self.topic.timing.worker_submission_window / 2;
        let is_late = self.inference.chain().height() > nonce.saturating_add(half);
        predictor.n_nodes.filter(|_| !is_late)
    }

    /// Submits the output of a worker as an inference of `model`, or of the worker itself if `model` is
    /// `None`.
    async fn hand_in(
        &self,
        nonce: BlockHeight,
        output: &PeerOutput,
        model: Option<&str>,
    ) -> Result<(), StepError> {
        if output.exit_code != 0 {
            let exit_code = output.exit_code;
            return Err(StepError::new(format!("exit code {exit_code}")));
        }
        if output.stdout.len() > STDOUT_BYTES_MAX {
            let task = format!("output exceeds {STDOUT_BYTES_MAX} bytes");
            return Err(StepError::new(task));
        }
        let values = parse_prediction(&output.stdout);
        let values = values.map_err(StepError::caused_by("invalid output"))?;
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
            Err(InferenceError::Repeated(_)) => Ok(()),
            taken => taken.map_err(StepError::caused_by("prediction was rejected")),
        }
    }

    /// Returns the id of the topic's dataset. The first call finds the id by the dataset's name and
    /// stores it, so that the topic keeps its dataset if another dataset gets this name.
    async fn dataset(&self) -> Result<DatasetId, StepError> {
        let source = &self.topic.source;
        if let Some(dataset) = source.dataset_id {
            return Ok(dataset);
        }
        let name = source.dataset.clone();
        let dataset = self.in_time("looking up", self.rows.find(&name)).await?;
        let kept = self.inference.put_dataset(self.topic.id, &name, dataset).await;
        kept.map_err(StepError::caused_by("id of the dataset could not be stored"))
    }

    async fn in_time<T>(
        &self,
        task: &'static str,
        answer: impl Future<Output = Result<T, Cause>> + Send,
    ) -> Result<T, StepError> {
        let task = format!("{task} dataset {}", self.topic.source.dataset);
        let late = |_| StepError::new(format!("{task} timed out after {ROWS_WITHIN:?}"));
        let answer = timeout(ROWS_WITHIN, answer).await.map_err(late)?;
        answer.map_err(StepError::caused_by(format!("{task} failed")))
    }

    async fn run_and_log(&mut self, nonce: BlockHeight) {
        let id = self.topic.id;
        let outcome = self.run_workers(nonce).instrument(self.span("AskWorkers", nonce)).await;
        if let Err(error) = self.inference.end_run(id, nonce, outcome.is_ok()).await {
            self.file_failed("run of the workers could not be recorded", &error);
        }
        match outcome {
            Ok(()) => {
                self.last_run = Some(nonce);
                self.inference.works(id, Failing::Inferring);
            }
            // When the runner starts, the dataset and the workers might still be starting, too. A
            // failure in the first epoch is therefore a problem only if the next epoch fails, too.
            Err(error) if self.last_run.is_none() && *self.first.get_or_insert(nonce) == nonce => {
                info!(topic.id = %id, cause = chain(&error), "topic {id} is waiting for its dataset and its workers");
            }
            Err(error) => self.inference.fails(id, Failing::Inferring, chain(&error)),
        }
    }
}
