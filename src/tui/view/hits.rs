//! What a frame shows that can be pointed at, and where.

use ratatui::layout::{Position, Rect};

use crate::event::Target;

/// Places kept; a frame of 200 by 60 has about as many rows and panes.
const PLACES_MAX: usize = 512;

/// Where each thing is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits {
    places: Vec<(Rect, Target)>,
}

impl Hits {
    /// `target` is at `area`, on top of what was there before.
    pub(crate) fn add(&mut self, area: Rect, target: Target) {
        if self.places.len() < PLACES_MAX {
            self.places.push((area, target));
        }
    }

    /// Nothing is anywhere.
    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }

    /// What is at this cell, the topmost.
    pub(crate) fn at(&self, column: u16, row: u16) -> Option<Target> {
        let position = Position::new(column, row);
        self.places.iter().rev().find(|(area, _)| area.contains(position)).map(|(_, it)| *it)
    }
}
