//! Backtests: epochs of a topic that are computed from past rows without waiting for their time.
//!
//! In each epoch, the models see only the rows up to the epoch's timestamp. Their predictions are
//! combined in the same way as submissions. The network learns from an epoch when the visible rows
//! reach the epoch's horizon.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::timestamp::Timestamp;
use model::topic::{Address, BlockHeight, decimal};
use strum::VariantArray as _;
use wire::inference::network::EpochLosses;
use wire::inference::{Bundle, HistoryEpoch, LabeledValue};

use crate::math::outlier::Baseline;
use crate::math::pair_values::{FullBundle, PairValues};
use crate::math::regret::{ByActor, Losses, Role, RoleValues};
use crate::math::statistics::{count, mean};
use crate::math::synthesis::interval::PERCENTILES;
use crate::network::addresses;
use crate::network::close::{CloseContext, close};
use crate::network::leaderboard::{PastValues, ranking};
use crate::network::learned::{BundleError, Learned};
use crate::network::submission::{Payload, Submission, numbers};
use crate::network::topic::Topic;
use crate::network::topic::truth::{DIRECTIONS, Truth};
use crate::network::upstream::{Cause, FlatRow, OutcomeError, outcome};
use crate::store::Input;

/// Prediction by one of a model's workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// Address of the actor on the chain.
    pub worker: Address,
    /// Name of the actor.
    pub name: String,
    /// Values by label, as decimal texts.
    pub values: Vec<(String, String)>,
}

/// A model that predicts from rows.
#[async_trait]
pub trait Model: Send + Sync {
    /// Returns the name of the model.
    fn name(&self) -> &str;

    /// Predicts from `rows`, which are sorted from oldest to newest. A model can return predictions of
    /// several workers.
    ///
    /// # Errors
    /// [`Cause`] if the model has no prediction for these rows.
    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause>;
}

/// Configuration of a backtest.
#[derive(Clone, derive_more::Debug)]
#[debug("Backtest({})", topic.id)]
pub struct Backtest {
    /// Topic whose settings are used.
    pub topic: Topic,
    /// Models that predict in each epoch.
    pub models: Vec<Arc<dyn Model>>,
    /// Interval between epochs, in terms of the rows' timestamps.
    pub every: Duration,
    /// Number of rows that a model sees.
    pub n_rows: usize,
}

/// Reason why a backtest cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BacktestError {
    /// No row has the topic's column.
    #[error("no row in the range has column {column}")]
    NoRows {
        /// Column of the topic.
        column: String,
    },
    /// The interval between epochs is zero.
    #[error("interval between epochs is zero")]
    Standstill,
    /// Learning from an epoch failed.
    #[error("losses of an epoch could not be learned")]
    Learn(#[from] BundleError),
    /// The observer returned an error.
    #[error(transparent)]
    Observer(Cause),
}

/// Progress of a backtest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacktestProgress {
    /// Number of finished epochs.
    pub n_done: u64,
    /// Total number of epochs.
    pub n_epochs: u64,
}

/// An epoch from which the network has learned.
#[derive(Debug)]
pub struct LearnedEpoch<'a> {
    /// Timestamps of the first and the last row that the models saw.
    pub seen: (Timestamp, Timestamp),
    /// Number of rows that the models saw.
    pub n_seen: usize,
    /// Predictions, and the values combined from them.
    pub bundle: &'a Bundle,
    /// Ground truth by label.
    pub truth: Vec<LabeledValue>,
    /// Losses by value, as the network learned them.
    pub losses: &'a Losses,
    /// Names of all actors so far.
    pub names: &'a BTreeMap<Address, String>,
}

/// Event during a backtest.
#[derive(Debug)]
pub enum BacktestEvent<'a> {
    /// The ground truth of an epoch was reached.
    Learned(LearnedEpoch<'a>),
    /// Another epoch is finished.
    Progress(BacktestProgress),
}

/// Result of an actor.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorResult {
    /// Address of the actor on the chain.
    pub worker: Address,
    /// Name of the actor.
    pub name: String,
    /// Role of the actor.
    pub role: Role,
    /// Number of epochs in which the actor took part and from which the network learned.
    pub n_epochs: u64,
    /// Rank among the actors of the same role, or `None` if the actor has too few epochs to be ranked,
    /// as on the leaderboard.
    pub rank: Option<u64>,
    /// Mean loss in the epochs that all ranked actors have in common, or in all epochs of the actor if
    /// the actor is not ranked.
    pub mean_loss: f64,
    /// Mean of the same losses before the logarithm.
    pub mean_plain_loss: f64,
    /// Weight of the actor in the last combined value, or `None` if it has none.
    pub share: Option<f64>,
    /// Final regret, or `None` if the actor left long ago.
    pub regret: Option<f64>,
    /// Moving average of the actor's scores at the end, or `None` if the actor left long ago.
    pub score: Option<f64>,
}

