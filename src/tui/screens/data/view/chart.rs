//! The chart of the selected dataset and the numbers above it.

mod compare;
mod forecast;

use std::time::Duration;

use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use ratatui::prelude::*;
use strum::VariantArray as _;
use unicode_width::UnicodeWidthStr;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::screens::data::state::Pane;
use crate::screens::data::state::chart::{Shape, heikin};
use crate::screens::data::state::live::{Export, PERCENT};
use crate::screens::data::state::zoom::{ChartKind, Indicators};
use crate::screens::data::view::rows;
use crate::state::services::Service;
use crate::theme::Theme;
use crate::time_zone::utc_mark;
use crate::view::{Frame, draw_centered, join_facts, split_rows, strip};
use crate::widget::axis::Scale;
use crate::widget::candles::Candles;
use crate::widget::line::{self, Lines, Point};
use crate::widget::{format, paint, pane, stats};

/// Width of the name of the charted column, which precedes its value.
const NAME_WIDTH: usize = 20;

/// Numbers of candles of the simple moving averages.
const AVERAGES: [usize; 2] = [20, 50];

/// Numbers of candles of the exponential averages.
const EXPONENTIAL: [usize; 2] = [12, 26];

/// Number of candles of the mean of Bollinger bands, and distance of the bands from it in standard
/// deviations.
const BANDS: (usize, f64) = (20, 2.0);

/// Number of consecutive missing rows at which a line is interrupted.
const MISSING: u32 = 6;

/// Number of rows above a chart: its numbers, the choices, and the numbers at the crosshair.
const HEAD_HEIGHT: u16 = 3;

/// Draws the pane of the chart.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (&frame.state.data, frame.theme);
    let focus = state.pane == Pane::Chart;
    let Some(dataset) = state.dataset() else {
        let inside = pane::Pane::new("Chart").focus(focus).draw(area, buf, theme);
        return draw_centered(buf, inside, &[("nothing selected", theme.muted)]);
    };
    // A long name gets half of the border.
    let title = format::fit(&dataset.name, usize::from(area.width / 2)).into_owned();
    // Room for facts: the width without the corners, the spaces around texts, and a bit of border
    // next to both texts.
    let room = usize::from(area.width).saturating_sub(title.width() + 10);
    let pane = pane::Pane::new(title).focus(focus);
    let body = pane.draw(area, buf, theme);
    let history = draw_body(body, buf, frame);
    pane.info(info(frame, room, history)).draw(area, buf, theme);
}

/// Draws the content of the pane. Returns the last visible candle, or `None` if this is the latest
/// candle.
fn draw_body(body: Rect, buf: &mut Buffer, frame: Frame<'_>) -> Option<Bucket> {
    let (state, theme) = (&frame.state.data, frame.theme);
    if state.is_table {
        rows::draw_table(body, buf, frame);
        return None;
    }
    if state.shape() == Some(Shape::Nothing) && !state.tape.is_empty() {
        let hint = frame.key(Layer::Data, Action::RowsTable) + " shows the rows as a table";
        let lines = [("no column of numbers to chart", theme.text), (&*hint, theme.muted)];
        draw_centered(buf, body, &lines);
        return None;
    }
    if state.chart.candles().is_empty()
        && !state.tape.is_empty()
        && state.rows.value().is_some()
        && let Some(Shape::Value(column)) = state.shape()
    {
        let hint = frame.key(Layer::Data, Action::NextColumn) + " charts the next column";
        let text = format!("the latest rows have no values in column {column}");
        draw_centered(buf, body, &[(&*text, theme.text), (&*hint, theme.muted)]);
        return None;
    }
    if state.chart.candles().is_empty() {
        frame.draw_absent(body, buf, &state.rows, None, ["", "no rows yet"]);
        return None;
    }
    let head_height = if body.height >= 14 { HEAD_HEIGHT } else { u16::from(body.height > 6) };
    let [_, chart] = split_rows(body, head_height);
    let seen = if state.is_comparing() {
        compare::draw(Rect { height: head_height.min(1), ..body }, chart, buf, frame)
    } else {
        let draw = if state.is_line() { draw_line } else { draw_candles };
        let seen = draw(chart, buf, frame);
        if head_height > 0 {
            draw_numbers(body, buf, seen, frame);
        }
        seen
    };
    if head_height == HEAD_HEIGHT {
        draw_choices(body, buf, frame);
        let width = draw_readout(body, buf, frame);
        forecast::draw_legend(strip(body, (0, 2), width), buf, seen, frame);
    }
    let newest = state.chart.nth_newest(0)?.timestamp;
    seen.last().copied().filter(|last| last.timestamp < newest)
}

