//! Who takes part: what each says, how far that is from the combined value, and what it changes.

use std::{collections::BTreeMap, time::Duration};

use ratatui::{buffer::Buffer, layout::Rect, style::Modifier, widgets::Widget as _};

use super::{Scene, losses::loss_text, past::points};
use crate::{
    screens::inference::state::{
        Pane,
        actors::{Actor, Detail, Role, Sort},
        past::Epoch,
    },
    view::{
        split_rows,
        table::{light_row, visible_rows},
    },
    widget::{
        diverge::{self, DivergingBar},
        format::{self, or_none},
        line::{self, Lines, Point},
        paint,
        pane::{self, padded},
        sparkline::{Floor, Sparkline},
    },
};

/// Rows of facts about the chosen actor, with the rule above them.
const FACTS_HEIGHT: u16 = 7;

/// The rows below the list from which on the past of the chosen actor is charted, too.
const PAST_FROM: u16 = FACTS_HEIGHT + 8;

/// The width of what an actor said before, with the gap before it.
const PAST: u16 = 10;

/// The width of a number.
const NUMBER: u16 = 10;

/// The columns of a row, by the width there is.
#[derive(Debug, Clone, Copy)]
struct Columns {
    name: u16,
    bars: u16,
    /// The two columns of what is chosen, and what was said before.
    first: u16,
    second: u16,
    past: u16,
}

impl Columns {
    fn for_width(width: u16) -> Self {
        let name = if width >= 84 { 21 } else { 16 };
        let (first, second, past) = match width {
            0..60 => (0, 0, 0),
            60..72 => (NUMBER, 0, 0),
            72..84 => (NUMBER, NUMBER, 0),
            _ => (NUMBER, NUMBER, PAST),
        };
        let taken = 2 + name + 2 * (NUMBER + 1) + 2 + first + second + past;
        let bars = width.saturating_sub(taken);
        Self { name, bars: if bars >= 9 { bars } else { 0 }, first, second, past }
    }

    /// The column at which the value ends.
    const fn value_end(self) -> u16 {
        2 + self.name + 1 + NUMBER
    }

    const fn delta_end(self) -> u16 {
        self.value_end() + 1 + NUMBER
    }
}

/// Draws the pane; returns where the row of each actor is.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) -> Vec<(usize, Rect)> {
    let (state, theme) = (scene.state, scene.theme);
    let arrow = if state.is_reversed { '▴' } else { '▾' };
    let is_ranked = state.sort == Sort::MeanLoss && state.leaderboard.is_some();
    let title = if is_ranked { "Leaderboard" } else { "Actors" };
    let info = format!("{} · sort {} {arrow}", scene.actors.len(), state.sort.title());
    let body = scene.draw_pane(area, buf, Pane::Actors, title, info);
    if scene.actors.is_empty() {
        scene.draw_nothing(body, buf);
        return Vec::new();
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
        draw_facts(area, buf, area.height - 1 - below, scene);
    }
    let body = Rect { height: body.height - below, ..body };
    let columns = Columns::for_width(body.width);
    draw_header(body, buf, columns, scene);
    let deltas = scene.actors.iter().filter_map(|actor| actor.delta);
    let extreme =
        deltas.filter(|delta| delta.is_finite()).fold(0.0, |far: f64, d| far.max(d.abs()));
    let is_chosen = |actor: &Actor| Some(&actor.worker) == state.actor.as_ref();
    let chosen = scene.actors.iter().position(is_chosen);
    visible_rows(body, chosen, scene.actors, |row, actor| {
        draw_row(row, buf, actor, columns, extreme, scene);
        light_row(row, buf, theme, is_chosen(actor))
    })
}

