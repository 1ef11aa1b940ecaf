//! The chart of the selected dataset, and the numbers above it.

use std::time::Duration;

use model::resolution::Resolution;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span},
};

use super::{Scene, tape};
use crate::{
    state::{
        data::{Kind, Pane, chart::heikin},
        loadable::Loadable,
    },
    widget::{
        candles::{Candle, Candles, Overlay},
        format,
        line::{self, Lines, Point},
        note, paint,
        pane::{self, padded},
        stats,
    },
};

/// The lengths of the averages drawn with candles.
const AVERAGES: [usize; 2] = [20, 50];

/// The rows above a chart: its numbers, what can be chosen, the crosshair's numbers.
const HEAD_HEIGHT: u16 = 3;

/// Candles read before the first that is shown, so that averages are there from the start.
const LEAD: usize = 50;

/// Draws the pane.
pub(super) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (scene.state, scene.theme);
    let Some(dataset) = state.dataset() else {
        let pane = pane::Pane::new("Chart").focus(scene.focus(Pane::Chart));
        let inside = pane.draw(area, buf, theme);
        note::centered(buf, inside, &[("nothing selected", theme.muted)]);
        return;
    };
    let inside = pane::Pane::new(dataset.name.as_str())
        .info(info(scene))
        .focus(scene.focus(Pane::Chart))
        .draw(area, buf, theme);
    let body = padded(inside);
    if state.is_table {
        tape::draw_table(body, buf, scene);
        return;
    }
    if state.chart.candles().is_empty() {
        draw_nothing(body, buf, scene);
        return;
    }
    let head_height = if body.height >= 14 { HEAD_HEIGHT } else { u16::from(body.height > 6) };
    let chart = Rect { y: body.y + head_height, height: body.height - head_height, ..body };
    let seen = if state.is_line() {
        draw_line(chart, buf, scene)
    } else {
        draw_candles(chart, buf, scene)
    };
    if head_height > 0 {
        draw_numbers(body, buf, seen, scene);
    }
    if head_height == HEAD_HEIGHT {
        draw_choices(body, buf, scene);
        draw_readout(body, buf, scene);
    }
}

/// What the border says: the resolution, the bucket that is open, how live it is.
fn info(scene: Scene<'_>) -> String {
    let state = scene.state;
    let resolution = state.chart.resolution();
    let mut parts = vec![resolution.to_string()];
    if let Some(start) = open_bucket(scene) {
        let label = match resolution {
            Resolution::Day => format::date(start),
            _ => format::hour_minute(start),
        };
        parts.push(format!("{label} bucket open"));
    }
    if let Loadable::Stale { .. } | Loadable::Loading { .. } = state.rows {
        parts.push(state.rows.note(scene.now));
    }
    parts.push(state.live.note(scene.now));
    parts.join(" · ")
}

/// The start of the newest bucket, if it is not over: by the clock, or because rows of it come.
fn open_bucket(scene: Scene<'_>) -> Option<model::timestamp::Timestamp> {
    let chart = &scene.state.chart;
    let length = chart.resolution().bucket()?;
    let newest = chart.nth_newest(0)?.time;
    let newest_row = scene.state.tape.front().map(|row| row.timestamp);
    let is_filling = scene.state.live.is_flowing(scene.now)
        && newest_row.is_some_and(|row| (newest..newest + length).contains(&row));
    (is_filling || newest + length > scene.now).then_some(newest)
}

/// How many of the newest candles are out of view on the right, of a chart that shows `n_shown`.
///
/// None, until the crosshair leaves on the left; then as many half charts as bring it back.
fn n_newer(scene: Scene<'_>, n_shown: usize) -> usize {
    let state = scene.state;
    let n = state.crosshair.and_then(|time| state.chart.from_newest(time)).unwrap_or(0);
    let half = (n_shown / 2).max(1);
    match n.checked_sub(n_shown) {
        Some(beyond) => (beyond / half + 1) * half,
        None => 0,
    }
}

