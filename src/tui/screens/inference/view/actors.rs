//! Who takes part: what each says, how far that is from the combined value, and what it changes.

use std::collections::BTreeMap;

use ratatui::{buffer::Buffer, layout::Rect, style::Style, widgets::Widget as _};
use wire::inference::ActorSummary;

use crate::{
    screens::inference::{
        state::{
            Epoch, Pane,
            actors::{Actor, Detail, Role, Sort},
        },
        view::{
            Scene,
            charts::{loss_text, points},
        },
    },
    state::{columns::TableName, navigation::Steps as _},
    theme::Theme,
    view::{
        hits::Hits,
        split_columns, split_rows,
        table::{self, Cell, Column, Side, Table, draw_facts},
    },
    widget::{
        diverge::DivergingBar,
        format::{self, or_none},
        line::{self, Point},
        paint,
        pane::{self, padded},
        sparkline::{Floor, Sparkline},
    },
};

/// Rows of facts about the chosen actor, with the rule above them.
const FACTS_HEIGHT: u16 = 7;

/// The rows below the list from which on the past of the chosen actor is charted, too.
const PAST_FROM: u16 = FACTS_HEIGHT + 8;

/// The width of what an actor said before.
const PAST: u16 = 8;

/// The width of a number.
const NUMBER: u16 = 10;

/// The columns by the width there is: the two of what is chosen, and what was said before, only in
/// wide lists.
pub(crate) fn columns(width: u16, detail: Detail) -> [Column; 8] {
    let name = if width >= 84 { 21 } else { 16 };
    let (first, second, past) = match width {
        0..60 => (0, 0, 0),
        60..72 => (NUMBER, 0, 0),
        72..84 => (NUMBER, NUMBER, 0),
        _ => (NUMBER, NUMBER, PAST),
    };
    let others = [1, name, NUMBER, NUMBER, first, second, past].into_iter().filter(|it| *it > 0);
    let taken: u16 = others.map(|width| width + 1).sum();
    let bars = width.saturating_sub(taken);
    let bars = if bars >= 9 { bars } else { 0 };
    let [first_title, second_title] = detail.titles();
    let column = |title, width, side| Column { title, width, side };
    [
        column("", 1, Side::Left),
        column("WORKER", name, Side::Left),
        column("VALUE", NUMBER, Side::Right),
        column("Δ COMB", NUMBER, Side::Right),
        column(if bars > 20 { "BELOW / ABOVE" } else { "" }, bars, Side::Center),
        column(first_title, first, Side::Right),
        column(second_title, second, Side::Right),
        column("HISTORY", past, Side::Left),
    ]
}

/// The title of a column.
pub(crate) fn column_title(column: usize, detail: Detail) -> Option<&'static str> {
    columns(u16::MAX, detail).get(column).map(|column| column.title)
}

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>, hits: &mut Hits) {
    let (state, theme) = (scene.state, scene.theme);
    let arrow = if state.is_reversed { '▴' } else { '▾' };
    let is_ranked = state.sort == Sort::MeanLoss && state.leaderboard.is_some();
    let title = if is_ranked { "Leaderboard" } else { "Actors" };
    let info = format!("{} · sort {} {arrow}", scene.actors.len(), state.sort.title());
    let body = scene.draw_pane(area, buf, Pane::Actors, title, info);
    if scene.actors.is_empty() {
        scene.draw_nothing(body, buf);
        return;
    }
    let n_actors = u16::try_from(scene.actors.len()).unwrap_or(u16::MAX);
    // What a short list does not need is for one actor: facts, and where there is room, its past.
    let free = body.height.saturating_sub(n_actors.saturating_add(2));
    let below = match free {
        0..FACTS_HEIGHT => 0,
        FACTS_HEIGHT..PAST_FROM => FACTS_HEIGHT,
        more => more,
    };
    if below > 0 {
        draw_actor(area, buf, area.height - 1 - below, scene);
    }
    let [body, _] = split_rows(body, body.height - below);
    let mut columns = columns(body.width, state.detail);
    table::hide(&scene.frame.state.hidden_columns, TableName::Actors, &mut columns);
    let is_chosen = |actor: &Actor<'_>| Some(actor.worker) == state.actor.as_ref();
    let table = Table {
        columns: &columns,
        n_rows: scene.actors.len(),
        selected: scene.actors.iter().position(is_chosen),
        pane: Pane::Actors.number(),
        sorted: columns.iter().position(|it| Sort::of_column(it.title) == Some(state.sort)),
        ..Table::default()
    };
    let row = |row| scene.actors.get(row).map(|actor| cells(actor, scene)).unwrap_or_default();
    table.draw(body, buf, theme, hits, row);
    let deltas = scene.actors.iter().filter_map(|actor| actor.delta);
    let extreme =
        deltas.filter(|delta| delta.is_finite()).fold(0.0, |far: f64, d| far.max(d.abs()));
    for (row, place) in table.rows(body) {
        let (Some(actor), [.., bars, _, _, past]) = (scene.actors.get(row), &*table.places(place))
        else {
            continue;
        };
        let value = actor.delta.unwrap_or(f64::NAN);
        let bar = match actor.role {
            Role::Forecaster => theme.series(3),
            Role::Inferer => theme.signed(actor.delta.unwrap_or(0.0)),
        };
        DivergingBar { value, extreme, bar, center: theme.series(1) }.render(*bars, buf);
        if let Some(history) = state.past() {
            let values = history.values_of(actor.worker, state.label());
            Sparkline::new(&values, Floor::Lowest, mark(actor, theme).1).render(*past, buf);
        }
    }
}

