//! Backtests: a topic's epochs over rows of the past, as fast as they compute.
//!
//! In each epoch every model sees the rows up to a timestamp, and nothing later. What it predicts
//! goes the way of any submission: combined, kept until the rows reach the horizon, and then
//! learned from. Absent on purpose: where rows come from, stores, and clocks.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use model::{
    timestamp::Timestamp,
    topic::{Address, decimal},
};

use crate::{
    math::{
        loss::LossRule,
        outlier::Baseline,
        pair_values::FullBundle,
        regret::{ByActor, Role, RoleValues},
        statistics::count,
        synthesis::{SynthesisError, Values, interval::PERCENTILES},
    },
    network::{
        addresses,
        close::{CloseContext, close},
        leaderboard::{RANKED_EPOCHS_MIN, Record, Standings, standings},
        learned::{self, BundleError, Learned},
        submission::{Payload, Submission},
        topic::{Topic, Truth},
        upstream::{Cause, FlatRow},
    },
};

/// What one worker of a model predicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    /// The actor's address on the chain.
    pub worker: Address,
    /// Who it is, for people.
    pub name: String,
    /// Its values by label, as decimal texts.
    pub values: Vec<(String, String)>,
}

/// Something that predicts from rows.
#[async_trait]
pub trait Model: Send + Sync {
    /// What it is called.
    fn name(&self) -> &str;

    /// Predicts from `rows`, oldest first. One model may stand for several workers.
    ///
    /// # Errors
    /// A [`Cause`] if it predicts nothing this time.
    async fn predict(&self, rows: &[FlatRow]) -> Result<Vec<Prediction>, Cause>;
}

/// What to run, and over what.
#[derive(Clone, derive_more::Debug)]
#[debug("Backtest({})", topic.id)]
pub struct Backtest {
    /// The settings that epochs run with.
    pub topic: Topic,
    /// The models to ask in each epoch.
    pub models: Vec<Arc<dyn Model>>,
    /// How far apart epochs are, in the rows' time.
    pub every: Duration,
    /// How many rows a model sees.
    pub n_rows: usize,
}

/// Why a backtest broke off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BacktestError {
    /// The rows are too few to predict anything.
    #[error("find rows with column {column} in the range")]
    NoRows {
        /// The topic's column.
        column: String,
    },
    /// Two epochs cannot have one timestamp.
    #[error("run epochs that are no time apart")]
    Standstill,
    /// An epoch could not be combined.
    #[error("close an epoch")]
    Close(#[from] SynthesisError),
    /// An epoch could not be learned from.
    #[error("learn from an epoch")]
    Learn(#[from] BundleError),
}

/// How far a backtest is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Epochs that are over.
    pub n_done: u64,
    /// Epochs there are.
    pub n_epochs: u64,
}

/// What one actor came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorResult {
    /// The actor's address on the chain.
    pub worker: Address,
    /// Who it is.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// In how many epochs that were learned from it took part.
    pub n_epochs: u32,
    /// Its rank in its role; `None` if it has too few epochs, as on the leaderboard.
    pub rank: Option<u32>,
    /// Mean of its losses in the epochs that all ranked actors have in common; in all of its own if it
    /// is not ranked.
    pub mean_loss: f64,
    /// The same of its losses that are not logarithms.
    pub mean_plain_loss: f64,
    /// Its share in the last combined value.
    pub share: f64,
    /// Its regret in the end.
    pub regret: f64,
    /// The moving average of its scores in the end.
    pub score: f64,
}

/// Mean losses over the epochs that were learned from, none of them as a logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PlainLosses {
    /// Of the combined value.
    pub combined: f64,
    /// Of the naive value.
    pub naive: f64,
    /// Of one that knows nothing of the rows: the same belief in each direction, or the mean of the
    /// values that had come true by then.
    pub uninformed: f64,
}

/// What a backtest came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Epochs that closed with a bundle.
    pub n_closed: u64,
    /// Epochs that were learned from.
    pub n_learned: u64,
    /// Epochs in which nobody predicted.
    pub n_empty: u64,
    /// How often each model predicted nothing, and what it said the last time.
    pub failures: BTreeMap<String, (u64, String)>,
    /// The mean loss of the combined value.
    pub combined_loss: f64,
    /// The mean loss of the naive value.
    pub naive_loss: f64,
    /// Mean losses, none of them as a logarithm.
    pub plain: PlainLosses,
    /// How often the truth lay between the outer percentiles, 0 to 1; none for several labels.
    pub coverage: Option<f64>,
    /// Epochs that all ranked actors have in common.
    pub n_common_epochs: u64,
    /// The actors: inferers first, by rank.
    pub actors: Vec<ActorResult>,
}

/// An epoch whose truth is to come.
struct Pending {
    due: Timestamp,
    before: f64,
    bundle: FullBundle,
    interval: Option<(f64, f64)>,
    /// What one would say that knows nothing of the rows.
    uninformed: Values,
}

/// Losses of one actor by epoch, counted from 0: as they are learned from, and not as logarithms.
type ActorLosses = BTreeMap<usize, (f64, f64)>;

/// Sums over epochs.
#[derive(Default)]
struct Sums {
    report: Report,
    losses: BTreeMap<(Role, Address), ActorLosses>,
    /// The values that came true; none of a topic of directions.
    truths: f64,
    names: BTreeMap<Address, String>,
    shares: RoleValues,
    n_within: u64,
    n_intervals: u64,
}

