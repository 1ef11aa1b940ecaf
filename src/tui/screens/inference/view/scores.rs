//! Draws the scores of the selected actor, its rank over time, and the reliability of its probabilities.

use model::timestamp::Timestamp;
use ratatui::prelude::*;
use wire::inference::network::{Calibration, RankPoint, RankedActor, ReliabilityBin};

use super::Scene;
use super::actors::{four_digits, name_of};
use crate::screens::inference::state::Pane;
use crate::view::{draw_centered, draw_facts, draw_failure, join_facts, split_columns, split_rows};
use crate::widget::bars::{Floor, ShareBar, Sparkline};
use crate::widget::format::{self, or_none};
use crate::widget::paint;

/// Width of a column of scores.
const FACTS_WIDTH: u16 = 22;

/// Minimum width of the bins with their bars.
const BINS_WIDTH: u16 = 24;

/// Draws the pane of the selected actor.
pub(super) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let actor = scene.chosen_idx().and_then(|idx| scene.actors.get(idx));
    let board = state.scores.value();
    let scored = actor.zip(board).and_then(|(actor, board)| {
        let role = <&str>::from(actor.role);
        board.actors.iter().find(|it| it.worker == actor.worker.as_str() && it.role == role)
    });
    let calibration = scored.and_then(|scored| scored.calibration.as_ref());
    let info = calibration.map_or_else(Line::default, |calibration| {
        let error = format!("calibration error {}", format::fixed(calibration.expected_error, 3));
        let error = ("", theme.muted, &*error);
        scene.legend(&[error, ("█", theme.series(0), "observed"), ("◇", theme.text, "predicted")])
    });
    let title =
        actor.map_or_else(|| "Scores".into(), |actor| format!("Scores of {}", name_of(actor)));
    let body = scene.draw_pane(area, buf, Pane::Scores, title, info);
    match (actor, scored) {
        (None, _) => draw_centered(buf, body, &[("no actor is selected", theme.muted)]),
        (_, Some(scored)) => draw_scores(body, buf, scored, scene),
        _ => match state.scores.failure() {
            Some(why) if board.is_none() => draw_failure(buf, body, why, theme),
            None if board.is_none() && state.lacks_leaderboard => {
                draw_centered(buf, body, &[("this service has no scores", theme.muted)]);
            }
            None if board.is_none() => scene.frame.draw_loading(body, buf),
            _ => draw_centered(buf, body, &[("no losses of this actor yet", theme.muted)]),
        },
    }
}

fn draw_scores(area: Rect, buf: &mut Buffer, scored: &RankedActor, scene: Scene<'_>) {
    let percent = |share: Option<f64>| or_none(share, |share| format!("{:.0} %", share * 100.0));
    let signed = |value| format!("{} %", format::signed(value, 2));
    // The scores of an actor without a rank cover all its epochs.
    let n_epochs = if scored.rank.is_some() { scored.n_counted_epochs } else { scored.n_epochs };
    let mean = if scene.state.has_log_losses() { "log10 loss" } else { "mean loss" };
    let facts = [
        (mean, four_digits(scored.mean_loss)),
        ("median", four_digits(scored.median_loss)),
        ("beats naive", percent(scored.better_than_naive)),
        ("contributes", or_none(scored.contribution, signed)),
        ("direction", percent(scored.directional_accuracy)),
        ("correlation", or_none(scored.correlation, |value| format::fixed(value, 2))),
        ("counted", format::counted(n_epochs, "epoch")),
        ("missed", format::counted(scored.missed_epochs, "epoch")),
    ];
    let calibration = scored.calibration.as_ref();
    let calibration = calibration.filter(|_| area.width >= FACTS_WIDTH + BINS_WIDTH);
    let bins_width = match calibration {
        Some(_) if area.width >= 2 * FACTS_WIDTH + BINS_WIDTH => area.width - 2 * FACTS_WIDTH,
        Some(_) => area.width - FACTS_WIDTH,
        None => 0,
    };
    let [left, bins] = split_columns(area, area.width - bins_width);
    let n_rows = if left.width >= 2 * FACTS_WIDTH { 4 } else { 8 };
    let [top, mut ranks] = split_rows(left, n_rows);
    // Leaves a gap to the bins.
    ranks.width = ranks.width.saturating_sub(u16::from(calibration.is_some()));
    for (idx, facts) in (0..).zip(facts.chunks(n_rows.into())) {
        let [_, column] = split_columns(top, idx * FACTS_WIDTH);
        draw_facts(column, buf, scene.theme, facts);
    }
    draw_ranks(ranks, buf, scored, scene);
    if let Some(calibration) = calibration {
        draw_bins(bins, buf, calibration, scene);
    }
}