/// Describes the progress of the export. `None` if there is no export in progress.
fn export_note(export: &Export) -> Option<String> {
    let progress = export.progress.as_ref()?;
    let n_rows = format::counted(progress.rows, "row");
    let share = progress.total_rows.and_then(|n| stats::percent(progress.rows, n));
    let share = share.map_or_else(String::new, |share| format!(" {share:.0}%"));
    Some(format!("exporting{share} · {n_rows} · {}", format::bytes(progress.bytes)))
}

/// Returns the facts on the border: resolution, open bucket or end of the visible history, and
/// state of the stream.
fn info(frame: Frame<'_>, room: usize, history: Option<Bucket>) -> Line<'static> {
    let (state, now) = (&frame.state.data, frame.state.now);
    let resolution = state.chart.resolution();
    // The labels of days on the axis have no space for the mark.
    let mark = if resolution == Resolution::Day { utc_mark(now) } else { "" };
    let mut parts: Vec<Span<'static>> = vec![format!("{resolution}{mark}").into()];
    if let Some(last) = history {
        let time = candle_time(last.timestamp, resolution, frame);
        parts.push(format!("history to {time}").into());
    } else if let Some(start) = open_bucket(frame) {
        let label = match resolution {
            Resolution::Day => format::bucket_date(start),
            _ => format::hour_minute(start),
        };
        parts.push(format!("{label} bucket open").into());
    }
    let is_stale = state.rows.value().is_some() && state.rows.failure().is_some();
    if is_stale || state.rows.is_loading() {
        parts.push(format!("rows {}", state.rows.note(now)).into());
    }
    parts.extend(export_note(&state.export).map(Span::raw));
    if let Some(until) = state.limited_until.filter(|until| *until > now) {
        parts.push(format!("429 · retry {}s", until.since(now).as_secs()).into());
    }
    match history {
        Some(_) => parts.extend(frame.away(Service::Data)),
        None => parts.push(frame.silent_or(Service::Data, state.live.note(now))),
    }
    join_facts(parts, room)
}

/// Returns the start of the latest bucket if it is open: it ends in the future.
fn open_bucket(frame: Frame<'_>) -> Option<Timestamp> {
    let (data, now) = (&frame.state.data, frame.state.now);
    let newest = data.chart.nth_newest(0)?.timestamp;
    let end = newest + data.chart.resolution().bucket()?;
    (end > now).then_some(newest)
}

/// Visible part of a chart.
struct Window<'a> {
    /// Number of later candles that are out of view on the right.
    n_newer: usize,
    /// Number of free slots after the last candle.
    n_free: usize,
    seen: &'a [Bucket],
    /// The visible candles, preceded by candles for the averages and followed by all later
    /// candles.
    extended: &'a [Bucket],
}

impl<'a> Window<'a> {
    /// Returns the part of a chart with `n_shown` candles. These are the latest candles, or an
    /// earlier part that contains the crosshair. Parts are half a chart apart.
    fn new(frame: Frame<'a>, n_shown: usize) -> Self {
        let state = &frame.state.data;
        let n = state.crosshair.and_then(|time| state.chart.index_from_newest(time)).unwrap_or(0);
        let half = (n_shown / 2).max(1);
        let n_newer = n.checked_sub(n_shown).map_or(0, |beyond| (beyond / half + 1) * half);
        // A live chart moves by an eighth of its width at a time. A move redraws nearly all of its
        // cells.
        let n_free = match n_newer {
            0 => state.chart.n_free(n_shown / 8) + forecast::n_ahead(frame, n_shown),
            _ => 0,
        };
        let all = state.chart.candles();
        let end = all.len().saturating_sub(n_newer);
        let start = end.saturating_sub(n_shown.saturating_sub(n_free));
        let seen = all.get(start..end).unwrap_or(&[]);
        // The averages need candles before the first visible one. The volume-weighted mean needs
        // the most: a day of five-minute buckets.
        let extended = all.get(start.saturating_sub(288)..).unwrap_or(&[]);
        Self { n_newer, n_free, seen, extended }
    }