fn draw_header(area: Rect, buf: &mut Buffer, columns: Columns, scene: Scene<'_>) {
    let style = scene.theme.muted.add_modifier(Modifier::BOLD);
    paint::text(buf, area, (2, 0), "WORKER", style);
    paint::text_before(buf, area, (columns.value_end(), 0), "VALUE", style);
    paint::text_before(buf, area, (columns.delta_end(), 0), "Δ COMB", style);
    if columns.bars > 20 {
        let middle = columns.delta_end() + 2 + diverge::center(columns.bars);
        paint::text_before(buf, area, (middle.saturating_sub(1), 0), "below", style);
        paint::text(buf, area, (middle + 2, 0), "above", style);
    }
    let [first, second] = scene.state.detail.titles();
    let end = area.width - columns.past;
    if columns.first > 0 {
        paint::text_before(buf, area, (end - columns.second, 0), first, style);
    }
    if columns.second > 0 {
        paint::text_before(buf, area, (end, 0), second, style);
    }
    if columns.past > 0 {
        paint::text(buf, area, (end + 2, 0), "HISTORY", style);
    }
}

fn draw_row(
    row: Rect,
    buf: &mut Buffer,
    actor: &Actor,
    columns: Columns,
    extreme: f64,
    scene: Scene<'_>,
) {
    let theme = scene.theme;
    let decimals = scene.decimals();
    let (symbol, dot) = match actor.role {
        Role::Forecaster => ('▲', theme.series(3)),
        Role::Inferer if actor.is_outlier => ('●', theme.down),
        Role::Inferer => ('●', theme.series(0)),
    };
    let style = if actor.role == Role::Inferer { theme.text } else { theme.muted };
    paint::put(buf, row, (0, 0), symbol, dot);
    let name = match &actor.name {
        Some(name) if name.starts_with("12D3Koo") => format::shorten(name, 11, 6),
        Some(name) => name.as_str().into(),
        None => format::short_address(actor.worker.as_str()),
    };
    let name = match actor.rank.filter(|_| scene.state.detail == Detail::MeanLoss) {
        Some(rank) => format!("{rank:>2} {name}"),
        None => name.into_owned(),
    };
    paint::text(buf, row, (2, 0), &format::fit(&name, columns.name.into()), style);
    if let Some(value) = actor.value {
        let text = format::short(value, decimals, NUMBER.into());
        paint::text_before(buf, row, (columns.value_end(), 0), &text, style);
    }
    if let Some(delta) = actor.delta {
        let text = format::short_by(delta, decimals, NUMBER.into(), format::signed);
        let style = if actor.role == Role::Inferer { theme.signed(delta) } else { theme.muted };
        paint::text_before(buf, row, (columns.delta_end(), 0), &text, style);
    }
    if columns.bars > 0 {
        let x = row.x + columns.delta_end() + 2;
        let bars = Rect { x, width: columns.bars, ..row };
        let bar = match actor.role {
            Role::Forecaster => theme.series(3),
            Role::Inferer => theme.signed(actor.delta.unwrap_or(0.0)),
        };
        let value = actor.delta.unwrap_or(f64::NAN);
        DivergingBar { value, extreme, bar, center: theme.series(1) }.render(bars, buf);
    }
    let [first, second] = details(actor, scene.state.detail, decimals);
    let end = row.width - columns.past;
    if columns.first > 0 {
        paint::text_before(buf, row, (end - columns.second, 0), &first, theme.muted);
    }
    if columns.second > 0 {
        paint::text_before(buf, row, (end, 0), &second, style);
    }
    if columns.past > 0
        && let Some(past) = scene.state.past()
    {
        let values = past.values_of(&actor.worker, scene.state.label());
        let area = Rect { x: row.x + end + 2, width: columns.past - 2, ..row };
        Sparkline::new(&values, Floor::Lowest, dot).render(area, buf);
    }
}

