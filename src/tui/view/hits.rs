//! The click targets of a frame, and mouse events on them.

use std::cell::RefCell;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use model::timestamp::Timestamp;
use ratatui::layout::{Position, Rect};

use crate::event::{Event, Target};
use crate::keymap::Chord;
use crate::state::layout::Divider;

/// Letters of labels. Letters of the home row are first.
const LETTERS: &[u8] = b"asdfghjklqwertyuiopzxcvbnm";

/// Maximum number of click targets. A terminal of 200 by 60 cells has about as many rows and
/// panes.
const PLACES_MAX: usize = 512;

/// Number of rows by which a turn of the mouse wheel scrolls.
const WHEEL_ROWS: i32 = 3;

/// The click targets of a frame with their areas.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits {
    places: RefCell<Vec<(Rect, Target)>>,
    dividers: RefCell<Vec<(Rect, Divider)>>,
    /// Area in which the chart draws candles or points, and the times of its columns.
    chart: RefCell<(Rect, Vec<(u16, Timestamp)>)>,
}

impl Hits {
    /// Adds `target` with its area. The target is above earlier targets.
    pub(crate) fn add(&self, area: Rect, target: Target) {
        let mut places = self.places.borrow_mut();
        if places.len() < PLACES_MAX {
            places.push((area, target));
        }
    }

    /// Adds a divider. `first` is the area to the left of it or above it.
    pub(crate) fn add_divider(&self, divider: Divider, first: Rect) {
        let place = match divider {
            // The borders of the panes on both sides.
            Divider::Columns => Rect { x: first.right().saturating_sub(1), width: 2, ..first },
            // The border of the upper pane only, since the border of the lower pane contains a
            // title.
            _ => Rect { y: first.bottom().saturating_sub(1), height: 1, ..first },
        };
        self.dividers.borrow_mut().push((place, divider));
    }

    /// Sets the area of the chart, and the times of its columns.
    pub(crate) fn set_chart(&self, chart: (Rect, Vec<(u16, Timestamp)>)) {
        self.chart.replace(chart);
    }

    /// Removes all targets.
    pub(crate) fn clear(&self) {
        self.places.take();
        self.dividers.take();
        self.chart.take();
    }

    /// Returns all targets with their labels and areas, from top to bottom. A label has one
    /// letter, or two letters if there are too many targets.
    pub(crate) fn labels(&self) -> Vec<(String, Rect, Target)> {
        let mut places: Vec<(Rect, Target)> = Vec::new();
        for (place, target) in self.places.borrow().iter().copied() {
            // Titles of columns need no label, since tables can be sorted by keys.
            if matches!(target, Target::Column { .. }) {
                continue;
            }
            if !places.iter().any(|(_, known)| *known == target) {
                places.push((place, target));
            }
        }
        // Labels are drawn where the areas begin. A pane begins above and to the left of its rows,
        // so that its label does not cover the labels of rows.
        places.sort_by_key(|(place, _)| (place.y, place.x));
        let n_letters = LETTERS.len();
        let letter = |idx: usize| LETTERS.get(idx).map_or(' ', |letter| char::from(*letter));
        let is_one = places.len() <= n_letters;
        let labelled = places.into_iter().take(n_letters * n_letters).enumerate();
        labelled
            .map(|(idx, (place, target))| {
                let label = if is_one {
                    letter(idx).to_string()
                } else {
                    [letter(idx / n_letters), letter(idx % n_letters)].iter().collect()
                };
                (label, place, target)
            })
            .collect()
    }

    /// Converts a key press while labels are shown and `typed` was typed. If the key completes a
    /// label, returns a click on its target, otherwise the key press.
    pub(crate) fn jump_target(&self, typed: &str, chord: Chord) -> Event {
        let label = chord.letter().map(|letter| format!("{typed}{letter}"));
        let named = label.and_then(|label| self.labels().into_iter().find(|(it, ..)| *it == label));
        named.map_or(Event::Key(chord), |(_, _, target)| Event::Click(target))
    }

    /// Returns the topmost target that contains a cell.
    pub(crate) fn target_at(&self, column: u16, row: u16) -> Option<Target> {
        self.time_at(column, row).map(Target::Time).or_else(|| self.find(column, row, |_| true))
    }

    /// Returns the topmost pane or row that contains a cell.
    pub(crate) fn pane_at(&self, column: u16, row: u16) -> Option<Target> {
        let is_pane = |target: &Target| matches!(target, Target::Pane(_) | Target::Row { .. });
        self.find(column, row, is_pane)
    }

    /// Returns the divider that contains a cell.
    pub(crate) fn divider_at(&self, column: u16, row: u16) -> Option<Divider> {
        let position = Position::new(column, row);
        self.dividers.borrow().iter().find(|(area, _)| area.contains(position)).map(|(_, it)| *it)
    }

    fn find(&self, column: u16, row: u16, is_it: impl Fn(&Target) -> bool) -> Option<Target> {
        let position = Position::new(column, row);
        let places = self.places.borrow();
        places
            .iter()
            .rev()
            .find(|(area, it)| area.contains(position) && is_it(it))
            .map(|(_, it)| *it)
    }

    /// Returns the time of the column of the chart that is nearest to a cell. `None` if the cell
    /// is not in the chart.
    fn time_at(&self, column: u16, row: u16) -> Option<Timestamp> {
        let (area, columns) = &*self.chart.borrow();
        let x = area.contains(Position::new(column, row)).then(|| column - area.x)?;
        let nearest = columns.iter().min_by_key(|(other, _)| other.abs_diff(x));
        nearest.map(|(_, time)| *time)
    }
}

/// State of the mouse between events.
#[derive(Debug, Default)]
pub(crate) struct Mouse {
    /// Divider that is being dragged, and cell at which the button was pressed.
    dragged: Option<(Divider, Position)>,
}

impl Mouse {
    /// Converts `mouse` to an event, using the targets of the last frame. Returns `None` if the
    /// event has no effect.
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

    use super::*;

    #[track_caller]
    fn check(mouse: &mut Mouse, hits: &Hits, kind: MouseEventKind, at: (u16, u16), want: &str) {
        let (column, row) = at;
        let modifiers = KeyModifiers::NONE;
        let event = mouse.translate(MouseEvent { kind, column, row, modifiers }, hits);
        assert_eq!(format!("{event:?}"), want, "{kind:?}");
    }

    #[test]
    fn drag_of_a_divider_reports_the_distance_from_where_it_was_grabbed() {
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
