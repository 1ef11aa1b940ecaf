//! Draws the Inference screen.
//!
//! ```text
//! ╭─ Topic 14 · price in an hour · y ────────── nonce 4 812 300 · 6s ago ╮
//! │ combined      naive         spread        inferers      forecasters  │
//! ╰──────────────────────────────────────────────────────────────────────╯
//! ╭─ Distribution ─────────────────────────── ● inferer ◆ combined … ────╮
//! ╰──────────────────────────────────────────────────────────────────────╯
//! ╭─ Actors ──────────────────── sort … ╮╭─ Combined over time ──────────╮
//! │ values and their distance from the  ││ naive values, ground truth    │
//! │ combined value, best actor first    │╰───────────────────────────────╯
//! │                                     │╭─ Cumulative loss ─────────────╮
//! │                                     ││ combined, naive, a baseline,  │
//! │                                     ││ or scores of the chosen actor │
//! │                                     │╰───────────────────────────────╯
//! │                                     │╭─ Topics ──────────────────────╮
//! ╰─────────────────────────────────────╯╰───────────────────────────────╯
//! ```
//!
//! The area is that between header and footer. Click targets are added to `hits`.

pub(crate) mod actors;
mod scores;

use std::collections::BTreeMap;
use std::time::Duration;

use model::timestamp::Timestamp;
use model::topic::TopicId;
use ratatui::prelude::*;
use ratatui::widgets::LineGauge;
use wire::inference::TopicSummary;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::screens::data::state::live::PERCENT;
use crate::screens::data::view::rows::share_scale;
use crate::screens::inference::state::actors::{Actor, Role};
use crate::screens::inference::state::{Epoch, History, Pane, State, label_value};
use crate::state::layout::{Divider, TableName};
use crate::state::navigation::Steps as _;
use crate::state::services::Service;
use crate::theme::Theme;
use crate::view::{
    Cell, Column, Frame, Table, draw_centered, draw_failure, split_columns, split_rows,
};
use crate::widget::bars::{Floor, Sparkline};
use crate::widget::line::{Lines, Point, Series};
use crate::widget::pane;
use crate::widget::strip::Strip;
use crate::widget::{format, paint, stats};

/// Data for drawing the panes of this screen.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    frame: Frame<'a>,
    state: &'a State,
    actors: &'a [Actor<'a>],
    now: Timestamp,
    theme: &'a Theme,
    /// Unit of the topic's values. Empty if unknown.
    unit: &'a str,
}

/// Draws `frame.state.inference` into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let state = &frame.state.inference;
    let actors = state.actors();
    let unit = frame.state.unit_of(state.topic());
    let (now, theme) = (frame.state.now, frame.theme);
    let scene = Scene { frame, state, actors: &actors, now, theme, unit };
    let (summary, panes) = places(area, scene);
    actors::draw_summary(summary, buf, scene);
    for (pane, place) in panes {
        frame.hits.add(place, Target::Pane(pane.number()));
        match pane {
            _ if place.is_empty() => {}
            Pane::Topics => draw_topics(place, buf, scene),
            Pane::Actors => actors::draw(place, buf, scene),
            Pane::Distribution => draw_distribution(place, buf, scene),
            Pane::Past => draw_history(place, buf, scene),
            Pane::Losses => draw_losses(place, buf, scene),
            Pane::Scores => scores::draw(place, buf, scene),
        }
    }
}

