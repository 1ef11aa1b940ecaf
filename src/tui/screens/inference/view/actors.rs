//! Draws the actors of a topic, and the summary of the topic's values above them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr;
use wire::inference::ActorSummary;

use crate::event::Target;
use crate::screens::data::view::rows::telling_in;
use crate::screens::inference::state::actors::{Actor, Detail, MEAN_LOSS, Role};
use crate::screens::inference::state::{Epoch, Pane, label_value, widest_interval};
use crate::screens::inference::view::{Scene, loss_text, points};
use crate::state::layout::TableName;
use crate::state::navigation::Steps as _;
use crate::state::services::Service;
use crate::theme::Theme;
use crate::view::{Cell, Column, Table, draw_facts, join_facts, split_columns, split_rows, strip};
use crate::widget::bars::{DivergingBar, Floor, ShareBar, Sparkline};
use crate::widget::format::{self, or_none};
use crate::widget::line::{Point, Series};
use crate::widget::paint;
use crate::widget::pane::{self, padded};
use crate::widget::stats::Quartiles;

/// Height of the facts about the selected actor, including the line above them.
const FACTS_HEIGHT: u16 = 7;

/// Minimum height below the list at which the selected actor's past is drawn.
const PAST_FROM: u16 = FACTS_HEIGHT + 8;

/// Width of a column of numbers.
const NUMBER: u16 = 10;

/// Returns the columns of a list of this `width`. A narrow list has no details and no history.
pub(crate) fn columns(width: u16, detail: Detail) -> [Column; 8] {
    let name = if width >= 84 { 21 } else { 16 };
    let (first, second, past) = match width {
        0..60 => (0, 0, 0),
        60..72 => (NUMBER, 0, 0),
        72..84 => (NUMBER, NUMBER, 0),
        // The history takes eight columns.
        _ => (NUMBER, NUMBER, 8),
    };
    let others = [1, name, NUMBER, NUMBER, first, second, past].into_iter().filter(|it| *it > 0);
    let bars = width.saturating_sub(others.map(|width| width + 1).sum());
    let bars = if bars >= 9 { bars } else { 0 };
    let [first_title, second_title] = detail.titles();
    let column = |title, width, side| Column { title, width, side };
    [
        column("", 1, Alignment::Left),
        column("WORKER", name, Alignment::Left),
        column("VALUE", NUMBER, Alignment::Right),
        column("Δ COMB", NUMBER, Alignment::Right),
        column(if bars > 20 { "BELOW / ABOVE" } else { "" }, bars, Alignment::Center),
        column(first_title, first, Alignment::Right),
        column(second_title, second, Alignment::Right),
        column("HISTORY", past, Alignment::Left),
    ]
}

/// Draws the pane of actors.
pub(super) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let is_ranked = state.sorted_by() == MEAN_LOSS && state.leaderboard.is_some();
    let title = if is_ranked { "Leaderboard" } else { "Actors" };
    let has_logs = state.has_log_losses() && state.detail == Detail::MeanLoss;
    let kind = if has_logs { " · log10 losses" } else { "" };
    let note = state.actor_order.note(MEAN_LOSS);
    let info = format!("{}{kind} · sort {note}", scene.actors.len());
    let body = scene.draw_pane(area, buf, Pane::Actors, title, info);
    if scene.actors.is_empty() {
        return scene.draw_nothing(body, buf);
    }
    // A short list leaves rows for facts about the selected actor, and then for its past.
    let n_actors = u16::try_from(scene.actors.len()).unwrap_or(u16::MAX);
    let below = match body.height.saturating_sub(n_actors.saturating_add(2)) {
        0..FACTS_HEIGHT => 0,
        FACTS_HEIGHT..PAST_FROM => FACTS_HEIGHT,
        more => more,
    };
    if below > 0 {
        draw_actor(area, buf, area.height - 1 - below, scene);
    }
    let [body, _] = split_rows(body, body.height - below);
    let mut columns = columns(body.width, state.detail);
    let hidden = &scene.frame.state.hidden_columns;
    let table = Table {
        selected: scene.chosen_idx(),
        pane: Pane::Actors.number(),
        ..Table::new(TableName::Actors, &mut columns, hidden, Some(state.sorted_by()))
    };
    let visible = table.draw(body, buf, scene.frame, scene.actors, |actor| cells(actor, scene));
    let deltas = scene.actors.iter().filter_map(|actor| actor.delta).filter(|it| it.is_finite());
    let extreme = deltas.fold(0.0, |far: f64, delta| far.max(delta.abs()));
    for (actor, _, places) in visible {
        let [.., bars, _, _, past] = &*places else { continue };
        let bar = match actor.role {
            Role::Forecaster => theme.series(3),
            Role::Inferer => theme.signed(actor.delta.unwrap_or(0.0)),
        };
        let value = actor.delta.unwrap_or(f64::NAN);
        DivergingBar { value, extreme, bar, center: theme.series(1) }.render(*bars, buf);
        if let Some(history) = state.past() {
            let values = history.values_of(actor.worker, state.label());
            Sparkline::new(&values, Floor::Lowest, mark(actor, theme).1).render(*past, buf);
        }
    }
}

