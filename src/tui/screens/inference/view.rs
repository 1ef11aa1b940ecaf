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

mod actors;
mod losses;
mod past;
mod summary;
mod topics;

use model::timestamp::Timestamp;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::{Line, Span},
    widgets::Widget as _,
};

use super::state::{
    Pane, State,
    actors::{Actor, Role},
    past::label_value,
};
use crate::{
    event::Target,
    screens::data::state::pins::PERCENT,
    state::{layout::Nudge, loadable::Loadable, steps::Steps as _},
    theme::Theme,
    view::{Frame, hits::Hits, spinner},
    widget::{
        axis::Scale,
        format,
        line::Point,
        note,
        pane::{self, Focus, padded},
        strip::Strip,
    },
};

/// The rows from which on there is room for two charts above one another.
const TWO_CHARTS_FROM: u16 = 16;

/// What the parts of this screen draw from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene<'a> {
    state: &'a State,
    actors: &'a [Actor],
    now: Timestamp,
    theme: &'a Theme,
    /// What the topic's values are counted in, as its dataset says; empty where that is not known.
    unit: &'a str,
}

/// Where the panes are; one without cells is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Places {
    summary: Rect,
    distribution: Rect,
    actors: Rect,
    past: Rect,
    losses: Rect,
    topics: Rect,
}

/// Draws `frame.state.inference` into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let state = &frame.state.inference;
    let actors = state.actors();
    let unit = frame.state.unit_of(state.topic());
    let scene = Scene { state, actors: &actors, now: frame.state.now, theme: frame.theme, unit };
    let places = Places::new(area, scene, frame.state.is_zoomed, frame.state.nudge());
    for (pane, place) in [
        (Pane::Topics, places.topics),
        (Pane::Actors, places.actors),
        (Pane::Distribution, places.distribution),
        (Pane::Past, places.past),
        (Pane::Losses, places.losses),
    ] {
        hits.add(place, Target::Pane(pane.number()));
    }
    summary::draw(places.summary, buf, scene);
    draw_distribution(places.distribution, buf, scene);
    for (row, place) in actors::draw(places.actors, buf, scene) {
        hits.add(place, Target::Row { pane: Pane::Actors.number(), row });
    }
    past::draw(places.past, buf, scene);
    losses::draw(places.losses, buf, scene);
    for (row, place) in topics::draw(places.topics, buf, scene) {
        hits.add(place, Target::Row { pane: Pane::Topics.number(), row });
    }
}

impl Scene<'_> {
    fn focus(&self, pane: Pane) -> Focus {
        if self.state.pane == pane { Focus::Here } else { Focus::Elsewhere }
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

    /// The whole scale of shares, where all of `lines` are shares.
    fn share_scale(&self, lines: [&[Point]; 3]) -> Option<Scale> {
        let values = lines.into_iter().flatten().map(|point| point.value);
        let mut values = values.filter(|value| value.is_finite());
        let is_share = self.is_percent() && values.all(|value| (0.0..=100.0).contains(&value));
        Scale::between(0.0, 100.0).filter(|_| is_share)
    }

    /// Why the service has nothing to show, or that it was not asked yet, in the middle of an area.
    fn draw_nothing(&self, area: Rect, buf: &mut Buffer) {
        let theme = self.theme;
        let failure = self.state.latest.failure().or_else(|| self.state.topics.failure());
        match failure {
            Some(why) => {
                note::failed(buf, area, why, theme.warn, theme);
            }
            None if matches!(self.state.topics, Loadable::Idle) => {
                note::centered(buf, area, &[("no inference service yet", theme.muted)]);
            }
            None if self.state.latest.value().is_some() => {}
            None => {
                let text = format!("{} loading", spinner::picture(self.now));
                note::centered(buf, area, &[(&*text, theme.muted)]);
            }
        }
    }
}

