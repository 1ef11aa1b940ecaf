//! The presets, and the name of one that is to be kept.

use crate::{
    action::Action,
    keymap::Layer,
    overlay::view::{Prompt, Surface, raise},
    state::{field::Field, runs::workers_text},
    view::{
        Frame, centered, draw_empty,
        table::{Column, Side, Table},
    },
    widget::{format, pane::Pane},
};

/// The columns of the table, left to right.
const COLUMNS: [Column; 5] = [
    Column { title: "NAME", width: 28, side: Side::Left },
    Column { title: "FUNCTION", width: 11, side: Side::Left },
    Column { title: "METHOD", width: 18, side: Side::Left },
    Column { title: "NODES", width: 5, side: Side::Right },
    Column { title: "WORKERS", width: 10, side: Side::Left },
];

/// Draws the list of presets over `area`.
pub(crate) fn draw(on: Surface<'_>, selected: usize) {
    let Surface { area, buf, frame, hits } = on;
    let Frame { state, theme, .. } = frame;
    let presets = &state.execute.presets;
    let n_presets = presets.len();
    let height = u16::try_from(n_presets.max(3)).unwrap_or(u16::MAX).saturating_add(3);
    let place = centered(area, 84.min(area.width.saturating_sub(4)), height.min(area.height));
    let of = Pane::new("Presets").info(if n_presets == 0 {
        String::new()
    } else {
        n_presets.to_string()
    });
    let inside = raise(place, buf, frame, of, hits);
    if n_presets == 0 {
        let key = frame.key(Layer::Form, Action::SavePreset);
        let lines = ["No presets yet.".to_owned(), format!("{key} in the form saves one.")];
        draw_empty(inside, buf, theme, &lines);
        return;
    }
    let table = Table {
        columns: &COLUMNS,
        n_rows: n_presets,
        selected: Some(selected),
        ..Table::default()
    };
    table.draw(inside, buf, theme, hits, |row| {
        let Some((name, preset)) = presets.iter().nth(row) else { return Vec::new() };
        let request = &preset.request;
        vec![
            (name.clone(), theme.text),
            (format::short_cid(&request.function_id).into_owned(), theme.muted),
            (request.method.clone(), theme.focus),
            (request.config.number_of_nodes.to_string(), theme.text),
            (workers_text(request).unwrap_or_else(|| "*".to_owned()), theme.muted),
        ]
    });
}

/// The box that asks for the name of a preset.
pub(crate) fn prompt<'a>(field: &'a Field, frame: Frame<'_>) -> Prompt<'a> {
    let key = frame.key(Layer::PresetName, Action::Open);
    Prompt {
        title: "Save preset",
        label: "name",
        field,
        note: format!("{key} saves it; values of variables named KEY, TOKEN etc. are left out"),
    }
}
