//! The chart of the selected dataset, and the numbers above it.

use std::time::Duration;

use model::{resolution::Resolution, row::Bucket, timestamp::Timestamp};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr;

use crate::{
    action::Action,
    event::Target,
    keymap::Layer,
    screens::data::{
        state::{
            Pane, State,
            chart::{Shape, heikin},
            live::{Export, PERCENT, Range},
            zoom::{ChartKind, Indicators},
        },
        view::{pins, rows},
    },
    state::{loadable::Loadable, services::Service},
    theme::Theme,
    view::{Frame, field::draw_field, focus_if, hits::Hits, join_facts, split_rows, strip},
    widget::{
        axis::Scale,
        candles::{Candles, Overlay},
        format,
        line::{self, Lines, Point},
        note, paint, pane, stats,
    },
};

/// Columns of the charted column's name, before its value.
const NAME_WIDTH: usize = 20;

/// The lengths of the plain averages.
const AVERAGES: [usize; 2] = [20, 50];

/// The lengths of the exponential averages.
const EXPONENTIAL: [usize; 2] = [12, 26];

/// The length of the bands' mean, and how many deviations they are from it, as John Bollinger
/// draws them.
const BANDS: (usize, f64) = (20, 2.0);

/// Rows missing before a line is broken.
const MISSING: u32 = 6;

/// A live chart moves by this part of its width at once. Moving it writes nearly all of its cells
/// again, so that fewer steps are fewer bytes to a terminal far away, and more of it stays free.
const STEPS_ACROSS: usize = 8;

/// The rows of the form above a chart that is exported.
const EXPORT_HEIGHT: u16 = 3;

/// The rows above a chart: its numbers, what can be chosen, the crosshair's numbers.
const HEAD_HEIGHT: u16 = 3;

/// Candles read before the first that is shown, so that averages are there from the start: a day of
/// the finest buckets, in which the mean by volume begins.
const LEAD: usize = 288;

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (&frame.state.data, frame.theme);
    let Some(dataset) = state.dataset() else {
        let pane = pane::Pane::new("Chart").focus(focus_if(frame.state.data.pane == Pane::Chart));
        let inside = pane.draw(area, buf, theme);
        note::centered(buf, inside, &[("nothing selected", theme.muted)]);
        return;
    };
    // A long name leaves half of the border to the facts.
    let title = format::fit(&dataset.name, usize::from(area.width / 2)).into_owned();
    // The corners, the spaces and a little of the border beside both.
    let room = usize::from(area.width).saturating_sub(title.width() + 10);
    let of = pane::Pane::new(title).focus(focus_if(frame.state.data.pane == Pane::Chart));
    let body = of.draw(area, buf, theme);
    let history = draw_body(body, buf, frame, hits);
    of.info(info(frame, room, history)).draw(area, buf, theme);
}

/// Draws what is inside the pane; returns the last candle in view, if newer ones are out of view.
fn draw_body(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) -> Option<Bucket> {
    let (state, theme) = (&frame.state.data, frame.theme);
    let mut body = area;
    if state.export.path.is_edited() {
        let form;
        [form, body] = split_rows(body, EXPORT_HEIGHT);
        draw_export(form, buf, frame);
    }
    if state.is_table {
        rows::draw_table(body, buf, frame);
        return None;
    }
    if state.shape() == Some(Shape::Nothing) && !state.tape.is_empty() {
        let key = frame.key(Layer::Data, Action::RowsTable);
        let words = format!("{key} shows the rows as a table");
        let lines = [("no column of numbers to chart", theme.text), (&*words, theme.muted)];
        note::centered(buf, body, &lines);
        return None;
    }
    if state.chart.candles().is_empty() {
        frame.draw_absent(body, buf, &state.rows, ["", "no rows yet"]);
        return None;
    }
    let head_height = if body.height >= 14 { HEAD_HEIGHT } else { u16::from(body.height > 6) };
    let chart = Rect { y: body.y + head_height, height: body.height - head_height, ..body };
    let seen = if state.is_line() {
        draw_line(chart, buf, frame, hits)
    } else {
        draw_candles(chart, buf, frame, hits)
    };
    if head_height > 0 {
        draw_numbers(body, buf, seen, frame);
    }
    if head_height == HEAD_HEIGHT {
        draw_choices(body, buf, frame, hits);
        draw_readout(body, buf, frame);
    }
    let newest = state.chart.nth_newest(0)?.timestamp;
    seen.last().copied().filter(|last| last.timestamp < newest)
}

