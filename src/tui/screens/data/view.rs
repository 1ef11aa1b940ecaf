//! Draws the Data screen.
//!
//! ```text
//! ╭─ Datasets ────────── 7 ╮╭─ BTC-USD ────────── 5m · live ╮
//! │ list, with sparklines  ││ last value, change, O H L V   │
//! ├─ BTC-USD ──────────────┤│ kinds │ averages │ resolutions│
//! │ what it is             ││                               │
//! ╰────────────────────────╯│ candles or a line, volumes    │
//! ╭─ Live tape ────────────╮│                               │
//! │ the latest rows        ││                               │
//! │                        │╰───────────────────────────────╯
//! │                        │╭─ Pinned ──────────────────────╮
//! ╰────────────────────────╯╰───────────────────────────────╯
//! ```
//!
//! The area is that between header and footer. Click targets are added to `hits`.

mod chart;
pub(crate) mod rows;

use std::time::Duration;

use model::dataset::Dataset;
use ratatui::prelude::*;
use unicode_width::UnicodeWidthStr;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::screens::data::state::chart::Shape;
use crate::screens::data::state::live::fresh_for;
use crate::screens::data::state::rows::{RecentValues, SPARK_VALUES};
use crate::screens::data::state::{LAST, Pane, State};
use crate::state::layout::{Divider, TableName};
use crate::state::navigation::Steps as _;
use crate::state::services::Service;
use crate::view::{Cell, Column, Frame, Table, draw_facts, draw_field, split_columns, split_rows};
use crate::widget::bars::{Floor, Sparkline};
use crate::widget::pane::{self, divider};
use crate::widget::{format, paint};

/// Areas of the panes. Empty for panes that are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Places {
    list: Rect,
    chart: Rect,
    tape: Rect,
    pins: Rect,
}

/// Draws `frame.state.data` into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Places { list, chart, tape, pins } = Places::new(area, frame);
    for (pane, place) in [(Pane::List, list), (Pane::Chart, chart), (Pane::Tape, tape)] {
        frame.hits.add(place, Target::Pane(pane.number()));
    }
    draw_list(list, buf, frame);
    chart::draw(chart, buf, frame);
    rows::draw_tape(tape, buf, frame);
    rows::draw_pins(pins, buf, frame);
}

impl Places {
    /// Divides `area` among all panes. A smaller area is divided between two panes, or belongs to the
    /// focused pane alone.
    fn new(area: Rect, frame: Frame<'_>) -> Self {
        let state = &frame.state.data;
        let none = Self::default();
        let is_small = area.width < 76 || area.height < 14;
        if frame.state.is_zoomed || is_small {
            return match state.pane {
                Pane::List => Self { list: area, ..none },
                Pane::Chart => Self { chart: area, ..none },
                Pane::Tape => Self { tape: area, ..none },
            };
        }
        if area.width < 108 || area.height < 26 {
            let [left, chart] = split_columns(area, 30);
            return match state.pane {
                Pane::List => Self { list: left, chart, ..none },
                Pane::Chart => Self { chart: area, ..none },
                Pane::Tape => Self { tape: left, chart, ..none },
            };
        }
        let at = if area.width < 148 { 40 } else { 58 };
        let [left, chart] = frame.split(Divider::Columns, area, at);
        // A short list leaves rows for the tape, but not those of the facts below the list.
        let n_datasets = u16::try_from(state.list().len()).unwrap_or(u16::MAX);
        let list_height = n_datasets.max(4).saturating_add(FACTS_HEIGHT + 5);
        let tape_height = left.height.saturating_sub(list_height).max((left.height / 3).max(8));
        let at = left.height.saturating_sub(tape_height);
        let [list, tape] = frame.split(Divider::LeftRows, left, at);
        let pins_height = rows::pins_height(state.pins.len(), chart.width).min(chart.height / 2);
        let [chart, pins] = split_rows(chart, chart.height - pins_height);
        Self { list, chart, tape, pins }
    }
}

