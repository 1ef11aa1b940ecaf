//! Draws the form that asks for a file to write to.

use ratatui::{buffer::Buffer, layout::Rect};

use super::state::SaveForm;
use crate::{
    action::Action,
    keymap::Layer,
    overlay::view::raise,
    screens::execute::view::draw_asked,
    view::{Frame, centered, hits::Hits},
    widget::{paint, pane::Pane},
};

/// The width of the box.
const WIDTH: u16 = 64;

pub(crate) fn draw(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    save: &SaveForm,
    hits: &mut Hits,
) {
    let theme = frame.theme;
    let place = centered(area, WIDTH.min(area.width.saturating_sub(2)), 6);
    let inside = raise(place, buf, frame, Pane::new("Save the current view"), hits);
    draw_asked(inside, buf, theme, "file", &save.path);
    let form = match &save.text {
        Some(_) => "it is shown",
        None if save.is_json() => "JSON",
        None => "CSV, or JSON for .json",
    };
    let key = frame.key(Layer::Save, Action::Open);
    paint::text(buf, inside, (0, 3), &format!("{key} writes it as {form}"), theme.muted);
}
