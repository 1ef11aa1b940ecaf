//! The datasets, each with its newest values, and what the selected one is.

use std::time::Duration;

use model::dataset::Dataset;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr;

use super::Scene;
use crate::{
    action::Action,
    screens::{
        data::state::{Pane, RecentValues, SPARK_VALUES, fresh_for},
        execute::view::draw_field,
    },
    state::{field::Field, loadable::Loadable},
    view::table::{light_row, visible_rows},
    widget::{
        format, note, paint,
        pane::{self, divider, padded},
        sparkline::{Floor, Sparkline},
    },
};

/// Rows of facts about the selected dataset that are worth cutting the list for.
pub(crate) const FACTS_HEIGHT: u16 = 11;

/// The least columns of a fact's name: the longest of those that most datasets have.
const FACT_MIN: u16 = 9;

/// In this time each dataset of a short list has been read once.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// The longest sparkline.
const SPARK_MAX: u16 = 24;

/// The columns of a row, by the width there is.
#[derive(Debug, Clone, Copy)]
struct Columns {
    name: u16,
    source: u16,
    frequency: u16,
    spark: u16,
    last: u16,
}

impl Columns {
    /// Divides `width`; the source is evicted to names that would not fit beside it.
    fn for_width(width: u16, longest_name: usize) -> Self {
        let (source, frequency, spark, last) = match width {
            0..24 => (0, 0, 0, 0),
            24..34 => (0, 0, 0, 9),
            34..46 => (0, 0, 8, 9),
            _ if longest_name > usize::from(width - 36) => (0, 4, 8, 9),
            _ => (9, 4, 8, 9),
        };
        let gaps = [source, frequency, spark, last].into_iter().filter(|part| *part > 0).count();
        let gaps = u16::try_from(gaps).unwrap_or(0);
        let name = width.saturating_sub(2 + source + frequency + spark + last + gaps);
        // What the longest name leaves free makes the sparkline longer.
        let free = name.saturating_sub(u16::try_from(longest_name).unwrap_or(u16::MAX));
        let free = if spark > 0 { free.min(SPARK_MAX - spark) } else { 0 };
        let (name, spark) = (name - free, spark + free);
        Self { name, source, frequency, spark, last }
    }
}

/// Draws the pane; returns where the row of each dataset is.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) -> Vec<(usize, Rect)> {
    let (state, theme) = (scene.state, scene.theme);
    if area.is_empty() {
        return Vec::new();
    }
    let list = state.list();
    let filter = state.filter.active().map(|(field, value)| format!("{field}={value} · "));
    let info = match &state.datasets {
        Loadable::Ready { value, .. } => match value.n_datasets {
            Some(n) if n > list.len() as u64 => format!("{} of {}", list.len(), format::count(n)),
            _ => list.len().to_string(),
        },
        other => other.note(scene.now),
    };
    let focus = scene.focus(Pane::List);
    let info = format!("{}{info}", filter.unwrap_or_default());
    let inside = pane::Pane::new("Datasets").info(info).focus(focus).draw(area, buf, theme);
    let body = padded(inside);
    let facts_height = if body.height >= FACTS_HEIGHT + 7 { FACTS_HEIGHT } else { 0 };
    let top = draw_search(body, buf, scene);
    let rows_height = body.height.saturating_sub(top + facts_height);
    let rows = Rect { y: body.y + top, height: rows_height, ..body };
    let places = draw_rows(rows, buf, scene);
    if let Some(dataset) = state.dataset().filter(|_| facts_height > 0) {
        let y = area.height - 1 - facts_height;
        let title = format::fit(&dataset.name, usize::from(area.width.saturating_sub(6)));
        divider(buf, area, y, title.into_owned(), focus, theme);
        let facts = Rect { y: area.y + y + 1, height: facts_height - 1, ..body };
        draw_facts(facts, buf, dataset, scene);
    }
    places
}

