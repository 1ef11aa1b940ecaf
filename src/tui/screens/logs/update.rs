//! Keys on the Logs screen: move, filter, search, choose a level or a source.

use super::state::{Edge, Line, State, matches};
use crate::{
    action::Action,
    state::navigation::{Steps as _, rows_down},
};

impl State {
    /// Handles an action, where a page has `page` lines.
    pub(crate) fn act(&mut self, action: Action, page: usize) {
        self.edge = None;
        match action {
            Action::First => {
                let wanted = self.query();
                let first = self.lines.iter().find(|line| self.passes(line, &wanted));
                if let Some(number) = first.map(|line| line.number) {
                    self.select(number);
                }
            }
            Action::Last | Action::Follow => self.selected = None,
            Action::Pause => match self.selected.take() {
                Some(_) => {}
                None => self.hold(),
            },
            Action::LowerLevel => self.level = self.level.shifted(-1),
            Action::HigherLevel => self.level = self.level.shifted(1),
            Action::NextSource => self.source = self.next_source(),
            Action::NextMatch => self.find(true),
            Action::PreviousMatch => self.find(false),
            Action::Wrap => self.is_wrapped = !self.is_wrapped,
            Action::Times => self.hides_times = !self.hides_times,
            Action::Filter => {
                self.searched_from = self.selected;
                self.filter.edit();
            }
            Action::OnlyMatches => self.is_filtered = !self.is_filtered,
            // What is read stays, so that lines that come do not change it.
            Action::Open => {
                self.is_open = !self.is_open;
                self.hold();
            }
            _ => match rows_down(action, page) {
                Some(by) if by < 0 => self.move_up(by.unsigned_abs()),
                Some(by) => self.move_down(by.unsigned_abs()),
                None => {}
            },
        }
    }

    /// Goes back one step; returns whether there was one.
    pub(crate) fn back(&mut self) -> bool {
        if std::mem::take(&mut self.is_open) {
            return true;
        }
        if !self.filter.value().is_empty() {
            self.search = self.filter.value().to_owned();
        }
        self.filter.clear()
            || self.source.take().is_some()
            || self.selected.take().is_some()
            || !std::mem::take(&mut self.search).is_empty()
    }

    /// The text that is searched for was edited: selects the nearest match at or above the line from
    /// which the search began, else below it.
    pub(crate) fn edited(&mut self) {
        self.selected = self.searched_from;
        let n_above = self.place().map_or(self.lines.len(), |idx| idx + 1);
        let (wanted, searched) = (self.query(), self.search_query());
        if searched.is_empty() {
            return;
        }
        let fits = |line: &&Line| self.passes(line, &wanted) && matches(&line.log, &searched);
        let above = self.lines.range(..n_above).rev().find(fits);
        let found = above.or_else(|| self.lines.range(n_above..).find(fits));
        if let Some(number) = found.map(|line| line.number) {
            self.select(number);
        }
    }

    /// Selects the next match below or above the selected line, or notes that there is none.
    pub(crate) fn find(&mut self, is_down: bool) {
        let (wanted, searched) = (self.query(), self.search_query());
        if searched.is_empty() {
            return;
        }
        let fits = |line: &&Line| self.passes(line, &wanted) && matches(&line.log, &searched);
        let here = self.place();
        let found = if is_down {
            let below = here.map_or(self.lines.len(), |here| here + 1);
            self.lines.range(below..).find(fits)
        } else {
            self.lines.range(..here.unwrap_or(self.lines.len())).rev().find(fits)
        };
        match found.map(|line| line.number) {
            Some(number) => self.select(number),
            None => self.edge = Some(if is_down { Edge::Below } else { Edge::Above }),
        }
    }

    /// Selects the newest line, unless one is selected.
    fn hold(&mut self) {
        if let (None, Some(number)) = (self.selected, self.line().map(|line| line.number)) {
            self.select(number);
        }
    }

    fn move_up(&mut self, n: usize) {
        let (above, _) = self.around(n.saturating_add(1));
        if let Some(number) = above.last().map(|line| line.number) {
            self.select(number);
        }
    }

    fn move_down(&mut self, n: usize) {
        if self.selected.is_none() {
            return;
        }
        if self.around(n).1.len() < n {
            self.held_from = self.n_lines;
        }
        self.selected = self.around(n).1.last().map(|line| line.number).or(self.selected);
        // At the end of all lines, the newest is followed again.
        let wanted = self.query();
        let newest = self.lines.iter().rev().find(|line| self.passes(line, &wanted));
        self.selected = self.selected.filter(|it| Some(*it) != newest.map(|line| line.number));
    }

    fn next_source(&self) -> Option<String> {
        let Some(source) = &self.source else { return self.sources.first().cloned() };
        let idx = self.sources.iter().position(|other| other == source)?;
        self.sources.get(idx + 1).cloned()
    }

    pub(crate) fn select(&mut self, number: u64) {
        if self.selected.is_none() || number >= self.held_from {
            self.held_from = self.n_lines;
        }
        self.selected = Some(number);
    }
}
