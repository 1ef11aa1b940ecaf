//! The chart of several datasets in percent, and its legend.

use std::time::Duration;

use model::row::Bucket;
use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use crate::screens::data::state::compare::Comparison;
use crate::screens::data::view::chart::{MISSING, Window, apart};
use crate::view::Frame;
use crate::widget::line::{Lines, Series};
use crate::widget::{format, paint};

/// Minimum width of a name that is cut.
const NAME_MIN: usize = 4;

/// Draws lines into `area` and the legend into `head`. Returns the visible candles of the charted
/// dataset.
pub(super) fn draw<'a>(head: Rect, area: Rect, buf: &mut Buffer, frame: Frame<'a>) -> &'a [Bucket] {
    let (state, theme) = (&frame.state.data, frame.theme);
    let Window { n_free, seen, .. } = Window::of_line(frame, area.width);
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return seen };
    let resolution = state.chart.resolution();
    let candles: Vec<_> = state.others().map(|(_, it)| it.chart.candles()).collect();
    let every = apart(seen, resolution);
    let comparison = Comparison::new(seen, &candles, every, state.crosshair);
    let colors = std::iter::once(0).chain(state.others().map(|(idx, _)| idx + 1));
    let styles: Vec<_> = colors.map(|idx| theme.series(idx)).collect();
    let lines = comparison.lines.iter().zip(&styles);
    // The charted dataset is in front.
    let lines: Vec<_> =
        lines.map(|(line, style)| Series::new(&line.points, *style)).rev().collect();
    // The rows of another dataset can be farther apart.
    let longest =
        candles.iter().map(|candles| apart(candles, resolution)).fold(every, Duration::max);
    let chart = Lines {
        start: first.timestamp,
        end: last.timestamp + every * u32::try_from(n_free).unwrap_or(0),
        gap: longest.saturating_mul(MISSING),
        crosshair: state.crosshair,
        ..Lines::new(&lines, frame.state.now, 2, theme)
    };
    frame.hits.set_chart(chart.columns(area));
    chart.render(area, buf);
    draw_legend(head, buf, &comparison, &styles, frame);
    seen
}

/// Draws the names, colors and values of the lines. For two lines, also draws their spread and
/// their correlation. Names are cut if there is not enough room.
fn draw_legend(
    area: Rect,
    buf: &mut Buffer,
    comparison: &Comparison,
    styles: &[Style],
    frame: Frame<'_>,
) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let charted = state.dataset().map(|dataset| (&dataset.name, &state.rows));
    let others = state.others().map(|(_, it)| (&it.dataset.name, &it.rows));
    let (names, rows): (Vec<_>, Vec<_>) = charted.into_iter().chain(others).unzip();
    let values = comparison.lines.iter().zip(rows).map(|(line, rows)| match line.value {
        None if rows.is_loading() => "loading".to_owned(),
        None if line.points.is_empty() && rows.failure().is_some() => "unavailable".to_owned(),
        None if line.points.iter().all(|it| it.value.is_nan()) => "not comparable".to_owned(),
        value => format::or_none(value, |value| format::percent(value) + "%"),
    });
    let values: Vec<String> = values.collect();
    let spread = format::or_none(comparison.spread, |it| format::percent(it) + " pp");
    let correlation = format::or_none(comparison.correlation, |it| format::fixed(it, 2));
    let facts = [("spread ", spread), ("corr ", correlation)];
    let facts = facts.into_iter().filter(|_| names.len() == 2);
    let texts = values.iter().map(|value| value.width() + 5);
    let texts = texts.chain(facts.clone().map(|(label, fact)| label.len() + fact.width() + 2));
    let room = usize::from(area.width).saturating_sub(texts.sum());
    let is_room =
        |width: &usize| names.iter().map(|it| it.width().min(*width)).sum::<usize>() <= room;
    let width = (NAME_MIN..=area.width.into()).rev().find(is_room).unwrap_or(NAME_MIN);
    let mut spans = Vec::new();
    for ((name, value), style) in names.iter().zip(&values).zip(styles) {
        spans.push(Span::styled("● ", *style));
        spans.push(Span::styled(format::fit(name, width), theme.text));
        spans.push(Span::styled(format!(" {value}  "), *style));
    }
    for (label, fact) in facts {
        spans.push(Span::styled(label, theme.muted));
        spans.push(Span::styled(fact + "  ", theme.text));
    }
    paint::line_cut(buf, area, (0, 0), &Line::from(spans));
}
