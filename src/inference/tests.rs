//! Whole epochs with a manual clock, a fake cluster and a fake dataset.

mod age;
mod several_services;
mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use model::dataset::DatasetId;
use model::node::PeerId;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::math::pair_values::FullBundle;
use crate::network::addresses;
use crate::network::runner::Runner;
use crate::network::topic::settings;
use crate::network::upstream::{
    Cause, DatasetColumn, Described, FlatRow, Job, PeerOutput, Rows, Runs,
};

/// Time at which the clock of a test starts.
const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// Fake cluster of two workers. One returns the latest value, the other a value that is higher by ten, or
/// both return fixed probabilities of labels. If `answers` is not empty, its last element is removed and
/// returned instead.
#[derive(Default)]
struct FakeRuns {
    answers: Mutex<Vec<Result<Vec<PeerOutput>, String>>>,
    n_runs: AtomicUsize,
    jobs: Mutex<Vec<Job>>,
}

/// Fake dataset with one row per second of its own time. The values start at 50 and increase slightly.
struct FakeRows {
    clock: Clock,
    column: &'static str,
    /// Every row whose index is a multiple of this number has the column.
    every: i64,
    /// Seconds of the dataset's time per second of the clock.
    speed: u32,
    /// Number of times that the dataset was looked up by its name. Each time the result is a different
    /// id.
    n_found: AtomicUsize,
    /// Id of the first dataset from which rows were read.
    first_read: OnceLock<DatasetId>,
}

fn peer(name: &str) -> PeerId {
    format!("12D3KooW{name}").parse().unwrap()
}

fn output(name: &str, stdout: &str) -> PeerOutput {
    PeerOutput { peer_id: peer(name), stdout: stdout.to_owned(), exit_code: 0 }
}

/// Returns the values of `column` in a predictor's input, oldest first.
fn read(stdin: &str, column: &str) -> Vec<f64> {
    let value = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(row["timestamp"].is_string());
        row[column].as_f64().unwrap()
    };
    stdin.lines().map(value).collect()
}

#[async_trait]
impl Runs for FakeRuns {
    async fn run(&self, job: Job) -> Result<Vec<PeerOutput>, Cause> {
        self.n_runs.fetch_add(1, Ordering::SeqCst);
        self.jobs.lock().push(job.clone());
        let answer = self.answers.lock().pop();
        if let Some(answer) = answer {
            return answer.map_err(Into::into);
        }
        if job.env.contains_key("LABELS") {
            let sure = r#"{"values":{"up":"0.8","down":"0.1","flat":"0.1"}}"#;
            let unsure = r#"{"values":{"up":"0.2","down":"0.3","flat":"0.5"}}"#;
            return Ok(vec![output("good", sure), output("bad", unsure)]);
        }
        let newest = *read(&job.stdin, "load_percent").last().unwrap();
        let line = |value: f64| format!("{{\"value\":\"{value}\"}}\n");
        Ok(vec![output("good", &line(newest)), output("bad", &line(newest + 10.0))])
    }
}

impl FakeRows {
    fn now(&self) -> i64 {
        let elapsed = self.clock.now().since(START).as_secs();
        i64::try_from(elapsed).unwrap() * i64::from(self.speed)
    }

    /// Returns the row `idx`. The index is negative for rows before [`START`].
    fn row(&self, idx: i64) -> FlatRow {
        let value = 50.0 + f64::from(i32::try_from(idx).unwrap()) / 1000.0;
        let column = if idx % self.every == 0 { self.column } else { "other" };
        FlatRow {
            timestamp: Timestamp::from_seconds(START.seconds() + idx),
            values: BTreeMap::from([(column.to_owned(), value)]),
        }
    }
}

#[async_trait]
impl Rows for FakeRows {
    async fn find(&self, _: &str) -> Result<DatasetId, Cause> {
        let id = self.n_found.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(DatasetId::new(i64::try_from(id).unwrap()).unwrap())
    }

    async fn describe(&self, name: &str, _: Option<DatasetId>) -> Result<Described, Cause> {
        let columns = [(self.column, true), ("close", true), ("comment", false)];
        let columns =
            columns.map(|(name, is_numeric)| DatasetColumn { name: name.to_owned(), is_numeric });
        match name {
            "nowhere" => Ok(Described::Missing { others: vec!["machine_cpu".to_owned()] }),
            _ => Ok(Described::Found { id: DatasetId::new(1).unwrap(), columns: columns.into() }),
        }
    }

