//! Ranks of actors over time, by the rule of the leaderboard.

use std::collections::BTreeMap;

use model::topic::BlockHeight;
use wire::inference::HistoryEpoch;
use wire::inference::network::{RankPoint, RankedActor};

use super::{EPOCHS_DEFAULT, RANKED_EPOCHS_MIN, Record, Standings, number, records, standings};
use crate::math::regret::Losses;
use crate::math::statistics::mean;

/// Maximum number of epochs that a point covers: as many as a leaderboard by default.
pub(super) const WINDOW_EPOCHS: u32 = EPOCHS_DEFAULT;

/// Maximum number of points of a rank history. Few charts have more columns.
const POINTS_MAX: usize = 100;

/// Maximum number of losses that are compared for a response, which bounds its time. Topics with many
/// actors have fewer points.
const COMPARED_MAX: usize = 1_000_000;

/// Adds the rank history to each of `actors`. The points are among the latest `n_counted` epochs of
/// `losses`, latest first, and each covers `n_window` epochs. `history` has the times of the epochs.
pub(super) fn add_rank_histories(
    actors: &mut [RankedActor],
    losses: &[(BlockHeight, Losses)],
    history: &[HistoryEpoch],
    n_counted: usize,
    n_window: u32,
) {
    if actors.is_empty() {
        return;
    }
    let opened_at: BTreeMap<BlockHeight, &str> =
        history.iter().map(|epoch| (epoch.nonce, &*epoch.opened_at)).collect();
    let min = usize::try_from(RANKED_EPOCHS_MIN.min(n_window)).unwrap_or(usize::MAX);
    let n_window = usize::try_from(n_window).unwrap_or(usize::MAX);
    for start in starts(losses, n_counted, n_window) {
        let end = start.saturating_add(n_window).min(losses.len());
        let Some(covered @ [(nonce, _), ..]) = losses.get(start..end) else { continue };
        let Some(opened_at) = opened_at.get(nonce) else { continue };
        let standings = standings(records(covered), min);
        for actor in &mut *actors {
            let (rank, mean_loss) = standings.find(actor).unzip();
            actor.rank_history.push(RankPoint {
                nonce: *nonce,
                opened_at: (*opened_at).to_owned(),
                rank: rank.flatten(),
                n_ranked: number(standings.ranked.len()),
                mean_loss,
            });
        }
    }
}

/// Returns the index of the latest epoch of each point, oldest first.
fn starts(
    losses: &[(BlockHeight, Losses)],
    n_counted: usize,
    n_window: usize,
) -> impl Iterator<Item = usize> {
    let n_actors = |losses: &Losses| losses.inferer.len() + losses.forecaster.len();
    let n_actors = losses.iter().map(|(_, losses)| n_actors(losses)).max().unwrap_or_default();
    let n_losses = n_actors.saturating_mul(n_window.min(losses.len()));
    let n_points = (COMPARED_MAX / n_losses.max(1)).clamp(1, POINTS_MAX);
    (0..n_counted).step_by(n_counted.div_ceil(n_points).max(1)).rev()
}

impl Standings<'_> {
    /// Returns the rank of `actor`, `None` if it is not ranked, and its mean loss. Returns `None` if
    /// the actor has no losses.
    fn find(&self, actor: &RankedActor) -> Option<(Option<u64>, f64)> {
        let is_same = |record: &Record<'_>| {
            record.worker.as_str() == actor.worker && record.role.name() == actor.role
        };
        if let Some((mean, _)) = self.ranked.iter().find(|(_, record)| is_same(record)) {
            return Some((Some(self.rank(*mean)), *mean));
        }
        let (record, _) = self.unranked.iter().find(|(record, _)| is_same(record))?;
        Some((None, mean(&record.losses.values().copied().collect::<Vec<_>>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(n_epochs: u32, n_actors: u32) -> Vec<(BlockHeight, Losses)> {
        let inferer =
            (0..n_actors).map(|idx| (format!("allo1{idx}").parse().unwrap(), f64::from(idx)));
        let losses = Losses { inferer: inferer.collect(), ..Losses::default() };
        (0..n_epochs).rev().map(|nonce| (nonce.into(), losses.clone())).collect()
    }

    #[test]
    fn points_of_a_rank_history_are_evenly_spaced_and_end_with_the_latest_epoch() {
        let losses = epochs(1, 1);
        let of = |n_counted| starts(&losses, n_counted, 100).collect::<Vec<_>>();
        assert_eq!(of(0), [0; 0]);
        assert_eq!(of(3), [2, 1, 0]);
        assert_eq!((of(10_000).len(), &of(10_000)[98..]), (100, &[100, 0][..]));
        assert_eq!((of(101).len(), &of(101)[49..]), (51, &[2, 0][..]));
    }

    #[test]
    fn rank_history_of_a_topic_with_many_actors_has_fewer_points() {
        let losses = epochs(100, 1000);
        assert_eq!(starts(&losses, 100, 100).count(), 10);
        assert_eq!(starts(&losses, 100, 1).count(), 100);
    }

    #[test]
    fn actor_is_ranked_once_it_has_enough_epochs() {
        let mut losses = epochs(25, 3);
        // The best actor joins in the last 12 epochs.
        for (_, losses) in &mut losses[12..] {
            losses.inferer.remove(&"allo10".parse().unwrap());
        }
        let history = losses
            .iter()
            .map(|(nonce, _)| HistoryEpoch { nonce: *nonce, ..HistoryEpoch::default() });
        let history: Vec<_> = history.collect();
        let newcomer = RankedActor {
            worker: "allo10".to_owned(),
            role: "inferer".to_owned(),
            ..RankedActor::default()
        };
        let mut actors = [newcomer];
        add_rank_histories(&mut actors, &losses, &history, 14, 20);
        let points = actors[0].rank_history.iter();
        let points: Vec<_> =
            points.map(|it| (it.nonce, it.rank, it.n_ranked, it.mean_loss)).collect();
        assert_eq!(
            points[..3],
            [(11, None, 2, None), (12, None, 2, None), (13, None, 2, Some(0.0)),]
        );
        assert_eq!(points[10..12], [(21, None, 2, Some(0.0)), (22, Some(1), 3, Some(0.0))]);
        assert_eq!(points.len(), 14);
    }
}
