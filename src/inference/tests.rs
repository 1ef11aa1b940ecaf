//! Whole epochs on a manual clock, with a cluster and datasets made up for the tests.

mod several_services;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use model::{dataset::DatasetId, node::PeerId, timestamp::Timestamp};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::*;
use crate::{
    math::pair_values::FullBundle,
    network::{
        addresses,
        runner::Runner,
        topic::settings,
        upstream::{Cause, DatasetColumn, Described, FlatRow, Job, Nodes, PeerOutput, Rows, Runs},
    },
};

/// When the tests begin.
const START: Timestamp = Timestamp::from_seconds(1_800_000_000);

/// A cluster of two workers: one says the newest value, one ten more; or what `answers` hold.
#[derive(Default)]
struct FakeRuns {
    answers: Mutex<Vec<Result<Vec<PeerOutput>, String>>>,
    n_asked: AtomicUsize,
    jobs: Mutex<Vec<Job>>,
}

/// A dataset with a row a second (of its own time) since long ago: 50 and a little more each row.
struct FakeRows {
    clock: Clock,
    column: &'static str,
    /// How much faster its time goes than the clock's.
    speed: u32,
    /// How often the dataset was looked for by name. Each time it is another one.
    n_found: AtomicUsize,
    /// The dataset that was read first.
    first_read: OnceLock<DatasetId>,
}

fn peer(name: &str) -> PeerId {
    format!("12D3KooW{name}").parse().unwrap()
}

fn output(name: &str, stdout: &str) -> PeerOutput {
    PeerOutput { peer_id: peer(name), stdout: stdout.to_owned(), exit_code: 0 }
}

/// The values of `column` in what a predictor reads, oldest first.
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
        self.n_asked.fetch_add(1, Ordering::SeqCst);
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

    /// Row `idx`, counted from the start of the tests; negative ones were before.
    fn row(&self, idx: i64) -> FlatRow {
        let value = 50.0 + f64::from(i32::try_from(idx).unwrap()) / 1000.0;
        FlatRow {
            timestamp: Timestamp::from_seconds(START.seconds() + idx),
            values: BTreeMap::from([(self.column.to_owned(), value)]),
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
        assert_eq!(dataset, first, "all services read what one of them found");
        let newest = self.now();
        Ok((newest - i64::from(limit) + 1..=newest).rev().map(|idx| self.row(idx)).collect())
    }

    async fn rows_between(
        &self,
        _: DatasetId,
        from: Timestamp,
        to: Timestamp,
        limit: u32,
    ) -> Result<Vec<FlatRow>, Cause> {
        let first = from.seconds() - START.seconds();
        let last = (to.seconds() - START.seconds()).min(self.now());
        let limit = usize::try_from(limit).unwrap();
        Ok((first..=last).take(limit).map(|idx| self.row(idx)).collect())
    }
}

/// A topic on a number and one on a direction, with many models. Their settings differ from those of
/// the demo, which are tuned for its market.
pub(crate) fn test_topics() -> Vec<Topic> {
    let files = [include_str!("tests/load.json"), include_str!("tests/market.json")];
    let topic = |(number, text): (u64, &str)| {
        let settings = serde_json::from_str(text).unwrap();
        settings::topic(TopicId::new(number).unwrap(), None, settings).unwrap()
    };
    (1..).zip(files).map(topic).collect()
}

/// A cluster and a dataset of the load, on `clock`.
pub(crate) fn fakes(clock: &Clock) -> (Arc<dyn Runs>, Arc<dyn Rows>) {
    let rows = FakeRows {
        clock: clock.clone(),
        column: "load_percent",
        speed: 1,
        n_found: AtomicUsize::default(),
        first_read: OnceLock::new(),
    };
    (Arc::new(FakeRuns::default()), Arc::new(rows))
}

/// A network on a manual clock.
struct Stage {
    clock: Clock,
    folder: TempDir,
    runs: Arc<FakeRuns>,
    inference: Inference,
    runner: Runner,
}