    async fn newest(&self, dataset: DatasetId, limit: u32) -> Result<Vec<FlatRow>, Cause> {
        let first = *self.first_read.get_or_init(|| dataset);
        assert_eq!(dataset, first, "all services read the same dataset");
        let newest = self.now();
        Ok((newest - i64::from(limit) + 1..=newest).rev().map(|idx| self.row(idx)).collect())
    }

    async fn rows_between(
        &self,
        _: DatasetId,
        column: &str,
        span: RangeInclusive<Timestamp>,
        limit: u32,
    ) -> Result<Vec<FlatRow>, Cause> {
        let first = span.start().seconds() - START.seconds();
        let last = (span.end().seconds() - START.seconds()).min(self.now());
        let limit = usize::try_from(limit).unwrap();
        let mut rows: Vec<_> = (first..=last).take(limit).map(|idx| self.row(idx)).collect();
        for row in &mut rows {
            row.values.retain(|name, _| name == column);
        }
        Ok(rows)
    }
}

/// Returns two topics with many models: one for a number and one for a direction. Their settings differ
/// from the settings of the demo's topics.
pub(crate) fn test_topics() -> Vec<Topic> {
    let files = [include_str!("tests/load.json"), include_str!("tests/market.json")];
    let topic = |(number, text): (u64, &str)| {
        let settings = serde_json::from_str(text).unwrap();
        settings::topic(TopicId::new(number).unwrap(), None, settings).unwrap()
    };
    (1..).zip(files).map(topic).collect()
}

/// Returns a fake cluster and a fake dataset on `clock`.
pub(crate) fn fakes(clock: &Clock) -> (Arc<dyn Runs>, Arc<dyn Rows>) {
    let rows = FakeRows {
        clock: clock.clone(),
        column: "load_percent",
        every: 1,
        speed: 1,
        n_found: AtomicUsize::default(),
        first_read: OnceLock::new(),
    };
    (Arc::new(FakeRuns::default()), Arc::new(rows))
}

/// Network with a manual clock.
struct Stage {
    clock: Clock,
    folder: TempDir,
    runs: Arc<FakeRuns>,
    inference: Inference,
    runner: Runner,
}

impl Stage {
    /// Creates a network with `topic`. Its predictor has no models and runs on two workers.
    async fn with_topic(mut topic: Topic, speed: u32) -> Self {
        let predictor = topic.predictor.as_mut().unwrap();
        predictor.models.clear();
        predictor.n_nodes = Some(2);
        Self::with_models(topic, speed).await
    }

    async fn with_models(topic: Topic, speed: u32) -> Self {
        let clock = Clock::manual(START);
        let folder = tempfile::tempdir().unwrap();
        let runs = Arc::new(FakeRuns::default());
        let (inference, runner) = open(folder.path(), &clock, topic, speed, &runs).await;
        Self { clock, folder, runs, inference, runner }
    }

    async fn load() -> Self {
        Self::with_topic(test_topics().remove(0), 1).await
    }

    /// Replaces the dataset by a dataset in which only every row whose index is a multiple of `every`
    /// has the column.
    fn sparse(mut self, every: i64) -> Self {
        let (clock, (n_found, first_read)) = (self.clock.clone(), Default::default());
        let rows = FakeRows { clock, column: "load_percent", every, speed: 1, n_found, first_read };
        let (runs, topic) = (Arc::<FakeRuns>::clone(&self.runs), self.inference.topics().remove(0));
        self.runner = Runner::new(self.inference.clone(), topic, runs, Arc::new(rows));
        self
    }

    fn id(&self) -> TopicId {
        self.inference.topics()[0].id
    }

    /// Advances the clock by `n_blocks` blocks and executes the due steps at each block.
    async fn pass(&mut self, n_blocks: u32) {
        for _ in 0..n_blocks {
            self.clock.advance(Duration::from_secs(1));
            self.runner.tick().await;
        }
    }

    async fn latest(&self) -> FullBundle {
        self.inference.latest(self.id()).await.unwrap().bundle.clone()
    }

