//! The topics of the local stack, replayed over synthetic rows of many seeds with the models that the
//! stack's workers run. The combined value must beat the naive value, the uninformed value and the
//! latest value.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use cluster::worker::LIMITS_DEFAULT;
use datasets::synthetic_closes;
use futures::executor::block_on;
use inference::network::addresses;
use inference::network::backtest::{Backtest, Model, Prediction, Report};
use inference::network::topic::{Topic, demo_topics};
use inference::network::upstream::{Cause, FlatRow, lines, parse_prediction};
use model::timestamp::Timestamp;
use runtime::compiler::CompileIn;
use runtime::engine::Runtime;
use runtime::options::RuntimeOptions;
use runtime::program::Program;
use runtime::run::{Run, START};
use wire::inference::network::{EpochLosses, PredictorSettings};

use crate::support::command::demo;

/// Time at which synthetic rows begin, in seconds since 1970: the start of 2026.
const START_SECONDS: i64 = 1_767_225_600;

/// Distance between the first rows of consecutive seeds, in seconds. A prime number, so that each seed
/// begins in another phase of the market's regimes.
const SEED_SECONDS: i64 = 3_607;

/// Number of rows from one epoch to the next. The epochs of both topics have twelve blocks, with one row
/// per block.
const EPOCH_ROWS: u32 = 12;

/// Number of rows after the last ground truth, since a row may be missing. Fewer rows than in an epoch.
const SPARE_ROWS: u32 = 5;

/// The models of a topic's predictor, which are run in this process.
#[derive(Clone)]
struct DemoModel {
    runtime: Runtime,
    program: Program,
    predictor: PredictorSettings,
}

#[async_trait]
impl Model for DemoModel {
    fn name(&self) -> &str {
        &self.predictor.function
    }

    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let stdin = lines(rows).into_bytes();
        let predictions = self.predictor.models.iter().map(|model| {
            let run = Run {
                name: self.predictor.method.clone(),
                entry: START.to_owned(),
                arguments: Vec::new(),
                environment: self
                    .predictor
                    .env
                    .clone()
                    .into_iter()
                    .chain(model.env.clone())
                    .collect(),
                stdin: stdin.clone(),
                files: None,
                limits: LIMITS_DEFAULT,
                client: Arc::default(),
            };
            let outcome = self.runtime.execute_here(&self.program, run)?;
            assert_eq!(outcome.exit_code, 0, "{outcome:?}");
            Ok(Prediction {
                worker: addresses::of_model(&model.name),
                name: model.name.clone(),
                values: parse_prediction(&String::from_utf8_lossy(&outcome.stdout))?,
            })
        });
        predictions.collect()
    }
}

fn replay(topic: &Topic, model: DemoModel, seed: i64, n_epochs: u32) -> Report {
    let horizon_rows = u32::try_from(topic.source.horizon.as_secs()).unwrap();
    let n_first = model.predictor.n_rows.unwrap();
    let n_rows = n_first + (n_epochs - 1) * EPOCH_ROWS + horizon_rows + SPARE_ROWS;
    let start = START_SECONDS + SEED_SECONDS * seed;
    let rows = synthetic_closes(seed.unsigned_abs(), start..start + i64::from(n_rows));
    let rows: Vec<FlatRow> = rows
        .into_iter()
        .map(|(second, value)| FlatRow {
            timestamp: Timestamp::from_seconds(second),
            values: [(topic.source.column.clone(), value)].into(),
        })
        .collect();
    let backtest = Backtest {
        topic: topic.clone(),
        models: vec![Arc::new(model)],
        every: Duration::from_secs(EPOCH_ROWS.into()),
        n_rows: usize::try_from(n_first).unwrap(),
    };
    let from = Timestamp::from_seconds(start + i64::from(n_first) - 1);
    block_on(backtest.run(&rows, from, |_| Ok(()))).unwrap()
}

/// Replays both topics over the rows of each seed. Checks that the combined value beats the other values
/// in all seeds except at most `n_losses_max`.
fn check(n_seeds: i64, n_epochs: u32, n_losses_max: usize) {
    let n_runs = NonZeroU32::new(u32::try_from(n_seeds).unwrap()).unwrap();
    let options = RuntimeOptions::for_runs(n_runs, CompileIn::ThisProcess);
    let runtime = Runtime::new(options).unwrap();
    for topic in demo_topics() {
        let predictor = topic.predictor.clone().unwrap();
        let module = std::fs::read(demo(&format!("{}.wasm", predictor.function))).unwrap();
        let model =
            DemoModel { runtime: runtime.clone(), program: Program::new(module), predictor };
        let reports: Vec<Report> = thread::scope(|scope| {
            let replays = (1..=n_seeds).map(|seed| {
                let (topic, model) = (&topic, model.clone());
                scope.spawn(move || replay(topic, model, seed, n_epochs))
            });
            let replays: Vec<_> = replays.collect();
            replays.into_iter().map(|replay| replay.join().unwrap()).collect()
        });
        for other in ["naive", "uninformed", "persistence"] {
            let losses = reports.iter().filter(|report| {
                let persistence = report.actors.iter().find(|actor| actor.name == "persistence");
                mean(report, |epoch| Some(epoch.combined))
                    >= match other {
                        "naive" => mean(report, |epoch| Some(epoch.naive)),
                        "uninformed" => mean(report, |epoch| epoch.uninformed),
                        _ => persistence.unwrap().mean_plain_loss,
                    }
            });
            let n_losses = losses.count();
            assert!(n_losses <= n_losses_max, "topic {}: {n_losses} losses to {other}", topic.id);
        }
        for report in &reports {
            check_actors(report, n_epochs);
        }
    }
}

/// Returns the mean of a loss over the epochs in which it is known.
fn mean(report: &Report, loss: fn(&EpochLosses) -> Option<f64>) -> f64 {
    let losses: Vec<f64> = report.epochs.iter().filter_map(loss).collect();
    losses.iter().sum::<f64>() / f64::from(u32::try_from(losses.len()).unwrap())
}

fn check_actors(report: &Report, n_epochs: u32) {
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(report.n_learned, u64::from(n_epochs));
    let (inferers, forecasters): (Vec<_>, Vec<_>) =
        report.actors.iter().partition(|actor| actor.role.name() == "inferer");
    assert!((7..=8).contains(&inferers.len()) && (4..=5).contains(&forecasters.len()));
    let losses = report.actors.iter().map(|actor| actor.mean_plain_loss.to_bits());
    let distinct: BTreeSet<u64> = losses.collect();
    assert_eq!(distinct.len(), report.actors.len(), "an actor is a copy of another");
    // The skill of the inferers differs, but not too much: the worst inferer is not far out of the range
    // of the others.
    let worst = inferers.iter().map(|actor| actor.mean_plain_loss).fold(0.0, f64::max);
    assert!(worst < 5.0 * mean(report, |epoch| Some(epoch.naive)), "{worst}");
}

/// A demo learns from this number of epochs in its first ten minutes.
#[test]
fn demo_networks_beat_baselines_within_ten_minutes() {
    check(12, 47, 0);
}

#[test]
#[ignore = "takes minutes without optimizations"]
fn demo_networks_beat_baselines_within_an_hour() {
    check(20, 300, 1);
}
