//! `triptych inference backtest demo`: the topics of the local stack over synthetic rows of many
//! seeds, by the models that the stack's workers run.

use std::{num::NonZeroU32, sync::Arc, thread::available_parallelism, time::Duration};

use ::inference::network::{
    addresses,
    backtest::{Backtest, Model, Prediction, Report},
    topic::{Predictor, Topic, demo_topics},
    upstream::{Cause, FlatRow, lines, parse_prediction},
};
use anyhow::Context as _;
use async_trait::async_trait;
use cluster::worker::LIMITS_DEFAULT;
use datasets::synthetic_closes;
use futures::{StreamExt as _, executor::block_on, stream};
use model::timestamp::Timestamp;
use runtime::{
    engine::Runtime,
    program::Program,
    run::{Run, START},
};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::cli::{
    demo,
    output::{self, can_redraw, redraw},
    runtime::engine,
};

/// Seconds since 1970 at which synthetic rows begin: the start of 2026, at midnight.
const START_SECONDS: i64 = 1_767_225_600;

/// Seconds between the first rows of one seed and those of the next: a prime number, so that seeds
/// begin at different places of a regime.
const SEED_SECONDS: i64 = 3_607;

/// Rows from one epoch to the next: the epochs of both topics are twelve blocks long, and a row
/// comes with each block.
const EPOCH_ROWS: u32 = 12;

/// Rows beyond the last truth, since a row may be missing. Fewer than an epoch has.
const SPARE_ROWS: u32 = 5;

/// One topic over the rows of one seed.
struct Trial {
    topic: Topic,
    seed: u64,
    n_epochs: u32,
    guest: Guest,
}

/// The models of a predictor, run in this process.
#[derive(Clone)]
struct Guest {
    runtime: Runtime,
    program: Program,
    predictor: Arc<Predictor>,
}

#[async_trait]
impl Model for Guest {
    fn name(&self) -> &str {
        &self.predictor.function
    }

    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let stdin = lines(rows).into_bytes();
        let mut predictions = Vec::new();
        for model in &self.predictor.models {
            let run = Run {
                name: self.predictor.method.clone(),
                entry: START.to_owned(),
                arguments: Vec::new(),
                environment: self.predictor.env_of(model),
                stdin: stdin.clone(),
                files: None,
                limits: LIMITS_DEFAULT,
                client: Arc::default(),
            };
            let finished = self.runtime.execute_here(&self.program, run)?;
            if finished.exit_code != 0 {
                return Err(String::from_utf8_lossy(&finished.stderr).trim().into());
            }
            predictions.push(Prediction {
                worker: addresses::of_model(&model.name),
                name: model.name.clone(),
                values: parse_prediction(&String::from_utf8_lossy(&finished.stdout))?,
            });
        }
        Ok(predictions)
    }
}

/// Runs both topics over the rows of each seed, from 1 to `n_seeds`, in `n_epochs` to learn from,
/// several at once, and prints a line for each, in their order: JSON if `is_json`.
///
/// # Errors
/// If a predictor cannot be run, or an epoch cannot be combined.
pub(super) async fn run(n_seeds: u64, n_epochs: u32, is_json: bool) -> anyhow::Result<()> {
    let n_threads = available_parallelism().map_or(1, usize::from);
    let runs_max = u32::try_from(n_threads).ok().and_then(NonZeroU32::new);
    let runtime = engine(runs_max.unwrap_or(NonZeroU32::MIN))?;
    let mut trials = Vec::new();
    for seed in 1..=n_seeds {
        for topic in demo_topics() {
            let predictor = topic.predictor.clone().context("find the topic's predictor")?;
            let function = demo::FUNCTIONS.iter().find(|f| f.name == predictor.function);
            let function = function.context("find the predictor's function")?;
            let program = Program::new(function.module);
            let guest = Guest { runtime: runtime.clone(), program, predictor: predictor.into() };
            trials.push(Trial { topic, seed, n_epochs, guest });
        }
    }
    let n_trials = trials.len();
    // Nothing in a trial waits, so a thread has it to its end.
    let start = |trial: Trial| spawn_blocking(move || block_on(trial.run()));
    let mut finished = stream::iter(trials.into_iter().map(start)).buffered(n_threads);
    let mut n_finished = 0;
    if !is_json {
        output::print("topic  seed  epochs    combined       naive  uninformed persistence")?;
    }
    while let Some(line) = finished.next().await {
        let line = line.context("run a backtest")??;
        n_finished += 1;
        if can_redraw() {
            redraw("");
        }
        output::print(&if is_json { line.to_string() } else { row(&line) })?;
        if can_redraw() && n_finished < n_trials {
            redraw(&format!("{n_finished} of {n_trials}"));
        }
    }
    Ok(())
}