/// Returns the symbol of an actor's role and its style.
fn mark(actor: &Actor<'_>, theme: &Theme) -> (&'static str, Style) {
    match actor.role {
        Role::Forecaster => ("▲", theme.series(3)),
        Role::Inferer if actor.is_outlier => ("●", theme.down),
        Role::Inferer => ("●", theme.series(0)),
    }
}

/// Returns the name of an actor, or its address, shortened.
pub(super) fn name_of<'a>(actor: &Actor<'a>) -> Cow<'a, str> {
    match actor.known.and_then(|known| known.name.as_ref()) {
        Some(name) if name.starts_with("12D3Koo") => format::shorten(name, 11, 6),
        Some(name) => name.as_str().into(),
        None => format::short_address(actor.worker.as_str()),
    }
}

/// Returns the cells of an actor. The bar and the history are drawn separately.
fn cells(actor: &Actor<'_>, scene: Scene<'_>) -> Vec<Cell> {
    let (theme, decimals) = (scene.theme, scene.decimals());
    let (symbol, dot) = mark(actor, theme);
    let name = name_of(actor);
    let has_ranks = scene.state.detail == Detail::MeanLoss || scene.state.sorted_by() == MEAN_LOSS;
    let name = match actor.rank.filter(|_| has_ranks) {
        Some(rank) => format!("{rank:>2} {name}"),
        None => name.into_owned(),
    };
    let value = actor.value.map(|value| format::short(value, decimals, NUMBER.into()));
    let delta = actor.delta.map(|it| format::short_by(it, decimals, NUMBER.into(), format::signed));
    let (style, delta_style) = match actor.role {
        Role::Inferer => (theme.text, theme.signed(actor.delta.unwrap_or(0.0))),
        Role::Forecaster => (theme.muted, theme.muted),
    };
    let [first, second] = details(actor, scene.state.detail, decimals);
    vec![
        (symbol.to_owned(), dot),
        (name, style),
        (value.unwrap_or_default(), style),
        (delta.unwrap_or_default(), delta_style),
        Cell::default(),
        (first, theme.muted),
        (second, style),
        Cell::default(),
    ]
}

/// Returns the texts of the two numbers that `detail` selects.
fn details(actor: &Actor<'_>, detail: Detail, decimals: usize) -> [String; 2] {
    let width = usize::from(NUMBER);
    let value = |value| or_none(value, |value| format::short(value, decimals, width));
    let weight = or_none(actor.weight, |weight| format!("{:.1}%", weight * 100.0));
    match detail {
        Detail::MeanLoss => {
            let loss = match actor.unranked {
                Some((n_counted, min)) => format!("{n_counted} of {min}"),
                None => or_none(actor.mean_loss, |loss| loss_text(loss, width)),
            };
            [loss, weight]
        }
        Detail::Influence => {
            let text = |it| format::short_by(it, decimals + 1, width, format::signed);
            [or_none(actor.influence, text), weight]
        }
        Detail::LeaveOuts => [value(actor.without), value(actor.alone)],
        Detail::Learned => {
            [learned(actor, |known| known.loss), learned(actor, |known| known.score)]
        }
    }
}