/// Height of the facts below the list.
pub(crate) const FACTS_HEIGHT: u16 = 11;

/// Title of the column with the source of each dataset.
const SOURCE: &str = "SOURCE";

/// Title of the column with the interval between the rows of each dataset.
const FREQUENCY: &str = "FREQ";

/// Title of the column with the sparklines.
const TREND: &str = "TREND";

/// Width of a latest value.
const LAST_WIDTH: usize = 9;

/// Returns the columns of a list of this `width`. The source is omitted if the names need its
/// space. Columns that `has_content` refuses leave their space to the names.
pub(crate) fn list_columns(
    width: u16,
    longest_name: usize,
    has_content: impl Fn(&str) -> bool,
) -> [Column; 6] {
    let (source, frequency, spark, last) = match width {
        0..24 => (0, 0, 0, 0),
        24..34 => (0, 0, 0, 9),
        34..46 => (0, 0, 8, 9),
        _ if longest_name > usize::from(width - 36) => (0, 4, 8, 9),
        _ => (9, 4, 8, 9),
    };
    let kept = |title, width| if has_content(title) { width } else { 0 };
    let (source, frequency) = (kept(SOURCE, source), kept(FREQUENCY, frequency));
    let (spark, last) = (kept(TREND, spark), kept(LAST, last));
    let others = [source, frequency, spark, last].into_iter().filter(|part| *part > 0);
    let name = width.saturating_sub(2 + others.map(|part| part + 1).sum::<u16>());
    // The sparkline gets space that even the longest name does not need.
    let free = name.saturating_sub(u16::try_from(longest_name).unwrap_or(u16::MAX));
    // A sparkline has at most 24 columns.
    let free = if spark > 0 { free.min(24 - spark) } else { 0 };
    let left = |title, width| Column { title, width, side: Alignment::Left };
    [
        left("", 1),
        left("NAME", (name - free).max(1)),
        left(SOURCE, source),
        left(FREQUENCY, frequency),
        left(TREND, spark + free),
        Column { title: LAST, width: last, side: Alignment::Right },
    ]
}

/// Draws the list and, below it, facts about the selected dataset.
fn draw_list(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (state, theme) = (&frame.state.data, frame.theme);
    if area.is_empty() {
        return;
    }
    let n_listed = state.list().len();
    let mut info = match (state.datasets.value(), state.datasets.failure()) {
        (Some(page), None) => match page.n_datasets {
            Some(n) if n > n_listed as u64 => format!("{n_listed} of {}", format::count(n)),
            _ => n_listed.to_string(),
        },
        _ => state.datasets.note(frame.state.now),
    };
    if let Some((field, value)) = state.filter.active() {
        info = format!("{field}={value} · {info}");
    }
    if state.order.column.is_some() {
        info = format!("{info} · {}", state.order.note(""));
    }
    let focus = state.pane == Pane::List;
    let info = frame.away_or(Service::Data, info);
    let body = pane::Pane::new("Datasets").info(info).focus(focus).draw(area, buf, theme);
    let facts_height = if body.height >= FACTS_HEIGHT + 7 { FACTS_HEIGHT } else { 0 };
    let top = draw_search(body, buf, frame);
    let rows_height = body.height.saturating_sub(top + facts_height);
    let rows = Rect { y: body.y + top, height: rows_height, ..body };
    draw_rows(rows, buf, frame);
    if let Some(dataset) = state.dataset().filter(|_| facts_height > 0) {
        let y = area.height - 1 - facts_height;
        let title = format::fit(&dataset.name, usize::from(area.width.saturating_sub(6)));
        divider(buf, area, y, title.into_owned(), focus, theme);
        let facts = Rect { y: area.y + y + 1, height: facts_height - 1, ..body };
        draw_dataset(facts, buf, dataset, frame);
    }
}

