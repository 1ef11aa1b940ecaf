//! `triptych inference leaderboard`: ranks a topic's actors by their mean loss and compares the losses
//! of the network's values.

use anyhow::{Context as _, ensure};
use clap::Args;
use model::count::counted;
use wire::inference::network::{
    Calibration, EpochLosses, Leaderboard, RankPoint, RankedActor, ReliabilityBin,
};

use super::{TopicFlags, figure};
use crate::cli::output::{Column, show, table_of};

/// Flags of `inference leaderboard`.
#[derive(Debug, Args)]
pub(crate) struct LeaderboardCommand {
    /// Number of latest epochs to rank by, from 1 to 500
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    epochs: u32,
    /// Rank by the epochs that opened within this time instead: 24h, 7d, 30d or all
    #[arg(long, conflicts_with = "epochs", value_parser = ["24h", "7d", "30d", "all"])]
    period: Option<String>,
    /// Address or name of the only actor to print, with its rank history and the calibration of its
    /// probabilities
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    topic: TopicFlags,
}

/// Prints the leaderboard.
///
/// # Errors
/// If there is no such topic, or the request fails.
pub(crate) async fn run(command: LeaderboardCommand) -> anyhow::Result<()> {
    let LeaderboardCommand { topic, epochs, period, actor, json } = command;
    let (topic, service) = topic.connect().await?;
    let board = service.leaderboard(topic, epochs, period.as_deref(), actor.as_deref()).await;
    let board = board.with_context(|| format!("cannot read the leaderboard of topic {topic}"))?;
    if let Some(name) = actor {
        ensure!(!board.actors.is_empty(), "{name} has no losses on topic {topic} in these epochs");
    }
    show(json, &board, text)
}

fn text(board: &Leaderboard) -> String {
    if board.epochs.is_empty() {
        return "no epoch of the period has losses: no epoch closed with values, the ground truth is \
                pending, or the topic's loss was changed"
            .to_owned();
    }
    let table = actors_table(&board.actors, board.min_epochs);
    let mut parts = vec![sums(&board.epochs), basis(board), table];
    parts.extend(board.actors.iter().flat_map(details));
    parts.join("\n")
}

fn name_of(actor: &RankedActor) -> String {
    actor.name.clone().unwrap_or_else(|| actor.worker.clone())
}

/// Formats the rank history and the calibration of an actor. Only a response for one actor has them.
fn details(actor: &RankedActor) -> Vec<String> {
    let (name, mut parts) = (name_of(actor), Vec::new());
    if !actor.rank_history.is_empty() {
        parts.push(format!("rank history of {name}\n{}", ranks_table(&actor.rank_history)));
    }
    if let Some(Calibration { expected_error, bins }) = &actor.calibration {
        let table = bins_table(bins);
        parts.push(format!("calibration of {name}: expected error {expected_error:.3}\n{table}"));
    }
    parts
}

fn ranks_table(points: &[RankPoint]) -> String {
    let dash = || "-".to_owned();
    let rank = |point: &RankPoint| Some(format!("{} of {}", point.rank?, point.n_ranked));
    let columns: [Column<'_, RankPoint>; 4] = [
        ("opened", &|point| point.opened_at.clone()),
        (">nonce", &|point| point.nonce.to_string()),
        (">rank", &|point| rank(point).unwrap_or_else(dash)),
        (">mean loss", &|point| point.mean_loss.map_or_else(dash, figure)),
    ];
    table_of(points, &columns)
}

fn bins_table(bins: &[ReliabilityBin]) -> String {
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
    let columns: [Column<'_, ReliabilityBin>; 4] = [
        ("probability", &|bin| format!("{:.1} to {:.1}", bin.from, bin.to)),
        (">predictions", &|bin| bin.n_predictions.to_string()),
        (">predicted", &|bin| share(bin.mean_probability)),
        (">observed", &|bin| share(bin.observed_frequency)),
    ];
    table_of(bins, &columns)
}

fn actors_table(actors: &[RankedActor], min_epochs: u64) -> String {
    let dash = || "-".to_owned();
    let percent = |share: Option<f64>| share.map_or_else(dash, |it| format!("{:.0} %", it * 100.0));
    let columns: [Column<'_, RankedActor>; 12] = [
        (">rank", &|actor| actor.rank.map(|rank| rank.to_string()).unwrap_or_default()),
        ("actor", &name_of),
        ("role", &|actor| actor.role.clone()),
        (">epochs", &|actor| actor.n_epochs.to_string()),
        (">mean loss", &|actor| match actor.rank {
            Some(_) => figure(actor.mean_loss),
            None => format!("unranked, {} of {min_epochs} epochs", actor.n_counted_epochs),
        }),
        (">median", &|actor| figure(actor.median_loss)),
        (">plain", &|actor| figure(actor.mean_plain_loss)),
        (">beats naive", &|actor| percent(actor.better_than_naive)),
        (">direction", &|actor| percent(actor.directional_accuracy)),
        (">correlation", &|actor| actor.correlation.map_or_else(dash, |it| format!("{it:.2}"))),
        (">contributes", &|actor| actor.contribution.map_or_else(dash, |it| format!("{it:+.2} %"))),
        (">missed", &|actor| actor.missed_epochs.to_string()),
    ];
    table_of(actors, &columns)
}