/// Draws where rows are to be written, and which.
fn draw_export(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (export, theme) = (&frame.state.data.export, frame.theme);
    let resolution = frame.state.data.chart.resolution();
    paint::text(buf, area, (0, 0), "export to", theme.muted);
    let place = Rect { x: area.x.saturating_add(10), width: area.width.saturating_sub(10), ..area };
    draw_field(place, buf, theme, &export.path, export.path.is_edited());
    let mut spans = vec![Span::styled("↑↓ ", theme.key)];
    for range in [Range::Loaded, Range::Day, Range::Week, Range::All] {
        let style = if range == export.range {
            theme.text.add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
        } else {
            theme.muted
        };
        spans.extend([Span::styled(range.name(), style), Span::raw("  ")]);
    }
    let rest = format!("│ {resolution} as {} by its ending  ", export.format());
    spans.extend([
        Span::styled(rest, theme.muted),
        Span::styled(frame.state.keys.key_text(Layer::Edit, Action::Open), theme.key),
    ]);
    spans.push(Span::styled(" writes", theme.muted));
    paint::line_cut(buf, area, (0, 1), &Line::from(spans));
}

/// How far the export is, where one is under way.
fn export_note(export: &Export) -> Option<String> {
    let progress = export.progress.as_ref()?;
    let n_rows = format::counted(progress.rows, "row");
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    let share = progress.total_rows.map(|n| progress.rows as f64 / n.max(1) as f64 * 100.0);
    let share = share.map_or_else(String::new, |share| format!(" {share:.0}%"));
    Some(format!("exporting{share} · {n_rows} · {}", format::bytes(progress.bytes)))
}

/// What the border says: the resolution, the bucket that is open, how live it is.
fn info(frame: Frame<'_>, room: usize, history: Option<Bucket>) -> Line<'static> {
    let state = &frame.state.data;
    let resolution = state.chart.resolution();
    let mut parts = vec![resolution.to_string()];
    if let Some(last) = history {
        parts.push(format!("history to {}", candle_time(last.timestamp, resolution, frame)));
    } else if let Some(start) = open_bucket(frame) {
        let label = match resolution {
            Resolution::Day => format::bucket_date(start),
            _ => format::hour_minute(start),
        };
        parts.push(format!("{label} bucket open"));
    }
    if let Loadable::Stale { .. } | Loadable::Loading { .. } = state.rows {
        parts.push(format!("rows {}", state.rows.note(frame.state.now)));
    }
    parts.extend(export_note(&state.export));
    if let Some(until) = state.limited_until.filter(|until| *until > frame.state.now) {
        parts.push(format!("429 · retry {}s", until.since(frame.state.now).as_secs()));
    }
    let mut parts: Vec<Span<'static>> = parts.into_iter().map(Span::raw).collect();
    if history.is_some() {
        parts.extend(frame.away(Service::Data));
    } else {
        parts.push(frame.silent_or(Service::Data, state.live.note(frame.state.now)));
    }
    join_facts(parts, room)
}

/// The start of the newest bucket, if it is not over: by the clock, or because rows of it come.
fn open_bucket(frame: Frame<'_>) -> Option<Timestamp> {
    let chart = &frame.state.data.chart;
    let length = chart.resolution().bucket()?;
    let newest = chart.nth_newest(0)?.timestamp;
    let newest_row = frame.state.data.tape.front().map(|row| row.timestamp);
    let is_filling = frame.state.data.live.is_flowing(frame.state.now)
        && newest_row.is_some_and(|row| (newest..newest + length).contains(&row));
    (is_filling || newest + length > frame.state.now).then_some(newest)
}

/// The part of a chart that is in view.
struct Window<'a> {
    /// How many of the newest candles are out of view on the right.
    n_newer: usize,
    /// How many places stay free behind the newest.
    n_free: usize,
    seen: &'a [Bucket],
    /// Those, the ones before that averages begin with, and the newer ones.
    led: &'a [Bucket],
}

impl<'a> Window<'a> {
    /// The window of a chart that shows `n_shown` candles: the newest ones, until the crosshair leaves
    /// on the left; then as many half charts further back as bring it into view.
    fn new(state: &'a State, n_shown: usize) -> Self {
        let n = state.crosshair.and_then(|time| state.chart.index_from_newest(time)).unwrap_or(0);
        let half = (n_shown / 2).max(1);
        let n_newer = n.checked_sub(n_shown).map_or(0, |beyond| (beyond / half + 1) * half);
        let n_free = if n_newer > 0 { 0 } else { state.chart.n_free(n_shown / STEPS_ACROSS) };
        let all = state.chart.candles();
        let end = all.len().saturating_sub(n_newer);
        let start = end.saturating_sub(n_shown - n_free);
        let seen = all.get(start..end).unwrap_or(&[]);
        let led = all.get(start.saturating_sub(LEAD)..).unwrap_or(&[]);
        Self { n_newer, n_free, seen, led }
    }
}

