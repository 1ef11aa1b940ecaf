//! Backtests: epochs of a topic over past rows, as fast as they can be computed.
//!
//! In each epoch, the models see only rows up to its timestamp. Their predictions are combined like
//! other submissions. They are learned from when the rows reach the horizon.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::timestamp::Timestamp;
use model::topic::{Address, decimal};

use crate::math::loss::LossRule;
use crate::math::outlier::Baseline;
use crate::math::pair_values::FullBundle;
use crate::math::regret::{ByActor, Role, RoleValues};
use crate::math::statistics::count;
use crate::math::synthesis::interval::PERCENTILES;
use crate::math::synthesis::{SynthesisError, Values};
use crate::network::addresses;
use crate::network::close::{CloseContext, close};
use crate::network::leaderboard::{RANKED_EPOCHS_MIN, Record, Standings, standings};
use crate::network::learned::{self, BundleError, Learned};
use crate::network::submission::{Payload, Submission};
use crate::network::topic::{Topic, Truth};
use crate::network::upstream::{Cause, FlatRow};

/// Prediction of a worker of a model.
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

    /// Predicts from `rows`, oldest first. A model can predict for several workers.
    ///
    /// # Errors
    /// [`Cause`] if it has no prediction this time.
    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause>;
}

/// Configuration of a backtest.
#[derive(Clone, derive_more::Debug)]
#[debug("Backtest({})", topic.id)]
pub struct Backtest {
    /// Topic to use the settings of.
    pub topic: Topic,
    /// Models that predict in each epoch.
    pub models: Vec<Arc<dyn Model>>,
    /// Interval between epochs, in the rows' time.
    pub every: Duration,
    /// Number of rows that a model sees.
    pub n_rows: usize,
}

/// Error of a backtest.
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
    /// An epoch could not be combined.
    #[error("epoch could not be combined")]
    Close(#[from] SynthesisError),
    /// Learning from an epoch failed.
    #[error("epoch could not be learned from")]
    Learn(#[from] BundleError),
}

/// Progress of a backtest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacktestProgress {
    /// Number of finished epochs.
    pub n_done: u64,
    /// Total number of epochs.
    pub n_epochs: u64,
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
    /// Number of epochs with the actor that were learned from.
    pub n_epochs: u32,
    /// Rank in its role, or `None` with too few epochs, as on the leaderboard.
    pub rank: Option<u32>,
    /// Mean loss in the epochs that all ranked actors have in common, or in all its epochs if it is
    /// not ranked.
    pub mean_loss: f64,
    /// Mean of the same losses, not logarithmic.
    pub mean_plain_loss: f64,
    /// Weight in the last combined value.
    pub share: f64,
    /// Final regret.
    pub regret: f64,
    /// Final moving average of its scores.
    pub score: f64,
}

/// Mean losses over the epochs that were learned from, not logarithmic.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlainLosses {
    /// Loss of the combined value.
    pub combined: f64,
    /// Loss of the naive value.
    pub naive: f64,
    /// Loss of an uninformed prediction: equal probabilities of all directions, or the mean of
    /// earlier ground truths.
    pub uninformed: f64,
}

/// Results of a backtest.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Number of epochs that closed with a bundle.
    pub n_closed: u64,
    /// Number of epochs that were learned from.
    pub n_learned: u64,
    /// Number of epochs without predictions.
    pub n_empty: u64,
    /// Number of failures and last error of each model.
    pub failures: BTreeMap<String, (u64, String)>,
    /// Mean loss of the combined value.
    pub combined_loss: f64,
    /// Mean loss of the naive value.
    pub naive_loss: f64,
    /// Mean losses, not logarithmic.
    pub plain: PlainLosses,
    /// Fraction of ground truths within the outer percentiles, 0 to 1, or `None` for several labels.
    pub coverage: Option<f64>,
    /// Number of epochs that all ranked actors have in common.
    pub n_common_epochs: u64,
    /// Results of the actors: inferers first, by rank.
    pub actors: Vec<ActorResult>,
}

/// An epoch before its ground truth is known.
struct Pending {
    due: Timestamp,
    before: f64,
    bundle: FullBundle,
    interval: Option<(f64, f64)>,
    /// Uninformed prediction for this epoch.
    uninformed: Values,
}

/// Losses of an actor by index of the epoch: as used for learning and as plain losses.
type ActorLosses = BTreeMap<usize, (f64, f64)>;

/// Sums over epochs.
#[derive(Default)]
struct Sums {
    report: Report,
    losses: BTreeMap<(Role, Address), ActorLosses>,
    /// Sum of the ground truths. Not used for directions.
    truths: f64,
    names: BTreeMap<Address, String>,
    shares: RoleValues,
    n_within: u64,
    n_intervals: u64,
}