impl Trial {
    async fn run(self) -> anyhow::Result<Value> {
        let Self { topic, seed, n_epochs, guest } = self;
        let horizon_rows = u32::try_from(topic.source.horizon.as_secs())?;
        let n_first = guest.predictor.n_rows;
        let n_rows = n_first + (n_epochs - 1) * EPOCH_ROWS + horizon_rows + SPARE_ROWS;
        // Each seed has another hour of the day, and so another phase of the regimes.
        let start = START_SECONDS + SEED_SECONDS * i64::try_from(seed)?;
        let values = synthetic_closes(seed, start..start + i64::from(n_rows));
        let row = |(second, value): (i64, f64)| FlatRow {
            timestamp: Timestamp::from_seconds(second),
            values: [(topic.source.column.clone(), value)].into(),
        };
        let rows: Vec<FlatRow> = values.into_iter().map(row).collect();
        let from = Timestamp::from_seconds(start + i64::from(n_first) - 1);
        let backtest = Backtest {
            topic: topic.clone(),
            models: vec![Arc::new(guest)],
            every: Duration::from_secs(u64::from(EPOCH_ROWS)),
            n_rows: usize::try_from(n_first)?,
        };
        let report = backtest.run(&rows, from, |_| ()).await.context("run the backtest")?;
        if let Some((name, (_, why))) = report.failures.first_key_value() {
            anyhow::bail!("run {name} for topic {} and seed {seed}: {why}", topic.id);
        }
        Ok(line(&topic, seed, &report))
    }
}

/// The model that predicts the newest value, by its name in the settings of both topics.
const PERSISTENCE: &str = "persistence";

fn line(topic: &Topic, seed: u64, report: &Report) -> Value {
    let persistence = report.actors.iter().find(|actor| actor.name == PERSISTENCE);
    let actors = report.actors.iter().map(|actor| {
        json!({
            "name": actor.name,
            "role": actor.role.name(),
            "loss": actor.mean_plain_loss,
        })
    });
    json!({
        "topic": topic.id.get(),
        "seed": seed,
        "epochs": report.n_learned,
        "loss": {
            "combined": report.plain.combined,
            "naive": report.plain.naive,
            "uninformed": report.plain.uninformed,
            "persistence": persistence.map(|actor| actor.mean_plain_loss),
        },
        "actors": actors.collect::<Vec<_>>(),
    })
}

/// A line for people: mean losses without actors.
fn row(line: &Value) -> String {
    let loss = |name: &str| line["loss"][name].as_f64().unwrap_or_default();
    let [topic, seed, epochs] =
        ["topic", "seed", "epochs"].map(|name| line[name].as_u64().unwrap_or_default());
    let [combined, naive, uninformed, persistence] =
        ["combined", "naive", "uninformed", PERSISTENCE].map(loss);
    format!(
        "{topic:>5} {seed:>5} {epochs:>7} {combined:>11.6} {naive:>11.6} {uninformed:>11.6} \
         {persistence:>11.6}"
    )
}
