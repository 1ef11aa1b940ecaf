//! Draws the form that starts a node, and the question that precedes stopping a process.

use ratatui::prelude::*;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::overlay::view::{Question, raise};
use crate::screens::cluster::state::node_form::NodeField;
use crate::view::{Frame, LabelledField, centered, split_rows, strip, wrapped};
use crate::widget::paint;
use crate::widget::pane::Pane;

/// Width of the labels.
const LABEL_WIDTH: u16 = 11;

/// Maximum width of the form. A multiaddress fits into it.
const WIDTH_MAX: u16 = 104;

/// Draws the form that starts a node.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let form = &state.cluster.node_form;
    let n_fields = u16::try_from(form.fields().count()).unwrap_or(u16::MAX);
    // With enough space, the note of each field is below the field.
    let is_roomy = area.height >= n_fields.saturating_mul(2) + 6;
    let is_airy = area.height >= n_fields.saturating_mul(3) + 6;
    let step = 1 + u16::from(is_roomy) + u16::from(is_airy);
    let height = n_fields.saturating_mul(step).saturating_add(if is_roomy { 5 } else { 4 });
    let width = WIDTH_MAX.min(area.width.saturating_sub(2));
    let place = centered(area, width, height.min(area.height));
    let title = if form.is_head { "Start a head" } else { "Start a worker" };
    let of = Pane::new(title).info("a process of this machine");
    let inside = raise(place, buf, frame, of);
    let mut y = u16::from(is_roomy);
    for field in form.fields() {
        draw_node_field(inside, buf, frame, field, y, is_roomy);
        y = y.saturating_add(step);
    }
    // In a small area, only the note of the focused field is shown, below all fields.
    if !is_roomy {
        let (note, style) = note(frame, form.focus);
        paint::text(buf, inside, (LABEL_WIDTH + 2, y), &note, style);
        y = y.saturating_add(1);
    }
    let from = LABEL_WIDTH + 1;
    let end = paint::text(buf, inside, (from, y), " ⏎ Start ", theme.tag(theme.focus));
    let button = strip(inside, (from, y), end.saturating_sub(from));
    frame.hits.add(button, Target::Action(Action::StartNode));
}

fn draw_node_field(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    field: NodeField,
    y: u16,
    is_roomy: bool,
) {
    let Frame { state, theme, .. } = frame;
    let form = &state.cluster.node_form;
    let of = LabelledField {
        label: field.into_str(),
        label_width: LABEL_WIDTH,
        width: match field {
            NodeField::BootNodes | NodeField::Attributes | NodeField::Runtime => area.width,
            NodeField::Subgroups => 40,
            NodeField::Kept => 26,
            _ => 12,
        },
        is_focused: form.focus == field,
        has_caret: form.focus == field,
        ground: theme.bg,
        choice: match field {
            NodeField::Role => Some(if form.is_head { "head" } else { "worker" }),
            NodeField::Kept => Some(if form.is_detached { "it keeps running" } else { "it stops" }),
            _ => None,
        },
        text: form.text(field),
    };
    of.draw(split_rows(area, y)[1], buf, theme);
    if is_roomy {
        let (note, style) = note(frame, field);
        let room = area.width.saturating_sub(LABEL_WIDTH + 2);
        // A second line of the note is drawn into the gap below.
        for (y, line) in (y + 1..).zip(wrapped(&note, room).iter().take(2)) {
            paint::text(buf, area, (LABEL_WIDTH + 2, y), line, style);
        }
    }
}

/// Returns the error of a field after an attempt to start, otherwise its hint.
fn note(frame: Frame<'_>, field: NodeField) -> (String, Style) {
    let form = &frame.state.cluster.node_form;
    match form.trouble(field).filter(|_| form.is_tried) {
        Some(trouble) => (format!("└ {trouble}"), frame.theme.down),
        None => (field.note().to_owned(), frame.theme.muted),
    }
}

/// Draws the question that precedes stopping the selected process.
pub(crate) fn draw_confirm(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let Frame { state, theme, .. } = frame;
    let process = state.cluster.selected_process(&state.stack);
    let (what, note) = match &process {
        None => ("It has already stopped.".to_owned(), ""),
        Some(process) => {
            let is_head = process.node.as_ref().is_some_and(|node| node.role == "head");
            let note = match (is_head, &process.node) {
                (true, _) => "Its executions are lost.",
                (false, Some(_)) => "Its executions fail, or spares run them.",
                (false, None) => "Its service is unavailable until it restarts.",
            };
            (format!("Stop {}, pid {}?", process.name, process.pid), note)
        }
    };
    let hints = [(Action::Confirm, "stop it "), (Action::Back, "leave it")];
    Question {
        title: "Stop?",
        width: 52,
        lines: vec![Line::styled(what, theme.text), Line::styled(note, theme.muted)],
        keys: frame.hints(Layer::Confirm, &hints),
    }
    .draw(area, buf, frame);
}