    /// Returns the part of a line that is shown in an area `width` columns wide.
    fn of_line(frame: Frame<'a>, width: u16) -> Self {
        let state = &frame.state.data;
        Self::new(frame, state.zoom.density.n_points(width.saturating_sub(11)).max(2))
    }
}

/// Draws candles. Returns the visible candles.
fn draw_candles<'a>(area: Rect, buf: &mut Buffer, frame: Frame<'a>) -> &'a [Bucket] {
    let (state, theme) = (&frame.state.data, frame.theme);
    let all = state.chart.candles();
    let mut chart = Candles {
        bars: all,
        bucket: Some(apart(all, state.chart.resolution())),
        n_newer: 0,
        n_free: 0,
        density: state.zoom.density,
        lines: &[],
        now: frame.state.now,
        crosshair: state.crosshair,
        open_bucket: open_bucket(frame),
        decimals: format::decimals_for(all.iter().rev().take(64).map(|candle| candle.close)),
        scale: None,
        theme,
    };
    let n = state.crosshair.and_then(|time| state.chart.index_from_newest(time)).unwrap_or(0);
    let mut n_shown = chart.capacity(area.width).max(1);
    let window = loop {
        let window = Window::new(frame, n_shown);
        let columns = Candles { n_newer: window.n_newer, n_free: window.n_free, ..chart };
        let n_drawn = columns.columns(area).1.len();
        if n < window.n_newer + n_drawn || n_shown == 1 {
            break window;
        }
        // Gaps take the columns of some candles, and of the crosshair.
        n_shown = n_drawn.clamp(1, n_shown - 1);
    };
    let smooth = if state.kind == ChartKind::Heikin { heikin(window.extended) } else { Vec::new() };
    let forecasts = forecast::points(frame, window.seen);
    let indicators = indicators(frame, &window);
    let lines = lines_behind(&indicators, forecast::series(&forecasts, window.seen, frame));
    chart = Candles {
        bars: if state.kind == ChartKind::Heikin { &smooth } else { window.extended },
        n_newer: window.n_newer,
        n_free: window.n_free,
        lines: &lines,
        scale: share_scale(frame, window.seen),
        ..chart
    };
    let columns = chart.columns(area);
    let n_drawn = columns.1.len();
    frame.hits.set_chart(columns);
    chart.render(area, buf);
    // Gaps can take the columns of the oldest candles.
    let (drawn, _) = window.extended.split_at(window.extended.len().saturating_sub(window.n_newer));
    drawn.get(drawn.len().saturating_sub(n_drawn)..).unwrap_or(window.seen)
}

/// Returns a scale from 0 to 100 if all values are shares in percent.
fn share_scale(frame: Frame<'_>, seen: &[Bucket]) -> Option<Scale> {
    let values = seen.iter().flat_map(|candle| [candle.low, candle.high]);
    rows::share_scale(frame.state.data.unit(), values)
}

/// A line over a chart, such as an average.
struct Indicator {
    name: String,
    /// Values at the visible candles. NaN if there is none.
    points: Vec<Point>,
    style: Style,
}