/// Draws candles; returns those in view.
fn draw_candles<'a>(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'a>,
    hits: &mut Hits,
) -> &'a [Bucket] {
    let (state, theme) = (&frame.state.data, frame.theme);
    let all = state.chart.candles();
    let mut chart = Candles {
        bars: all,
        bucket: Some(apart(all, state.chart.resolution())),
        n_newer: 0,
        n_free: 0,
        density: state.zoom.density,
        overlays: &[],
        now: frame.state.now,
        crosshair: state.crosshair,
        open_bucket: open_bucket(frame),
        decimals: format::decimals_for(all.iter().rev().take(64).map(|candle| candle.close)),
        scale: None,
        theme,
    };
    let Window { n_newer, n_free, seen, led } =
        Window::new(state, chart.capacity(area.width).max(1));
    chart.n_newer = n_newer;
    chart.n_free = n_free;
    let smooth = if state.kind == ChartKind::Heikin { heikin(led) } else { Vec::new() };
    chart.bars = if state.kind == ChartKind::Heikin { &smooth } else { led };
    let overlays = indicators(state.indicators, state.chart.resolution(), led, theme);
    chart.overlays = &overlays;
    chart.scale = share_scale(frame, seen);
    hits.set_chart(chart.place(area), chart.times(area));
    chart.render(area, buf);
    seen
}

/// The whole scale of shares, where the dataset is counted in percent.
fn share_scale(frame: Frame<'_>, seen: &[Bucket]) -> Option<Scale> {
    let values = seen.iter().flat_map(|candle| [candle.low, candle.high]);
    pins::share_scale(frame.state.data.unit(), values)
}

/// The indicators of `candles`, the most important first.
fn indicators(
    chosen: Indicators,
    resolution: Resolution,
    candles: &[Bucket],
    theme: &Theme,
) -> Vec<Overlay> {
    let mean = |n| (format!("MA {n}"), stats::moving_average(candles, n));
    let newer = |n| (format!("EMA {n}"), stats::exponential_average(candles, n));
    let (n, deviations) = BANDS;
    let band = |sign, by| (format!("{sign}{deviations}σ"), stats::band(candles, n, by));
    let [first, second, third] = theme.overlay;
    let (lines, third) = match chosen {
        Indicators::Off => (Vec::new(), third),
        // Of a day, which a bucket of a day is by itself.
        Indicators::Averages
            if resolution != Resolution::Day && candles.iter().any(|it| it.volume > 0.0) =>
        {
            let weighted = ("VWAP".to_owned(), stats::volume_weighted_average(candles));
            (AVERAGES.map(mean).into_iter().chain([weighted]).collect(), third)
        }
        Indicators::Averages => (AVERAGES.map(mean).to_vec(), third),
        Indicators::Exponential => (EXPONENTIAL.map(newer).to_vec(), third),
        Indicators::Bands => (vec![mean(n), band('+', deviations), band('−', -deviations)], second),
    };
    let styles = [first, second, third];
    let lines = lines.into_iter().zip(styles);
    lines.map(|((name, values), style)| Overlay { name, values, style }).collect()
}

/// Draws a line through the closes; returns the candles in view.
fn draw_line<'a>(area: Rect, buf: &mut Buffer, frame: Frame<'a>, hits: &mut Hits) -> &'a [Bucket] {
    let (state, theme) = (&frame.state.data, frame.theme);
    let n_shown = state.zoom.density.n_points(area.width.saturating_sub(11)).max(2);
    let Window { n_free, seen, led, n_newer } = Window::new(state, n_shown);
    let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return seen };
    let points: Vec<_> = seen.iter().map(|c| Point { time: c.timestamp, value: c.close }).collect();
    let volumes: Vec<_> =
        seen.iter().map(|c| Point { time: c.timestamp, value: c.volume }).collect();
    let indicators = indicators(state.indicators, state.chart.resolution(), led, theme);
    let paths = indicators.iter().rev().map(|line| {
        let values = line.values.iter().skip(led.len() - n_newer - seen.len());
        let point = |(c, value): (&Bucket, &Option<f64>)| {
            Some(Point { time: c.timestamp, value: (*value)? })
        };
        seen.iter().zip(values).filter_map(point).collect::<Vec<_>>()
    });
    let paths: Vec<_> = paths.collect();
    let styles = indicators.iter().rev().map(|line| line.style);
    let guides = paths.iter().zip(styles);
    let mut lines: Vec<_> = guides
        .map(|(points, style)| line::Line { is_guide: true, ..line::Line::new(points, style) })
        .collect();
    lines.push(line::Line { is_filled: true, ..line::Line::new(&points, theme.series(0)) });
    let apart = apart(seen, state.chart.resolution());
    let change = last.close - first.close;
    let tag = if change < 0.0 { theme.down } else { theme.up };
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
    hits.set_chart(chart.place(area), chart.times(area));
    chart.render(area, buf);
    seen
}