/// Draws the rank of an actor over time. The best rank has the highest bar.
fn draw_ranks(area: Rect, buf: &mut Buffer, scored: &RankedActor, scene: Scene<'_>) {
    let points = &scored.rank_history;
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
    let rank = match last.rank {
        Some(rank) => format!("rank {rank} of {}", last.n_ranked),
        None => "unranked".to_owned(),
    };
    let mut parts = Vec::new();
    let time = |point: &RankPoint| point.opened_at.parse::<Timestamp>().ok();
    if let Some((from, to)) = time(first).zip(time(last)) {
        let span = format!("over {}", format::span(to.since(from)));
        parts.push(Span::styled(span, scene.theme.muted));
    }
    parts.push(Span::styled(rank, scene.theme.text));
    let [top, bars] = split_rows(area, 1);
    paint::line(buf, top, (1, 0), &join_facts(parts, top.width.into()));
    #[expect(clippy::cast_precision_loss, reason = "actors are few")]
    let bar = |n: u64| n as f64;
    let n_ranked = points.iter().map(|point| point.n_ranked).max().unwrap_or_default();
    let bars_of = points.iter().map(|point| Some(bar((n_ranked + 1).saturating_sub(point.rank?))));
    let all: Vec<Option<f64>> = bars_of.collect();
    // The whole history is shown in the width of the area.
    let n_columns = all.len().min(bars.width.into());
    let idx = |column: usize| (column + 1) * all.len() / n_columns - 1;
    let values: Vec<_> =
        (0..n_columns).filter_map(|column| all.get(idx(column)).copied()).collect();
    let line = Sparkline::new(&values, Floor::Zero, scene.theme.series(0));
    Sparkline { top_min: bar(n_ranked), ..line }.render(bars, buf);
}

/// Draws the bins that have predictions: the observed frequency as a bar with a mark at the mean
/// probability, and the number of predictions.
fn draw_bins(area: Rect, buf: &mut Buffer, calibration: &Calibration, scene: Scene<'_>) {
    /// Columns of the numbers on both sides of a bar.
    const NUMBERS: u16 = 4 + 13;
    let theme = scene.theme;
    let bins = calibration
        .bins
        .iter()
        .filter_map(|bin| Some((bin, bin.mean_probability?, bin.observed_frequency?)));
    for (y, (bin, predicted, observed)) in (0..area.height).zip(bins) {
        let ReliabilityBin { from, n_predictions, .. } = bin;
        let width = area.width.saturating_sub(NUMBERS);
        let bar = Rect { x: area.x + 4, y: area.y + y, width, height: 1 };
        paint::text(buf, area, (0, y), &format::fixed(*from, 1), theme.muted);
        ShareBar { share: observed, bar: theme.series(0), rest: theme.faint }.render(bar, buf);
        let mark = paint::cells(predicted * f64::from(width), width.saturating_sub(1));
        paint::put(buf, bar, (mark, 0), '◇', theme.text);
        let numbers = format!(
            "{} {}",
            format::fixed(observed, 2),
            format::right(&format::count(*n_predictions), 6)
        );
        paint::text(buf, area, (4 + width + 2, y), &numbers, theme.text);
    }
}

#[cfg(test)]
mod tests;