impl Scene<'_> {
    fn is_focused(&self, pane: Pane) -> bool {
        self.state.pane == pane
    }

    /// Returns the index of the selected actor.
    fn chosen_idx(&self) -> Option<usize> {
        self.actors.iter().position(|actor| Some(actor.worker) == self.state.actor.as_ref())
    }

    /// Draws the border of a pane. Returns the area within.
    fn draw_pane<'a>(
        &self,
        area: Rect,
        buf: &mut Buffer,
        pane: Pane,
        title: impl Into<Span<'a>>,
        info: impl Into<Line<'a>>,
    ) -> Rect {
        let frame = pane::Pane::new(title).info(info).focus(self.is_focused(pane));
        frame.draw(area, buf, self.theme)
    }

    /// Returns a legend of symbols and their meanings.
    fn legend(&self, parts: &[(&'static str, Style, &str)]) -> Line<'static> {
        let spans = parts.iter().enumerate().flat_map(|(idx, (symbol, style, words))| {
            let gap = if idx > 0 { "  " } else { "" };
            let words = Span::styled(format!(" {words}"), self.theme.muted);
            [Span::raw(gap), Span::styled(*symbol, *style), words]
        });
        spans.collect()
    }

    /// Returns the number of decimals with which the visible values can be told apart.
    fn decimals(&self) -> usize {
        let label = self.state.label();
        let bundle = self.state.latest.value().map(|latest| &latest.bundle);
        let named = bundle.into_iter().flat_map(|bundle| {
            [label_value(&bundle.combined_value, label), label_value(&bundle.naive_value, label)]
        });
        let actors = self.actors.iter().filter_map(|actor| actor.value);
        format::decimals_for(actors.chain(named.flatten()))
    }

    /// Returns true if the unit is percent, so differences are in percentage points.
    fn is_percent(&self) -> bool {
        self.unit == PERCENT
    }

    /// Draws lines, the last line on top. If all values are shares, the scale is from 0 to 100.
    fn draw_lines(&self, area: Rect, buf: &mut Buffer, lines: &[Series<'_>], decimals: usize) {
        let values = lines.iter().flat_map(|line| line.points).map(|point| point.value);
        let scale = share_scale(self.unit, values);
        Lines { scale, ..Lines::new(lines, self.now, decimals, self.theme) }.render(area, buf);
    }

    /// Describes in the middle of `area` why there is nothing to draw.
    fn draw_nothing(&self, area: Rect, buf: &mut Buffer) {
        if let Some(topic) = self.state.topic_without_bundle() {
            let edit = self.frame.key(Layer::Inference, Action::EditTopic);
            let id = topic.topic_id;
            let next = format!("{edit} sets its function; `triptych inference work {id}` submits");
            let muted = self.theme.muted;
            let mut lines = vec![("no epoch of this topic has values yet", self.theme.text)];
            match &topic.problem {
                Some(problem) => lines.push((problem, self.theme.warn)),
                None => lines.extend([
                    ("values appear when an epoch with submissions closes", muted),
                    (&next, muted),
                ]),
            }
            return draw_centered(buf, area, &lines);
        }
        match self.state.latest.failure() {
            Some(why) => draw_failure(buf, area, why, self.theme),
            // Topics are listed, and the bundle of the selected topic is still being loaded.
            None if self.state.latest.is_loading() && self.state.topics.failure().is_none() => {
                self.frame.draw_loading(area, buf);
            }
            None if self.state.latest.value().is_some() => {}
            None => {
                let words = ["no inference service yet", "no topics yet"];
                self.frame.draw_absent(area, buf, &self.state.topics, None, words);
            }
        }
    }
}

/// Divides `area` among the summary, which is returned first, and all panes. A smaller area is divided
/// among the main panes, or belongs only to the focused pane.
fn places(area: Rect, scene: Scene<'_>) -> (Rect, Vec<(Pane, Rect)>) {
    let pane = scene.state.pane;
    if scene.frame.state.is_zoomed {
        return (Rect::default(), vec![(pane, area)]);
    }
    let is_roomy = area.width >= 108 && area.height >= 26;
    let summary_height = actors::summary_height(scene, area, is_roomy);
    let [summary, rest] = split_rows(area, summary_height);
    if area.height < 20 {
        return (summary, vec![(pane, rest)]);
    }
    // The pane has space for a dozen inferers: their dots are stacked if their values are
    // close.
    let strip_height = if is_roomy { (rest.height / 4).clamp(7, 11) } else { 8 };
    let [distribution, rest] = split_rows(rest, strip_height);
    if !is_roomy {
        let lower = if pane == Pane::Distribution { Pane::Actors } else { pane };
        return (summary, vec![(Pane::Distribution, distribution), (lower, rest)]);
    }
    let [actors, right] = scene.frame.split(Divider::Columns, rest, rest.width * 9 / 16);
    let n_topics = scene.state.topics.value().map_or(1, |list| list.topics.len());
    let topics_height = u16::try_from(n_topics).unwrap_or(u16::MAX).saturating_add(3);
    let topics_height = topics_height.clamp(4, (right.height / 3).max(4));
    let at = right.height.saturating_sub(topics_height);
    let [past, topics] = scene.frame.split(Divider::RightRows, right, at);
    // The scores of the selected actor have their own space, or that of the losses.
    let is_chosen = scene.state.actor.is_some() || pane == Pane::Scores;
    let scores_height = if is_chosen && past.height >= 30 { past.height / 3 } else { 0 };
    let [past, scores] = split_rows(past, past.height - scores_height);
    let is_replaced = is_chosen && scores_height == 0 && pane != Pane::Losses;
    // If there is no space for two charts, only one chart is shown, depending on the focus.
    let at = match pane {
        // Enough space for two charts.
        _ if past.height >= 16 => past.height / 2,
        Pane::Past => past.height,
        _ => 0,
    };
    let [past, losses] = split_rows(past, at);
    let panes = vec![
        (Pane::Topics, topics),
        (Pane::Actors, actors),
        (Pane::Distribution, distribution),
        (Pane::Past, past),
        (if is_replaced { Pane::Scores } else { Pane::Losses }, losses),
        (Pane::Scores, scores),
    ];
    (summary, panes)
}

/// Draws the distribution of the values.
fn draw_distribution(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let name = |long, short| if area.width < 90 { short } else { long };
    let legend = scene.legend(&[
        ("●", theme.series(0), name("inferer", "inf")),
        ("▲", theme.series(3), name("forecaster", "fc")),
        ("◆", theme.series(1), name("combined", "comb")),
        ("◇", theme.text, "naive"),
        ("░", theme.faint, "p25–p75"),
    ]);
    let title = match state.labels().len() {
        0 | 1 => "Distribution".to_owned(),
        _ => format!("Distribution of {}", state.label()),
    };
    let body = scene.draw_pane(area, buf, Pane::Distribution, title, legend);
    let Some(latest) = state.latest.value() else { return scene.draw_nothing(body, buf) };
    let values = |role| {
        let actors = scene.actors.iter().filter(move |actor| actor.role == role);
        actors.filter_map(|actor| actor.value).collect::<Vec<_>>()
    };
    let strip = Strip {
        inferers: &values(Role::Inferer),
        forecasters: &values(Role::Forecaster),
        combined: label_value(&latest.bundle.combined_value, state.label()),
        naive: label_value(&latest.bundle.naive_value, state.label()),
        selected: scene.chosen_idx().and_then(|idx| scene.actors[idx].value),
        theme,
    };
    strip.render(body, buf);
}

/// Width of the progress bar of an epoch.
const BAR: u16 = 8;

/// Minimum width of a list that shows all columns.
const WIDE_FROM: u16 = 56;

/// Returns the columns of a list of this `width`.
pub(crate) fn topic_columns(width: u16) -> [Column; 5] {
    let number_width = if width >= WIDE_FROM { 8 } else { 0 };
    let name_width = width.saturating_sub(BAR + 4 + 2 * (number_width + 1)).max(1);
    let column = |title, width, side| Column { title, width, side };
    [
        column("ID", 2, Alignment::Right),
        column("PREDICTS", name_width, Alignment::Left),
        column("GROUP", number_width, Alignment::Right),
        column("LEARNED", number_width, Alignment::Right),
        column("EPOCH", BAR, Alignment::Right),
    ]
}

/// Draws the pane of topics.
fn draw_topics(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let info = scene.frame.away_or(Service::Inference, state.topics.note(scene.now));
    let body = scene.draw_pane(area, buf, Pane::Topics, "Topics", info);
    let topics = state.topics.value().map_or(&[][..], |list| &list.topics);
    if topics.is_empty() {
        return scene.draw_nothing(body, buf);
    }
    let mut columns = topic_columns(body.width);
    let hidden = &scene.frame.state.hidden_columns;
    let is_selected =
        |topic: &&TopicSummary| Some(topic.topic_id) == state.selected.map(TopicId::get);
    let selected = topics.iter().position(|topic| is_selected(&topic));
    let has_epoch = !hidden.is_hidden(TableName::Topics, "EPOCH");
    let table = Table {
        selected,
        pane: Pane::Topics.number(),
        ..Table::new(TableName::Topics, &mut columns, hidden, state.topic_order.column)
    };
    let visible = table.draw(body, buf, scene.frame, topics, |topic| {
        let style = if is_selected(&topic) { theme.text.bold() } else { theme.text };
        vec![
            (topic.topic_id.to_string(), theme.focus),
            (topic.name.clone(), style),
            (topic.subgroup.as_deref().unwrap_or("*").to_owned(), theme.accent2),
            (format::count(topic.n_learned), theme.muted),
            Cell::default(),
        ]
    });
    if has_epoch {
        for (topic, place, _) in visible {
            draw_epoch(place, buf, topic, scene);
        }
    }
}

/// Draws the progress of a topic's epoch.
fn draw_epoch(row: Rect, buf: &mut Buffer, topic: &TopicSummary, scene: Scene<'_>) {
    let Some(height) = scene.state.height(scene.now) else { return };
    let left = topic.next_epoch_height.saturating_sub(height).min(topic.epoch_length);
    let share = 1.0 - stats::percent(left, topic.epoch_length).unwrap_or(0.0) / 100.0;
    // The gauge leaves one column free for a label, so it starts one column earlier.
    let Some(x) = row.width.checked_sub(BAR + 1) else { return };
    let bar = Rect { x: row.x + x, width: BAR + 1, ..row };
    let is_open = topic.close_height.is_some();
    if topic.is_paused && !is_open {
        return;
    }
    let style = if is_open { scene.theme.info } else { scene.theme.focus };
    // Thick bars of adjacent rows would touch, so the gauge is a thin line.
    LineGauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label("")
        .filled_symbol("━")
        .filled_style(style)
        .unfilled_symbol("─")
        .unfilled_style(scene.theme.faint)
        .render(bar.intersection(buf.area), buf);
}

/// Draws the pane with the values over time.
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
        return draw_centered(buf, body, &[("no epochs yet", theme.muted)]);
    };
    let all = state.past().map_or_else(Vec::new, History::epochs_with_gaps);
    let line =
        |of: fn(&Epoch) -> &BTreeMap<String, f64>| points(&all, first.time, state.label(), of);
    let combined = line(|epoch| &epoch.combined);
    let naive = line(|epoch| &epoch.naive);
    let truth = line(|epoch| &epoch.truth);
    // With enough space, there is a gap and a row of bars below the chart.
    let error_height = if body.height >= 12 { 2 } else { 0 };
    let [chart, below] = split_rows(body, body.height - error_height);
    let lines = [
        Series::new(&naive, theme.muted),
        Series::new(&truth, theme.up),
        Series { is_filled: true, ..Series::new(&combined, theme.series(1)) },
    ];
    let decimals = format::decimals_for(combined.iter().map(|point| point.value));
    scene.draw_lines(chart, buf, &lines, decimals);
    if error_height > 0 {
        draw_difference(split_rows(below, 1)[1], buf, [&combined, &naive], scene);
    }
}

/// Returns the values that `of` selects for `label`, from `start` on. NaN stands for a missing
/// value or a gap between two epochs.
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

/// Returns the epochs since the last long gap. If these are too few for a line, returns all
/// epochs.
fn since_silence<'a>(epochs: &'a [&'a Epoch]) -> &'a [&'a Epoch] {
    let gap = gap(epochs.iter().map(|epoch| epoch.time));
    let is_silence = |pair: &[&Epoch]| {
        pair.first().zip(pair.last()).is_some_and(|(one, next)| next.time.since(one.time) > gap)
    };
    let start = epochs.windows(2).rposition(is_silence).map_or(0, |idx| idx + 1);
    // A line needs at least 20 epochs.
    if epochs.len() - start >= 20 { epochs.get(start..).unwrap_or(epochs) } else { epochs }
}

/// Returns the minimum interval between two epochs that interrupts a line. `times` are the starts
/// of all epochs, oldest first.
pub(super) fn gap(times: impl Iterator<Item = Timestamp> + Clone) -> Duration {
    /// Number of consecutive missing epochs at which a line is interrupted.
    const MISSING: u32 = 5;
    stats::usual_distance(times).saturating_mul(MISSING)
}

/// Draws a bar for each epoch: the distance between the combined and the naive value.
fn draw_difference(row: Rect, buf: &mut Buffer, lines: [&[Point]; 2], scene: Scene<'_>) {
    let [combined, naive] = lines;
    let naive: BTreeMap<_, _> = naive.iter().map(|point| (point.time, point.value)).collect();
    let difference = |point: &Point| Some((point.value - naive.get(&point.time)?).abs());
    let values: Vec<Option<f64>> = combined.iter().map(difference).collect();
    paint::text(buf, row, (0, 0), "combined − naive", scene.theme.muted);
    let [_, bars] = split_columns(row, 19);
    Sparkline::new(&values, Floor::Zero, scene.theme.series(0)).render(bars, buf);
}

/// Draws the pane with the cumulative losses.
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
    let has_baseline = epochs.clone().any(|epoch| epoch.uninformed.is_some());
    let mut lines: [Vec<Point>; 3] = Default::default();
    let mut sums = [0.0; 3];
    for epoch in epochs {
        let time = epoch.opened_at.parse::<Timestamp>().ok();
        let Some(time) = time else { continue };
        // All lines cover the same epochs. Without any baseline, two lines remain.
        if has_baseline && epoch.uninformed.is_none() {
            continue;
        }
        let losses = [Some(epoch.combined), Some(epoch.naive), epoch.uninformed];
        for ((line, sum), loss) in lines.iter_mut().zip(&mut sums).zip(losses) {
            let Some(loss) = loss else { continue };
            *sum += loss;
            line.push(Point { time, value: *sum });
        }
    }
    let [combined, ..] = &lines;
    if combined.is_empty() {
        return draw_centered(buf, body, &[("no ground truth yet", theme.muted)]);
    }
    let [chart, row] = split_rows(body, body.height.saturating_sub(1));
    let gap = gap(combined.iter().map(|point| point.time));
    let drawn = [2, 1, 0].map(|idx| Series::new(&lines[idx], styles[idx]));
    let decimals = format::decimals_of(sums[0]);
    Lines { gap, ..Lines::new(&drawn, scene.now, decimals, theme) }.render(chart, buf);
    draw_means(row, buf, sums, combined.len(), scene);
}

/// Draws the mean loss of the combined value, and its differences in percent from the mean losses
/// of the naive value and of the uninformed baseline.
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
        // A share of a negative loss has no meaning.
        if combined < 0.0 || other <= 0.0 || !percent.is_finite() {
            continue;
        }
        let style = if percent < 0.0 { theme.up } else { theme.down };
        let part = [
            Span::styled(format::signed(percent, 1), style),
            Span::styled(format!(" % vs {name}"), theme.muted),
        ];
        // A part that does not fit is omitted as a whole.
        let width = spans.iter().chain(&part).map(Span::width).sum::<usize>();
        if width > row.width.into() {
            break;
        }
        spans.extend(part);
        spans.push(Span::raw("  "));
    }
    paint::line(buf, row, (0, 0), &Line::from(spans));
}

/// Formats a loss with four decimals, or two from 10 on. A text of more than `width` characters is
/// replaced by a compact one.
pub(super) fn loss_text(loss: f64, width: usize) -> String {
    let text = format::telling(loss, if loss.abs() < 10.0 { 4 } else { 2 }, format::fixed);
    if text.chars().count() <= width { text } else { format::compact(loss) }
}

#[cfg(test)]
mod tests;