/// Draws the search or the filter, if one is active. Returns its height.
fn draw_search(area: Rect, buf: &mut Buffer, frame: Frame<'_>) -> u16 {
    let (filter, theme) = (&frame.state.data.filter, frame.theme);
    let fields =
        [(Action::MetadataFilter, &filter.text), (Action::Filter, &frame.state.data.search)];
    let wanted = fields.into_iter().find(|(_, it)| it.is_edited() || !it.value().is_empty());
    let Some((action, field)) = wanted else { return 0 };
    let x = paint::text(buf, area, (0, 0), &frame.key(Layer::Data, action), theme.key) + 1;
    let [_, room] = split_columns(area, x);
    draw_field(room, buf, theme, field, field.is_edited());
    if !filter.text.is_edited() {
        return 2;
    }
    if field.value().is_empty() {
        paint::text(buf, room, (1, 0), " field=value", theme.muted);
    }
    let n_fit = usize::from(area.height.saturating_sub(3));
    let mut y = 1;
    for choice in filter.choices().into_iter().take(n_fit) {
        let is_here = choice == field.value();
        let (mark, style) = if is_here { ("▸ ", theme.focus) } else { ("  ", theme.muted) };
        let text = format!("{mark}{}", format::fit(choice, usize::from(area.width) / 2));
        paint::text(buf, area, (0, y), &text, style);
        y += 1;
    }
    y + 1
}

fn draw_rows(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (state, theme) = (&frame.state.data, frame.theme);
    let list = state.list();
    if list.is_empty() {
        let empty = if !state.search.value().is_empty() || state.filter.active().is_some() {
            "nothing found".to_owned()
        } else {
            let key = frame.key(Layer::Data, Action::AcquireTag);
            format!("no datasets visible\n{key} acquires the tag public")
        };
        let words = ["no dataset service yet", &*empty];
        return frame.draw_absent(area, buf, &state.datasets, None, words);
    }
    let names = list.iter().map(|dataset| shown_name(dataset, state).width());
    let hidden = &frame.state.hidden_columns;
    let has_content = |title: &str| {
        let is_filled = |dataset: &Dataset| match title {
            SOURCE => source(dataset).is_some(),
            FREQUENCY => dataset.metadata.contains_key("frequency"),
            LAST => true,
            _ => state.sparkline(dataset.id).is_some(),
        };
        !hidden.is_hidden(TableName::Datasets, title) && list.iter().any(is_filled)
    };
    let mut columns = list_columns(area.width, names.max().unwrap_or(0), has_content);
    let table = Table {
        selected: list.iter().position(|dataset| Some(dataset.id) == state.selected),
        pane: Pane::List.number(),
        n_scrolled: state.n_list_scrolled,
        ..Table::new(TableName::Datasets, &mut columns, hidden, state.order.column)
    };
    let visible = table.draw(area, buf, frame, list, |dataset| cells(dataset, frame));
    for (dataset, row, places) in visible {
        if let Some(idx) = state.compared.iter().position(|it| it.dataset.id == dataset.id) {
            let is_charted = Some(dataset.id) == state.selected;
            let color = theme.series(if is_charted { 0 } else { idx + 1 });
            paint::put(buf, row, (1, 0), '◆', color);
        } else if state.is_pinned(dataset.id) {
            paint::put(buf, row, (1, 0), '★', theme.key);
        }
        if let (Some(spark), [.., trend, _]) = (state.sparkline(dataset.id), &*places) {
            let values: Vec<_> = spark.values().map(Some).collect();
            let shown = &values[values.len().saturating_sub(SPARK_VALUES)..];
            let is_selected = Some(dataset.id) == state.selected;
            let style = if is_selected { theme.focus } else { theme.series(0) };
            Sparkline::new(shown, Floor::Lowest, style).render(*trend, buf);
        }
    }
}

/// Returns the name of a dataset and of its shown column, unless that is the usual one.
fn shown_name(dataset: &Dataset, state: &State) -> String {
    match state.shown_column(dataset.id, &dataset.metadata) {
        Some(column) if column != "close" => format!("{} · {column}", dataset.name),
        _ => dataset.name.clone(),
    }
}

fn source(dataset: &Dataset) -> Option<&String> {
    dataset.metadata.get("source").or_else(|| dataset.metadata.get("provider"))
}