    /// Opens a network from a copy of the files in their current state, as after a power cut.
    async fn killed_and_reopened(self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
        let topic = self.inference.topics()[0].as_ref().clone();
        let (inference, runner) = open(folder.path(), &self.clock, topic, 1, &self.runs).await;
        Self { folder, inference, runner, ..self }
    }
}

async fn open(
    folder: &Path,
    clock: &Clock,
    topic: Topic,
    speed: u32,
    runs: &Arc<FakeRuns>,
) -> (Inference, Runner) {
    let column = if topic.is_single() { "load_percent" } else { "close" };
    let options = InferenceOptions {
        block_time: Duration::from_secs(1),
        retention: Retention::USUAL,
        topics: vec![topic.clone()],
    };
    let inference =
        Inference::open(folder.join("inference.sqlite"), clock.clone(), options).await.unwrap();
    let (n_found, first_read) = Default::default();
    let (clock, every) = (clock.clone(), 1);
    let rows = Arc::new(FakeRows { clock, column, every, speed, n_found, first_read });
    let runs = Arc::<FakeRuns>::clone(runs);
    let runner = Runner::new(inference.clone(), Arc::new(topic), runs, rows);
    (inference, runner)
}

fn number(values: &[wire::inference::LabeledValue]) -> f64 {
    values[0].value
}

fn sender(stage: &Stage, nonce: BlockHeight, worker: &str) -> Sender {
    let worker = format!("allo1{worker}").parse().unwrap();
    Sender { topic: stage.id(), nonce, worker, name: None }
}

fn value(text: &str) -> Payload {
    Payload { values: vec![("y".to_owned(), text.to_owned())], ..Payload::default() }
}

#[tokio::test]
async fn first_epoch_opens_immediately_and_is_served_after_its_window() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(6).await;
    assert!(matches!(stage.inference.latest(stage.id()).await, Err(InferenceError::NoBundle(_))));
    stage.pass(1).await;
    let bundle = stage.latest().await;
    assert_eq!((bundle.nonce, bundle.inferer_values.len()), (1, 2));
    assert!((number(&bundle.combined_value) - 55.0).abs() < 1e-9);
    assert_eq!(bundle.naive_value, bundle.combined_value);
    assert_eq!(bundle.one_out_inferer_values.len(), 2);
    assert_eq!(stage.runs.n_runs.load(Ordering::SeqCst), 1);
    let job = stage.runs.jobs.lock().remove(0);
    assert_eq!((job.n_nodes, job.subgroup), (Some(2), None));
    assert_eq!(read(&job.stdin, "load_percent").len(), 120);
}

#[tokio::test]
async fn each_model_of_a_predictor_is_an_inferer_with_its_name() {
    let mut stage = Stage::with_models(test_topics().remove(0), 1).await;
    let silent = Err("no workers".to_owned());
    *stage.runs.answers.lock() = vec![silent, Ok(vec![output("bad", "no idea")])];
    stage.runner.tick().await;
    stage.pass(7).await;
    let models = stage.inference.topics()[0].predictor.clone().unwrap().models;
    assert_eq!(stage.runs.n_runs.load(Ordering::SeqCst), models.len(), "each runs once");
    let jobs = stage.runs.jobs.lock().clone();
    assert!(jobs.iter().all(|job| job.n_nodes == Some(1)));
    let envs: BTreeSet<_> = jobs.iter().map(|job| job.env.clone()).collect();
    assert_eq!(envs.len(), models.len(), "no model is a copy of another");
    assert!(envs.iter().all(|env| env["VALUE"] == "load_percent" && env.contains_key("MODEL")));
    let bundle = stage.latest().await;
    let workers: BTreeSet<_> = bundle.inferer_values.iter().map(|one| one.worker.clone()).collect();
    assert_eq!(workers.len(), models.len() - 2, "two of them have invalid output");
    assert!(workers.contains(&addresses::of_model(&models[7].name)));
}

