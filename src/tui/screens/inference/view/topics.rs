//! The topics there are: what they predict, and where their epochs stand.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    widgets::{LineGauge, Widget as _},
};
use wire::inference::TopicSummary;

use super::Scene;
use crate::{
    screens::inference::state::Pane,
    state::{columns::TableName, navigation::Steps as _, services::Service},
    view::{
        hits::Hits,
        table::{self, Cell, Column, Side, Table},
    },
    widget::format,
};

/// The columns of the bar that an epoch fills.
const BAR: u16 = 8;

/// The narrowest list with what a topic's workers are and have learned.
const WIDE_FROM: u16 = 56;

/// The columns by the width there is.
pub(crate) fn columns(width: u16) -> [Column; 5] {
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

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>, hits: &mut Hits) {
    let (state, theme) = (scene.state, scene.theme);
    let info = scene.frame.away_or(Service::Inference, state.topics.note(scene.now));
    let body = scene.draw_pane(area, buf, Pane::Topics, "Topics", info);
    let topics = state.topics.value().map_or(&[][..], |list| &list.topics);
    if topics.is_empty() {
        scene.draw_nothing(body, buf);
        return;
    }
    let mut columns = columns(body.width);
    table::hide(&scene.frame.state.hidden_columns, TableName::Topics, &mut columns);
    let is_chosen =
        |topic: &TopicSummary| state.selected.is_some_and(|id| id.get() == topic.topic_id);
    let selected = topics.iter().position(is_chosen);
    let pane = Pane::Topics.number();
    let table = Table {
        columns: &columns,
        n_rows: topics.len(),
        selected,
        pane,
        sorted: columns.iter().position(|it| Some(it.title) == state.topic_order.column),
        ..Table::default()
    };
    table.draw(body, buf, theme, hits, |row| {
        let Some(topic) = topics.get(row) else { return Vec::new() };
        let bold = if is_chosen(topic) { Modifier::BOLD } else { Modifier::empty() };
        vec![
            (topic.topic_id.to_string(), theme.focus),
            (topic.name.clone(), theme.text.add_modifier(bold)),
            (topic.subgroup.as_deref().unwrap_or("*").to_owned(), theme.accent2),
            (format::count(topic.n_learned), theme.muted),
            Cell::default(),
        ]
    });
    let has_bar = columns.last().is_some_and(|epoch| epoch.width > 0);
    for (row, place) in table.rows(body) {
        if let Some(topic) = topics.get(row).filter(|_| has_bar) {
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