/// Results of a backtest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Number of epochs that closed with a bundle.
    pub n_closed: u64,
    /// Number of epochs from which the network learned.
    pub n_learned: u64,
    /// Number of epochs without predictions.
    pub n_empty: u64,
    /// Number of failures and latest error of each model that failed, by name.
    pub failures: BTreeMap<String, (u64, String)>,
    /// Latest reason why an epoch has no ground truth although its horizon was reached.
    pub truth_error: Option<String>,
    /// Mean loss of the combined value, or `None` if the network learned from no epoch.
    pub combined_loss: Option<f64>,
    /// Mean loss of the naive value, or `None` if the network learned from no epoch.
    pub naive_loss: Option<f64>,
    /// Losses of each epoch before the logarithm.
    pub epochs: Vec<EpochLosses>,
    /// Share of epochs whose ground truth is within the confidence interval between the outermost
    /// percentiles, 0 to 1. `None` for a topic with several labels.
    pub coverage: Option<f64>,
    /// Number of epochs that all ranked actors have in common.
    pub n_common_epochs: u64,
    /// Results of all actors: inferers by rank, then forecasters by rank.
    pub actors: Vec<ActorResult>,
}

/// An epoch before its ground truth is known.
struct Pending {
    /// Timestamp of the first row that the models saw.
    first_seen: Timestamp,
    n_seen: usize,
    /// Last row that the models saw.
    input: Input,
    bundle: FullBundle,
    interval: Option<(f64, f64)>,
}

/// Epochs so far.
#[derive(Default)]
struct Replayed {
    report: Report,
    /// Epochs from which the network learned, oldest first.
    history: Vec<HistoryEpoch>,
    losses: VecDeque<(BlockHeight, Losses)>,
    names: BTreeMap<Address, String>,
    shares: RoleValues,
    n_within: usize,
    n_intervals: usize,
}

