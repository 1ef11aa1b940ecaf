//! The charts of a topic: its values over time, and their cumulative losses.

use std::{collections::BTreeMap, time::Duration};

use model::timestamp::Timestamp;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};

use crate::{
    screens::inference::{
        state::{Epoch, History, Pane},
        view::Scene,
    },
    view::{split_columns, split_rows},
    widget::{
        format,
        line::{self, Lines, Point},
        note, paint,
        sparkline::{Floor, Sparkline},
        stats,
    },
};

/// Rows of the sparkline below the chart, and a free one.
const ERROR_HEIGHT: u16 = 2;

/// Draws the pane of values over time.
pub(super) fn draw_history(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let n_epochs = state.past().map_or(0, History::len);
    let truth = format!("truth · {}", format::counted(n_epochs, "epoch"));
    let info = scene.legend(&[
        ("◆", theme.series(1), "combined"),
        ("◇", theme.muted, "naive"),
        ("─", theme.up, &truth),
    ]);
    let body = scene.draw_pane(area, buf, Pane::Past, "Over time", info);
    let epochs: Vec<&Epoch> = state.past().map_or_else(Vec::new, |past| past.epochs().collect());
    let Some(first) = since_silence(&epochs).first() else {
        return note::centered(buf, body, &[("no epochs yet", theme.muted)]);
    };
    let all = state.past().map_or_else(Vec::new, History::epochs_with_gaps);
    let line =
        |of: fn(&Epoch) -> &BTreeMap<String, f64>| points(&all, first.time, state.label(), of);
    let combined = line(|epoch| &epoch.combined);
    let naive = line(|epoch| &epoch.naive);
    let truth = line(|epoch| &epoch.truth);
    let error_height = if body.height >= 12 { ERROR_HEIGHT } else { 0 };
    let [chart, below] = split_rows(body, body.height - error_height);
    let lines = [
        line::Line::new(&naive, theme.muted),
        line::Line::new(&truth, theme.up),
        line::Line { is_filled: true, ..line::Line::new(&combined, theme.series(1)) },
    ];
    let decimals = format::decimals_for(combined.iter().map(|point| point.value));
    scene.draw_lines(chart, buf, &lines, decimals);
    if error_height > 0 {
        draw_difference(split_rows(below, 1)[1], buf, &combined, &naive, scene);
    }
}

/// The values of `label` from `start` on, not a number where there is none, and in the place of
/// epochs that were not seen.
pub(super) fn points(
    all: &[Option<&Epoch>],
    start: Timestamp,
    label: &str,
    of: impl Fn(&Epoch) -> &BTreeMap<String, f64>,
) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for epoch in all {
        match epoch {
            Some(epoch) if epoch.time < start => {}
            Some(epoch) => {
                let value = of(epoch).get(label).copied().unwrap_or(f64::NAN);
                points.push(Point { time: epoch.time, value });
            }
            None => points.extend(points.last().map(|it| Point { value: f64::NAN, ..*it })),
        }
    }
    points
}

