//! What a frame shows that can be clicked, and where.

use ratatui::layout::{Position, Rect};

use crate::{
    event::{Event, Target},
    keymap::Chord,
};

/// Letters of labels, those under the fingers first.
const LETTERS: &[u8] = b"asdfghjklqwertyuiopzxcvbnm";

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

    /// Everything that can be clicked, from the top left on, with a label of a letter each, or of
    /// two where there is more than letters.
    pub(crate) fn labels(&self) -> Vec<(String, Rect, Target)> {
        let mut places: Vec<(Rect, Target)> = Vec::new();
        for (place, target) in &self.places {
            if !places.iter().any(|(_, known)| known == target) {
                places.push((*place, *target));
            }
        }
        // A pane of rows is where its rows are: its corner is the pane's own.
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

    /// What a press is while labels are shown after `typed`: a click on what the label names, else
    /// the press itself.
    pub(crate) fn jump_target(&self, typed: &str, chord: Chord) -> Event {
        let label = chord.letter().map(|letter| format!("{typed}{letter}"));
        let named = label.and_then(|label| self.labels().into_iter().find(|(it, ..)| *it == label));
        named.map_or(Event::Key(chord), |(_, _, target)| Event::Click(target))
    }

    /// What is at this cell, the topmost.
    pub(crate) fn target_at(&self, column: u16, row: u16) -> Option<Target> {
        let position = Position::new(column, row);
        self.places.iter().rev().find(|(area, _)| area.contains(position)).map(|(_, it)| *it)
    }
}
