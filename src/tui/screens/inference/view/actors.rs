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

/// The columns by the width there is: the two details and the history only in wide lists.
pub(crate) fn columns(width: u16, detail: Detail) -> [Column; 8] {
    let name = if width >= 84 { 21 } else { 16 };
    let (first, second, past) = match width {
        0..60 => (0, 0, 0),
        60..72 => (NUMBER, 0, 0),
        72..84 => (NUMBER, NUMBER, 0),
        _ => (NUMBER, NUMBER, PAST),
    };
    let others = [1, name, NUMBER, NUMBER, first, second, past].into_iter().filter(|it| *it > 0);
    let bars = width.saturating_sub(others.map(|width| width + 1).sum());
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
pub(super) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>, hits: &mut Hits) {
    let (state, theme) = (scene.state, scene.theme);
    let arrow = if state.is_reversed { '▴' } else { '▾' };
    let is_ranked = state.sort == Sort::MeanLoss && state.leaderboard.is_some();
    let title = if is_ranked { "Leaderboard" } else { "Actors" };
    let info = format!("{} · sort {} {arrow}", scene.actors.len(), state.sort.title());
    let body = scene.draw_pane(area, buf, Pane::Actors, title, info);
    if scene.actors.is_empty() {
        return scene.draw_nothing(body, buf);
    }
    // A short list leaves its rows to one actor: facts, and if there is room, its past.
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
    table::hide(&scene.frame.state.hidden_columns, TableName::Actors, &mut columns);
    let table = Table {
        columns: &columns,
        n_rows: scene.actors.len(),
        selected: scene.chosen_idx(),
        pane: Pane::Actors.number(),
        sorted: columns.iter().position(|it| Sort::of_column(it.title) == Some(state.sort)),
        ..Table::default()
    };
    let row = |row| scene.actors.get(row).map(|actor| cells(actor, scene)).unwrap_or_default();
    table.draw(body, buf, theme, hits, row);
    let deltas = scene.actors.iter().filter_map(|actor| actor.delta).filter(|it| it.is_finite());
    let extreme = deltas.fold(0.0, |far: f64, delta| far.max(delta.abs()));
    for (row, place) in table.rows(body) {
        let (Some(actor), [.., bars, _, _, past]) = (scene.actors.get(row), &*table.places(place))
        else {
            continue;
        };
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

/// The symbol of an actor, and its color.
fn mark(actor: &Actor<'_>, theme: &Theme) -> (&'static str, Style) {
    match actor.role {
        Role::Forecaster => ("▲", theme.series(3)),
        Role::Inferer if actor.is_outlier => ("●", theme.down),
        Role::Inferer => ("●", theme.series(0)),
    }
}

/// The texts of a row; its bar and its history are drawn over them.
fn cells(actor: &Actor<'_>, scene: Scene<'_>) -> Vec<Cell> {
    let (theme, decimals) = (scene.theme, scene.decimals());
    let (symbol, dot) = mark(actor, theme);
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

/// The two numbers of the chosen detail of an actor.
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

/// A number that the network has learned of an actor.
fn learned(actor: &Actor<'_>, of: fn(&ActorSummary) -> Option<f64>) -> String {
    or_none(actor.known.and_then(of), four_digits)
}

fn four_digits(value: f64) -> String {
    format::telling(value, 4, format::grouped)
}

/// Draws all that is known of the chosen actor, else of the first, from row `y` of the pane on.
fn draw_actor(area: Rect, buf: &mut Buffer, y: u16, scene: Scene<'_>) {
    let theme = scene.theme;
    let Some(actor) = scene.actors.get(scene.chosen_idx().unwrap_or(0)) else { return };
    let title = format::short_address(actor.worker.as_str()).into_owned();
    pane::divider(buf, area, y, title, scene.focus(Pane::Actors), theme);
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
        ("mean loss", mean_loss),
    ];
    let more = [
        ("weight", or_none(actor.weight, |weight| format!("{:.2} %", weight * 100.0))),
        ("regret", learned(actor, |known| known.regret)),
        ("score", learned(actor, |known| known.score)),
    ];
    let [_, below] = split_rows(padded(padded(area)), y + 1);
    let [body, below] = split_rows(below, FACTS_HEIGHT - 1);
    draw_facts(body, buf, theme, &facts);
    // The address and the name are too long for half of the pane.
    let [_, right] = split_columns(split_rows(body, 2)[1], body.width / 2);
    draw_facts(right, buf, theme, &more);
    let [below, _] = split_rows(below, below.height.saturating_sub(1));
    draw_past(below, buf, actor, scene);
}

/// Draws an actor's values over its past epochs, next to the combined values and the ground truth.
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
        ("●", own, &format!("said in {n_epochs}")),
        ("◆", theme.series(1), "combined"),
        ("─", theme.up, "truth"),
    ]);
    let [top, chart] = split_rows(area, 1);
    paint::line(buf, top, (0, 0), &legend);
    // A line ends where the actor was silent, or an epoch is missing.
    let lines = [
        line::Line::new(&truth, theme.up),
        line::Line::new(&combined, theme.series(1)),
        line::Line { is_filled: true, ..line::Line::new(&values, own) },
    ];
    scene.draw_lines(chart, buf, &lines, scene.decimals());
}