impl Places {
    /// Divides `area` by its size: all panes, the main ones, or only the one that keys go to.
    fn new(area: Rect, scene: Scene<'_>, is_zoomed: bool, nudge: Nudge) -> Self {
        let pane = scene.state.pane;
        let only = |place: Rect| match pane {
            Pane::Topics => Self { topics: place, ..Self::default() },
            Pane::Actors => Self { actors: place, ..Self::default() },
            Pane::Distribution => Self { distribution: place, ..Self::default() },
            Pane::Past => Self { past: place, ..Self::default() },
            Pane::Losses => Self { losses: place, ..Self::default() },
        };
        if is_zoomed {
            return only(area);
        }
        let is_roomy = area.width >= 108 && area.height >= 26;
        let summary_height = summary::height(scene, area, is_roomy);
        let [summary, rest] = crate::view::split_rows(area, summary_height);
        if area.height < 20 {
            return Self { summary, ..only(rest) };
        }
        // The strip gets a row for each stack of dots that a dozen inferers may make.
        let strip_height = if is_roomy { (rest.height / 4).clamp(7, 11) } else { 8 };
        let [distribution, rest] = crate::view::split_rows(rest, strip_height);
        if !is_roomy {
            let lower = if pane == Pane::Distribution { Pane::Actors } else { pane };
            let places = match lower {
                Pane::Topics => Self { topics: rest, ..Self::default() },
                Pane::Past => Self { past: rest, ..Self::default() },
                Pane::Losses => Self { losses: rest, ..Self::default() },
                Pane::Actors | Pane::Distribution => Self { actors: rest, ..Self::default() },
            };
            return Self { summary, distribution, ..places };
        }
        let [actors, right] =
            crate::view::split_columns(rest, nudge.column(rest.width * 9 / 16, rest.width));
        let n_topics = scene.state.topics.value().map_or(1, |list| list.topics.len());
        let topics_height = u16::try_from(n_topics).unwrap_or(u16::MAX).saturating_add(3);
        let topics_height = topics_height.clamp(4, (right.height / 3).max(4));
        let [past, topics] = crate::view::split_rows(
            right,
            nudge.right_row(right.height.saturating_sub(topics_height), right.height),
        );
        // With little room, the chart that keys go to is the one that is shown.
        let (past, losses) = if past.height >= TWO_CHARTS_FROM {
            let [past, losses] = crate::view::split_rows(past, past.height / 2);
            (past, losses)
        } else if pane == Pane::Past {
            (past, Rect::default())
        } else {
            (Rect::default(), past)
        };
        Self { summary, distribution, actors, past, losses, topics }
    }
}

/// Draws how the values are spread.
fn draw_distribution(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (scene.state, scene.theme);
    let legend = [
        ("●", theme.series(0), "inferer", "inf"),
        ("▲", theme.series(3), "forecaster", "fc"),
        ("◆", theme.series(1), "combined", "comb"),
        ("◇", theme.text, "naive", "naive"),
    ];
    let words = |(symbol, style, name, short): (&'static str, Style, &str, &str)| {
        let name = if area.width < 90 { short } else { name };
        [Span::styled(symbol, style), Span::styled(format!(" {name}  "), theme.muted)]
    };
    let mut legend: Vec<_> = legend.into_iter().flat_map(words).collect();
    legend.push(Span::styled("░", theme.faint));
    legend.push(Span::styled(" p25–p75", theme.muted));
    let title = match state.labels().len() {
        0 | 1 => "Distribution".to_owned(),
        _ => format!("Distribution of {}", state.label()),
    };
    let inside = pane::Pane::new(title)
        .info(Line::from(legend))
        .focus(scene.focus(Pane::Distribution))
        .draw(area, buf, theme);
    let body = padded(inside);
    let Some(latest) = state.latest.value() else {
        scene.draw_nothing(body, buf);
        return;
    };
    let values = |role| {
        let actors = scene.actors.iter().filter(move |actor| actor.role == role);
        actors.filter_map(|actor| actor.value).collect::<Vec<_>>()
    };
    Strip {
        inferers: &values(Role::Inferer),
        forecasters: &values(Role::Forecaster),
        combined: label_value(&latest.bundle.combined_value, state.label()),
        naive: label_value(&latest.bundle.naive_value, state.label()),
        selected: scene
            .actors
            .iter()
            .find(|actor| Some(&actor.worker) == state.actor.as_ref())
            .and_then(|actor| actor.value),
        theme,
    }
    .render(body, buf);
}

#[cfg(test)]
mod tests;
