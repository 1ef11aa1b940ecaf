//! Draws the Inference screen.
//!
//! ```text
//! ╭─ Topic 14 · price in an hour · y ────────── nonce 4 812 300 · 6s ago ╮
//! │ combined      naive         spread        inferers      forecasters  │
//! ╰──────────────────────────────────────────────────────────────────────╯
//! ╭─ Distribution ─────────────────────────── ● inferer ◆ combined … ────╮
//! ╰──────────────────────────────────────────────────────────────────────╯
//! ╭─ Actors ──────────────────── sort … ╮╭─ Combined over time ──────────╮
//! │ who, what, and how far off:         ││ and naive, and what came true │
//! │ the least mean loss first           │╰───────────────────────────────╯
//! │                                     │╭─ Cumulative loss ─────────────╮
//! │                                     ││ combined, naive, a baseline   │
//! │                                     │╰───────────────────────────────╯
//! │                                     │╭─ Topics ──────────────────────╮
//! ╰─────────────────────────────────────╯╰───────────────────────────────╯
//! ```
//!
//! Called with the part of the screen between header and footer. What can be clicked goes into
//! `hits`, in the numbers that `state/inference.rs` knows.

pub(crate) mod actors;
mod charts;
mod summary;

use model::{timestamp::Timestamp, topic::TopicId};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::{LineGauge, Widget as _},
};
use wire::inference::TopicSummary;

use crate::{
    event::Target,
    screens::{
        data::{state::live::PERCENT, view::pins::share_scale},
        inference::state::{
            Pane, State,
            actors::{Actor, Role},
            label_value,
        },
    },
    state::{
        columns::TableName,
        layout::{Divider, Nudge},
        navigation::Steps as _,
        services::Service,
    },
    theme::Theme,
    view::{
        Frame, focus_if,
        hits::Hits,
        split_columns, split_rows,
        table::{self, Cell, Column, Side, Table},
    },
    widget::{
        format,
        line::{self, Lines},
        note,
        pane::{self, Focus},
        strip::Strip,
    },
};

/// The rows from which on there is room for two charts above one another.
const TWO_CHARTS_FROM: u16 = 16;

/// What the parts of this screen draw from.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    frame: Frame<'a>,
    state: &'a State,
    actors: &'a [Actor<'a>],
    now: Timestamp,
    theme: &'a Theme,
    /// What the topic's values are counted in, as its dataset says; empty where that is not known.
    unit: &'a str,
}

/// Where the summary is, and the panes; one without cells is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Places {
    summary: Rect,
    panes: Vec<(Pane, Rect)>,
}

/// Draws `frame.state.inference` into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let state = &frame.state.inference;
    let actors = state.actors();
    let unit = frame.state.unit_of(state.topic());
    let (now, theme) = (frame.state.now, frame.theme);
    let scene = Scene { frame, state, actors: &actors, now, theme, unit };
    let places = Places::new(area, scene, frame.state.is_zoomed, frame.state.nudge());
    summary::draw(places.summary, buf, scene, hits);
    places.add_dividers(hits);
    for (pane, place) in places.panes {
        hits.add(place, Target::Pane(pane.number()));
        match pane {
            _ if place.is_empty() => {}
            Pane::Topics => draw_topics(place, buf, scene, hits),
            Pane::Actors => actors::draw(place, buf, scene, hits),
            Pane::Distribution => draw_distribution(place, buf, scene),
            Pane::Past => charts::draw_history(place, buf, scene),
            Pane::Losses => charts::draw_losses(place, buf, scene),
        }
    }
}

