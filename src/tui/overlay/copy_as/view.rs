//! Draws the choice of a form to copy.

use ratatui::{buffer::Buffer, layout::Rect};

use super::state::CopyMenu;
use crate::{
    action::Action,
    event::Target,
    keymap::Layer,
    overlay::view::{mark, raise},
    view::{Frame, centered, hits::Hits},
    widget::{format, paint, pane::Pane},
};

/// The width of the box.
const WIDTH: u16 = 72;

/// Where the text of a form begins: after the longest name of one.
const TEXT_FROM: u16 = 22;

pub(crate) fn draw(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    copy_as: &CopyMenu,
    hits: &mut Hits,
) {
    let theme = frame.theme;
    let n_rows = u16::try_from(copy_as.forms.len()).unwrap_or(u16::MAX);
    let place = centered(area, WIDTH.min(area.width), n_rows.saturating_add(2));
    let of = Pane::new("Copy as").info(
        frame.hints(Layer::Choice, &[(Action::Open, "copies it"), (Action::Back, "goes back")]),
    );
    let inside = raise(place, buf, frame, of, hits);
    for ((y, row), (name, text)) in (0..inside.height).zip(0..).zip(&copy_as.forms) {
        paint::text(buf, inside, (2, y), name, theme.text);
        let room = usize::from(inside.width.saturating_sub(TEXT_FROM));
        // No more than fits is looked at: a text may be long.
        let start: String = text.chars().take(usize::from(WIDTH)).collect();
        let words: Vec<&str> = start.split_whitespace().collect();
        let words = words.join(" ");
        paint::text(buf, inside, (TEXT_FROM, y), &format::fit(&words, room), theme.muted);
        if row == copy_as.row {
            mark(inside, buf, y, frame);
        }
        let place = Rect { y: inside.y.saturating_add(y), height: 1, ..inside };
        hits.add(place, Target::Row { pane: 0, row });
    }
}
