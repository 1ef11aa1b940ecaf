//! Leaderboard: actors ranked by their mean loss, and losses of the network's values next to the losses
//! of an uninformed baseline.
//!
//! An actor's mean loss covers only the epochs that all ranked actors have in common, since epochs
//! differ in difficulty. Actors with too few epochs are not ranked, since otherwise a single lucky
//! submission could be first.

mod rank_history;
mod values;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::timestamp::Timestamp;
use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::HistoryEpoch;
use wire::inference::network::{EpochLosses, Leaderboard, RankedActor};

use self::rank_history::{WINDOW_EPOCHS, add_rank_histories};
pub(super) use self::values::PastValues;
use self::values::calibration;
use crate::math::loss::LossRule;
use crate::math::regret::{Losses, Role};
use crate::math::statistics::{count, mean, median};
use crate::network::submission::numbers;
use crate::network::topic::Topic;
use crate::{Inference, Result};

/// Epochs that a leaderboard covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// At most this number of the latest epochs.
    Latest(u32),
    /// Epochs that opened at most this duration ago.
    Last(Duration),
    /// All stored epochs.
    All,
}

/// Maximum number of epochs that a period can cover.
const PERIOD_EPOCHS_MAX: u32 = 10_000;

/// Default number of epochs to average.
pub const EPOCHS_DEFAULT: u32 = 100;

/// Maximum number of epochs to average.
pub const EPOCHS_MAX: u32 = 500;

/// Minimum number of epochs of a ranked actor, since a mean of fewer could be luck. These epochs must be
/// among the latest `2 * RANKED_EPOCHS_MIN`, so that an actor that left is not ranked and does not
/// restrict the epochs in common.
const RANKED_EPOCHS_MIN: u32 = 10;

/// Maximum total size of the stored epochs that are read for a ranking, in bytes.
const BYTES_READ_MAX: u64 = 48 << 20;

impl Inference {
    /// Ranks the actors of `topic` by the epochs in `period` from which the network learned. Leaves out
    /// epochs whose losses have another unit, and the oldest epochs if they are too large to read. If
    /// `actor` is given, returns only the actor with this address or name, with details: up to one entry
    /// for each role.
    ///
    /// # Errors
    /// [`AmbiguousActor`](crate::InferenceError::AmbiguousActor) if several actors use the name.
    /// Otherwise as [`Self::history`].
    pub async fn ranking(
        &self,
        topic: TopicId,
        period: Period,
        actor: Option<String>,
    ) -> Result<Leaderboard> {
        let settings = self.find_topic(topic)?;
        let (n_epochs, since) = self.bounds(&settings, period);
        // The first points of a rank history also cover earlier epochs.
        let n_earlier = if actor.is_some() { n_epochs.min(WINDOW_EPOCHS) } else { 0 };
        let n_read = n_epochs.saturating_add(n_earlier).min(PERIOD_EPOCHS_MAX);
        let sizes =
            self.read(topic, move |store| store.epoch_sizes(topic, 0..=BlockHeight::MAX, n_read));
        // Reads at least five epochs, even if they exceed the maximum size.
        let n_read = affordable(&sizes.await?).map_or(n_read, |n| n.max(5));
        let n_epochs = n_epochs.min(n_read);
        let mut losses = self.losses_until(topic, BlockHeight::MAX, n_read).await?;
        let unit = settings.judging.loss.unit();
        // Losses without a unit were stored by an earlier version, and have that of the epochs after them.
        let is_other =
            |(_, losses): &(_, Losses)| losses.unit.as_ref().is_some_and(|own| *own != unit);
        let n_comparable = losses.iter().position(is_other).unwrap_or(losses.len());
        losses.truncate(n_comparable);
        if losses.is_empty() {
            return Ok(ranking(&settings, &[], &[], &PastValues::default(), n_epochs, None));
        }
        // Also reads the epochs before, since the uninformed baseline is computed from their ground
        // truths.
        let first = losses.last().map_or(0, |(nonce, _)| *nonce);
        let n_blocks = u32::try_from(settings.timing.epoch_length).unwrap_or(u32::MAX);
        let epoch_time = self.chain().block_time().saturating_mul(n_blocks);
        let n_before = n_epochs_before(settings.source.horizon, epoch_time);
        let mut history = self.history(topic, 0..=first.saturating_sub(1), n_before).await?;
        history.extend(self.history(topic, first..=BlockHeight::MAX, u32::MAX).await?);
        let is_before = |epoch: &&HistoryEpoch| {
            epoch.opened_at.parse::<Timestamp>().is_ok_and(|opened_at| opened_at < since)
        };
        let before = history.iter().rfind(is_before).map(|epoch| epoch.nonce);
        let is_within = |nonce: BlockHeight| before.is_none_or(|before| nonce > before);
        let latest = losses.iter().take(usize::try_from(n_epochs).unwrap_or(usize::MAX));
        let n_counted = latest.take_while(|(nonce, _)| is_within(*nonce)).count();
        let n_found = u32::try_from(n_counted).unwrap_or(u32::MAX);
        let n_epochs = if since == Timestamp::MIN { n_epochs } else { n_epochs.min(n_found) };
        let counted = losses.get(..n_counted).unwrap_or_default();
        let (first, last) = (counted.last(), counted.first());
        let nonces = first.zip(last).map(|((first, _), (last, _))| *first..=*last);
        let actor = self.find_actor(topic, nonces.clone(), actor).await?;
        let board = self.read(topic, move |store| {
            let counted = losses.get(..n_counted).unwrap_or_default();
            let values = match nonces {
                Some(nonces) => PastValues::new(store.epoch_actors(topic, &nonces)?),
                None => PastValues::default(),
            };
            let wanted = actor.as_deref();
            let mut board = ranking(&settings, &history, counted, &values, n_epochs, wanted);
            if actor.is_some() {
                let n_window = n_epochs.min(WINDOW_EPOCHS);
                add_rank_histories(&mut board.actors, &losses, &history, n_counted, n_window);
            }
            Ok(board)
        });
        board.await
    }

