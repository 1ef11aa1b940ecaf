//! What the network's values lost, epoch by epoch added up: combined, beside naive and a baseline that
//! knows nothing of the rows. The lowest line is the best.

use model::timestamp::Timestamp;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};

use super::{Scene, past};
use crate::{
    screens::inference::state::Pane,
    widget::{
        format,
        line::{self, Lines, Point},
        note, paint,
    },
};

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
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
    let [combined, naive, uninformed] = &lines;
    if combined.is_empty() {
        note::centered(buf, body, &[("no ground truth yet", theme.muted)]);
        return;
    }
    let chart = Rect { height: body.height.saturating_sub(1), ..body };
    let lines = [
        line::Line::new(uninformed, styles[2]),
        line::Line::new(naive, styles[1]),
        line::Line::new(combined, styles[0]),
    ];
    let gap = past::gap(combined.iter().map(|point| point.time));
    let decimals = format::decimals_of(sums[0]);
    Lines { gap, ..Lines::new(&lines, scene.now, decimals, theme) }.render(chart, buf);
    let row = Rect { y: body.bottom().saturating_sub(1), height: 1, ..body };
    draw_means(row, buf, sums, combined.len(), scene);
}

/// Draws the mean losses, and by how much combined is below the others.
fn draw_means(row: Rect, buf: &mut Buffer, sums: [f64; 3], n_epochs: usize, scene: Scene<'_>) {
    /// The columns of a mean loss.
    const WIDTH: usize = 8;
    #[expect(clippy::cast_precision_loss, reason = "epochs are few")]
    let [combined, naive, uninformed] = sums.map(|sum| sum / n_epochs as f64);
    let theme = scene.theme;
    let mut spans = vec![
        Span::styled(format!("mean of {}  ", format::counted(n_epochs, "epoch")), theme.muted),
        Span::styled(format!("◆ {}  ", loss_text(combined, WIDTH)), theme.series(1)),
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
        // Where there is not room for all, none is cut.
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
pub(crate) fn loss_text(loss: f64, width: usize) -> String {
    let text = format::fixed(loss, if loss.abs() < 10.0 { 4 } else { 2 });
    if text.chars().count() <= width { text } else { format::compact(loss) }
}