/// The usual distance of rows, as the newest of `candles` have it.
fn apart(candles: &[Bucket], resolution: Resolution) -> Duration {
    /// Rows whose distance is looked at to know what is usual.
    const ROWS: usize = 512;
    let times =
        candles.iter().skip(candles.len().saturating_sub(ROWS)).map(|candle| candle.timestamp);
    resolution.bucket().unwrap_or_else(|| stats::usual_distance(times))
}

/// Draws the newest value in view, and what it did over what is in view.
fn draw_numbers(area: Rect, buf: &mut Buffer, seen: &[Bucket], frame: Frame<'_>) {
    let theme = frame.theme;
    // In the past the newest value is out of view, and has no place beside what is in view.
    let (Some(first), Some(newest)) = (seen.first(), seen.last()) else { return };
    let decimals = format::decimals_for(seen.iter().map(|candle| candle.close));
    let change = newest.close - first.open;
    let percent = change / first.open.abs() * 100.0;
    let high = seen.iter().map(|candle| candle.high).fold(f64::NEG_INFINITY, f64::max);
    let low = seen.iter().map(|candle| candle.low).fold(f64::INFINITY, f64::min);
    let volume: f64 = seen.iter().map(|candle| candle.volume).sum();
    let style = theme.signed(change);
    let unit = frame.state.data.unit();
    let column = frame.state.data.shape().and_then(|shape| shape.value_column().map(str::to_owned));
    let column = column.map(|column| format::fit(&column, NAME_WIDTH).into_owned() + " ");
    let number = |value| format::telling(value, decimals, format::grouped);
    let mut spans = vec![
        Span::styled(column.unwrap_or_default(), theme.muted),
        Span::styled(number(newest.close), theme.text.add_modifier(Modifier::BOLD)),
        Span::styled(if unit.is_empty() { String::new() } else { format!(" {unit}") }, theme.muted),
        Span::styled(
            format!(" {} {}", rows::arrow(change), format::signed(change, decimals)),
            style,
        ),
    ];
    // What is a share already moves by points.
    if unit == PERCENT {
        spans.push(Span::styled(" points", style));
    } else if percent.is_finite() {
        spans.push(Span::styled(format!(" {}%", format::percent(percent)), style));
    }
    let price = |(label, value)| labeled(label, number(value), theme);
    let prices = [("   O ", first.open), ("  H ", high), ("  L ", low)].map(price);
    let volume = (volume > 0.0).then(|| labeled("  V ", format::compact(volume), theme));
    // Where there is not room for all, none is cut.
    for part in prices.into_iter().chain(volume) {
        let width = spans.iter().chain(&part).map(Span::width).sum::<usize>();
        if width > area.width.into() {
            break;
        }
        spans.extend(part);
    }
    let end = paint::line(buf, area, (0, 0), &Line::from(spans));
    let span = newest.timestamp.since(first.timestamp);
    let text = format!("over {}", format::span(span));
    if usize::from(area.width.saturating_sub(end)) > text.len() + 2 {
        paint::text_before(buf, area, (area.width, 0), &text, theme.muted);
    }
}

/// A number after its label.
fn labeled(label: &'static str, number: String, theme: &Theme) -> [Span<'static>; 2] {
    [Span::styled(label, theme.muted), Span::styled(number, theme.text)]
}