/// Draws what is searched for or filtered by, while there is something; returns how many rows that
/// took.
fn draw_search(area: Rect, buf: &mut Buffer, scene: Scene<'_>) -> u16 {
    let (search, filter, theme) = (&scene.state.search, &scene.state.filter, scene.theme);
    let is_wanted = |field: &Field| field.is_edited() || !field.value().is_empty();
    let (mark, field) = match () {
        () if is_wanted(&filter.text) => (Action::MetadataFilter, &filter.text),
        () if is_wanted(search) => (Action::Filter, search),
        () => return 0,
    };
    let from = paint::text(buf, area, (0, 0), &scene.key(mark), theme.key) + 1;
    let (x, width) = (area.x.saturating_add(from), area.width.saturating_sub(from));
    let room = Rect { x, width, ..area };
    draw_field(room, buf, theme, field, theme.text);
    if !filter.text.is_edited() {
        return 2;
    }
    if field.value().is_empty() {
        paint::text(buf, room, (1, 0), " field=value", theme.muted);
    }
    let mut y = 1;
    for choice in filter.choices() {
        if y + 3 > area.height {
            break;
        }
        let is_here = choice == field.value();
        let style = if is_here { theme.focus } else { theme.muted };
        let mark = if is_here { "▸ " } else { "  " };
        let text = format!("{mark}{}", format::fit(choice, usize::from(area.width) / 2));
        paint::text(buf, area, (0, y), &text, style);
        y += 1;
    }
    y + 1
}

fn draw_rows(area: Rect, buf: &mut Buffer, scene: Scene<'_>) -> Vec<(usize, Rect)> {
    let (state, theme) = (scene.state, scene.theme);
    let list = state.list();
    if list.is_empty() {
        draw_nothing(area, buf, scene);
        return Vec::new();
    }
    let longest_name = list.iter().map(|dataset| dataset.name.width()).max().unwrap_or(0);
    let columns = Columns::for_width(area.width, longest_name);
    let header = theme.muted.add_modifier(Modifier::BOLD);
    let mut x = 2;
    for (title, width) in [
        ("NAME", columns.name),
        ("SOURCE", columns.source),
        ("FREQ", columns.frequency),
        ("TREND", columns.spark),
    ] {
        if width > 0 {
            paint::text(buf, area, (x, 0), &format::fit(title, width.into()), header);
            x += width + 1;
        }
    }
    if columns.last > 0 {
        paint::text_before(buf, area, (area.width, 0), "LAST", header);
    }
    let selected = list.iter().position(|dataset| Some(dataset.id) == state.selected);
    visible_rows(area, selected, list, |row, dataset| {
        draw_row(row, buf, dataset, columns, scene);
        light_row(row, buf, theme, Some(dataset.id) == state.selected)
    })
}

fn draw_row(row: Rect, buf: &mut Buffer, dataset: &Dataset, columns: Columns, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    let is_selected = Some(dataset.id) == state.selected;
    let spark = state.sparkline(dataset.id);
    let frequency = dataset.metadata.get("frequency").map(String::as_str);
    let newest = spark.and_then(RecentValues::newest);
    // A dataset that is not followed is read only now and then.
    let fresh_for = fresh_for(frequency).max(READ_WITHIN);
    let is_fresh = spark.is_some_and(|spark| spark.age(scene.now) <= fresh_for);
    let (dot, dot_style) = match () {
        () if is_selected && state.live.is_up() => ('●', theme.up),
        () if is_fresh => ('○', theme.up),
        () => ('·', theme.faint),
    };
    paint::put(buf, row, (0, 0), dot, dot_style);
    let name = format::fit(&dataset.name, columns.name.into());
    let style = if is_selected { theme.text.add_modifier(Modifier::BOLD) } else { theme.text };
    paint::text(buf, row, (2, 0), &name, style);
    if state.is_pinned(dataset.id) {
        paint::put(buf, row, (1, 0), '★', theme.key);
    }
    let mut x = 3 + columns.name;
    let metadata = |names: [&str; 2]| {
        names.into_iter().find_map(|name| dataset.metadata.get(name)).map_or("", String::as_str)
    };
    if columns.source > 0 {
        let text = format::fit(metadata(["source", "provider"]), columns.source.into());
        paint::text(buf, row, (x, 0), &text, theme.accent2);
        x += columns.source + 1;
    }
    if columns.frequency > 0 {
        let text = format::fit(frequency.unwrap_or("—"), columns.frequency.into());
        paint::text(buf, row, (x, 0), &text, theme.muted);
        x += columns.frequency + 1;
    }
    let Some(spark) = spark else { return };
    if columns.spark > 0 {
        let mut values: Vec<_> = spark.values().rev().take(SPARK_VALUES).map(Some).collect();
        values.reverse();
        let style = if is_selected { theme.focus } else { theme.series(0) };
        let area = Rect { x: row.x.saturating_add(x), width: columns.spark, ..row };
        Sparkline::new(&values, Floor::Lowest, style).render(area, buf);
    }
    if let Some((_, value)) = newest.filter(|_| columns.last > 0) {
        let before = spark.values().rev().nth(1).unwrap_or(value);
        let decimals = format::decimals_for(spark.values());
        let text = format::short(value, decimals, columns.last.into());
        paint::text_before(buf, row, (row.width, 0), &text, theme.signed(value - before));
    }
}