    /// Returns the maximum number of epochs in `period`, and its start.
    fn bounds(&self, topic: &Topic, period: Period) -> (u32, Timestamp) {
        match period {
            Period::Latest(n_epochs) => (n_epochs, Timestamp::MIN),
            Period::All => (PERIOD_EPOCHS_MAX, Timestamp::MIN),
            Period::Last(duration) => {
                let chain = self.chain();
                let n_blocks = duration.as_millis() / chain.block_time().as_millis().max(1);
                let n_epochs = n_blocks / u128::from(topic.timing.epoch_length.max(1)) + 1;
                let n_epochs = u32::try_from(n_epochs).unwrap_or(u32::MAX);
                (n_epochs.min(PERIOD_EPOCHS_MAX), chain.now() - duration)
            }
        }
    }
}

/// Returns the number of latest epochs with a total size of at most [`BYTES_READ_MAX`], or `None` if
/// this includes all epochs.
fn affordable(sizes: &[(BlockHeight, u64)]) -> Option<u32> {
    let mut n_bytes = 0;
    let within = sizes.iter().rev().take_while(|(_, size)| {
        n_bytes += size;
        n_bytes <= BYTES_READ_MAX
    });
    let n_within = within.count();
    (n_within < sizes.len()).then(|| u32::try_from(n_within).unwrap_or(u32::MAX))
}

/// Ranks the actors by `losses`, which are sorted from latest to oldest. `history` contains the ground
/// truths, oldest first. `n_epochs` is the number of epochs in the period, which can exceed the number
/// of epochs with losses. If `wanted` is given, `actors` has only the actor with this address, with
/// details.
pub(super) fn ranking(
    topic: &Topic,
    history: &[HistoryEpoch],
    losses: &[(BlockHeight, Losses)],
    values: &PastValues,
    n_epochs: u32,
    wanted: Option<&str>,
) -> Leaderboard {
    let rule = topic.judging.loss;
    let scoring = Scoring { topic, losses, values, wanted };
    let by_nonce: BTreeMap<BlockHeight, &Losses> =
        losses.iter().map(|(nonce, losses)| (*nonce, losses)).collect();
    let known_means = known_means(history, topic.source.horizon);
    let mut epochs = Vec::new();
    for (epoch, mean) in history.iter().zip(known_means) {
        let Some(losses) = by_nonce.get(&epoch.nonce) else { continue };
        let truth = numbers(&epoch.truth);
        let mut plain_rule = LossRule { allow_negative: true, ..rule };
        plain_rule.parameters.std = losses.std;
        let uninformed = topic.truth.uninformed(truth.len(), mean);
        epochs.push(EpochLosses {
            nonce: epoch.nonce,
            opened_at: epoch.opened_at.clone(),
            combined: rule.plain(losses.combined),
            naive: rule.plain(losses.naive),
            uninformed: uninformed.map(|values| plain_rule.loss(&values, &truth)),
        });
    }
    let min = usize::try_from(RANKED_EPOCHS_MIN.min(n_epochs)).unwrap_or(usize::MAX);
    let standings = standings(records(losses), min);
    let Standings { ranked, common, unranked } = &standings;
    let ranked = ranked.iter().filter(|(_, record)| scoring.includes(record));
    let ranked = ranked.map(|(mean, record)| RankedActor {
        rank: Some(standings.rank(*mean)),
        ..scoring.actor(record, common)
    });
    let unranked = unranked.iter().filter(|(record, _)| scoring.includes(record));
    let unranked = unranked.map(|(record, n_counted)| RankedActor {
        n_counted_epochs: number(*n_counted),
        ..scoring.actor(record, &record.losses.keys().copied().collect())
    });
    let actors = ranked.chain(unranked).collect();
    Leaderboard {
        topic_id: topic.id.get(),
        epochs,
        min_epochs: number(min),
        n_common_epochs: number(common.len()),
        is_logarithmic: !rule.allow_negative,
        actors,
    }
}