impl Scene<'_> {
    fn focus(&self, pane: Pane) -> Focus {
        focus_if(self.state.pane == pane)
    }

    /// The index of the chosen actor.
    fn chosen_idx(&self) -> Option<usize> {
        self.actors.iter().position(|actor| Some(actor.worker) == self.state.actor.as_ref())
    }

    /// Draws the frame of a pane; returns the part of its inside for text.
    fn draw_pane<'a>(
        &self,
        area: Rect,
        buf: &mut Buffer,
        pane: Pane,
        title: impl Into<Span<'a>>,
        info: impl Into<Line<'a>>,
    ) -> Rect {
        let frame = pane::Pane::new(title).info(info).focus(self.focus(pane));
        frame.draw(area, buf, self.theme)
    }

    /// Symbols, each with its style and its meaning.
    fn legend(&self, parts: &[(&'static str, Style, &str)]) -> Line<'static> {
        let spans = parts.iter().enumerate().flat_map(|(idx, (symbol, style, words))| {
            let gap = if idx > 0 { "  " } else { "" };
            let words = Span::styled(format!(" {words}"), self.theme.muted);
            [Span::raw(gap), Span::styled(*symbol, *style), words]
        });
        spans.collect()
    }

    /// The places that tell the values in view apart.
    fn decimals(&self) -> usize {
        let label = self.state.label();
        let bundle = self.state.latest.value().map(|latest| &latest.bundle);
        let named = bundle.into_iter().flat_map(|bundle| {
            [label_value(&bundle.combined_value, label), label_value(&bundle.naive_value, label)]
        });
        let actors = self.actors.iter().filter_map(|actor| actor.value);
        format::decimals_for(actors.chain(named.flatten()))
    }

    /// Whether the topic in view is counted in percent: differences are points then.
    fn is_percent(&self) -> bool {
        self.unit == PERCENT
    }

    /// Draws lines, back to front, on the whole scale of shares where all are shares.
    fn draw_lines(&self, area: Rect, buf: &mut Buffer, lines: &[line::Line<'_>], decimals: usize) {
        let values = lines.iter().flat_map(|line| line.points).map(|point| point.value);
        let scale = share_scale(self.unit, values);
        Lines { scale, ..Lines::new(lines, self.now, decimals, self.theme) }.render(area, buf);
    }

    /// Why the service has nothing to show, or that it was not asked yet, in the middle of an area.
    fn draw_nothing(&self, area: Rect, buf: &mut Buffer) {
        if let Some(topic) = self.state.topic_without_bundle() {
            let reason = match &topic.problem {
                Some(problem) => (problem.as_str(), self.theme.warn),
                None => ("its values come when the first one closes", self.theme.muted),
            };
            let first = ("no epoch of this topic has closed yet", self.theme.text);
            return note::centered(buf, area, &[first, reason]);
        }
        match self.state.latest.failure() {
            Some(why) => note::failed(buf, area, why, self.theme),
            // The list of topics is there, and the bundle is awaited.
            None if self.state.latest.is_loading() && self.state.topics.failure().is_none() => {
                self.frame.draw_loading(area, buf);
            }
            None if self.state.latest.value().is_some() => {}
            None => {
                let words = ["no inference service yet", "no topics yet"];
                self.frame.draw_absent(area, buf, &self.state.topics, words);
            }
        }
    }
}

impl Places {
    /// Lets the mouse drag the borders between the panes on the left and on the right.
    fn add_dividers(&self, hits: &mut Hits) {
        let place = |wanted| self.panes.iter().find(|(pane, _)| *pane == wanted).map(|(_, it)| *it);
        let (Some(actors), Some(losses), Some(topics)) =
            (place(Pane::Actors), place(Pane::Losses), place(Pane::Topics))
        else {
            return;
        };
        hits.add_column_divider(actors);
        // One of the charts has no cells where there is little room.
        let above = [losses, place(Pane::Past).unwrap_or_default()];
        let above = above.into_iter().find(|it| !it.is_empty() && it.bottom() == topics.y);
        if let Some(above) = above {
            hits.add_row_divider(Divider::RightRows, above);
        }
    }

    /// Divides `area` by its size: all panes, the main ones, or only the one that keys go to.
    fn new(area: Rect, scene: Scene<'_>, is_zoomed: bool, nudge: Nudge) -> Self {
        let pane = scene.state.pane;
        if is_zoomed {
            return Self { summary: Rect::default(), panes: vec![(pane, area)] };
        }
        let is_roomy = area.width >= 108 && area.height >= 26;
        let summary_height = summary::height(scene, area, is_roomy);
        let [summary, rest] = split_rows(area, summary_height);
        if area.height < 20 {
            return Self { summary, panes: vec![(pane, rest)] };
        }
        // The strip gets a row for each stack of dots that a dozen inferers may make.
        let strip_height = if is_roomy { (rest.height / 4).clamp(7, 11) } else { 8 };
        let [distribution, rest] = split_rows(rest, strip_height);
        if !is_roomy {
            let lower = if pane == Pane::Distribution { Pane::Actors } else { pane };
            let panes = vec![(Pane::Distribution, distribution), (lower, rest)];
            return Self { summary, panes };
        }
        let [actors, right] = split_columns(rest, nudge.column(rest.width * 9 / 16, rest.width));
        let n_topics = scene.state.topics.value().map_or(1, |list| list.topics.len());
        let topics_height = u16::try_from(n_topics).unwrap_or(u16::MAX).saturating_add(3);
        let topics_height = topics_height.clamp(4, (right.height / 3).max(4));
        let [past, topics] = split_rows(
            right,
            nudge.right_row(right.height.saturating_sub(topics_height), right.height),
        );
        // With little room, the chart that keys go to is the one that is shown.
        let at = match pane {
            _ if past.height >= TWO_CHARTS_FROM => past.height / 2,
            Pane::Past => past.height,
            _ => 0,
        };
        let [past, losses] = split_rows(past, at);
        let panes = vec![
            (Pane::Topics, topics),
            (Pane::Actors, actors),
            (Pane::Distribution, distribution),
            (Pane::Past, past),
            (Pane::Losses, losses),
        ];
        Self { summary, panes }
    }
}

/// Draws how the values are spread.
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

/// The columns of the bar that an epoch fills.
const BAR: u16 = 8;

/// The narrowest list with what a topic's workers are and have learned.
const WIDE_FROM: u16 = 56;

/// The columns by the width there is.
pub(crate) fn topic_columns(width: u16) -> [Column; 5] {
    let number_width = if width >= WIDE_FROM { 8 } else { 0 };
    let name_width = width.saturating_sub(BAR + 4 + 2 * (number_width + 1)).max(1);
    let column = |title, width, side| Column { title, width, side };
    [
        column("ID", 2, Side::Right),
        column("PREDICTS", name_width, Side::Left),
        column("GROUP", number_width, Side::Right),
        column("LEARNED", number_width, Side::Right),
        column("EPOCH", BAR, Side::Right),
    ]
}

/// Draws the pane of topics.
fn draw_topics(area: Rect, buf: &mut Buffer, scene: Scene<'_>, hits: &mut Hits) {
    let (state, theme) = (scene.state, scene.theme);
    let info = scene.frame.away_or(Service::Inference, state.topics.note(scene.now));
    let body = scene.draw_pane(area, buf, Pane::Topics, "Topics", info);
    let topics = state.topics.value().map_or(&[][..], |list| &list.topics);
    if topics.is_empty() {
        return scene.draw_nothing(body, buf);
    }
    let mut columns = topic_columns(body.width);
    table::hide(&scene.frame.state.hidden_columns, TableName::Topics, &mut columns);
    let selected =
        topics.iter().position(|it| Some(it.topic_id) == state.selected.map(TopicId::get));
    let table = Table {
        columns: &columns,
        n_rows: topics.len(),
        selected,
        pane: Pane::Topics.number(),
        sorted: columns.iter().position(|it| Some(it.title) == state.topic_order.column),
        ..Table::default()
    };
    table.draw(body, buf, theme, hits, |row| {
        let Some(topic) = topics.get(row) else { return Vec::new() };
        let style = if selected == Some(row) { theme.text.bold() } else { theme.text };
        vec![
            (topic.topic_id.to_string(), theme.focus),
            (topic.name.clone(), style),
            (topic.subgroup.as_deref().unwrap_or("*").to_owned(), theme.accent2),
            (format::count(topic.n_learned), theme.muted),
            Cell::default(),
        ]
    });
    if columns.last().is_some_and(|epoch| epoch.width > 0) {
        for (topic, (_, place)) in table.rows(body).filter_map(|it| Some((topics.get(it.0)?, it))) {
            draw_epoch(place, buf, topic, scene);
        }
    }
}

/// Draws how much of its epoch a topic has behind it.
fn draw_epoch(row: Rect, buf: &mut Buffer, topic: &TopicSummary, scene: Scene<'_>) {
    let Some(height) = scene.state.height(scene.now) else { return };
    let left = topic.next_epoch_height.saturating_sub(height).min(topic.epoch_length);
    #[expect(clippy::cast_precision_loss, reason = "the bar has eight steps")]
    let share = 1.0 - left as f64 / topic.epoch_length.max(1) as f64;
    // Behind the column that the gauge leaves free after a label.
    let Some(x) = row.width.checked_sub(BAR + 1) else { return };
    let bar = Rect { x: row.x + x, width: BAR + 1, ..row };
    let is_open = topic.close_height.is_some();
    let style = if is_open { scene.theme.info } else { scene.theme.focus };
    // A thin line, as bars of neighboring rows would run into one another.
    LineGauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label("")
        .filled_symbol("━")
        .filled_style(style)
        .unfilled_symbol("─")
        .unfilled_style(scene.theme.faint)
        .render(bar.intersection(buf.area), buf);
}

#[cfg(test)]
mod tests;