/// Draws candles; returns those in view.
fn draw_candles<'a>(area: Rect, buf: &mut Buffer, scene: Scene<'a>) -> &'a [Candle] {
    let (state, theme) = (scene.state, scene.theme);
    let all = state.chart.candles();
    let mut chart = Candles {
        candles: all,
        bucket: state.chart.resolution().bucket(),
        n_newer: 0,
        body: state.zoom.density.body(),
        overlays: &[],
        crosshair: state.crosshair,
        open_bucket: open_bucket(scene),
        decimals: tape::decimals_for(all.iter().rev().take(64).map(|candle| candle.close)),
    };
    let n_shown = chart.capacity(area.width).max(1);
    chart.n_newer = n_newer(scene, n_shown);
    let end = all.len().saturating_sub(chart.n_newer);
    let start = end.saturating_sub(n_shown + LEAD);
    let part = all.get(start..).unwrap_or(&[]);
    let smooth = if state.kind == Kind::Heikin { heikin(part) } else { Vec::new() };
    chart.candles = if state.kind == Kind::Heikin { &smooth } else { part };
    let averages = AVERAGES.map(|n| stats::moving_average(part, n));
    let overlays: Vec<_> = averages
        .iter()
        .zip(theme.overlay)
        .map(|(values, style)| Overlay { values, style })
        .rev()
        .collect();
    chart.overlays = if state.has_indicators { &overlays } else { &[] };
    chart.draw(area, buf, theme);
    all.get(end.saturating_sub(n_shown)..end).unwrap_or(&[])
}

/// Draws a line through the closes; returns the candles in view.
fn draw_line<'a>(area: Rect, buf: &mut Buffer, scene: Scene<'a>) -> &'a [Candle] {
    let (state, theme) = (scene.state, scene.theme);
    let all = state.chart.candles();
    let n_shown = state.zoom.density.n_points(area.width.saturating_sub(11)).max(2);
    let end = all.len().saturating_sub(n_newer(scene, n_shown));
    let seen = all.get(end.saturating_sub(n_shown)..end).unwrap_or(&[]);
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return seen };
    let points: Vec<_> = seen.iter().map(|c| Point { time: c.time, value: c.close }).collect();
    let volumes: Vec<_> = seen.iter().map(|c| Point { time: c.time, value: c.volume }).collect();
    let newest = all.last().unwrap_or(last);
    let change = newest.close - first.close;
    let tag = if change < 0.0 { theme.down } else { theme.up };
    Lines {
        lines: &[line::Line { points: &points, style: theme.series(0) }],
        start: first.time,
        end: last.time,
        gap: gap(seen, state.chart.resolution()),
        volumes: if volumes.iter().any(|point| point.value > 0.0) { &volumes } else { &[] },
        crosshair: state.crosshair,
        tag: Some((newest.close, tag)),
        decimals: tape::decimals_for(seen.iter().map(|candle| candle.close)),
    }
    .draw(area, buf, theme);
    seen
}

/// The distance of rows from which on a line is broken: several times what is usual.
fn gap(seen: &[Candle], resolution: Resolution) -> Duration {
    /// Rows missing before a line is broken.
    const MISSING: u32 = 6;
    if let Some(bucket) = resolution.bucket() {
        return bucket * MISSING;
    }
    let mut apart: Vec<_> = seen
        .windows(2)
        .filter_map(|pair| Some(pair.last()?.time.since(pair.first()?.time)))
        .collect();
    apart.sort_unstable();
    apart.get(apart.len() / 2).copied().unwrap_or_default().saturating_mul(MISSING)
}

/// Draws the newest value, and what it did over what is in view.
fn draw_numbers(area: Rect, buf: &mut Buffer, seen: &[Candle], scene: Scene<'_>) {
    let theme = scene.theme;
    let newest = scene.state.chart.nth_newest(0);
    let (Some(first), Some(newest)) = (seen.first(), newest) else { return };
    let decimals = tape::decimals_for(seen.iter().map(|candle| candle.close));
    let change = newest.close - first.open;
    let percent = change / first.open.abs() * 100.0;
    let high = seen.iter().map(|candle| candle.high).fold(f64::NEG_INFINITY, f64::max);
    let low = seen.iter().map(|candle| candle.low).fold(f64::INFINITY, f64::min);
    let volume: f64 = seen.iter().map(|candle| candle.volume).sum();
    let style = theme.signed(change);
    let label = |text: &'static str| Span::styled(text, theme.muted);
    let number = |value: f64| Span::styled(format::grouped(value, decimals), theme.text);
    let mut spans = vec![
        Span::styled(
            format::grouped(newest.close, decimals),
            theme.text.add_modifier(Modifier::BOLD),
        ),
        Span::styled(
            format!(" {} {}", tape::arrow(change), format::signed(change, decimals)),
            style,
        ),
    ];
    if percent.is_finite() {
        spans.push(Span::styled(format!(" {}%", format::signed(percent, 2)), style));
    }
    spans.extend([label("   O "), number(first.open), label("  H "), number(high)]);
    spans.extend([label("  L "), number(low)]);
    if volume > 0.0 {
        spans.extend([label("  V "), Span::styled(format::compact(volume), theme.text)]);
    }
    let end = paint::line(buf, area, (0, 0), &Line::from(spans));
    let span = newest.time.since(first.time);
    let text = format!("over {}", format::span(span));
    if usize::from(area.width.saturating_sub(end)) > text.len() + 2 {
        paint::text_before(buf, area, (area.width, 0), &text, theme.muted);
    }
}