/// Describes the losses and epochs that the actors are ranked by.
fn basis(board: &Leaderboard) -> String {
    let Leaderboard { min_epochs, n_common_epochs, is_logarithmic, .. } = board;
    let kind = if *is_logarithmic { "base-10 logarithms of losses" } else { "losses" };
    if *n_common_epochs == 0 {
        return format!("actors are ranked after {}", counted(*min_epochs, "epoch"));
    }
    let common = counted(*n_common_epochs, "epoch");
    format!("ranked by {kind} over {common} that all ranked actors have in common")
}

/// Formats the mean losses of the combined, naive and uninformed values over the epochs that have all
/// three, or over all `epochs` if no uninformed value is known.
fn sums(epochs: &[EpochLosses]) -> String {
    let mut averaged: Vec<_> = epochs.iter().filter(|epoch| epoch.uninformed.is_some()).collect();
    if averaged.is_empty() {
        averaged = epochs.iter().collect();
    }
    #[expect(clippy::cast_precision_loss, reason = "epochs are few")]
    let mean = |of: &dyn Fn(&EpochLosses) -> Option<f64>| {
        let sum: Option<f64> = averaged.iter().map(|epoch| of(epoch)).sum();
        sum.map_or_else(|| "unknown".to_owned(), |sum| figure(sum / averaged.len() as f64))
    };
    format!(
        "plain mean loss over {} of {}: combined {}, naive {}, uninformed {}",
        averaged.len(),
        counted(epochs.len(), "epoch"),
        mean(&|epoch| Some(epoch.combined)),
        mean(&|epoch| Some(epoch.naive)),
        mean(&|epoch| epoch.uninformed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(nonce: u64, uninformed: Option<f64>) -> EpochLosses {
        EpochLosses { nonce, opened_at: String::new(), combined: 1.0, naive: 2.0, uninformed }
    }

    fn actor(name: Option<&str>, rank: Option<u64>, n_counted_epochs: u64) -> RankedActor {
        RankedActor {
            worker: "allo1abc".to_owned(),
            role: "inferer".to_owned(),
            name: name.map(str::to_owned),
            rank,
            n_epochs: 30,
            n_counted_epochs,
            mean_loss: -0.5,
            mean_plain_loss: 0.25,
            median_loss: -0.75,
            better_than_naive: Some(0.6),
            contribution: Some(1.5),
            correlation: Some(0.875),
            ..RankedActor::default()
        }
    }

    #[test]
    fn actor_shows_its_rank_history_and_calibration() {
        let point = |nonce, rank, mean_loss| RankPoint {
            nonce,
            opened_at: "2027-01-15T08:00:00Z".to_owned(),
            rank,
            n_ranked: 12,
            mean_loss,
        };
        let bin = |from, n_predictions, of: Option<(f64, f64)>| ReliabilityBin {
            from,
            to: from + 0.1,
            n_predictions,
            mean_probability: of.map(|(mean, _)| mean),
            observed_frequency: of.map(|(_, observed)| observed),
        };
        let bins = vec![bin(0.0, 12, Some((0.0625, 0.125))), bin(0.1, 0, None)];
        let calibration = Some(Calibration { expected_error: 0.0625, bins });
        let rank_history = vec![point(97, None, None), point(109, Some(3), Some(-0.5))];
        let mine = actor(Some("mine"), Some(1), 28);
        let text = details(&RankedActor { calibration, rank_history, ..mine }).join("\n");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let want = [
            "rank history of mine",
            "opened                nonce     rank  mean loss",
            "2027-01-15T08:00:00Z     97        -          -",
            "2027-01-15T08:00:00Z    109  3 of 12  -0.500000",
            "calibration of mine: expected error 0.062",
            "probability  predictions  predicted  observed",
            "0.0 to 0.1            12      0.062     0.125",
            "0.1 to 0.2             0          -         -",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn tiny_and_huge_losses_keep_their_digits() {
        let text = [0.000_012_74, -0.25, 1e80, -0.0].map(figure);
        assert_eq!(text, ["1.274e-5", "-0.250000", "1.000e80", "0.000000"]);
    }

    #[test]
    fn losses_are_averaged_without_an_uninformed_value() {
        let want = "plain mean loss over 2 of 2 epochs: combined 1.000000, naive 2.000000, uninformed unknown";
        assert_eq!(sums(&[epoch(1, None), epoch(13, None)]), want);
    }

    #[test]
    fn row_of_an_unranked_actor_contains_its_number_of_epochs() {
        let board = Leaderboard {
            topic_id: 1,
            epochs: vec![epoch(1, None), epoch(13, Some(3.0))],
            min_epochs: 10,
            n_common_epochs: 28,
            is_logarithmic: true,
            actors: vec![actor(Some("mine"), Some(1), 28), actor(None, None, 2)],
        };
        let text = text(&board);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let want = [
            "plain mean loss over 1 of 2 epochs: combined 1.000000, naive 2.000000, uninformed 3.000000",
            "ranked by base-10 logarithms of losses over 28 epochs that all ranked actors have in common",
            "rank  actor     role     epochs                 mean loss     median     plain  beats naive  direction  correlation  contributes  missed",
            "   1  mine      inferer      30                 -0.500000  -0.750000  0.250000         60 %          -         0.88      +1.50 %       0",
            "      allo1abc  inferer      30  unranked, 2 of 10 epochs  -0.750000  0.250000         60 %          -         0.88      +1.50 %       0",
        ];
        assert_eq!(lines, want);
    }
}