/// Past epochs from which the scores of actors are computed.
struct Scoring<'a> {
    topic: &'a Topic,
    /// Losses of each epoch, latest first.
    losses: &'a [(BlockHeight, Losses)],
    values: &'a PastValues,
    /// Address of the only actor to score, with details. `None` for all.
    wanted: Option<&'a str>,
}

impl Scoring<'_> {
    /// Returns true if the actor is among those to score.
    fn includes(&self, record: &Record<'_>) -> bool {
        self.wanted.is_none_or(|wanted| record.worker.as_str() == wanted)
    }

    /// Returns an actor with its scores over the epochs at the indices `counted`. The rank is `None`.
    fn actor(&self, record: &Record<'_>, counted: &BTreeSet<usize>) -> RankedActor {
        let rule = self.topic.judging.loss;
        let own = record.losses_in(counted);
        let of_epochs = counted.iter().filter_map(|at| self.losses.get(*at));
        let naive: Vec<f64> = of_epochs.clone().map(|(_, losses)| losses.naive).collect();
        let n_better = own.iter().zip(&naive).filter(|(own, naive)| own < naive).count();
        let increases = of_epochs
            .clone()
            .filter(|(_, losses)| losses.by_actor(record.role).contains_key(record.worker))
            .map(|(_, losses)| losses.increase_without(record.role, record.worker));
        let increases: Vec<f64> = increases.map(Option::unwrap_or_default).collect();
        let nonces = of_epochs.map(|(nonce, _)| *nonce).collect();
        let worker = record.worker.as_str();
        let scores = self.values.scores(record.role, worker, &nonces, &self.topic.truth);
        RankedActor {
            worker: record.worker.to_string(),
            role: record.role.name().to_owned(),
            name: self.values.name(record.worker.as_str()),
            rank: None,
            n_epochs: number(record.losses.len()),
            n_counted_epochs: number(own.len()),
            mean_loss: mean(&own),
            mean_plain_loss: mean(&own.iter().map(|loss| rule.plain(*loss)).collect::<Vec<_>>()),
            median_loss: median(&own).unwrap_or_default(),
            better_than_naive: (!own.is_empty()).then(|| count(n_better) / count(own.len())),
            // The mean difference of base-10 logarithms is the logarithm of a ratio, which is converted
            // to percent.
            contribution: (!rule.allow_negative && !increases.is_empty())
                .then(|| (10_f64.powf(mean(&increases)) - 1.0) * 100.0),
            directional_accuracy: scores.directional_accuracy,
            correlation: scores.correlation,
            missed_epochs: number(record.losses.keys().next().copied().unwrap_or_default()),
            calibration: self.wanted.and_then(|_| calibration(&scores.predictions)),
            rank_history: Vec::new(),
        }
    }
}

fn number(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Losses of an actor by the index of the epoch. The latest epoch has the index 0.
struct Record<'a> {
    role: Role,
    worker: &'a Address,
    losses: BTreeMap<usize, f64>,
}

impl Record<'_> {
    /// Returns the losses in those of the epochs `counted` in which the actor took part.
    fn losses_in(&self, counted: &BTreeSet<usize>) -> Vec<f64> {
        counted.iter().filter_map(|at| self.losses.get(at)).copied().collect()
    }
}

/// Returns the losses of each actor.
fn records(losses: &[(BlockHeight, Losses)]) -> Vec<Record<'_>> {
    let mut records: BTreeMap<(Role, &Address), BTreeMap<usize, f64>> = BTreeMap::new();
    for (at, (_, losses)) in losses.iter().enumerate() {
        for role in Role::ALL {
            for (worker, loss) in losses.by_actor(role) {
                records.entry((role, worker)).or_default().insert(at, *loss);
            }
        }
    }
    let record = |((role, worker), losses)| Record { role, worker, losses };
    records.into_iter().map(record).collect()
}

/// Actors divided into ranked and unranked.
struct Standings<'a> {
    /// Ranked actors with their mean losses over the common epochs, lowest first.
    ranked: Vec<(f64, Record<'a>)>,
    /// Epochs that all ranked actors have in common.
    common: BTreeSet<usize>,
    /// Unranked actors, each with the number of its epochs that count toward a rank, in descending
    /// order of this number.
    unranked: Vec<(Record<'a>, usize)>,
}

impl Standings<'_> {
    /// Returns the rank of the ranked actors with this mean loss. Actors with equal losses share a rank.
    fn rank(&self, mean: f64) -> u64 {
        number(self.ranked.partition_point(|(other, _)| *other < mean) + 1)
    }
}