/// Formats the number that `of` selects among those that the network has learned about an actor.
fn learned(actor: &Actor<'_>, of: fn(&ActorSummary) -> Option<f64>) -> String {
    or_none(actor.known.and_then(of), four_digits)
}

pub(super) fn four_digits(value: f64) -> String {
    format::telling(value, 4, format::grouped)
}

/// Draws the facts about the selected actor, or about the first actor if none is selected, from row `y`
/// of the pane on.
fn draw_actor(area: Rect, buf: &mut Buffer, y: u16, scene: Scene<'_>) {
    let theme = scene.theme;
    let Some(actor) = scene.actors.get(scene.chosen_idx().unwrap_or(0)) else { return };
    let title = format::short_address(actor.worker.as_str()).into_owned();
    pane::divider(buf, area, y, title, scene.is_focused(Pane::Actors), theme);
    let name = actor.known.and_then(|known| known.name.clone());
    let mean_loss = match actor.unranked {
        Some((n_counted, min)) => format!("unranked, {n_counted} of {min} epochs"),
        None => or_none(actor.mean_loss, four_digits),
    };
    let facts = [
        ("address", actor.worker.to_string()),
        ("known as", name.unwrap_or_else(|| format::NONE.to_owned())),
        ("role", <&str>::from(actor.role).to_owned()),
        ("value", or_none(actor.value, |value| value.to_string())),
        (if scene.state.has_log_losses() { "log10 loss" } else { "mean loss" }, mean_loss),
    ];
    let more = [
        ("weight", or_none(actor.weight, |weight| format!("{:.2} %", weight * 100.0))),
        ("regret", learned(actor, |known| known.regret)),
        ("score", learned(actor, |known| known.score)),
    ];
    let [_, below] = split_rows(padded(padded(area)), y + 1);
    let [body, below] = split_rows(below, FACTS_HEIGHT - 1);
    draw_facts(body, buf, theme, &facts);
    // The first two facts, address and name, take the whole width. The other facts begin below.
    let [_, right] = split_columns(split_rows(body, 2)[1], body.width / 2);
    draw_facts(right, buf, theme, &more);
    let [below, _] = split_rows(below, below.height.saturating_sub(1));
    draw_past(below, buf, actor, scene);
}

/// Draws the values of an actor in past epochs, and the combined values and ground truths for
/// comparison.
fn draw_past(area: Rect, buf: &mut Buffer, actor: &Actor<'_>, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let Some(past) = state.past().filter(|_| area.height >= PAST_FROM - FACTS_HEIGHT) else {
        return;
    };
    let timeline = past.timeline_of(actor.worker, state.label()).into_iter();
    let values: Vec<Point> = timeline.map(|(time, value)| Point { time, value }).collect();
    let is_known = |point: &&Point| point.value.is_finite();
    let Some(first) = values.iter().find(is_known) else { return };
    let all = past.epochs_with_gaps();
    let line =
        |of: fn(&Epoch) -> &BTreeMap<String, f64>| points(&all, first.time, state.label(), of);
    let (combined, truth) = (line(|epoch| &epoch.combined), line(|epoch| &epoch.truth));
    let own = if actor.role == Role::Forecaster { theme.series(3) } else { theme.series(0) };
    let n_epochs = format::counted(values.iter().filter(is_known).count(), "epoch");
    let legend = scene.legend(&[
        ("●", own, &format!("submitted in {n_epochs}")),
        ("◆", theme.series(1), "combined"),
        ("─", theme.up, "truth"),
    ]);
    let [top, chart] = split_rows(area, 1);
    paint::line(buf, top, (0, 0), &legend);
    // A missing value interrupts a line.
    let lines = [
        Series::new(&truth, theme.up),
        Series::new(&combined, theme.series(1)),
        Series { is_filled: true, ..Series::new(&values, own) },
    ];
    scene.draw_lines(chart, buf, &lines, scene.decimals());
}

/// Gap between two figures of the summary.
const FIGURE_GAP: u16 = 2;

/// A figure of the summary: a number, with a name above it and a remark below.
struct Figure {
    name: &'static str,
    value: String,
    style: Style,
    remark: String,
}