impl Backtest {
    /// Runs the epochs from `from` on over `rows`, which are sorted by timestamp. Rows before
    /// `from` are visible to the first epochs. Calls `progress` after each epoch. Cancel-safe.
    ///
    /// # Errors
    /// [`BacktestError`] if it cannot continue. Failing models are counted and skipped.
    pub async fn run(
        &self,
        rows: &[FlatRow],
        from: Timestamp,
        mut progress: impl FnMut(BacktestProgress) + Send,
    ) -> Result<Report, BacktestError> {
        let column = &self.topic.source.column;
        let known: Vec<FlatRow> =
            rows.iter().filter(|row| row.values.contains_key(column)).cloned().collect();
        let no_rows = || BacktestError::NoRows { column: column.clone() };
        let (first, last) = known.first().zip(known.last()).ok_or_else(no_rows)?;
        if self.every.is_zero() {
            return Err(BacktestError::Standstill);
        }
        let start = from.max(first.timestamp);
        let n_epochs = last.timestamp.since(start).as_micros() / self.every.as_micros() + 1;
        let n_epochs = u64::try_from(n_epochs).unwrap_or(u64::MAX);
        let (mut learned, mut baseline) = (Learned::default(), None);
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut sums = Sums::default();
        let mut at = start;
        for n_done in 0..n_epochs {
            let n_seen = known.partition_point(|row| row.timestamp <= at);
            let seen = known.get(n_seen.saturating_sub(self.n_rows)..n_seen).unwrap_or_default();
            while pending.front().is_some_and(|epoch| epoch.due <= at) {
                let Some(epoch) = pending.pop_front() else { break };
                self.learn(&epoch, &known, &mut learned, &mut sums)?;
            }
            // Heights increase by the epoch length, as on a chain.
            let nonce = 1 + n_done * self.topic.timing.epoch_length;
            let submissions = self.submissions(seen, &mut sums).await;
            let closed = self.close(nonce, &submissions, &learned, &mut baseline, &mut sums)?;
            let newest = seen.last().and_then(|row| Some((row, *row.values.get(column)?)));
            if let (Some((bundle, interval)), Some((row, before))) = (closed, newest) {
                let due = row.timestamp + self.topic.source.horizon;
                // Before the first ground truth, it is the latest value.
                let mean = mean(sums.truths, sums.report.n_learned).unwrap_or(before);
                let uninformed = self.topic.uninformed(bundle.combined_value.len(), Some(mean));
                let uninformed = uninformed.unwrap_or_default();
                pending.push_back(Pending { due, before, bundle, interval, uninformed });
            }
            progress(BacktestProgress { n_done: n_done + 1, n_epochs });
            at = at + self.every;
        }
        for epoch in pending {
            self.learn(&epoch, &known, &mut learned, &mut sums)?;
        }
        Ok(sums.report(&learned))
    }

    /// Returns the valid predictions of the models.
    async fn submissions(&self, seen: &[FlatRow], sums: &mut Sums) -> Vec<Submission> {
        let mut submissions: Vec<Submission> = Vec::new();
        for model in &self.models {
            let predicted = match model.predict(seen).await {
                Ok(predicted) => predicted,
                Err(error) => {
                    sums.failed(model.name(), &task::causes::chain(error.as_ref()));
                    continue;
                }
            };
            for Prediction { worker, name, values } in predicted {
                let payload = Payload { values, ..Payload::default() };
                match Submission::checked(&self.topic, worker.clone(), Some(name.clone()), payload)
                {
                    Ok(submission) => {
                        sums.names.insert(worker, name);
                        submissions.push(submission);
                    }
                    Err(error) => sums.failed(model.name(), &task::causes::chain(&error)),
                }
            }
        }
        submissions.sort_by(|a, b| a.worker.cmp(&b.worker));
        submissions.dedup_by(|later, first| later.worker == first.worker);
        submissions
    }