/// The epochs since the last long silence, if they are enough for a line by themselves; else all.
fn since_silence<'a>(epochs: &'a [&'a Epoch]) -> &'a [&'a Epoch] {
    /// About a line's worth of dots: with fewer, what was before is worth its gap.
    const ENOUGH: usize = 20;
    let gap = gap(epochs.iter().map(|epoch| epoch.time));
    let is_silence = |pair: &[&Epoch]| {
        pair.first().zip(pair.last()).is_some_and(|(one, next)| next.time.since(one.time) > gap)
    };
    let start = epochs.windows(2).rposition(is_silence).map_or(0, |idx| idx + 1);
    if epochs.len() - start >= ENOUGH { epochs.get(start..).unwrap_or(epochs) } else { epochs }
}

/// The distance of epochs at `times`, oldest first, from which on a line is broken.
pub(super) fn gap(times: impl Iterator<Item = Timestamp> + Clone) -> Duration {
    /// Epochs missing before a line is broken.
    const MISSING: u32 = 5;
    stats::usual_distance(times).saturating_mul(MISSING)
}

/// Draws by how much combined and naive differ, epoch by epoch.
fn draw_difference(
    row: Rect,
    buf: &mut Buffer,
    combined: &[Point],
    naive: &[Point],
    scene: Scene<'_>,
) {
    let naive: BTreeMap<_, _> = naive.iter().map(|point| (point.time, point.value)).collect();
    let difference = |point: &Point| Some((point.value - naive.get(&point.time)?).abs());
    let values: Vec<Option<f64>> = combined.iter().map(difference).collect();
    paint::text(buf, row, (0, 0), "combined − naive", scene.theme.muted);
    let [_, bars] = split_columns(row, 19);
    Sparkline::new(&values, Floor::Zero, scene.theme.series(0)).render(bars, buf);
}

/// Draws the pane of losses.
pub(super) fn draw_losses(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let styles = [theme.series(1), theme.text, theme.faint];
    let info = scene.legend(&[
        ("◆", styles[0], "combined"),
        ("◇", styles[1], "naive"),
        ("─", styles[2], "uninformed"),
    ]);
    let body = scene.draw_pane(area, buf, Pane::Losses, "Cumulative loss", info);
    let epochs = state.leaderboard.iter().flat_map(|board| &board.epochs);
    let mut lines: [Vec<Point>; 3] = Default::default();
    let mut sums = [0.0; 3];
    for epoch in epochs {
        let time = epoch.opened_at.parse::<Timestamp>().ok();
        let (Some(uninformed), Some(time)) = (epoch.uninformed, time) else { continue };
        let losses = [epoch.combined, epoch.naive, uninformed];
        for ((line, sum), loss) in lines.iter_mut().zip(&mut sums).zip(losses) {
            *sum += loss;
            line.push(Point { time, value: *sum });
        }
    }
    let [combined, ..] = &lines;
    if combined.is_empty() {
        return note::centered(buf, body, &[("no ground truth yet", theme.muted)]);
    }
    let [chart, row] = split_rows(body, body.height.saturating_sub(1));
    let gap = gap(combined.iter().map(|point| point.time));
    let drawn = [2, 1, 0].map(|idx| line::Line::new(&lines[idx], styles[idx]));
    let decimals = format::decimals_of(sums[0]);
    Lines { gap, ..Lines::new(&drawn, scene.now, decimals, theme) }.render(chart, buf);
    draw_means(row, buf, sums, combined.len(), scene);
}

/// Draws the mean losses, and by how much combined is below the others.
fn draw_means(row: Rect, buf: &mut Buffer, sums: [f64; 3], n_epochs: usize, scene: Scene<'_>) {
    #[expect(clippy::cast_precision_loss, reason = "epochs are few")]
    let [combined, naive, uninformed] = sums.map(|sum| sum / n_epochs as f64);
    let theme = scene.theme;
    let mut spans = vec![
        Span::styled(format!("mean of {}  ", format::counted(n_epochs, "epoch")), theme.muted),
        Span::styled(format!("◆ {}  ", loss_text(combined, 8)), theme.series(1)),
    ];
    for (name, other) in [("naive", naive), ("uninformed", uninformed)] {
        let percent = (combined / other - 1.0) * 100.0;
        if !percent.is_finite() {
            continue;
        }
        let style = if percent < 0.0 { theme.up } else { theme.down };
        let part = [
            Span::styled(format::signed(percent, 1), style),
            Span::styled(format!(" % vs {name}"), theme.muted),
        ];
        // Parts that do not fit are left out, not cut.
        let width = spans.iter().chain(&part).map(Span::width).sum::<usize>();
        if width > row.width.into() {
            break;
        }
        spans.extend(part);
        spans.push(Span::raw("  "));
    }
    paint::line(buf, row, (0, 0), &Line::from(spans));
}

/// A loss in `width` columns: four digits, or as many as tell two models apart.
pub(super) fn loss_text(loss: f64, width: usize) -> String {
    let text = format::fixed(loss, if loss.abs() < 10.0 { 4 } else { 2 });
    if text.chars().count() <= width { text } else { format::compact(loss) }
}