impl Figure {
    fn new(name: &'static str, value: String, style: Style, remark: impl Into<String>) -> Self {
        Self { name, value, style, remark: remark.into() }
    }
}

/// Returns the height of the summary, including its border. 0 in a low area.
pub(crate) fn summary_height(scene: Scene<'_>, area: Rect, is_roomy: bool) -> u16 {
    // At most six labels have a bar.
    let n_labels = scene.state.labels().len().min(6);
    if area.height < 12 {
        0
    } else if n_labels > 1 {
        u16::try_from(n_labels).unwrap_or(0) + 2
    } else if is_roomy {
        5
    } else {
        3
    }
}

/// Draws the pane with the summary of the selected topic.
pub(crate) fn draw_summary(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (scene.state, scene.theme);
    let title = title(scene);
    // Room for facts: the width without the corners, the spaces around texts, and a bit of border.
    let room = usize::from(area.width).saturating_sub(title.width() + 10);
    let body = pane::Pane::new(title).info(info(scene, room)).draw(area, buf, theme);
    if state.latest.value().is_none() {
        scene.draw_nothing(body, buf);
    } else if state.labels().len() > 1 {
        draw_labels(body, buf, scene);
    } else if body.height >= 3 {
        draw_figures(body, buf, &figures(scene), scene);
    } else {
        draw_short(body, buf, &figures(scene), scene);
    }
}

fn title(scene: Scene<'_>) -> String {
    let state = scene.state;
    let Some(selected) = state.selected else { return "Inference".to_owned() };
    let mut title = format!("Topic {selected}");
    if let Some(topic) = state.topic() {
        title = format!("{title} · {}", format::fit(&topic.name, 48));
    }
    if state.labels().len() > 1 {
        title = format!("{title} · {}", state.label());
    }
    if state.is_resistant { format!("{title} · without outliers") } else { title }
}