impl Backtest {
    /// Computes the epochs since `from`. `rows` must be sorted by timestamp. Models also see rows
    /// before `from`. Passes events to `observe`, whose error ends the backtest. Cancel-safe.
    ///
    /// # Errors
    /// [`BacktestError`] if the backtest cannot continue. A model that fails is only counted and
    /// skipped in that epoch.
    pub async fn run(
        &self,
        rows: &[FlatRow],
        from: Timestamp,
        mut observe: impl FnMut(BacktestEvent<'_>) -> Result<(), Cause> + Send,
    ) -> Result<Report, BacktestError> {
        let column = &self.topic.source.column;
        let known: Vec<FlatRow> =
            rows.iter().filter(|row| row.values.contains_key(column)).cloned().collect();
        let no_rows = || BacktestError::NoRows { column: column.clone() };
        let (first, last) = known.first().zip(known.last()).ok_or_else(no_rows)?;
        let values = values_of(column, &known);
        if self.every.is_zero() {
            return Err(BacktestError::Standstill);
        }
        let start = from.max(first.timestamp);
        let n_epochs = last.timestamp.since(start).as_micros() / self.every.as_micros() + 1;
        let n_epochs = u64::try_from(n_epochs).unwrap_or(u64::MAX);
        let (mut learned, mut baseline) = (Learned::default(), None);
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut replayed = Replayed::default();
        let mut at = start;
        for n_done in 0..n_epochs {
            let n_seen = known.partition_point(|row| row.timestamp <= at);
            let seen = known.get(n_seen.saturating_sub(self.n_rows)..n_seen).unwrap_or_default();
            let newest = values.get(..n_seen).unwrap_or_default().last().copied();
            // The ground truth is the first row at or after the horizon. The network learns it only once
            // that row is visible.
            let is_due = |epoch: &mut Pending| {
                let due = epoch.input.at + self.topic.source.horizon;
                newest.is_some_and(|(newest, _)| due <= newest)
            };
            while let Some(epoch) = pending.pop_front_if(is_due) {
                self.learn(&epoch, &values, &mut learned, &mut replayed, &mut observe)?;
            }
            // The nonce is a block height, which increases by the epoch length as on the chain.
            let nonce = 1 + n_done * self.topic.timing.epoch_length;
            let submissions = self.submissions(seen, &mut replayed).await;
            let closed = self.close(nonce, &submissions, &learned, &mut baseline, &mut replayed);
            if let (Some((bundle, interval)), Some(first), Some((at, value))) =
                (closed, seen.first(), newest)
            {
                let (first_seen, n_seen) = (first.timestamp, seen.len());
                let input = Input { at, value };
                pending.push_back(Pending { first_seen, n_seen, input, bundle, interval });
            }
            let progress = BacktestProgress { n_done: n_done + 1, n_epochs };
            observe(BacktestEvent::Progress(progress)).map_err(BacktestError::Observer)?;
            at = at + self.every;
        }
        for epoch in pending {
            self.learn(&epoch, &values, &mut learned, &mut replayed, &mut observe)?;
        }
        Ok(replayed.report(&self.topic, &learned))
    }

    /// Runs all models and returns their valid predictions as submissions.
    async fn submissions(&self, seen: &[FlatRow], replayed: &mut Replayed) -> Vec<Submission> {
        let mut submissions: Vec<Submission> = Vec::new();
        for model in &self.models {
            let predicted = match model.predict(seen).await {
                Ok(predicted) => predicted,
                Err(error) => {
                    replayed.failed(model.name(), &task::causes::chain(error.as_ref()));
                    continue;
                }
            };
            for Prediction { worker, name, values } in predicted {
                let payload = Payload { values, ..Payload::default() };
                match Submission::checked(&self.topic, worker.clone(), Some(name.clone()), payload)
                {
                    Ok(submission) => {
                        replayed.names.insert(worker, name);
                        submissions.push(submission);
                    }
                    Err(error) => replayed.failed(model.name(), &task::causes::chain(&error)),
                }
            }
        }
        submissions.sort_by(|a, b| a.worker.cmp(&b.worker));
        submissions.dedup_by(|later, first| later.worker == first.worker);
        submissions
    }

    /// Closes an epoch. Returns `None` if there are no predictions.
    fn close(
        &self,
        nonce: u64,
        submissions: &[Submission],
        learned: &Learned,
        baseline: &mut Option<Baseline>,
        replayed: &mut Replayed,
    ) -> Option<(FullBundle, Option<(f64, f64)>)> {
        let labels = labels(&self.topic, submissions);
        let close_context = CloseContext { labels: &labels, learned, baseline: *baseline };
        let Some(closing) = close(&self.topic, nonce, submissions, close_context) else {
            replayed.report.n_empty += 1;
            return None;
        };
        *baseline = closing.baseline;
        replayed.report.n_closed += 1;
        replayed.shares = closing.shares;
        for forecast in closing.forecasts {
            let name = forecast.name.unwrap_or_default();
            replayed.names.insert(forecast.worker, name);
        }
        let interval = closing.intervals.first().filter(|_| labels.len() == 1);
        let outer = interval
            .and_then(|i| Some((*i.values.first()?, *i.values.get(PERCENTILES.len() - 1)?)));
        Some((closing.bundle, outer))
    }

    /// Learns from an epoch if its ground truth follows from `values`, the values of the topic's column.
    fn learn(
        &self,
        epoch: &Pending,
        values: &[(Timestamp, f64)],
        learned: &mut Learned,
        replayed: &mut Replayed,
        observe: &mut impl FnMut(BacktestEvent<'_>) -> Result<(), Cause>,
    ) -> Result<(), BacktestError> {
        let outcome = match outcome(&self.topic, epoch.input, values) {
            Some(Ok(outcome)) => outcome,
            Some(Err(error)) => {
                replayed.report.truth_error = Some(error.to_string());
                return Ok(());
            }
            None => return Ok(()),
        };
        let truth = self.topic.truth_of(epoch.bundle.labels(), epoch.input.value, outcome);
        let losses = learned.learn(&self.topic, &epoch.bundle, &numbers(&truth))?;
        if let Some((low, high)) = epoch.interval {
            replayed.n_intervals += 1;
            replayed.n_within += usize::from((low..=high).contains(&outcome));
        }
        let learned_epoch = LearnedEpoch {
            seen: (epoch.first_seen, epoch.input.at),
            n_seen: epoch.n_seen,
            bundle: &epoch.bundle,
            truth: truth.clone(),
            losses: &losses,
            names: &replayed.names,
        };
        observe(BacktestEvent::Learned(learned_epoch)).map_err(BacktestError::Observer)?;
        replayed.history.push(HistoryEpoch {
            nonce: epoch.bundle.nonce,
            opened_at: epoch.input.at.to_string(),
            truth,
            ..HistoryEpoch::default()
        });
        // Drops the losses of pairs, which would use most of the memory. The ranking does not need
        // them.
        let losses = Losses { one_out_inferer_forecaster: PairValues::default(), ..losses };
        replayed.losses.push_front((epoch.bundle.nonce, losses));
        Ok(())
    }
}

impl Replayed {
    fn failed(&mut self, model: &str, why: &str) {
        let failure = self.report.failures.entry(model.to_owned()).or_default();
        *failure = (failure.0 + 1, why.to_owned());
    }

    fn report(mut self, topic: &Topic, learned: &Learned) -> Report {
        let mut report = self.report;
        let losses = self.losses.make_contiguous();
        let n_learned = u32::try_from(losses.len()).unwrap_or(u32::MAX);
        let board = ranking(topic, &self.history, losses, &PastValues::default(), n_learned, None);
        let mean_of = |loss: fn(&Losses) -> f64| {
            let losses: Vec<f64> = losses.iter().map(|(_, losses)| loss(losses)).collect();
            (!losses.is_empty()).then(|| mean(&losses))
        };
        report.n_learned = n_learned.into();
        report.combined_loss = mean_of(|losses| losses.combined);
        report.naive_loss = mean_of(|losses| losses.naive);
        report.coverage =
            (self.n_intervals > 0).then(|| count(self.n_within) / count(self.n_intervals));
        report.n_common_epochs = board.n_common_epochs;
        report.epochs = board.epochs;
        for role in Role::ALL {
            // The leaderboard ranks both roles together. Here each role has its own ranks.
            let of_role = board.actors.iter().filter(|actor| actor.role == role.name());
            let ranks: Vec<u64> = of_role.clone().filter_map(|actor| actor.rank).collect();
            let in_role = |rank: u64| 1 + ranks.iter().filter(|other| **other < rank).count();
            for actor in of_role {
                let Ok(worker) = actor.worker.parse() else { continue };
                let of = |family: &ByActor<f64>| family.get(&worker).copied();
                report.actors.push(ActorResult {
                    name: self.names.get(&worker).cloned().unwrap_or_default(),
                    role,
                    n_epochs: actor.n_epochs,
                    rank: actor.rank.map(|rank| u64::try_from(in_role(rank)).unwrap_or(rank)),
                    mean_loss: actor.mean_loss,
                    mean_plain_loss: actor.mean_plain_loss,
                    share: of(&self.shares[role]),
                    regret: of(&learned.regrets.ordinary[role]),
                    score: of(&learned.scores[role]),
                    worker,
                });
            }
        }
        report
    }
}

/// Returns the values of `column` in `rows` with their timestamps.
fn values_of(column: &str, rows: &[FlatRow]) -> Vec<(Timestamp, f64)> {
    rows.iter().filter_map(|row| Some((row.timestamp, *row.values.get(column)?))).collect()
}

/// Returns the labels of an epoch. If the topic has several, these are the labels in the submissions,
/// in order of their first occurrence.
fn labels(topic: &Topic, submissions: &[Submission]) -> Vec<String> {
    if topic.is_single() {
        return topic.labels.clone();
    }
    let mut labels: Vec<String> = Vec::new();
    for value in submissions.iter().flat_map(|submission| &submission.inference) {
        if !labels.contains(&value.label_name) {
            labels.push(value.label_name.clone());
        }
    }
    labels
}

/// Method of a baseline, by which it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
enum BaselineKind {
    /// Predicts the latest value or direction.
    Last,
    /// Predicts the mean of the values, or the frequency of each direction.
    Mean,
    /// Predicts the latest value plus its change over the past horizon.
    Drift,
    /// Predicts a log return of 0.
    Zero,
}

/// Baseline model for a topic.
#[derive(Debug)]
struct Simple {
    kind: BaselineKind,
    topic: Topic,
}

/// Returns the baselines for `topic`: `last` and `mean`, for topics that predict a value also `drift`,
/// and for log returns also `zero`.
pub fn baselines(topic: &Topic) -> Vec<Arc<dyn Model>> {
    let is_valid = |kind: &BaselineKind| match kind {
        BaselineKind::Drift => topic.truth == Truth::Value,
        BaselineKind::Zero => topic.truth == Truth::LogReturn,
        BaselineKind::Last | BaselineKind::Mean => true,
    };
    let kinds = BaselineKind::VARIANTS.iter().copied().filter(is_valid);
    kinds
        .map(|kind| -> Arc<dyn Model> { Arc::new(Simple { kind, topic: topic.clone() }) })
        .collect()
}

/// Error of a baseline if the rows it sees end before the horizon of each of them.
#[derive(Debug, thiserror::Error)]
#[error("no earlier result is known, since the rows before the epoch do not span the horizon")]
struct NoResult;

#[async_trait]
impl Model for Simple {
    fn name(&self) -> &str {
        self.kind.into()
    }

    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let series = values_of(&self.topic.source.column, rows);
        let single = |value: f64| {
            let label = self.topic.labels.first().cloned().unwrap_or_default();
            vec![(label, decimal(value))]
        };
        let values = match self.topic.truth {
            Truth::Value => self.value(&series).map(single),
            Truth::LogReturn | Truth::Volatility => self.past_outcome(&series)?.map(single),
            Truth::Direction { .. } => self.directions(&series),
        };
        let worker = addresses::of_model(self.name());
        let name = format!("baseline: {}", self.name());
        Ok(vec![Prediction { worker, name, values: values.ok_or(NoResult)? }])
    }
}

impl Simple {
    fn value(&self, series: &[(Timestamp, f64)]) -> Option<f64> {
        let (newest, last) = series.last()?;
        Some(match self.kind {
            BaselineKind::Last => *last,
            BaselineKind::Mean => mean(&series.iter().map(|(_, value)| *value).collect::<Vec<_>>()),
            BaselineKind::Drift => {
                let since = *newest - self.topic.source.horizon;
                let (_, before) = series.iter().find(|(at, _)| *at >= since)?;
                last + (last - before)
            }
            BaselineKind::Zero => 0.0,
        })
    }