/// Divides `records` into ranked and unranked actors. A ranked actor was active in at least `min` of
/// the latest `2 * min` epochs. All ranked actors have at least `min` epochs in common.
fn standings<'a>(mut records: Vec<Record<'a>>, min: usize) -> Standings<'a> {
    // Starts with the actors that have the most epochs, so that as many epochs as possible remain in
    // common.
    records.sort_by_key(|record| Reverse(record.losses.len()));
    let mut ranked = Vec::new();
    let mut common: Option<BTreeSet<usize>> = None;
    let mut unranked = Vec::new();
    for record in records {
        let n_recent = record.losses.range(..min.saturating_mul(2)).count();
        let own = record.losses.keys().copied();
        let shared: BTreeSet<usize> = match &common {
            Some(common) => own.filter(|at| common.contains(at)).collect(),
            None => own.collect(),
        };
        if n_recent >= min && shared.len() >= min {
            ranked.push(record);
            common = Some(shared);
        } else {
            let n_counted = if n_recent < min { n_recent } else { shared.len() };
            unranked.push((record, n_counted));
        }
    }
    unranked.sort_by_key(|(_, n_counted)| Reverse(*n_counted));
    let common = common.unwrap_or_default();
    let with_mean = |record: Record<'a>| (mean(&record.losses_in(&common)), record);
    let mut ranked: Vec<_> = ranked.into_iter().map(with_mean).collect();
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    Standings { ranked, common, unranked }
}

/// Number of epochs from whose ground truths the baseline of an epoch is computed.
const BASELINE_EPOCHS: u16 = 100;

/// Returns the number of epochs before an epoch that are needed for its baseline, if an epoch opens each
/// `epoch_time`.
fn n_epochs_before(horizon: Duration, epoch_time: Duration) -> u32 {
    let n_unknown = horizon.as_micros().div_ceil(epoch_time.as_micros().max(1));
    u32::try_from(n_unknown).unwrap_or(u32::MAX).saturating_add(BASELINE_EPOCHS.into())
}

/// Returns for each epoch of `history`, oldest first, the mean ground truth of the latest
/// [`BASELINE_EPOCHS`] epochs whose `horizon` had passed when the epoch opened. The mean is `None` if
/// none of them has a ground truth.
fn known_means(history: &[HistoryEpoch], horizon: Duration) -> Vec<Option<f64>> {
    let opened_at = |epoch: &HistoryEpoch| epoch.opened_at.parse().unwrap_or(Timestamp::MIN);
    let opened_at: Vec<Timestamp> = history.iter().map(opened_at).collect();
    let mean_at = |at: &Timestamp| {
        let n_known = opened_at.partition_point(|earlier| *earlier + horizon <= *at);
        let known = history.iter().take(n_known).rev().take(BASELINE_EPOCHS.into());
        let truths = known.filter_map(|epoch| Some(epoch.truth.first()?.value));
        let truths: Vec<f64> = truths.collect();
        (!truths.is_empty()).then(|| mean(&truths))
    };
    opened_at.iter().map(mean_at).collect()
}

#[cfg(test)]
mod tests {
    use wire::inference::LabeledValue;

    use super::*;

    #[test]
    fn baseline_is_the_mean_of_known_truths_of_the_latest_hundred_epochs() {
        let epoch = |idx: u32| {
            let opened_at = Timestamp::from_seconds(i64::from(idx) * 60).to_string();
            let truth = LabeledValue { label_id: 1, label_name: "y".to_owned(), value: idx.into() };
            // Every tenth epoch was given up.
            let truth = if idx.is_multiple_of(10) { Vec::new() } else { vec![truth] };
            HistoryEpoch { opened_at, truth, ..HistoryEpoch::default() }
        };
        let history: Vec<_> = (0..300).map(epoch).collect();
        let horizon = Duration::from_secs(90);
        let means = known_means(&history, horizon);
        assert_eq!(means[..6], [None, None, None, Some(1.0), Some(1.5), Some(2.0)]);
        // The truths of the epochs 98 to 197 without the multiples of ten: (14750 − 1450) / 90.
        assert_eq!(means[199], Some(13_300.0 / 90.0));
        let n_before = n_epochs_before(horizon, Duration::from_mins(1));
        let start = 199 - usize::try_from(n_before).unwrap();
        assert_eq!(known_means(&history[start..], horizon).get(199 - start), means.get(199));
    }
}