/// Returns the facts on the border: age of the values, progress of the epoch, and poll interval.
fn info(scene: Scene<'_>, room: usize) -> Line<'static> {
    let (state, theme, now) = (scene.state, scene.theme, scene.now);
    let mut parts: Vec<Span<'static>> = Vec::new();
    if let Some(latest) = state.latest.value() {
        parts.push(format!("nonce {}", format::count(latest.bundle.nonce)).into());
    }
    let away = scene.frame.away(Service::Inference);
    if let Some(height) = state.height(now).filter(|_| away.is_none()) {
        parts.push(format!("height {}", format::count(height)).into());
        let blocks_to = |end: u64| format::counted(end.saturating_sub(height), "block");
        parts.extend(state.topic().map(|topic| match topic.close_height {
            Some(close) if close <= height => "closing".into(),
            Some(close) => format!("closes in {}", blocks_to(close)).into(),
            None if topic.is_paused => Span::styled("topic is paused", theme.warn),
            None => format!("next epoch in {}", blocks_to(topic.next_epoch_height)).into(),
        }));
    }
    let note = state.latest.value().map(|_| state.latest.note(now));
    let style = if state.latest.failure().is_some() { theme.warn } else { Style::default() };
    parts.extend(note.map(|note| Span::styled(note, style)));
    parts.push(match (away, state.limited_until) {
        (Some(away), _) => away,
        _ if state.is_paused => Span::styled("paused", theme.warn),
        (None, Some(until)) => {
            let text = format!("429 · retry in {}", format::until(until.since(now)));
            Span::styled(text, theme.warn)
        }
        _ => format!("polls every {}", format::age(state.poll_interval())).into(),
    });
    join_facts(parts, room)
}

/// Returns the figures of a topic with a single label.
fn figures(scene: Scene<'_>) -> Vec<Figure> {
    let (state, theme) = (scene.state, scene.theme);
    let Some(latest) = state.latest.value() else { return Vec::new() };
    let combined = label_value(&latest.bundle.combined_value, state.label());
    let naive = label_value(&latest.bundle.naive_value, state.label());
    let decimals = scene.decimals();
    let text = |value| telling_in(scene.unit, value, decimals, format::grouped);
    let number = |value| or_none(value, text);
    let of_role = |role| scene.actors.iter().filter(move |actor| actor.role == role);
    let values = |role| of_role(role).filter_map(|actor| actor.value).collect::<Vec<_>>();
    let range = |values: &[f64]| Quartiles::compute(values).map(|q| q.upper - q.lower);
    let spread = range(&values(Role::Inferer));
    let above = combined.zip(naive).map_or_else(String::new, |(combined, naive)| {
        // The difference of two percentages is in percentage points.
        let points = if scene.is_percent() { " points" } else { "" };
        let above = telling_in(scene.unit, combined - naive, decimals, format::signed);
        format!("{above}{points} vs naive")
    });
    let outliers = match of_role(Role::Inferer).filter(|actor| actor.is_outlier).count() {
        0 => "no outlier".to_owned(),
        n => format::counted(n, "outlier"),
    };
    let forecasters = values(Role::Forecaster);
    let reach = range(&forecasters).filter(|_| forecasters.len() > 1);
    let reach = reach.map_or_else(String::new, |range| format!("±{}", text(range / 2.0)));
    let n_actors = |role| of_role(role).count().to_string();
    let mut figures = vec![
        Figure::new("◆ combined", number(combined), theme.series(1), above),
        Figure::new("◇ naive", number(naive), theme.text, "inferers alone"),
        Figure::new(
            "spread p25–p75",
            number(spread),
            theme.series(0),
            spread_remark(spread, combined, scene),
        ),
        Figure::new("● inferers", n_actors(Role::Inferer), theme.series(0), outliers),
        Figure::new("▲ forecasters", n_actors(Role::Forecaster), theme.series(3), reach),
    ];
    figures.extend(interval(scene, decimals));
    figures.extend(moved(scene, decimals));
    figures
}

/// Describes the spread: in percent of the combined value, or as percentage points if the unit is
/// percent.
fn spread_remark(spread: Option<f64>, combined: Option<f64>, scene: Scene<'_>) -> String {
    if scene.is_percent() {
        return "points".to_owned();
    }
    let share = spread.zip(combined).map(|(spread, combined)| spread / combined.abs() * 100.0);
    let share = share.filter(|share| share.is_finite());
    share.map_or_else(String::new, |share| format!("{share:.2} % of combined"))
}

/// Returns the figure of the widest confidence interval: the range of values that a share of the
/// actors' weights supports.
fn interval(scene: Scene<'_>, decimals: usize) -> Option<Figure> {
    let state = scene.state;
    let known = state.confidence_of(&state.latest.value()?.bundle)?;
    let (percent, low, high) = widest_interval(known, state.label())?;
    let range = [low, high].map(|end| format::grouped(end, decimals)).join(" – ");
    let remark = format!("{percent:.0} % of weights");
    Some(Figure::new("weighted range", range, scene.theme.text, remark))
}

/// Returns the figure of the change of the combined value over the last eleven epochs. The values of
/// past epochs include outliers.
fn moved(scene: Scene<'_>, decimals: usize) -> Option<Figure> {
    let (state, label) = (scene.state, scene.state.label());
    if state.is_resistant {
        return None;
    }
    let of = |epoch: &Epoch| Some((epoch.time, *epoch.combined.get(label)?));
    let mut known = state.past()?.epochs().rev().filter_map(of).take(11);
    let (newest_at, newest) = known.next()?;
    let (oldest_at, oldest) = known.last()?;
    let change = newest - oldest;
    let points = if scene.is_percent() { "points " } else { "" };
    let remark = format!("{points}over {}", format::span(newest_at.since(oldest_at)));
    let text = telling_in(scene.unit, change, decimals, format::signed);
    Some(Figure::new("moved", text, scene.theme.signed(change), remark))
}

fn draw_figures(area: Rect, buf: &mut Buffer, figures: &[Figure], scene: Scene<'_>) {
    let mut x = 0;
    for (figure, width) in figures.iter().zip(figure_widths(figures, area.width)) {
        let place = Rect { x: area.x + x, width, ..area };
        paint::text(buf, place, (0, 0), figure.name, scene.theme.muted);
        paint::text(buf, place, (0, 1), &figure.value, figure.style.bold());
        let remark = format::fit(&figure.remark, usize::from(width.saturating_sub(FIGURE_GAP)));
        paint::text(buf, place, (0, 2), &remark, scene.theme.muted);
        x += width;
    }
}

/// Returns the widths of the figures that fit into `room`, each including its gap. Names and
/// numbers are shown in full, remarks as far as possible. If there is too little space, the last
/// figures are omitted.
fn figure_widths(figures: &[Figure], room: u16) -> Vec<u16> {
    let columns = |text: &str| u16::try_from(text.width()).unwrap_or(u16::MAX);
    let least = |it: &Figure| columns(it.name).max(columns(&it.value)).saturating_add(FIGURE_GAP);
    let mut widths: Vec<u16> = figures.iter().map(least).collect();
    let sum = |widths: &[u16]| widths.iter().copied().fold(0, u16::saturating_add);
    while sum(&widths) > room && widths.len() > 1 {
        widths.pop();
    }
    let mut left = room.saturating_sub(sum(&widths));
    for (width, figure) in widths.iter_mut().zip(figures) {
        let wanted = columns(&figure.remark).saturating_add(FIGURE_GAP).saturating_sub(*width);
        *width += wanted.min(left);
        left -= wanted.min(left);
    }
    // The remaining width is distributed evenly.
    let share = left / u16::try_from(widths.len()).unwrap_or(1).max(1);
    widths.into_iter().map(|width| width + share).collect()
}

/// Draws the figures that fit into a single row.
fn draw_short(area: Rect, buf: &mut Buffer, figures: &[Figure], scene: Scene<'_>) {
    let mut x = 0;
    for figure in figures {
        let line = Line::from(vec![
            Span::styled(format!("{} ", figure.name), scene.theme.muted),
            Span::styled(figure.value.as_str(), figure.style.bold()),
        ]);
        if x + u16::try_from(line.width()).unwrap_or(u16::MAX) > area.width {
            return;
        }
        x = paint::line(buf, area, (x, 0), &line).saturating_add(3);
    }
}

/// Draws a bar for each label with the label's combined value. The bars start at 0 and end at 1, or
/// at the highest value if it exceeds 1. A mark on each bar is at the label's naive value.
fn draw_labels(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let Some(bundle) = state.latest.value().map(|latest| &latest.bundle) else { return };
    let labels = state.labels();
    let value_of = |label: &&str| label_value(&bundle.combined_value, label);
    let best = labels.iter().filter_map(value_of).fold(f64::NEG_INFINITY, f64::max);
    let highest = best.max(1.0);
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let name_width = u16::try_from(widest).unwrap_or(0).clamp(4, 16);
    let start = name_width + 4;
    let bar_width = area.width.saturating_sub(start + 30);
    let number = |value| or_none(value, |value| format::fixed(value, 4));
    for (idx, (y, label)) in (0..area.height).zip(&labels).enumerate() {
        scene.frame.hits.add(strip(area, (0, y), area.width), Target::Label(idx));
        let is_chosen = *label == state.label();
        let style = if is_chosen { theme.text.bold() } else { theme.muted };
        paint::text(buf, area, (0, y), if is_chosen { "▸" } else { " " }, theme.focus);
        paint::text(buf, area, (2, y), &format::fit(label, name_width.into()), style);
        let (value, naive) = (value_of(label), label_value(&bundle.naive_value, label));
        let bar = Rect { x: area.x + start, y: area.y + y, width: bar_width, height: 1 };
        if let Some(value) = value {
            let style = theme.series(usize::from(value >= best));
            ShareBar { share: value / highest, bar: style, rest: theme.faint }.render(bar, buf);
        }
        if let Some(naive) = naive {
            let length = naive / highest * f64::from(bar_width);
            let x = paint::cells(length, bar_width.saturating_sub(1));
            paint::put(buf, bar, (x, 0), '◇', theme.text);
        }
        let x = start + bar_width + 2;
        paint::text(buf, area, (x, y), "◆", theme.series(1));
        paint::text(buf, area, (x + 2, y), &number(value), style);
        paint::text(buf, area, (x + 12, y), "◇", theme.text);
        paint::text(buf, area, (x + 14, y), &number(naive), theme.muted);
    }
}