    /// Returns the baseline's prediction for a log return or volatility: 0, the result of the latest
    /// past epoch, or the mean of the results of all past epochs. Each row in `series` is treated as the
    /// opening of a past epoch. Returns `None` if no result is known.
    ///
    /// # Errors
    /// [`OutcomeError`] if all known results are undefined.
    fn past_outcome(&self, series: &[(Timestamp, f64)]) -> Result<Option<f64>, OutcomeError> {
        let inputs = series.iter().rev().map(|&(at, value)| Input { at, value });
        let mut fault = None;
        let mut outcomes = inputs.filter_map(|input| {
            outcome(&self.topic, input, series)?.map_err(|error| fault = Some(error)).ok()
        });
        let predicted = match self.kind {
            BaselineKind::Zero => Some(0.0),
            BaselineKind::Last => outcomes.next(),
            BaselineKind::Mean | BaselineKind::Drift => {
                let outcomes: Vec<f64> = outcomes.collect();
                (!outcomes.is_empty()).then(|| mean(&outcomes))
            }
        };
        match (predicted, fault) {
            (None, Some(fault)) => Err(fault),
            (predicted, _) => Ok(predicted),
        }
    }

    /// Returns the probability of each direction by its frequency in the past. [`BaselineKind::Last`]
    /// counts only the latest direction.
    fn directions(&self, series: &[(Timestamp, f64)]) -> Option<Vec<(String, String)>> {
        let labels = DIRECTIONS;
        // Starts with a count of 1 for each direction, so that no probability is 0.
        let mut beliefs = [1.0; 3];
        let moves = series.iter().filter_map(|&(at, value)| {
            let after = outcome(&self.topic, Input { at, value }, series)?.ok()?;
            Some(self.topic.truth.of_labels(labels, value, after))
        });
        let moves: Vec<Vec<f64>> = moves.collect();
        let counted = if self.kind == BaselineKind::Last {
            moves.get(moves.len().saturating_sub(1)..).unwrap_or_default()
        } else {
            &moves
        };
        series.last()?;
        for way in counted {
            for (belief, is_true) in beliefs.iter_mut().zip(way) {
                *belief += is_true;
            }
        }
        let total: f64 = beliefs.iter().sum();
        let texts = beliefs.map(|belief| decimal(belief / total));
        Some(labels.iter().map(|label| (*label).to_owned()).zip(texts).collect())
    }
}

#[cfg(test)]
mod tests;