/// Returns the indicators that the user chose over `window`, most important first.
fn indicators(frame: Frame<'_>, window: &Window<'_>) -> Vec<Indicator> {
    let state = &frame.state.data;
    let Window { n_newer, seen, extended: candles, .. } = *window;
    let mean = |n| (format!("MA {n}"), stats::moving_average(candles, n));
    let newer = |n| (format!("EMA {n}"), stats::exponential_average(candles, n));
    let (n, deviations) = BANDS;
    let band = |sign, by| (format!("{sign}{deviations}σ"), stats::band(candles, n, by));
    let mut styles = frame.theme.overlay;
    let lines = match state.indicators {
        Indicators::Off => Vec::new(),
        Indicators::Averages => {
            let mut lines = AVERAGES.map(mean).to_vec();
            // The volume-weighted mean starts again each day, so it has no meaning for daily
            // buckets.
            let is_day = state.chart.resolution() == Resolution::Day;
            if !is_day && candles.iter().any(|it| it.volume > 0.0) {
                lines.push(("VWAP".to_owned(), stats::volume_weighted_average(candles)));
            }
            lines
        }
        Indicators::Exponential => EXPONENTIAL.map(newer).to_vec(),
        Indicators::Bands => {
            styles[2] = styles[1];
            vec![mean(n), band('+', deviations), band('−', -deviations)]
        }
    };
    let n_before = candles.len() - n_newer - seen.len();
    let lines = lines.into_iter().zip(styles).map(|((name, values), style)| {
        let values = values.into_iter().skip(n_before).zip(seen);
        let points = values
            .map(|(value, it)| Point { time: it.timestamp, value: value.unwrap_or(f64::NAN) });
        Indicator { name, points: points.collect(), style }
    });
    lines.collect()
}

/// Returns the lines behind candles or a line, the last in front.
fn lines_behind<'a>(
    indicators: &'a [Indicator],
    forecast: line::Series<'a>,
) -> Vec<line::Series<'a>> {
    let guide = |it: &'a Indicator| line::Series {
        is_guide: true,
        ..line::Series::new(&it.points, it.style)
    };
    indicators.iter().rev().map(guide).chain([forecast]).collect()
}

/// Draws a line through the closing values. Returns the visible candles.
fn draw_line<'a>(area: Rect, buf: &mut Buffer, frame: Frame<'a>) -> &'a [Bucket] {
    let (state, theme) = (&frame.state.data, frame.theme);
    let window = Window::of_line(frame, area.width);
    let Window { n_free, seen, .. } = window;
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return seen };
    let points = |of: fn(&Bucket) -> f64| -> Vec<Point> {
        seen.iter().map(|it| Point { time: it.timestamp, value: of(it) }).collect()
    };
    let (closes, volumes) = (points(|it| it.close), points(|it| it.volume));
    let indicators = indicators(frame, &window);
    let forecasts = forecast::points(frame, seen);
    let mut lines = lines_behind(&indicators, forecast::series(&forecasts, seen, frame));
    lines.push(line::Series { is_filled: true, ..line::Series::new(&closes, theme.series(0)) });
    let apart = apart(seen, state.chart.resolution());
    let tag = if last.close < first.close { theme.down } else { theme.up };
    let decimals = format::decimals_for(seen.iter().map(|candle| candle.close));
    let chart = Lines {
        start: first.timestamp,
        end: last.timestamp + apart * u32::try_from(n_free).unwrap_or(0),
        gap: apart.saturating_mul(MISSING),
        volumes: &volumes,
        crosshair: state.crosshair,
        tag: Some((last.close, tag)),
        scale: share_scale(frame, seen),
        ..Lines::new(&lines, frame.state.now, decimals, theme)
    };
    frame.hits.set_chart(chart.columns(area));
    chart.render(area, buf);
    seen
}

/// Returns the length of a bucket. For raw rows, returns the usual interval between the latest
/// rows.
fn apart(candles: &[Bucket], resolution: Resolution) -> Duration {
    /// Number of rows from which the interval is determined.
    const ROWS: usize = 512;
    let times =
        candles.iter().skip(candles.len().saturating_sub(ROWS)).map(|candle| candle.timestamp);
    resolution.bucket().unwrap_or_else(|| stats::usual_distance(times))
}

