//! Forecasts over the chart, and their legend.

use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use model::topic::TopicId;
use ratatui::prelude::*;

use super::{apart, candle_time};
use crate::event::Target as Click;
use crate::keymap::Action;
use crate::screens::data::state::forecast::{Predicted, Target, mean_error};
use crate::screens::data::state::live::PERCENT;
use crate::screens::data::view::rows;
use crate::screens::inference::state::History;
use crate::view::{Frame, strip};
use crate::widget::line::{Point, Series};
use crate::widget::{format, paint, plot};

/// Maximum share of a chart that is free for forecasts after the latest candle.
const AHEAD_MAX: usize = 6;

/// Minimum number of candles for each forecast if all forecasts are marked.
const APART: usize = 4;

/// Maximum distance of a drawn forecast from the visible candles, as a share of their height.
const REACH: f64 = 0.5;

/// Returns the topic whose forecasts are drawn and its target. Returns `None` if they are switched off,
/// or if the chart is in percent.
fn drawn_topic(frame: Frame<'_>) -> Option<(TopicId, Target)> {
    let state = &frame.state.data;
    let is_hidden = state.forecast.is_off || state.is_comparing();
    state.forecast.topic.zip(state.forecast.target).filter(|_| !is_hidden)
}

/// Returns the number of slots to leave free after the latest candle if `n_shown` are visible.
pub(super) fn n_ahead(frame: Frame<'_>, n_shown: usize) -> usize {
    let chart = &frame.state.data.chart;
    let target = drawn_topic(frame).map(|(_, target)| target);
    let drawn = target.filter(|target| target.obstacle(chart.resolution()).is_none());
    let every = apart(chart.candles(), chart.resolution());
    let n_slots = drawn.and_then(|it| it.horizon.as_micros().checked_div(every.as_micros()));
    let n_slots = usize::try_from(n_slots.unwrap_or(0)).unwrap_or(usize::MAX).saturating_add(1);
    if drawn.is_some() { n_slots.min(n_shown / AHEAD_MAX) } else { 0 }
}

/// Returns the forecasts from the first of the visible candles `seen` on, oldest first. `None` stands
/// for missing epochs.
fn predicted(frame: Frame<'_>, seen: &[Bucket]) -> Vec<Option<Predicted>> {
    let chart = &frame.state.data.chart;
    let (Some((topic, target)), Some(first), Some(last)) =
        (drawn_topic(frame), seen.first(), seen.last())
    else {
        return Vec::new();
    };
    let is_latest = chart.nth_newest(0).is_some_and(|it| it.timestamp == last.timestamp);
    let end = if is_latest { Timestamp::MAX } else { last.timestamp };
    let epochs = frame.state.inference.pasts.get(&topic);
    let epochs = epochs.map_or_else(Vec::new, History::epochs_with_gaps);
    let forecasts = epochs.into_iter().map(|epoch| target.forecast(epoch?, chart.candles()));
    let is_seen = |it: &Predicted| (first.timestamp..=end).contains(&it.time);
    forecasts.filter(|it| it.as_ref().is_none_or(is_seen)).collect()
}

/// Returns the points of the forecasts over the visible candles `seen`. NaN interrupts the line.
pub(super) fn points(frame: Frame<'_>, seen: &[Bucket]) -> Vec<Point> {
    let (low, high) = seen.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
        (low.min(it.low), high.max(it.high))
    });
    let room = if high > low { (high - low) * REACH } else { f64::INFINITY };
    let mut points: Vec<Point> = Vec::new();
    for forecast in predicted(frame, seen) {
        let gap = points.last().map(|it| Point { value: f64::NAN, ..*it });
        let point = forecast.filter(|it| (low - room..=high + room).contains(&it.value));
        points.extend(point.map(|it| Point { time: it.time, value: it.value }).or(gap));
    }
    points
}

/// Returns the line through `points`. All points are marked if they are far apart, otherwise only the
/// last one if it is after the latest candle.
pub(super) fn series<'a>(points: &'a [Point], seen: &[Bucket], frame: Frame<'_>) -> Series<'a> {
    let newest = seen.last().map(|candle| candle.timestamp);
    let n_marks = match points.last() {
        Some(_) if points.len() * APART <= seen.len() => points.len(),
        Some(last) => usize::from(Some(last.time) > newest),
        None => 0,
    };
    let marks = points.get(points.len() - n_marks..).unwrap_or(&[]);
    Series { marks, ..Series::new(points, frame.theme.series(3)) }
}

/// Draws the legend of the forecasts over the visible candles `seen`: their horizon and mean error,
/// and the next forecast, or the reason why there are none.
pub(super) fn draw_legend(area: Rect, buf: &mut Buffer, seen: &[Bucket], frame: Frame<'_>) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let Some((topic, target)) = drawn_topic(frame) else { return };
    let mut spans = vec![Span::styled(format!("{} ", plot::MARK), theme.series(3))];
    if let Some(why) = target.obstacle(state.chart.resolution()) {
        spans.push(Span::styled(format!("topic {topic} {why}"), theme.muted));
    } else {
        let forecasts: Vec<Predicted> = predicted(frame, seen).into_iter().flatten().collect();
        let is_share = state.unit() == PERCENT;
        let error = mean_error(&forecasts, is_share).map(|error| {
            let unit = if is_share { " points" } else { "%" };
            format!("mean error {}{unit}", format::plain(error, 2, format::fixed))
        });
        let error = error.unwrap_or_else(|| "no error known yet".to_owned());
        let horizon = format::span(target.horizon);
        let exact = [" 00 s", " 00 m", " 0 h"].iter().find_map(|rest| horizon.strip_suffix(rest));
        let horizon = exact.unwrap_or(&horizon);
        let text = format!("forecast {horizon} of topic {topic}, {error}");
        spans.push(Span::styled(text, theme.text));
        let newest = seen.last().map(|candle| candle.timestamp);
        if let Some(next) = forecasts.last().filter(|it| Some(it.time) > newest) {
            let decimals = format::decimals_for(seen.iter().map(|candle| candle.close));
            let value = rows::telling_in(state.unit(), next.value, decimals, format::grouped);
            let time = match state.chart.resolution() {
                Resolution::Raw => format::clock_as_of(next.time, frame.state.now),
                _ if format::is_same_day(next.time, frame.state.now) => {
                    format::hour_minute(next.time)
                }
                resolution => candle_time(next.time, resolution, frame),
            };
            spans.push(Span::styled(format!("  {value} at {time}"), theme.series(3)));
        }
    }
    let line = Line::from(spans);
    let width = u16::try_from(line.width()).unwrap_or(u16::MAX).min(area.width);
    paint::line_cut(buf, area, (0, 0), &line);
    frame.hits.add(strip(area, (0, 0), width), Click::Action(Action::Forecasts));
}