impl Stage {
    /// A network whose topic is predicted by two workers, whichever models it has otherwise.
    async fn with_topic(mut topic: Topic, speed: u32) -> Self {
        let predictor = topic.predictor.as_mut().unwrap();
        predictor.models.clear();
        predictor.n_nodes = 2;
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

    fn id(&self) -> TopicId {
        self.inference.topics()[0].id
    }

    /// Lets `n_blocks` pass, one after another.
    async fn pass(&mut self, n_blocks: u32) {
        for _ in 0..n_blocks {
            self.clock.advance(Duration::from_secs(1));
            self.runner.tick().await;
        }
    }

    async fn latest(&self) -> FullBundle {
        self.inference.latest(self.id()).await.unwrap().bundle.clone()
    }

    /// Reopens what the files hold at this moment, as after a power cut.
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
        Inference::open(&folder.join("inference.sqlite"), clock.clone(), options).await.unwrap();
    let (n_found, first_read) = Default::default();
    let rows = Arc::new(FakeRows { clock: clock.clone(), column, speed, n_found, first_read });
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
async fn a_topic_keeps_its_dataset_before_its_first_epoch() {
    let topic = Topic { is_active: false, ..test_topics().remove(0) };
    let mut stage = Stage::with_topic(topic, 1).await;
    stage.runner.tick().await;
    assert_eq!(stage.inference.topics()[0].source.dataset_id, DatasetId::new(1));
}

#[tokio::test]
async fn the_first_epoch_opens_at_once_and_is_served_when_its_window_is_over() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(6).await;
    assert!(matches!(
        stage.inference.latest(stage.id()).await,
        Err(InferenceError::NoBundle { .. })
    ));
    stage.pass(1).await;
    let bundle = stage.latest().await;
    assert_eq!((bundle.nonce, bundle.inferer_values.len()), (1, 2));
    assert!((number(&bundle.combined_value) - 55.0).abs() < 1e-9);
    assert_eq!(bundle.naive_value, bundle.combined_value);
    assert_eq!(bundle.one_out_inferer_values.len(), 2);
    assert_eq!(stage.runs.n_asked.load(Ordering::SeqCst), 1);
    let job = stage.runs.jobs.lock().remove(0);
    assert_eq!((job.n_nodes, job.subgroup), (Nodes::Exactly(2), None));
    assert_eq!(read(&job.stdin, "load_percent").len(), 120);
}

#[tokio::test]
async fn each_model_of_a_predictor_is_an_inferer_by_its_name() {
    let mut stage = Stage::with_models(test_topics().remove(0), 1).await;
    let silent = Err("no workers".to_owned());
    *stage.runs.answers.lock() = vec![silent, Ok(vec![output("bad", "no idea")])];
    stage.runner.tick().await;
    stage.pass(7).await;
    let models = stage.inference.topics()[0].predictor.clone().unwrap().models;
    assert_eq!(stage.runs.n_asked.load(Ordering::SeqCst), models.len(), "each is asked once");
    let jobs = stage.runs.jobs.lock().clone();
    assert!(jobs.iter().all(|job| job.n_nodes == Nodes::Exactly(1)));
    let envs: BTreeSet<_> = jobs.iter().map(|job| job.env.clone()).collect();
    assert_eq!(envs.len(), models.len(), "no model is a copy of another");
    assert!(envs.iter().all(|env| env["VALUE"] == "load_percent" && env.contains_key("MODEL")));
    let bundle = stage.latest().await;
    let workers: BTreeSet<_> = bundle.inferer_values.iter().map(|one| one.worker.clone()).collect();
    assert_eq!(workers.len(), models.len() - 2, "two of them said nothing fit");
    assert!(workers.contains(&addresses::of_model(&models[7].name)));
}

#[tokio::test]
async fn losses_are_learned_after_the_lag_and_the_better_worker_comes_to_count() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(59).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    assert_eq!(history.iter().map(|e| e.nonce).collect::<Vec<_>>(), [1, 13, 25, 37, 49]);
    assert!(history.iter().all(|epoch| epoch.truth.is_empty()));
    stage.pass(1).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    // The row a minute after the newest there was at block 1.
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
async fn a_direction_is_judged_in_the_time_of_its_dataset() {
    // A minute of the dataset passes each second, so half an hour ahead is known in 30 blocks.
    let mut stage = Stage::with_topic(test_topics().remove(1), 60).await;
    stage.runner.tick().await;
    stage.pass(60).await;
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    let truth = history[0].truth.iter();
    let truth: Vec<_> = truth.map(|it| format!("{}={}", it.label_name, it.value)).collect();
    // From 50 to 50 + 1800 / 1000: up by more than a thousandth.
    assert_eq!(truth, ["down=0", "flat=0", "up=1"]);
    let sum: f64 = history[0].combined_value.iter().map(|v| v.value).sum();
    assert!((sum - 1.0).abs() < 1e-9);
    let brier: f64 = 0.5_f64.powi(2) + 0.2_f64.powi(2) + 0.3_f64.powi(2);
    assert!((history[0].combined_loss.unwrap() - brier.log10()).abs() < 1e-9);
}

#[tokio::test]
async fn a_worker_whose_output_is_unfit_is_left_out() {
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
async fn a_cluster_that_refuses_is_asked_again_within_the_window() {
    let mut stage = Stage::load().await;
    *stage.runs.answers.lock() =
        vec![Err("no workers".to_owned()), Ok(vec![]), Ok(vec![]), Ok(vec![])];
    stage.runner.tick().await;
    stage.pass(7).await;
    let asked: Vec<Nodes> = stage.runs.jobs.lock().iter().map(|job| job.n_nodes).collect();
    let (exactly, all) = (Nodes::Exactly(2), Nodes::All);
    assert_eq!(asked, [exactly, exactly, exactly, exactly, all], "late, whoever is there will do");
    assert_eq!(stage.latest().await.inferer_values.len(), 2);
}

#[tokio::test]
async fn an_epoch_without_inferences_has_no_bundle_and_the_next_has() {
    let mut stage = Stage::load().await;
    *stage.runs.answers.lock() = vec![Ok(vec![]); 7];
    stage.runner.tick().await;
    stage.pass(7).await;
    let progress = stage.inference.progress(stage.id()).await.unwrap();
    assert_eq!((progress.open, progress.unlearned), (vec![], vec![]));
    assert!(matches!(
        stage.inference.latest(stage.id()).await,
        Err(InferenceError::NoBundle { .. })
    ));
    stage.pass(12).await;
    assert_eq!(stage.latest().await.nonce, 13);
}

#[tokio::test]
async fn what_was_submitted_before_a_power_cut_is_in_the_bundle_once() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.inference.submit(sender(&stage, 1, "me"), value("52.500")).await.unwrap();
    stage.pass(3).await;
    let mut stage = stage.killed_and_reopened().await;
    let again = stage.inference.submit(sender(&stage, 1, "me"), value("99")).await;
    assert!(matches!(again, Err(InferenceError::Repeated { nonce: 1 })));
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
async fn a_long_stop_closes_what_was_open_and_skips_what_was_missed() {
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
    // Its truth was there all along.
    let history = stage.inference.history(stage.id(), 0..=BlockHeight::MAX, 10).await.unwrap();
    assert!((history[0].truth[0].value - 50.06).abs() < 1e-12);
}

#[tokio::test]
async fn an_epoch_whose_truth_never_comes_is_given_up() {
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
async fn a_dataset_is_found_by_its_name_once_and_kept_by_its_number() {
    let mut stage = Stage::load().await;
    let number = |stage: &Stage| stage.inference.topics()[0].source.dataset_id.map(DatasetId::get);
    assert_eq!(number(&stage), None);
    stage.runner.tick().await;
    stage.pass(24).await;
    assert_eq!(number(&stage), Some(1));
    // The program comes with the topic, which says no number.
    let mut stage = stage.killed_and_reopened().await;
    stage.pass(24).await;
    assert_eq!(number(&stage), Some(1));
}

#[tokio::test]
async fn payloads_are_taken_in_the_window_alone_and_once() {
    let mut stage = Stage::load().await;
    *stage.runs.answers.lock() = vec![Ok(vec![]); 10];
    stage.runner.tick().await;
    let submit = |nonce, worker| {
        let sender = sender(&stage, nonce, worker);
        let inference = stage.inference.clone();
        async move { inference.submit(sender, value("1")).await }
    };
    assert!(matches!(submit(2, "a").await, Err(InferenceError::NotOpen { nonce: 2 })));
    submit(1, "a").await.unwrap();
    // The same again was accepted, as a client has to know whose response was lost.
    submit(1, "a").await.unwrap();
    let other = stage.inference.submit(sender(&stage, 1, "a"), value("2")).await;
    assert!(matches!(other, Err(InferenceError::Repeated { nonce: 1 })));
    let unfit = stage.inference.submit(sender(&stage, 1, "b"), value("many")).await;
    assert!(matches!(unfit, Err(InferenceError::Payload(_))));
    let nowhere = Sender { topic: TopicId::new(9).unwrap(), ..sender(&stage, 1, "b") };
    let unknown = stage.inference.submit(nowhere, value("1")).await;
    assert!(matches!(unknown, Err(InferenceError::UnknownTopic { .. })));
    stage.clock.advance(Duration::from_secs(6));
    submit(1, "b").await.unwrap();
    stage.clock.advance(Duration::from_secs(1));
    assert!(matches!(submit(1, "c").await, Err(InferenceError::NotOpen { nonce: 1 })));
    stage.runner.tick().await;
    assert_eq!(stage.latest().await.inferer_values.len(), 2);
}

/// Corrects the date by `seconds`, which are below 0 to go back.
fn correct(clock: &Clock, seconds: i64) {
    clock.set(Timestamp::from_seconds(clock.now().seconds() + seconds));
}

/// How long epochs may take to go on after a correction of the clock: two of them.
const TWO_EPOCHS: u32 = 24;

const DAY_SECONDS: i64 = 86_400;

#[tokio::test]
async fn epochs_go_on_where_the_clock_is_set_right_by_a_day() {
    for seconds in [-DAY_SECONDS, DAY_SECONDS] {
        let mut stage = Stage::load().await;
        stage.runner.tick().await;
        stage.pass(30).await;
        let before = stage.latest().await.nonce;
        correct(&stage.clock, seconds);
        stage.inference.follow_clock().await.unwrap();
        stage.pass(TWO_EPOCHS).await;
        let after = stage.latest().await.nonce;
        assert!((before + 12..=before + 24).contains(&after), "{seconds}: {before}, {after}");
        let mut stage = stage.killed_and_reopened().await;
        stage.pass(TWO_EPOCHS).await;
        let last = stage.latest().await.nonce;
        assert!((after + 12..=after + 24).contains(&last), "{seconds}: {after}, {last}");
    }
}

#[tokio::test]
async fn epochs_go_on_after_a_clock_that_was_ahead_for_a_while_across_starts() {
    let mut stage = Stage::load().await;
    stage.runner.tick().await;
    stage.pass(30).await;
    // Nobody looks at the clock before the program ends.
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
async fn heights_and_topics_outlast_the_program() {
    let stage = Stage::with_models(test_topics().remove(0), 1).await;
    stage.clock.advance(Duration::from_secs(99));
    assert_eq!(stage.inference.chain().height(), 100);
    let path = stage.folder.path().join("inference.sqlite");
    let slower = InferenceOptions {
        block_time: Duration::from_secs(5),
        retention: Retention::USUAL,
        topics: vec![],
    };
    // As if the program had ended.
    fs::remove_file(stage.folder.path().join("inference.sqlite.lock")).unwrap();
    let reopened = Inference::open(&path, stage.clock.clone(), slower).await.unwrap();
    assert_eq!(reopened.chain().height(), 100);
    stage.clock.advance(Duration::from_secs(5));
    assert_eq!(reopened.chain().height(), 101);
    let topics: Vec<Topic> = reopened.topics().iter().map(|topic| topic.as_ref().clone()).collect();
    assert_eq!(topics, test_topics()[..1]);
}

#[test]
fn every_cause_is_told() {
    let error = InferenceError::Store(StoreError::InUse);
    let told = task::causes::chain(&error);
    assert!(
        told.starts_with("the inference file failed: open the inference file, which"),
        "{told}"
    );
}