/// Draws what can be chosen, with what is chosen lit.
fn draw_choices(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let chosen = theme.text.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let pick = |is_chosen: bool| if is_chosen { chosen } else { theme.muted };
    let is_line = state.is_line();
    let mut spans = vec![
        Span::styled("candles", pick(!is_line && state.kind == Kind::Candles)),
        Span::raw("  "),
        Span::styled("line", pick(is_line)),
        Span::raw("  "),
        Span::styled("heikin", pick(!is_line && state.kind == Kind::Heikin)),
        Span::styled("  │", theme.border),
    ];
    if !is_line && state.has_indicators {
        for (n, style) in AVERAGES.into_iter().zip(theme.overlay) {
            spans.push(Span::styled(format!(" MA {n}"), style));
        }
        spans.push(Span::styled(" │", theme.border));
    }
    for resolution in Resolution::DOCUMENTED {
        let cap = match resolution.span_max().map(|span| span.as_secs() / 3_600) {
            None => "∞".to_owned(),
            Some(hours @ 0..48) => format!("{hours}h"),
            Some(hours) => format!("{}d", hours / 24),
        };
        let is_chosen = resolution == state.chart.resolution();
        spans.extend([
            Span::raw("  "),
            Span::styled(format!("{resolution} {cap}"), pick(is_chosen)),
        ]);
    }
    paint::line(buf, area, (0, 1), &Line::from(spans));
}

/// Draws the numbers of the candle under the crosshair.
fn draw_readout(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let Some(candle) = state.crosshair.and_then(|time| state.candle_at(time)) else { return };
    let decimals =
        tape::decimals_for([candle.open, candle.high, candle.low, candle.close].into_iter());
    let time = match state.chart.resolution() {
        Resolution::Raw => format::clock(candle.time),
        Resolution::Day => format::date(candle.time),
        _ => format!("{} {}", format::date(candle.time), format::hour_minute(candle.time)),
    };
    let label = |text: &'static str| Span::styled(text, theme.muted);
    let number = |value: f64| Span::styled(format::grouped(value, decimals), theme.text);
    let mut spans =
        vec![Span::raw(" "), Span::styled(time, theme.focus.add_modifier(Modifier::BOLD))];
    if state.is_line() {
        spans.extend([Span::raw("  "), number(candle.close)]);
    } else {
        spans.extend([label("  O "), number(candle.open), label(" H "), number(candle.high)]);
        spans.extend([label(" L "), number(candle.low), label(" C "), number(candle.close)]);
    }
    if candle.volume > 0.0 {
        spans.extend([label(" V "), Span::styled(format::compact(candle.volume), theme.text)]);
    }
    spans.push(Span::raw(" "));
    let line = Line::from(spans);
    let width = u16::try_from(line.width()).unwrap_or(u16::MAX);
    let x = paint::line_right(buf, area, 2, &line);
    let place = Rect { x: area.x + x, y: area.y + 2, width: width.min(area.width), height: 1 };
    buf.set_style(place, theme.sel);
}

fn draw_nothing(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let theme = scene.theme;
    match &scene.state.rows {
        Loadable::Failed { why, .. } | Loadable::Stale { why, .. } => {
            let what = format!("failed to {}", why.what);
            let lines = [
                (what.as_str(), theme.down),
                (why.why.as_str(), theme.text),
                (why.next.as_str(), theme.muted),
            ];
            note::centered(buf, area, &lines);
        }
        Loadable::Ready { .. } => note::centered(buf, area, &[("no rows yet", theme.muted)]),
        _ => note::centered(buf, area, &[(&*scene.loading(), theme.muted)]),
    }
}