/// The symbol of an actor, and its color.
fn mark(actor: &Actor<'_>, theme: &Theme) -> (&'static str, Style) {
    match actor.role {
        Role::Forecaster => ("▲", theme.series(3)),
        Role::Inferer if actor.is_outlier => ("●", theme.down),
        Role::Inferer => ("●", theme.series(0)),
    }
}

/// What a row says; its bar and its past are drawn.
fn cells(actor: &Actor<'_>, scene: Scene<'_>) -> Vec<Cell> {
    let theme = scene.theme;
    let decimals = scene.decimals();
    let (symbol, dot) = mark(actor, theme);
    let is_inferer = actor.role == Role::Inferer;
    let style = if is_inferer { theme.text } else { theme.muted };
    let name = match actor.known.and_then(|known| known.name.as_ref()) {
        Some(name) if name.starts_with("12D3Koo") => format::shorten(name, 11, 6),
        Some(name) => name.as_str().into(),
        None => format::short_address(actor.worker.as_str()),
    };
    let name = match actor.rank.filter(|_| scene.state.detail == Detail::MeanLoss) {
        Some(rank) => format!("{rank:>2} {name}"),
        None => name.into_owned(),
    };
    let value = actor.value.map(|value| format::short(value, decimals, NUMBER.into()));
    let delta = actor.delta.map(|it| format::short_by(it, decimals, NUMBER.into(), format::signed));
    let delta_style = if is_inferer { theme.signed(actor.delta.unwrap_or(0.0)) } else { style };
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

/// The two numbers of what is chosen to be shown of an actor.
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
            let signed =
                |it| format::short_by(it, decimals.saturating_add(1), width, format::signed);
            [or_none(actor.influence, signed), weight]
        }
        Detail::LeaveOuts => [value(actor.without), value(actor.alone)],
        Detail::Learned => {
            let known = |of: fn(&ActorSummary) -> Option<f64>| learned(actor.known.and_then(of));
            [known(|known| known.loss), known(|known| known.score)]
        }
    }
}

/// The mean loss of an actor, or how far it is from being ranked.
fn mean_loss(actor: &Actor<'_>) -> String {
    match actor.unranked {
        Some((n_counted, min)) => format!("unranked, {n_counted} of {min} epochs"),
        None => learned(actor.mean_loss),
    }
}

/// A number that is learned, or that there is none.
fn learned(value: Option<f64>) -> String {
    or_none(value, |value| format::telling(value, 4, format::grouped))
}

/// Draws all that is known of the chosen actor, else of the first, from row `y` of the pane on.
fn draw_actor(area: Rect, buf: &mut Buffer, y: u16, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let chosen = scene.actors.iter().find(|actor| Some(actor.worker) == state.actor.as_ref());
    let Some(actor) = chosen.or_else(|| scene.actors.first()) else { return };
    let title = format::short_address(actor.worker.as_str()).into_owned();
    pane::divider(buf, area, y, title, scene.focus(Pane::Actors), theme);
    let weight = or_none(actor.weight, |weight| format!("{:.2} %", weight * 100.0));
    let value = or_none(actor.value, |value| value.to_string());
    let known = |of: fn(&ActorSummary) -> Option<f64>| learned(actor.known.and_then(of));
    let name = actor.known.and_then(|known| known.name.clone());
    let facts = [
        ("address", actor.worker.to_string()),
        ("known as", name.unwrap_or_else(|| format::NONE.to_owned())),
        ("role", <&str>::from(actor.role).to_owned()),
        ("value", value),
        ("mean loss", mean_loss(actor)),
    ];
    let regret = known(|known| known.regret);
    let more = [("weight", weight), ("regret", regret), ("score", known(|known| known.score))];
    let [_, below] = split_rows(padded(padded(area)), y + 1);
    let [body, below] = split_rows(below, FACTS_HEIGHT - 1);
    draw_facts(body, buf, theme, &facts);
    // The address and the name are too long for half of the pane.
    let [_, beside] = split_rows(body, 2);
    let [_, beside] = split_columns(beside, body.width / 2);
    draw_facts(beside, buf, theme, &more);
    let [below, _] = split_rows(below, below.height.saturating_sub(1));
    draw_past(below, buf, actor, scene);
}

/// Draws what an actor said over its past epochs, against what all came to and what came true.
fn draw_past(area: Rect, buf: &mut Buffer, actor: &Actor<'_>, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let Some(past) = state.past().filter(|_| area.height >= PAST_FROM - FACTS_HEIGHT) else {
        return;
    };
    let told: Vec<Point> = past
        .timeline_of(actor.worker, state.label())
        .into_iter()
        .map(|(time, value)| Point { time, value })
        .collect();
    let is_told = |point: &&Point| point.value.is_finite();
    let Some(first) = told.iter().find(is_told) else { return };
    let all = past.epochs_with_gaps();
    let line =
        |of: fn(&Epoch) -> &BTreeMap<String, f64>| points(&all, first.time, state.label(), of);
    let (combined, truth) = (line(|epoch| &epoch.combined), line(|epoch| &epoch.truth));
    let own = if actor.role == Role::Forecaster { theme.series(3) } else { theme.series(0) };
    let n_told = told.iter().filter(is_told).count();
    let legend = scene.legend(&[
        ("●", own, &format!("said in {}", format::counted(n_told, "epoch"))),
        ("◆", theme.series(1), "combined"),
        ("─", theme.up, "truth"),
    ]);
    let [top, chart] = split_rows(area, 1);
    paint::line(buf, top, (0, 0), &legend);
    let lines = [
        line::Line::new(&truth, theme.up),
        line::Line::new(&combined, theme.series(1)),
        line::Line { is_filled: true, ..line::Line::new(&told, own) },
    ];
    // A line ends where the actor was silent, or an epoch is missing.
    scene.draw_lines(chart, buf, &lines, scene.decimals());
}