fn draw_nothing(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (state, theme) = (scene.state, scene.theme);
    match &state.datasets {
        Loadable::Idle => note::centered(buf, area, &[("no dataset service yet", theme.muted)]),
        Loadable::Loading { .. } => note::centered(buf, area, &[(&*scene.loading(), theme.muted)]),
        Loadable::Failed { why, .. } | Loadable::Stale { why, .. } => {
            note::failed(buf, area, why, theme.down, theme);
        }
        Loadable::Ready { .. }
            if !state.search.value().is_empty() || state.filter.active().is_some() =>
        {
            note::centered(buf, area, &[("nothing found", theme.muted)]);
        }
        Loadable::Ready { .. } => {
            let lines = [
                ("no datasets visible", theme.text),
                (
                    &*format!("{} acquires the tag public", scene.key(Action::AcquireTag)),
                    theme.muted,
                ),
            ];
            note::centered(buf, area, &lines);
        }
    }
}

/// Draws what a dataset is, a fact in a row.
fn draw_facts(area: Rect, buf: &mut Buffer, dataset: &Dataset, scene: Scene<'_>) {
    let theme = scene.theme;
    let columns = match &scene.state.columns {
        Loadable::Ready { value, .. } | Loadable::Stale { value, .. } => {
            let names: Vec<_> = value.iter().map(|column| column.name.as_str()).collect();
            format!("{}: {}", names.len(), names.join(" "))
        }
        other => other.note(scene.now),
    };
    let tags = match &scene.state.tags {
        Loadable::Ready { value, .. } | Loadable::Stale { value, .. } if value.is_empty() => {
            "none".to_owned()
        }
        Loadable::Ready { value, .. } | Loadable::Stale { value, .. } => value.join(" "),
        _ => String::new(),
    };
    // The stream knows of newer rows than the list.
    let rows_at = scene.state.live.rows_at();
    let updated_at = rows_at.map_or(dataset.updated_at, |rows_at| rows_at.max(dataset.updated_at));
    let mut facts = vec![
        ("id", dataset.id.to_string()),
        ("columns", columns),
        ("tags", tags),
        ("created", format::date(dataset.created_at)),
        ("updated", format::ago(scene.now.since(updated_at))),
    ];
    let known = ["source", "provider", "ticker", "frequency"];
    for name in known {
        if let Some(value) = dataset.metadata.get(name) {
            facts.insert(facts.len() - 4, (name, value.clone()));
        }
    }
    let others = dataset.metadata.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    facts.extend(others.map(|(name, value)| (name.as_str(), value.clone())));
    facts.retain(|(_, value)| !value.is_empty());
    if !dataset.description.is_empty() {
        facts.insert(0, ("", dataset.description.clone()));
    }
    for (y, (name, value)) in (0..area.height).zip(facts) {
        let name_width = if name.is_empty() { 0 } else { 12.min(area.width / 3).max(FACT_MIN) };
        let name = format::right(name, usize::from(name_width));
        let room = usize::from(area.width.saturating_sub(name_width + 1));
        let style = if name_width == 0 { theme.muted } else { theme.text };
        let line = Line::from(vec![
            Span::styled(name, theme.muted),
            Span::raw(if name_width > 0 { " " } else { "" }),
            Span::styled(format::fit(&value, room).into_owned(), style),
        ]);
        paint::line(buf, area, (0, y), &line);
    }
}
