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
    view::table::{light_row, visible_rows},
    widget::{format, paint},
};

/// The columns of the bar that an epoch fills.
const BAR: u16 = 8;

/// Draws the pane; returns where the row of each topic is.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) -> Vec<(usize, Rect)> {
    let (state, theme) = (scene.state, scene.theme);
    let body = scene.draw_pane(area, buf, Pane::Topics, "Topics", state.topics.note(scene.now));
    let topics = state.topics.value().map_or(&[][..], |list| &list.topics);
    if topics.is_empty() {
        scene.draw_nothing(body, buf);
        return Vec::new();
    }
    let header = theme.muted.add_modifier(Modifier::BOLD);
    let is_wide = body.width >= 56;
    let name_end = body.width.saturating_sub(if is_wide { BAR + 20 } else { BAR + 1 });
    paint::text(buf, body, (0, 0), "ID  PREDICTS", header);
    if is_wide {
        paint::text_before(buf, body, (name_end + 9, 0), "GROUP", header);
        paint::text_before(buf, body, (name_end + 18, 0), "LEARNED", header);
    }
    paint::text_before(buf, body, (body.width, 0), "EPOCH", header);
    let is_chosen =
        |topic: &TopicSummary| state.selected.is_some_and(|id| id.get() == topic.topic_id);
    let chosen = topics.iter().position(is_chosen);
    visible_rows(body, chosen, topics, |row, topic| {
        let style =
            if is_chosen(topic) { theme.text.add_modifier(Modifier::BOLD) } else { theme.text };
        paint::text_before(buf, row, (2, 0), &topic.topic_id.to_string(), theme.focus);
        let name = format::fit(&topic.name, usize::from(name_end.saturating_sub(5)));
        paint::text(buf, row, (4, 0), &name, style);
        if is_wide {
            let group = format::fit(topic.subgroup.as_deref().unwrap_or("*"), 8).into_owned();
            paint::text_before(buf, row, (name_end + 9, 0), &group, theme.accent2);
            let learned = format::count(topic.n_learned);
            paint::text_before(buf, row, (name_end + 18, 0), &learned, theme.muted);
        }
        draw_epoch(row, buf, topic, scene);
        light_row(row, buf, theme, is_chosen(topic))
    })
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