/// The two numbers of what is chosen to be shown of an actor.
fn details(actor: &Actor, detail: Detail, decimals: usize) -> [String; 2] {
    let width = usize::from(NUMBER);
    let value = |value| or_none(value, |value| format::short(value, decimals, width));
    let weight = or_none(actor.weight, |weight| format!("{:.1}%", weight * 100.0));
    match detail {
        Detail::MeanLoss => [or_none(actor.mean_loss, |loss| loss_text(loss, width)), weight],
        Detail::Influence => {
            let signed = |it| format::short_by(it, decimals + 1, width, format::signed);
            [or_none(actor.influence, signed), weight]
        }
        Detail::LeaveOuts => [value(actor.without), value(actor.alone)],
        Detail::Learned => [learned(actor.loss), learned(actor.score)],
    }
}

/// A number that is learned, or that there is none.
fn learned(value: Option<f64>) -> String {
    or_none(value, |value| format::telling(value, 4, format::grouped))
}

/// Draws all that is known of the chosen actor, else of the first, from row `y` of the pane on.
fn draw_facts(area: Rect, buf: &mut Buffer, y: u16, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let chosen = scene.actors.iter().find(|actor| Some(&actor.worker) == state.actor.as_ref());
    let Some(actor) = chosen.or_else(|| scene.actors.first()) else { return };
    let title = format::short_address(actor.worker.as_str()).into_owned();
    pane::divider(buf, area, y, title, scene.focus(Pane::Actors), theme);
    let known = state
        .topic()
        .and_then(|topic| topic.actors.iter().find(|known| known.worker == actor.worker.as_str()));
    let role = match actor.role {
        Role::Inferer => "inferer",
        Role::Forecaster => "forecaster",
    };
    let weight = or_none(actor.weight, |weight| format!("{:.2} %", weight * 100.0));
    let value = or_none(actor.value, |value| value.to_string());
    let name = actor.name.clone().unwrap_or_else(|| format::NONE.to_owned());
    let (regret, score) = known.map_or((None, None), |known| (known.regret, known.score));
    let facts = [
        [("address", actor.worker.to_string()), ("", String::new())],
        [("known as", name), ("", String::new())],
        [("role", role.to_owned()), ("weight", weight)],
        [("value", value), ("regret", learned(regret))],
        [("mean loss", learned(actor.mean_loss)), ("score", learned(score))],
    ];
    let room = area.height.saturating_sub(y + 2);
    let body = Rect { y: area.y + y + 1, height: room, ..padded(area) };
    let [body, below] = split_rows(body, FACTS_HEIGHT - 1);
    draw_past(below, buf, actor, scene);
    let half = body.width / 2;
    for (y, pair) in (0..body.height).zip(facts) {
        for (x, (name, value)) in [0, half].into_iter().zip(pair) {
            paint::text_before(buf, body, (x + 10, y), name, theme.muted);
            paint::text(buf, body, (x + 11, y), &value, theme.text);
        }
    }
}

/// Draws what an actor said over its past epochs, against what all came to and what came true.
fn draw_past(area: Rect, buf: &mut Buffer, actor: &Actor, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let Some(past) = state.past().filter(|_| area.height >= PAST_FROM - FACTS_HEIGHT) else {
        return;
    };
    let told: Vec<Point> = past
        .timeline_of(&actor.worker, state.label())
        .into_iter()
        .map(|(time, value)| Point { time, value })
        .collect();
    let is_told = |point: &&Point| point.value.is_finite();
    let (Some(first), Some(last)) = (told.iter().find(is_told), told.iter().rfind(is_told)) else {
        return;
    };
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
    let [top, chart] = split_rows(padded(area), 1);
    paint::line(buf, top, (0, 0), &legend);
    Lines {
        lines: &[
            line::Line::new(&truth, theme.up),
            line::Line::new(&combined, theme.series(1)),
            line::Line { is_filled: true, ..line::Line::new(&told, own) },
        ],
        start: first.time,
        end: last.time,
        // A line ends where the actor was silent, or an epoch is missing.
        gap: Duration::MAX,
        volumes: &[],
        now: scene.now,
        crosshair: None,
        tag: Some((last.value, own)),
        decimals: scene.decimals(),
        scale: scene.share_scale([&told, &combined, &truth]),
        theme,
    }
    .render(chart, buf);
}