impl Backtest {
    /// Runs the epochs that begin from `from` on, over `rows` in the order of their timestamps; rows
    /// before `from` are what the first epochs see. Calls `progress` after each epoch. Cancel-safe.
    ///
    /// # Errors
    /// [`BacktestError`] names what broke it off. A model that fails is counted and left out.
    pub async fn run(
        &self,
        rows: &[FlatRow],
        from: Timestamp,
        mut progress: impl FnMut(Step) + Send,
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
            // Heights go on by epochs, as they do on a chain.
            let nonce = 1 + n_done * self.topic.timing.epoch_length;
            let submissions = self.submissions(seen, &mut sums).await;
            let closed = self.close(nonce, &submissions, &learned, &mut baseline, &mut sums)?;
            let newest = seen.last().and_then(|row| Some((row, *row.values.get(column)?)));
            if let (Some((bundle, interval)), Some((row, before))) = (closed, newest) {
                let due = row.timestamp + self.topic.source.horizon;
                let uninformed = self.uninformed(&bundle, before, &sums);
                pending.push_back(Pending { due, before, bundle, interval, uninformed });
            }
            progress(Step { n_done: n_done + 1, n_epochs });
            at = at + self.every;
        }
        for epoch in pending {
            self.learn(&epoch, &known, &mut learned, &mut sums)?;
        }
        Ok(sums.report(&learned))
    }

    /// What the models predict, as the topic takes it.
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

    /// Closes an epoch; none where nobody predicted.
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

    /// What one would say of an epoch that knows nothing of its rows; before any value came true,
    /// that is the newest one.
    fn uninformed(&self, bundle: &FullBundle, before: f64, sums: &Sums) -> Values {
        let n_labels = bundle.combined_value.len();
        match self.topic.truth {
            Truth::Direction { .. } => vec![1.0 / count(n_labels.max(1)); n_labels],
            Truth::Value => vec![mean(sums.truths, sums.report.n_learned).unwrap_or(before)],
        }
    }

    /// Learns from an epoch, if the rows reach its truth.
    fn learn(
        &self,
        epoch: &Pending,
        rows: &[FlatRow],
        learned: &mut Learned,
        sums: &mut Sums,
    ) -> Result<(), BacktestError> {
        let source = &self.topic.source;
        let place = rows.partition_point(|row| row.timestamp < epoch.due);
        // As in a running network: a row a horizon late is no truth of this epoch.
        let row = rows.get(place).filter(|row| row.timestamp <= epoch.due + source.horizon);
        let Some(after) = row.and_then(|row| row.values.get(&source.column)) else {
            return Ok(());
        };
        let labels: Vec<&str> =
            epoch.bundle.combined_value.iter().map(|value| value.label_name.as_str()).collect();
        let truth = self.topic.truth_of(&labels, epoch.before, *after);
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
    /// Sorts the actors: by role, the ranked ones first, the best first. Gives them their ranks.
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

/// The mean of `n` numbers with that sum; none of none.
#[expect(clippy::cast_precision_loss, reason = "epochs are far fewer than 2^52")]
fn mean(sum: f64, n: u64) -> Option<f64> {
    (n > 0).then(|| sum / n as f64)
}

/// Returns the labels of an epoch: those of its submissions, in first-seen order.
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

/// How much each direction is believed in before any row speaks for one.
const PRIOR: f64 = 1.0;

/// How a baseline predicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The newest value; the newest direction.
    Last,
    /// The mean of the values; each direction as often as it was.
    Mean,
    /// The newest value, and as much further as the last horizon went.
    Drift,
}

/// A baseline of one topic.
#[derive(Debug)]
struct Simple {
    kind: Kind,
    topic: Topic,
    name: &'static str,
}

/// The baselines of `topic`: `last`, `mean`, and `drift` where values are numbers.
pub fn baselines(topic: &Topic) -> Vec<Arc<dyn Model>> {
    let kinds = [(Kind::Last, "last"), (Kind::Mean, "mean"), (Kind::Drift, "drift")];
    let is_fit = |kind: Kind| kind != Kind::Drift || topic.truth == Truth::Value;
    let model =
        |(kind, name)| -> Arc<dyn Model> { Arc::new(Simple { kind, topic: topic.clone(), name }) };
    kinds.into_iter().filter(|(kind, _)| is_fit(*kind)).map(model).collect()
}

/// There are no rows to predict from.
#[derive(Debug, thiserror::Error)]
#[error("find a row to predict from")]
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
            Kind::Last => *last,
            Kind::Mean => series.iter().map(|(_, v)| v).sum::<f64>() / count(series.len()),
            Kind::Drift => {
                let since = newest.timestamp - self.topic.source.horizon;
                let (_, before) = series.iter().find(|(row, _)| row.timestamp >= since)?;
                last + (last - before)
            }
        })
    }

    /// How often the series went each way over a horizon; the last way alone for [`Kind::Last`].
    fn directions(&self, series: &[(&FlatRow, f64)]) -> Option<Vec<(String, String)>> {
        let labels = ["up", "down", "flat"];
        let mut beliefs = [PRIOR; 3];
        let horizon = self.topic.source.horizon;
        let moves = series.iter().filter_map(|(row, before)| {
            let due = row.timestamp + horizon;
            let after = series.iter().find(|(row, _)| row.timestamp >= due)?.1;
            Some(self.topic.truth_of(&labels, *before, after))
        });
        let moves: Vec<Vec<f64>> = moves.collect();
        let counted = if self.kind == Kind::Last {
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