/// Returns the cells of a dataset. The sparkline is drawn separately.
fn cells(dataset: &Dataset, frame: Frame<'_>) -> Vec<Cell> {
    let (state, now, theme) = (&frame.state.data, frame.state.now, frame.theme);
    let is_selected = Some(dataset.id) == state.selected;
    let spark = state.sparkline(dataset.id);
    let frequency = dataset.metadata.get("frequency").map(String::as_str);
    // Values without a stream count as fresh for at least 30 s, within which each dataset of a
    // short list is read.
    let fresh_for = fresh_for(frequency).max(Duration::from_secs(30));
    let dot = if frame.state.services.health(Service::Data).is_away() {
        ("◌", theme.warn)
    } else if is_selected && state.live.is_up() {
        ("●", theme.up)
    } else if spark.is_some_and(|spark| spark.age(now) <= fresh_for) {
        ("○", theme.up)
    } else {
        ("·", theme.faint)
    };
    let values: Vec<f64> = spark.iter().flat_map(|spark| spark.values()).collect();
    let last = match (values.as_slice(), spark.and_then(RecentValues::text)) {
        ([.., value], _) => {
            let before = values.iter().rev().nth(1).unwrap_or(value);
            let decimals = format::decimals_for(values.iter().copied());
            let text = format::short_in(*value, &values, decimals, LAST_WIDTH);
            (text, theme.signed(value - before))
        }
        // A dataset without a numeric column shows the first value of the latest row.
        ([], Some((_, text))) => (format::fit(text, LAST_WIDTH).into_owned(), theme.muted),
        ([], None) => Cell::default(),
    };
    vec![
        (dot.0.to_owned(), dot.1),
        (shown_name(dataset, state), if is_selected { theme.text.bold() } else { theme.text }),
        (source(dataset).cloned().unwrap_or_default(), theme.accent2),
        (frequency.unwrap_or(format::NONE).to_owned(), theme.muted),
        Cell::default(),
        last,
    ]
}

/// Draws facts about a dataset, each in a row.
fn draw_dataset(area: Rect, buf: &mut Buffer, dataset: &Dataset, frame: Frame<'_>) {
    let (state, now, theme) = (&frame.state.data, frame.state.now, frame.theme);
    let columns = match state.columns() {
        Some(columns) => {
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            format!("{}: {}", names.len(), names.join(" "))
        }
        None => "loading".to_owned(),
    };
    let tags = match state.tags.value() {
        Some(tags) if tags.is_empty() => "none".to_owned(),
        tags => tags.map_or_else(String::new, |tags| tags.join(" ")),
    };
    let charted = match state.shape() {
        Some(Shape::Bars) => "open, high, low, close".to_owned(),
        Some(Shape::Value(column)) => column,
        Some(Shape::Nothing) => "no column of numbers".to_owned(),
        None => String::new(),
    };
    // The stream can have more recent rows than the list.
    let updated_at =
        state.live.updated_at(now).map_or(dataset.updated_at, |at| at.max(dataset.updated_at));
    let known = ["source", "provider", "ticker", "frequency"];
    let mut facts = vec![("id", dataset.id.to_string())];
    facts.extend(known.into_iter().filter_map(|it| Some((it, dataset.metadata.get(it)?.clone()))));
    facts.extend([
        ("columns", columns),
        ("charted", charted),
        ("tags", tags),
        ("created", format::date(dataset.created_at)),
        ("updated", format::ago(now.since(updated_at))),
    ]);
    let others = dataset.metadata.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    facts.extend(others.map(|(name, value)| (name.as_str(), value.clone())));
    facts.retain(|(_, value)| !value.is_empty());
    let text = format::fit(&dataset.description, area.width.into());
    paint::text(buf, area, (0, 0), &text, theme.muted);
    let [_, area] = split_rows(area, u16::from(!dataset.description.is_empty()));
    draw_facts(area, buf, theme, &facts);
}

#[cfg(test)]
mod tests;