/// Draws what can be chosen, with what is chosen lit.
fn draw_choices(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let chosen = theme.text.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
    let pick = |is_chosen: bool| if is_chosen { chosen } else { theme.muted };
    let is_line = state.is_line();
    let kinds = [
        ("candles", ChartKind::Candles, !is_line && state.kind == ChartKind::Candles),
        ("line", ChartKind::Line, is_line),
        ("heikin", ChartKind::Heikin, !is_line && state.kind == ChartKind::Heikin),
    ];
    let kind = |(name, kind, is_chosen)| {
        let name =
            Choice { span: Span::styled(name, pick(is_chosen)), target: Some(Target::Chart(kind)) };
        [name, Choice::gap("  ", theme)]
    };
    let rule = || [Choice::gap("│", theme)];
    let all: Vec<_> = kinds.into_iter().flat_map(kind).chain(rule()).collect();
    let one = kinds.into_iter().filter(|(.., is_chosen)| *is_chosen).flat_map(kind);
    let one: Vec<_> = one.chain(rule()).collect();
    // Of the newest candles alone: only the names are wanted here.
    let newest = state.chart.candles().iter().rev().take(1).copied().collect::<Vec<_>>();
    let lines = indicators(state.indicators, state.chart.resolution(), &newest, theme);
    let name = |line: &Overlay| Choice {
        span: Span::styled(format!(" {}", line.name), line.style),
        target: Some(Target::Action(Action::Indicators)),
    };
    let mut names: Vec<_> = lines.iter().map(name).collect();
    if !lines.is_empty() {
        names.push(Choice::gap(" │", theme));
    }
    let (long, short) = (resolutions(state, true, pick), resolutions(state, false, pick));
    // Where there is not room for all, what matters least is left out.
    let choices = [
        [all.clone(), names.clone(), long].concat(),
        [all.clone(), names, short.clone()].concat(),
        [all, short.clone()].concat(),
        [one, short].concat(),
    ];
    let width = |choices: &[Choice]| choices.iter().map(|it| it.span.width()).sum::<usize>();
    let [.., shortest] = &choices;
    let shown = choices.iter().find(|it| width(it) <= area.width.into()).unwrap_or(shortest);
    let mut x = 0;
    for Choice { span, target } in shown {
        let from = x;
        x = paint::line(buf, area, (x, 1), &Line::from(span.clone()));
        if let Some(target) = target {
            hits.add(strip(area, (from, 1), x.saturating_sub(from)), *target);
        }
    }
}

/// A word above the chart, and what a click on it does.
#[derive(Debug, Clone)]
struct Choice {
    span: Span<'static>,
    target: Option<Target>,
}

impl Choice {
    /// A separator.
    fn gap(text: &'static str, theme: &Theme) -> Self {
        Self { span: Span::styled(text, theme.border), target: None }
    }
}

/// The resolutions to choose from, with or without how far back each goes.
fn resolutions(state: &State, has_caps: bool, pick: impl Fn(bool) -> Style) -> Vec<Choice> {
    let mut choices = Vec::new();
    for resolution in state.resolutions().iter().copied() {
        let cap = match resolution.span_max().map(|span| span.as_secs() / 3_600) {
            None => "∞".to_owned(),
            Some(hours @ 0..48) => format!("{hours}h"),
            Some(hours) => format!("{}d", hours / 24),
        };
        let is_chosen = resolution == state.chart.resolution();
        let text = if has_caps { format!("{resolution} {cap}") } else { resolution.to_string() };
        let target = Some(Target::Resolution(resolution));
        choices.push(Choice { span: Span::raw("  "), target: None });
        choices.push(Choice { span: Span::styled(text, pick(is_chosen)), target });
    }
    choices
}

/// The time of a candle, as precise as its resolution.
fn candle_time(time: Timestamp, resolution: Resolution, frame: Frame<'_>) -> String {
    match resolution {
        Resolution::Raw => format::clock_as_of(time, frame.state.now),
        Resolution::Day => format::bucket_date(time),
        _ => format!("{} {}", format::date(time), format::hour_minute(time)),
    }
}

/// Draws the numbers of the candle under the crosshair.
fn draw_readout(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let Some(candle) = state.crosshair.and_then(|time| state.candle_at(time)) else { return };
    let decimals = format::decimals_for([candle.open, candle.high, candle.low, candle.close]);
    let time = candle_time(candle.timestamp, state.chart.resolution(), frame);
    let Bucket { open, high, low, close, volume, .. } = *candle;
    let prices = [("  O ", open), (" H ", high), (" L ", low), (" C ", close)];
    let prices = if state.is_line() { &[("  ", close)][..] } else { &prices };
    let mut spans =
        vec![Span::raw(" "), Span::styled(time, theme.focus.add_modifier(Modifier::BOLD))];
    for (label, value) in prices {
        let number = format::telling(*value, decimals, format::grouped);
        spans.extend(labeled(label, number, theme));
    }
    if volume > 0.0 {
        spans.extend(labeled(" V ", format::compact(volume), theme));
    }
    spans.push(Span::raw(" "));
    let line = Line::from(spans);
    let width = u16::try_from(line.width()).unwrap_or(u16::MAX);
    let x = paint::line_right(buf, area, 2, &line);
    let place = Rect { x: area.x + x, y: area.y + 2, width: width.min(area.width), height: 1 };
    buf.set_style(place, theme.sel);
}