/// Draws the last visible value and the change since the first visible value.
fn draw_numbers(area: Rect, buf: &mut Buffer, seen: &[Bucket], frame: Frame<'_>) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let (Some(first), Some(newest)) = (seen.first(), seen.last()) else { return };
    let decimals = format::decimals_for(seen.iter().map(|candle| candle.close));
    let unit = state.unit();
    let number = |value| rows::telling_in(unit, value, decimals, format::grouped);
    let change = newest.close - first.open;
    let percent = change / first.open.abs() * 100.0;
    let style = theme.signed(change);
    let mut spans = Vec::new();
    if let Some(column) = state.shape().as_ref().and_then(Shape::value_column) {
        let name = format::fit(column, NAME_WIDTH).into_owned() + " ";
        spans.push(Span::styled(name, theme.muted));
    }
    spans.push(Span::styled(number(newest.close), theme.text.bold()));
    if !unit.is_empty() {
        spans.push(Span::styled(format!(" {unit}"), theme.muted));
    }
    let moved = format!(" {} {}", rows::arrow(change), format::signed(change, decimals));
    spans.push(Span::styled(moved, style));
    // The difference of two percentages is in percentage points.
    if unit == PERCENT {
        spans.push(Span::styled(" points", style));
    } else if percent.is_finite() {
        spans.push(Span::styled(format!(" {}%", format::percent(percent)), style));
    }
    let high = seen.iter().map(|candle| candle.high).fold(f64::NEG_INFINITY, f64::max);
    let low = seen.iter().map(|candle| candle.low).fold(f64::INFINITY, f64::min);
    let volume: f64 = seen.iter().map(|candle| candle.volume).sum();
    let price = |(label, value)| labeled(label, number(value), theme);
    let prices = [("   O ", first.open), ("  H ", high), ("  L ", low)].map(price);
    let volume = (volume > 0.0).then(|| labeled("  V ", format::compact(volume), theme));
    // All numbers except the first concern the whole visible span, so it takes precedence over them.
    let span = format::span(newest.timestamp.since(first.timestamp));
    let width = spans.iter().map(Span::width).sum::<usize>();
    let room = |text: &String| usize::from(area.width).saturating_sub(text.len() + 3);
    let span = [format!("over {span}"), span].into_iter().find(|text| width <= room(text));
    let room = span.as_ref().map_or(0, room);
    // The volume is omitted first, then the opening value, which follows from the change.
    let parts: Vec<_> = prices.into_iter().chain(volume).collect();
    let mut choices = [parts.get(..), parts.get(..3), parts.get(1..3)].into_iter().flatten();
    let fits = |parts: &&[[Span<'_>; 2]]| {
        width + parts.iter().flatten().map(Span::width).sum::<usize>() <= room
    };
    spans.extend(choices.find(fits).unwrap_or_default().iter().flatten().cloned());
    paint::line(buf, area, (0, 0), &Line::from(spans));
    paint::text_before(buf, area, (area.width, 0), &span.unwrap_or_default(), theme.muted);
}

/// Returns a label and a number as styled text.
fn labeled(label: &'static str, number: String, theme: &Theme) -> [Span<'static>; 2] {
    [Span::styled(label, theme.muted), Span::styled(number, theme.text)]
}

/// Styled word above the chart, and the target of a click on it.
type Choice = (Span<'static>, Option<Target>);

/// Draws the words that select the kind of chart, the indicators and the resolution. Highlights the
/// selected words.
fn draw_choices(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let pick = |is_chosen| if is_chosen { theme.text.bold().underlined() } else { theme.muted };
    let gap = |text: &'static str| (Span::styled(text, theme.border), None);
    let chosen = if state.is_line() { ChartKind::Line } else { state.kind };
    let kinds = |is_shown: &dyn Fn(ChartKind) -> bool| -> Vec<Choice> {
        let names = ["candles", "line", "heikin"].into_iter().zip(ChartKind::VARIANTS);
        let shown = names.filter(|(_, kind)| is_shown(**kind)).flat_map(|(name, kind)| {
            let name = Span::styled(name, pick(*kind == chosen));
            [(name, Some(Target::Chart(*kind))), gap("  ")]
        });
        shown.chain([gap("│")]).collect()
    };
    let (all, one) = (kinds(&|_| true), kinds(&|kind| kind == chosen));
    // Only the names of the indicators are needed, for which one candle is enough.
    let newest = state.chart.candles().last().map_or(&[][..], std::slice::from_ref);
    let newest = Window { n_newer: 0, n_free: 0, seen: newest, extended: newest };
    let lines = if state.is_comparing() { Vec::new() } else { indicators(frame, &newest) };
    let name = |line: &Indicator| {
        let name = Span::styled(format!(" {}", line.name), line.style);
        (name, Some(Target::Action(Action::Indicators)))
    };
    let mut names: Vec<Choice> = lines.iter().map(name).collect();
    if !lines.is_empty() {
        names.push(gap(" │"));
    }
    let resolutions = |has_caps: bool| -> Vec<Choice> {
        let choices = state.resolutions().iter().flat_map(|resolution| {
            let cap = match resolution.span_max().map(|span| span.as_secs() / 3_600) {
                _ if !has_caps => String::new(),
                None => " ∞".to_owned(),
                Some(hours @ 0..48) => format!(" {hours}h"),
                Some(hours) => format!(" {}d", hours / 24),
            };
            let style = pick(*resolution == state.chart.resolution());
            let name = Span::styled(format!("{resolution}{cap}"), style);
            [(Span::raw("  "), None), (name, Some(Target::Resolution(*resolution)))]
        });
        choices.collect()
    };
    // From complete to short: if there is little space, less important words are omitted.
    let choices = [
        [all.clone(), names.clone(), resolutions(true)].concat(),
        [all.clone(), names, resolutions(false)].concat(),
        [all, resolutions(false)].concat(),
        [one, resolutions(false)].concat(),
    ];
    let width = |choices: &[Choice]| choices.iter().map(|(span, _)| span.width()).sum::<usize>();
    let [.., shortest] = &choices;
    let shown = choices.iter().find(|it| width(it) <= area.width.into()).unwrap_or(shortest);
    let mut x = 0;
    for (span, target) in shown {
        let from = x;
        x = paint::line(buf, area, (x, 1), &Line::from(span.clone()));
        if let Some(target) = target {
            frame.hits.add(strip(area, (from, 1), x.saturating_sub(from)), *target);
        }
    }
}

/// Formats the time of a candle as precisely as the resolution requires.
fn candle_time(time: Timestamp, resolution: Resolution, frame: Frame<'_>) -> String {
    match resolution {
        Resolution::Raw => format::clock_as_of(time, frame.state.now),
        Resolution::Day => format::bucket_date(time),
        _ => format!("{} {}", format::date(time), format::hour_minute(time)),
    }
}

/// Draws the numbers of the candle under the crosshair. Returns the number of free columns before
/// them.
fn draw_readout(area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> u16 {
    let (state, theme) = (&frame.state.data, frame.theme);
    let candle = state.crosshair.and_then(|time| state.candle_at(time));
    let Some(candle) = candle else { return area.width };
    let Bucket { timestamp, open, high, low, close, volume, .. } = *candle;
    let decimals = format::decimals_for([open, high, low, close]);
    let time = candle_time(timestamp, state.chart.resolution(), frame);
    let prices = [("  O ", open), (" H ", high), (" L ", low), (" C ", close)];
    let prices = if state.is_line() { &[("  ", close)][..] } else { &prices };
    let mut spans = vec![Span::raw(" "), Span::styled(time, theme.focus.bold())];
    for (label, value) in prices {
        spans.extend(labeled(label, format::telling(*value, decimals, format::grouped), theme));
    }
    if volume > 0.0 {
        spans.extend(labeled(" V ", format::compact(volume), theme));
    }
    spans.push(Span::raw(" "));
    let line = Line::from(spans);
    let width = u16::try_from(line.width()).unwrap_or(u16::MAX);
    let x = paint::line_right(buf, area, 2, &line);
    buf.set_style(strip(area, (x, 2), width), theme.sel);
    x.saturating_sub(1)
}