#[tokio::test]
async fn losses_are_learned_after_the_lag_and_increase_the_weight_of_the_better_worker() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(59).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    assert_eq!(history.iter().map(|e| e.nonce).collect::<Vec<_>>(), [1, 13, 25, 37, 49]);
    assert!(history.iter().all(|epoch| epoch.truth.is_empty()));
    stage.pass(1).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    // The ground truth is from the row that is a minute later than the latest row at block 1.
    assert!((history[0].truth[0].value - 50.06).abs() < 1e-12);
    let error: f64 = 55.0 - 50.06;
    assert!((history[0].combined_loss.unwrap() - (error * error).log10()).abs() < 1e-9);
    assert!(history[1].truth.is_empty());

    stage.pass(12 * 20).await;
    let bundle = stage.latest().await;
    assert_eq!(bundle.forecaster_values.len(), 5);
    let good = bundle.inferer_values.iter().map(|worker| number(&worker.values));
    let good = good.fold(f64::INFINITY, f64::min);
    assert!((number(&bundle.combined_value) - good).abs() < 1.0, "{bundle:?}");
    let overview = stage.inference.overviews().await.unwrap().remove(0);
    assert_eq!(overview.actors.n_learned, 21);
    let sum: f64 = overview.actors.actors.iter().map(|actor| actor.weight.unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9);
}

#[tokio::test]
async fn horizon_of_a_direction_topic_is_measured_in_time_of_the_dataset() {
    // A second of the clock is a block and a minute of the dataset, so the horizon of half an hour
    // passes in 30 blocks.
    let mut stage = Stage::with_topic(test_topics().remove(1), 60).await;
    stage.runner.tick().await;
    stage.pass(60).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    let truth = history[0].truth.iter();
    let truth: Vec<_> = truth.map(|it| format!("{}={}", it.label_name, it.value)).collect();
    // The value increases from 50 to 50 + 1800 / 1000, by more than the threshold of a thousandth.
    assert_eq!(truth, ["down=0", "flat=0", "up=1"]);
    let sum: f64 = history[0].combined_value.iter().map(|v| v.value).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    let brier: f64 = 0.5_f64.powi(2) + 0.2_f64.powi(2) + 0.3_f64.powi(2);
    assert!((history[0].combined_loss.unwrap() - brier.log10()).abs() < 1e-9);
}

#[tokio::test]
async fn worker_with_invalid_output_is_excluded() {
    let mut stage = Stage::load().await;
    let failed = PeerOutput { exit_code: 1, ..output("broken", "{\"value\":\"1\"}") };
    let outputs = vec![failed, output("good", "{\"value\":\"51.5\"}"), output("bad", "no idea\n")];
    stage.runs.answers.lock().push(Ok(outputs));
    stage.runner.tick().await;
    stage.pass(7).await;
    let bundle = stage.latest().await;
    assert_eq!(bundle.inferer_values.len(), 1);
    assert_eq!(bundle.inferer_values[0].worker, addresses::of_peer(&peer("good")));
    assert!((bundle.combined_value[0].value - 51.5).abs() < 1e-12);
}

#[tokio::test]
async fn rejected_job_is_retried_within_the_window() {
    let mut stage = Stage::load().await;
    *stage.runs.answers.lock() =
        vec![Err("no workers".to_owned()), Ok(vec![]), Ok(vec![]), Ok(vec![])];
    stage.runner.tick().await;
    stage.pass(7).await;
    let asked: Vec<Option<u32>> = stage.runs.jobs.lock().iter().map(|job| job.n_nodes).collect();
    let (exactly, all) = (Some(2), None);
    assert_eq!(
        asked,
        [exactly, exactly, exactly, exactly, all],
        "late, all available workers are used"
    );
    assert_eq!(stage.latest().await.inferer_values.len(), 2);
}

#[tokio::test]
async fn epoch_without_inferences_has_no_bundle() {
    let mut stage = Stage::load().await;
    *stage.runs.answers.lock() = vec![Ok(vec![]); 7];
    stage.runner.tick().await;
    stage.pass(7).await;
    let progress = stage.inference.progress(stage.id()).await.unwrap();
    assert_eq!((progress.open, progress.unlearned), (vec![], vec![]));
    assert!(matches!(stage.inference.latest(stage.id()).await, Err(InferenceError::NoBundle(_))));
    stage.pass(12).await;
    assert_eq!(stage.latest().await.nonce, 13);
}

