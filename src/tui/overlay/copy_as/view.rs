//! Draws the choice of a form to copy.

use super::state::CopyMenu;
use crate::{
    action::Action,
    keymap::Layer,
    overlay::view::{List, Surface, raise},
    view::{centered, results::gist, text_cut},
    widget::{paint, pane::Pane},
};

/// The width of the box.
const WIDTH: u16 = 72;

/// Where the text of a form begins: after the longest name of one.
const TEXT_FROM: u16 = 22;

pub(crate) fn draw(on: Surface<'_>, copy_as: &CopyMenu) {
    let Surface { area, buf, frame, hits } = on;
    let theme = frame.theme;
    let n_rows = u16::try_from(copy_as.forms.len()).unwrap_or(u16::MAX);
    let place = centered(area, WIDTH.min(area.width), n_rows.saturating_add(2));
    let of = Pane::new("Copy as").info(
        frame.hints(Layer::Choice, &[(Action::Open, "copies it"), (Action::Back, "goes back")]),
    );
    let inside = raise(place, buf, frame, of, hits);
    let list = List { n_rows: copy_as.forms.len(), selected: copy_as.row, pitch: 1 };
    list.draw(inside, buf, frame, hits, |buf, place, row| {
        let Some((name, text)) = copy_as.forms.get(row) else { return };
        paint::text(buf, place, (2, 0), name, theme.text);
        text_cut(buf, place, (TEXT_FROM, 0), &gist(text), theme.muted);
    });
}
