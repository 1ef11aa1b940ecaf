//! Translates mouse input: clicks on targets of the last frame, the wheel, dragged dividers.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use crate::event::{Event, Target};
use crate::state::layout::Divider;
use crate::view::{Hits, WHEEL_ROWS};

/// State of the mouse between events.
#[derive(Debug, Default)]
pub(crate) struct Mouse {
    /// The dragged divider and the cell where it was grabbed.
    dragged: Option<(Divider, Position)>,
}

impl Mouse {
    /// Translates `mouse` to an event, using the targets of the last frame. Returns `None` if the event
    /// is ignored.
    pub(crate) fn translate(&mut self, mouse: MouseEvent, hits: &Hits) -> Option<Event> {
        let MouseEvent { column, row, .. } = mouse;
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => {
                let divider = hits.divider_at(column, row);
                self.dragged = divider.map(|divider| (divider, Position::new(column, row)));
                match divider {
                    Some(_) => Some(Event::Grab),
                    None => hits.target_at(column, row).map(Event::Click),
                }
            }
            MouseEventKind::Drag(MouseButton::Left) => {
                let (divider, from) = self.dragged?;
                let apart = match divider {
                    Divider::Columns => i32::from(column) - i32::from(from.x),
                    Divider::LeftRows | Divider::RightRows => i32::from(row) - i32::from(from.y),
                };
                Some(Event::Drag(divider, i16::try_from(apart).unwrap_or(0)))
            }
            MouseEventKind::Up(MouseButton::Left) => {
                self.dragged = None;
                None
            }
            kind @ (MouseEventKind::ScrollUp | MouseEventKind::ScrollDown) => {
                let sign = if kind == MouseEventKind::ScrollUp { -1 } else { 1 };
                let target = hits.pane_at(column, row).unwrap_or(Target::Pane(0));
                Some(Event::Wheel(target, sign * WHEEL_ROWS))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyModifiers;
    use ratatui::layout::Rect;

    use super::*;

    #[track_caller]
    fn check(mouse: &mut Mouse, hits: &Hits, kind: MouseEventKind, at: (u16, u16), want: &str) {
        let (column, row) = at;
        let modifiers = KeyModifiers::NONE;
        let event = mouse.translate(MouseEvent { kind, column, row, modifiers }, hits);
        assert_eq!(format!("{event:?}"), want, "{kind:?}");
    }

    #[test]
    fn divider_is_dragged_from_where_it_was_grabbed() {
        let (mut mouse, hits) = (Mouse::default(), Hits::default());
        hits.add(Rect::new(0, 0, 80, 24), Target::Pane(1));
        hits.add_divider(Divider::Columns, Rect::new(0, 0, 40, 24));
        let left = MouseButton::Left;
        let (down, drag) = (MouseEventKind::Down(left), MouseEventKind::Drag(left));
        check(&mut mouse, &hits, down, (20, 5), "Some(Click(Pane(1)))");
        check(&mut mouse, &hits, drag, (25, 5), "None");
        check(&mut mouse, &hits, down, (40, 5), "Some(Grab)");
        check(&mut mouse, &hits, drag, (43, 9), "Some(Drag(Columns, 3))");
        check(&mut mouse, &hits, drag, (30, 9), "Some(Drag(Columns, -10))");
        check(&mut mouse, &hits, MouseEventKind::Up(left), (30, 9), "None");
        check(&mut mouse, &hits, drag, (31, 9), "None");
        check(&mut mouse, &hits, MouseEventKind::ScrollUp, (39, 5), "Some(Wheel(Pane(1), -3))");
    }
}