    /// Closes an epoch. Returns `None` without predictions.
    #[expect(clippy::type_complexity, reason = "a bundle, and where its values lie")]
    fn close(
        &self,
        nonce: u64,
        submissions: &[Submission],
        learned: &Learned,
        baseline: &mut Option<Baseline>,
        sums: &mut Sums,
    ) -> Result<Option<(FullBundle, Option<(f64, f64)>)>, BacktestError> {
        let labels = labels(&self.topic, submissions);
        let close_context = CloseContext { labels: &labels, learned, baseline: *baseline };
        let closing = match close(&self.topic, nonce, submissions, close_context) {
            Ok(closing) => closing,
            Err(SynthesisError::NoInferences) => {
                sums.report.n_empty += 1;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        *baseline = closing.baseline;
        sums.report.n_closed += 1;
        sums.shares = closing.shares;
        for forecast in closing.forecasts {
            let name = forecast.name.unwrap_or_default();
            sums.names.insert(forecast.worker, name);
        }
        let interval = closing.intervals.first().filter(|_| labels.len() == 1);
        let outer = interval
            .and_then(|i| Some((*i.values.first()?, *i.values.get(PERCENTILES.len() - 1)?)));
        Ok(Some((closing.bundle, outer)))
    }

    /// Learns from an epoch, if the rows reach its ground truth.
    fn learn(
        &self,
        epoch: &Pending,
        rows: &[FlatRow],
        learned: &mut Learned,
        sums: &mut Sums,
    ) -> Result<(), BacktestError> {
        let source = &self.topic.source;
        let place = rows.partition_point(|row| row.timestamp < epoch.due);
        // As in a running network, a row that is later than expected by more than the horizon is not
        // used.
        let row = rows.get(place).filter(|row| row.timestamp <= epoch.due + source.horizon);
        let Some(after) = row.and_then(|row| row.values.get(&source.column)) else {
            return Ok(());
        };
        let truth = self.topic.truth_of(epoch.bundle.labels(), epoch.before, *after);
        let losses = learned.learn(&self.topic, &epoch.bundle, &truth)?;
        sums.report.n_learned += 1;
        sums.report.combined_loss += losses.combined;
        sums.report.naive_loss += losses.naive;
        if let Some((low, high)) = epoch.interval {
            sums.n_intervals += 1;
            sums.n_within += u64::from((low..=high).contains(after));
        }
        let rule = LossRule { allow_negative: true, ..self.topic.judging.loss };
        let plain = learned::losses(rule, &epoch.bundle, &truth)?;
        sums.truths += truth.first().copied().unwrap_or_default();
        sums.report.plain.combined += plain.combined;
        sums.report.plain.naive += plain.naive;
        sums.report.plain.uninformed += rule.loss(&epoch.uninformed, &truth);
        let epoch = usize::try_from(sums.report.n_learned - 1).unwrap_or(usize::MAX);
        for role in Role::ALL {
            for (name, loss) in losses.by_actor(role) {
                let plain = plain.by_actor(role).get(name).copied().unwrap_or_default();
                let own = sums.losses.entry((role, name.clone())).or_default();
                own.insert(epoch, (*loss, plain));
            }
        }
        Ok(())
    }
}

impl Report {
    /// Sorts the actors by role, rank and mean loss. Assigns the ranks.
    fn rank_actors(&mut self) {
        self.actors.sort_by(|a, b| {
            (a.role, a.rank.is_none())
                .cmp(&(b.role, b.rank.is_none()))
                .then(a.mean_loss.total_cmp(&b.mean_loss))
        });
        for role in Role::ALL {
            let ranked = self.actors.iter_mut().filter(|it| it.role == role && it.rank.is_some());
            for (rank, actor) in (1..).zip(ranked) {
                actor.rank = Some(rank);
            }
        }
    }
}

impl Sums {
    fn failed(&mut self, model: &str, why: &str) {
        let failure = self.report.failures.entry(model.to_owned()).or_default();
        *failure = (failure.0 + 1, why.to_owned());
    }

    fn report(self, learned: &Learned) -> Report {
        let mut report = self.report;
        let part = |sum: f64, n: u64| mean(sum, n).unwrap_or_default();
        report.combined_loss = part(report.combined_loss, report.n_learned);
        report.naive_loss = part(report.naive_loss, report.n_learned);
        let PlainLosses { combined, naive, uninformed } = report.plain;
        let [combined, naive, uninformed] =
            [combined, naive, uninformed].map(|sum| part(sum, report.n_learned));
        report.plain = PlainLosses { combined, naive, uninformed };
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let n_within = self.n_within as f64;
        report.coverage = (self.n_intervals > 0).then(|| part(n_within, self.n_intervals));
        let n_learned = usize::try_from(report.n_learned).unwrap_or(usize::MAX);
        let record = |((role, worker), losses): (&(Role, Address), &'_ ActorLosses)| {
            let newest_first = losses.iter().map(|(epoch, loss)| (n_learned - 1 - epoch, loss.0));
            (*role, worker.clone(), newest_first.collect::<BTreeMap<_, _>>())
        };
        let records: Vec<_> = self.losses.iter().map(record).collect();
        let records = records.iter().map(|(role, worker, losses)| Record {
            role: *role,
            worker,
            losses: losses.clone(),
        });
        let min = n_learned.min(usize::try_from(RANKED_EPOCHS_MIN).unwrap_or(usize::MAX));
        let Standings { ranked, common, .. } = standings(records.collect(), min);
        let ranked: BTreeSet<_> =
            ranked.iter().map(|record| (record.role, record.worker.clone())).collect();
        report.n_common_epochs = u64::try_from(common.len()).unwrap_or(u64::MAX);
        for (actor, losses) in self.losses {
            let is_ranked = ranked.contains(&actor);
            let counts = |epoch: &usize| !is_ranked || common.contains(&(n_learned - 1 - epoch));
            let counted: Vec<_> =
                losses.iter().filter(|(epoch, _)| counts(epoch)).map(|(_, loss)| *loss).collect();
            let mean = |sum: f64| sum / count(counted.len().max(1));
            let (role, worker) = actor;
            let of = |family: &ByActor<f64>| family.get(&worker).copied().unwrap_or_default();
            report.actors.push(ActorResult {
                name: self.names.get(&worker).cloned().unwrap_or_default(),
                role,
                n_epochs: u32::try_from(losses.len()).unwrap_or(u32::MAX),
                rank: is_ranked.then_some(0),
                mean_loss: mean(counted.iter().map(|loss| loss.0).sum()),
                mean_plain_loss: mean(counted.iter().map(|loss| loss.1).sum()),
                share: of(&self.shares[role]),
                regret: of(&learned.regrets.ordinary[role]),
                score: of(&learned.scores[role]),
                worker,
            });
        }
        report.rank_actors();
        report
    }
}

/// Returns the mean of `n` numbers with that sum, or `None` without numbers.
#[expect(clippy::cast_precision_loss, reason = "epochs are far fewer than 2^52")]
fn mean(sum: f64, n: u64) -> Option<f64> {
    (n > 0).then(|| sum / n as f64)
}

/// Returns the labels of an epoch: the labels of its submissions, in first-seen order.
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

/// Kind of a baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BaselineKind {
    /// The latest value or direction.
    Last,
    /// The mean of the values, or the frequency of each direction.
    Mean,
    /// The latest value, continued by its change over the last horizon.
    Drift,
}

/// A baseline model of a topic.
#[derive(Debug)]
struct Simple {
    kind: BaselineKind,
    topic: Topic,
    name: &'static str,
}

/// Returns the baselines of `topic`: `last` and `mean`, for numbers also `drift`.
pub fn baselines(topic: &Topic) -> Vec<Arc<dyn Model>> {
    let kinds = [
        (BaselineKind::Last, "last"),
        (BaselineKind::Mean, "mean"),
        (BaselineKind::Drift, "drift"),
    ];
    let is_valid = |kind: BaselineKind| kind != BaselineKind::Drift || topic.truth == Truth::Value;
    let model =
        |(kind, name)| -> Arc<dyn Model> { Arc::new(Simple { kind, topic: topic.clone(), name }) };
    kinds.into_iter().filter(|(kind, _)| is_valid(*kind)).map(model).collect()
}

/// Error of a baseline without rows to predict from.
#[derive(Debug, thiserror::Error)]
#[error("no row to predict from")]
struct NoRows;

#[async_trait]
impl Model for Simple {
    fn name(&self) -> &str {
        self.name
    }

    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause> {
        let series: Vec<(&FlatRow, f64)> = rows
            .iter()
            .filter_map(|row| Some((row, *row.values.get(&self.topic.source.column)?)))
            .collect();
        let values = match self.topic.truth {
            Truth::Value => self.value(&series).map(|value| {
                let label = self.topic.labels.first().cloned().unwrap_or_default();
                vec![(label, decimal(value))]
            }),
            Truth::Direction { .. } => self.directions(&series),
        };
        let worker = addresses::of_model(self.name);
        let name = format!("baseline: {}", self.name);
        Ok(vec![Prediction { worker, name, values: values.ok_or(NoRows)? }])
    }
}

impl Simple {
    fn value(&self, series: &[(&FlatRow, f64)]) -> Option<f64> {
        let (newest, last) = series.last()?;
        Some(match self.kind {
            BaselineKind::Last => *last,
            BaselineKind::Mean => series.iter().map(|(_, v)| v).sum::<f64>() / count(series.len()),
            BaselineKind::Drift => {
                let since = newest.timestamp - self.topic.source.horizon;
                let (_, before) = series.iter().find(|(row, _)| row.timestamp >= since)?;
                last + (last - before)
            }
        })
    }

    /// Returns the frequency of each direction over a horizon, or only the latest direction for
    /// [`BaselineKind::Last`].
    fn directions(&self, series: &[(&FlatRow, f64)]) -> Option<Vec<(String, String)>> {
        let labels = ["up", "down", "flat"];
        // Each direction counts once before the first row.
        let mut beliefs = [1.0; 3];
        let horizon = self.topic.source.horizon;
        let moves = series.iter().filter_map(|(row, before)| {
            let due = row.timestamp + horizon;
            let after = series.iter().find(|(row, _)| row.timestamp >= due)?.1;
            Some(self.topic.truth_of(labels, *before, after))
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