#[tokio::test]
async fn submission_before_a_power_cut_is_in_the_bundle_once() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.inference.submit(sender(&stage, 1, "me"), value("52.500")).await.unwrap();
    stage.pass(3).await;
    let mut stage = stage.killed_and_reopened().await;
    let again = stage.inference.submit(sender(&stage, 1, "me"), value("99")).await;
    assert!(matches!(again, Err(InferenceError::Repeated(1))));
    stage.runner.tick().await;
    stage.pass(4).await;
    let bundle = stage.latest().await;
    assert_eq!((bundle.nonce, bundle.inferer_values.len()), (1, 3));
    let mine = bundle.inferer_values.iter().find(|w| w.worker.as_str() == "allo1me").unwrap();
    assert!((mine.values[0].value - 52.5).abs() < 1e-12);
    let stage = stage.killed_and_reopened().await;
    assert!(!stage.inference.close(stage.id(), 1).await.unwrap());
    assert_eq!(stage.latest().await, bundle);
}

#[tokio::test]
async fn long_stop_closes_open_epochs_and_skips_missed_epochs() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    let mut stage = stage.killed_and_reopened().await;
    stage.clock.advance(Duration::from_secs(1000));
    stage.runner.tick().await;
    assert_eq!(stage.latest().await.nonce, 1);
    let progress = stage.inference.progress(stage.id()).await.unwrap();
    assert_eq!((progress.last_nonce, progress.open), (Some(1001), vec![1001]));
    stage.pass(7).await;
    assert_eq!(stage.latest().await.nonce, 1001);
    // The ground truth of epoch 1 could still be read after the long stop.
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    assert!((history[0].truth[0].value - 50.06).abs() < 1e-12);
}

#[tokio::test]
async fn topic_of_a_sparse_column_learns_from_the_rows_that_have_it() {
    let mut topic = test_topics().remove(0);
    topic.predictor = None;
    let mut stage = Stage::with_models(topic, 1).await.sparse(25);
    stage.runner.tick().await;
    stage.pass(12).await;
    stage.inference.submit(sender(&stage, 13, "me"), value("52")).await.unwrap();
    stage.pass(80).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    let truth: Vec<_> = history.iter().map(|epoch| (epoch.nonce, number(&epoch.truth))).collect();
    // The latest row with the column is row 0, and the first one a minute later is row 75.
    assert_eq!(truth, [(13, 50.075)]);
    assert!(stage.inference.problems(stage.id()).is_empty());
}

#[tokio::test]
async fn predictor_of_a_sparse_column_gets_only_rows_that_have_it() {
    for n_rows in [1, 120] {
        let mut topic = test_topics().remove(0);
        topic.predictor.as_mut().unwrap().n_rows = Some(n_rows);
        let mut stage = Stage::with_topic(topic, 1).await.sparse(25);
        stage.runner.tick().await;
        stage.pass(30).await;
        let jobs = stage.runs.jobs.lock().clone();
        let values: Vec<Vec<f64>> =
            jobs.iter().map(|job| read(&job.stdin, "load_percent")).collect();
        assert_eq!(values.len(), 3, "one job for each epoch");
        assert!(values.iter().all(|values| values.len() == usize::try_from(n_rows).unwrap()));
        // The epochs open with rows 0, 12 and 24, so all of them begin with row 0.
        assert!(values.iter().all(|values| values.last() == Some(&50.0)));
        assert!((number(&stage.latest().await.combined_value) - 55.0).abs() < 1e-9);
    }
}

#[tokio::test]
async fn epoch_has_no_input_if_the_column_ended_two_horizons_before_the_latest_row() {
    // The horizon is a minute.
    let mut stage = Stage::load().await.sparse(1000);
    stage.runner.tick().await;
    stage.pass(100).await;
    assert!(stage.inference.input(stage.id(), 97).await.unwrap().is_some());
    stage.pass(100).await;
    assert!(stage.inference.input(stage.id(), 193).await.unwrap().is_none());
    let problems = format!("{:?}", stage.inference.problems(stage.id()));
    assert!(
        problems.contains("with column load_percent is from 2027-01-15T08:00:00Z"),
        "{problems}"
    );
}

#[tokio::test]
async fn epoch_without_truth_is_abandoned() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(7).await;
    let id = stage.id();
    assert!(stage.inference.learn(id, 1, None).await.unwrap());
    assert!(!stage.inference.learn(id, 1, Some(50.0)).await.unwrap());
    let overview = stage.inference.overviews().await.unwrap().remove(0);
    let unlearned = overview.progress.unlearned.clone();
    assert_eq!((unlearned, overview.actors.n_learned), (vec![], 0));
}

#[tokio::test]
async fn dataset_is_found_by_name_once_and_stored_by_id() {
    let mut stage = Stage::load().await;
    let number = |stage: &Stage| stage.inference.topics()[0].source.dataset_id.map(DatasetId::get);
    assert_eq!(number(&stage), None);
    stage.runner.tick().await;
    stage.pass(24).await;
    assert_eq!(number(&stage), Some(1));
    // The stored id remains, although the built-in topic that replaces the stored topic has no id.
    let mut stage = stage.killed_and_reopened().await;
    stage.pass(24).await;
    assert_eq!(number(&stage), Some(1));
}

/// Moves the date of `clock` forward by `seconds`, or back if `seconds` is negative.
fn correct(clock: &Clock, seconds: i64) {
    clock.set(Timestamp::from_seconds(clock.now().seconds() + seconds));
}

/// Maximum number of blocks until epochs continue after a correction of the clock: two epochs.
const TWO_EPOCHS: u32 = 24;

const DAY_SECONDS: i64 = 86_400;

#[tokio::test]
async fn epochs_continue_after_a_clock_correction_of_a_day() {
    for seconds in [-DAY_SECONDS, DAY_SECONDS] {
        let mut stage = Stage::load().await;
        stage.runner.tick().await;
        stage.pass(30).await;
        let before = stage.latest().await.nonce;
        correct(&stage.clock, seconds);
        stage.pass(TWO_EPOCHS).await;
        let after = stage.latest().await.nonce;
        assert!((before + 12..=before + 24).contains(&after), "{seconds}: {before}, {after}");
        let mut stage = stage.killed_and_reopened().await;
        stage.pass(TWO_EPOCHS).await;
        let last = stage.latest().await.nonce;
        // The new height depends on the date, but heights never decrease.
        assert!(last >= after + 12, "{seconds}: {after}, {last}");
    }
}

#[tokio::test]
async fn epochs_continue_after_restarts_with_a_clock_that_was_temporarily_ahead() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(30).await;
    // The program exits before it notices the correction.
    correct(&stage.clock, 2 * DAY_SECONDS);
    let mut stage = stage.killed_and_reopened().await;
    stage.pass(TWO_EPOCHS).await;
    let ahead = stage.latest().await.nonce;
    correct(&stage.clock, -2 * DAY_SECONDS);
    let mut stage = stage.killed_and_reopened().await;
    stage.pass(TWO_EPOCHS).await;
    let after = stage.latest().await.nonce;
    assert!((ahead + 12..=ahead + 36).contains(&after), "{ahead}, {after}");
}

#[tokio::test]
async fn block_heights_and_topics_survive_a_restart() {
    let stage = Stage::with_models(test_topics().remove(0), 1).await;
    stage.clock.advance(Duration::from_secs(99));
    assert_eq!(stage.inference.chain().height(), 100);
    let path = stage.folder.path().join("inference.sqlite");
    let slower = InferenceOptions {
        block_time: Duration::from_secs(5),
        retention: Retention::USUAL,
        topics: vec![],
    };
    // Simulates that the program has exited.
    fs::remove_file(stage.folder.path().join("inference.sqlite.lock")).unwrap();
    let reopened = Inference::open(path, stage.clock.clone(), slower).await.unwrap();
    assert_eq!(reopened.chain().height(), 100);
    stage.clock.advance(Duration::from_secs(5));
    assert_eq!(reopened.chain().height(), 101);
    let topics: Vec<Topic> = reopened.topics().iter().map(|topic| topic.as_ref().clone()).collect();
    assert_eq!(topics, test_topics()[..1]);
}

#[test]
fn inference_error_contains_its_causes() {
    let error = InferenceError::Store(StoreError::InUse);
    let told = task::causes::chain(&error);
    assert!(told.starts_with("inference store failed: inference file is locked"), "{told}");
}
