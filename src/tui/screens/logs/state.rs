//! The state of the Logs screen: the log lines of all local processes and of the screen itself.

use std::collections::VecDeque;

use model::timestamp::Timestamp;

use crate::keymap::Action;
use crate::local::{Fields, Level, LocalLog};
use crate::state::field::Field;
use crate::state::navigation::{Steps as _, rows_down};
use crate::state::pattern::Pattern;

/// Maximum number of lines, which take about five megabytes. The oldest line is evicted.
const LINES_MAX: usize = 20_000;

/// Source of the lines that the screen itself logs.
pub(crate) const OWN_SOURCE: &str = "screen";

/// A log line and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Number of lines that were added before this line.
    pub(crate) number: u64,
    pub(crate) log: LocalLog,
}

/// The lines that a pane shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Window<'a> {
    /// Lines, oldest first.
    pub(crate) lines: Vec<&'a Line>,
    /// Index of the selected line. `None` while the view follows the latest line.
    pub(crate) selected: Option<usize>,
}

/// End of the lines at which a search stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The oldest line was reached.
    Above,
    /// The latest line was reached.
    Below,
}

/// The state of the Logs screen.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub(crate) struct State {
    /// Lines sorted by time. Lines with the same time are in the order of their arrival.
    pub(crate) lines: VecDeque<Line>,
    pub(crate) n_lines: u64,
    /// Number of the first line that is held back. Lines that arrive while a line is selected are
    /// held back, so that visible lines do not move.
    pub(crate) held_from: u64,
    /// Names of processes with lines, in the order of their first lines.
    pub(crate) sources: Vec<String>,
    /// Lowest visible level.
    pub(crate) level: Level,
    /// Source of the visible lines. `None` to show all sources.
    pub(crate) source: Option<String>,
    /// Text by which the lines are filtered.
    pub(crate) filter: Field,
    /// Last text that was searched for. Its matches can still be selected after the search is
    /// closed.
    pub(crate) search: String,
    /// True if lines without a match are hidden.
    pub(crate) is_filtered: bool,
    /// Number of the line that was selected when the search began. `None` if the view followed the
    /// latest line.
    pub(crate) searched_from: Option<u64>,
    /// End that the last search reached without a match.
    pub(crate) edge: Option<Edge>,
    /// Number of the selected line. `None` while the view follows the latest line.
    pub(crate) selected: Option<u64>,
    /// True if long lines are wrapped.
    pub(crate) is_wrapped: bool,
    /// True if times are hidden.
    pub(crate) hides_times: bool,
    /// True if the selected line is shown with all fields below the list.
    pub(crate) is_open: bool,
}

impl State {
    /// Adds a log line.
    pub(crate) fn push(&mut self, log: LocalLog) {
        // Only the first 32 processes can be selected as a source. Lines of further processes are
        // stored, too.
        if !self.sources.contains(&log.process) && self.sources.len() < 32 {
            self.sources.push(log.process.clone());
        }
        // Processes deliver their lines with different delays, so lines do not arrive in order.
        let idx = self.lines.partition_point(|line| line.log.time <= log.time);
        self.lines.insert(idx, Line { number: self.n_lines, log });
        self.n_lines += 1;
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
    }

    /// Adds a line of the screen itself.
    pub(crate) fn log(&mut self, level: Level, time: Timestamp, message: String) {
        let process = OWN_SOURCE.to_owned();
        self.push(LocalLog { process, level, time, message, fields: Fields::default() });
    }

    /// Returns the number of evicted lines.
    pub(crate) fn n_dropped(&self) -> u64 {
        self.n_lines - self.lines.len() as u64
    }

    /// Returns the last `n` lines, oldest first, regardless of filters. If `only` names a process,
    /// returns only its lines. Otherwise, returns lines of all local processes without GET
    /// requests, most of which this screen has sent.
    pub(crate) fn tail(&self, n: usize, only: Option<&str>) -> Vec<&Line> {
        let is_wanted = |line: &&Line| match only {
            Some(process) => line.log.process == process,
            None => line.log.process != OWN_SOURCE && !line.log.message.starts_with("GET /"),
        };
        let mut tail: Vec<&Line> = self.lines.iter().rev().filter(is_wanted).take(n).collect();
        tail.reverse();
        tail
    }

    /// Returns the lines for a pane of `height` rows. All returned lines match the filters, and the
    /// selected line is in the middle if there are enough lines.
    pub(crate) fn window(&self, height: usize) -> Window<'_> {
        let (above, below) = self.around(height);
        let n_below = below.len().min((height / 2).max(height.saturating_sub(above.len())));
        let n_above = above.len().min(height - n_below);
        let lines = above.into_iter().take(n_above).rev().chain(below.into_iter().take(n_below));
        let selected = self.selected.map(|_| n_above.saturating_sub(1));
        Window { lines: lines.collect(), selected }
    }

    /// Returns the lines that match the filters and are not held back, oldest first.
    pub(crate) fn visible_lines(&self) -> impl Iterator<Item = &Line> {
        let wanted = self.query();
        self.lines.iter().filter(move |line| self.is_shown(line, &wanted))
    }

    fn is_shown(&self, line: &Line, wanted: &Pattern) -> bool {
        let is_held = self.selected.is_some() && line.number >= self.held_from;
        !is_held && self.passes(line, wanted)
    }

    /// Returns the selected line. If none is selected, returns the latest line.
    pub(crate) fn line(&self) -> Option<&Line> {
        self.window(1).lines.first().copied()
    }

    /// Returns the number of lines that are held back, whether or not they match the filters.
    pub(crate) fn n_held(&self) -> u64 {
        self.selected.map_or(0, |_| self.n_lines - self.held_from)
    }

    /// Returns at most `n` lines from the selected line upwards, and at most `n` lines from the
    /// line below it downwards.
    pub(crate) fn around(&self, n: usize) -> (Vec<&Line>, Vec<&Line>) {
        let wanted = self.query();
        let is_shown = |line: &&Line| self.is_shown(line, &wanted);
        let at = self.place().map_or(self.lines.len(), |idx| idx + 1);
        let above: Vec<_> = self.lines.range(..at).rev().filter(is_shown).take(n).collect();
        let mut below = self.lines.range(at..).filter(is_shown);
        // If the filters hide the selected line and all lines above it, the next line is shown in
        // its place.
        let above = if above.is_empty() { below.next().into_iter().collect() } else { above };
        (above, below.take(n).collect())
    }

    /// Returns the index of the selected line. If the line was evicted, returns the index of the
    /// oldest line. Returns `None` if none is selected.
    pub(crate) fn place(&self) -> Option<usize> {
        let selected = self.selected?;
        Some(self.lines.iter().rposition(|line| line.number == selected).unwrap_or(0))
    }

    /// Returns the pattern of the current search, or of the last search if there is no text in the
    /// search field.
    pub(crate) fn search_query(&self) -> Pattern {
        match self.filter.value() {
            "" => Pattern::parse(&self.search),
            typed => Pattern::parse(typed),
        }
    }

    /// Returns the pattern that visible lines match.
    pub(crate) fn query(&self) -> Pattern {
        if self.is_filtered { Pattern::parse(self.filter.value()) } else { Pattern::default() }
    }

    pub(crate) fn passes(&self, line: &Line, wanted: &Pattern) -> bool {
        let log = &line.log;
        let is_source = self.source.as_ref().is_none_or(|source| *source == log.process);
        log.level >= self.level && is_source && matches(log, wanted)
    }

    /// Returns the text of the selected line. If none is selected, the text of the latest line.
    pub(crate) fn selection(&self) -> Option<String> {
        let log = &self.line()?.log;
        let mut text = format!("{} {} {}", log.time, log.level.short(), log.process);
        text.extend([" ", log.message.as_str()]);
        for (name, value) in log.fields.pairs() {
            text.extend([" ", name, "=", value]);
        }
        Some(text)
    }

    /// Performs an action. `page` is the number of lines by which a page key moves.
    pub(crate) fn act(&mut self, action: Action, page: usize) {
        self.edge = None;
        match action {
            Action::First => {
                let wanted = self.query();
                let first = self.lines.iter().find(|line| self.passes(line, &wanted));
                self.select(first.map(|line| line.number));
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
            // Selects the line. Otherwise, a new line would take its place.
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

    /// Undoes one step: closes the fields of a line, ends a search or a filter, or returns to the
    /// latest line. Returns false if there was nothing to undo.
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

    /// Handles a change of the search text. Selects the nearest match at or above the line at
    /// which the search began. Without one, selects the nearest match below.
    pub(crate) fn edited(&mut self) {
        self.selected = self.searched_from;
        let n_above = self.place().map_or(self.lines.len(), |idx| idx + 1);
        let above = self.lines.range(..n_above).rev();
        self.select(self.first_hit(above.chain(self.lines.range(n_above..))));
    }

    /// Returns the number of the first of `lines` that matches both the filters and the search.
    fn first_hit<'a>(&self, mut lines: impl Iterator<Item = &'a Line>) -> Option<u64> {
        let (wanted, searched) = (self.query(), self.search_query());
        let is_hit = |line: &&Line| self.passes(line, &wanted) && matches(&line.log, &searched);
        lines.find(|line| !searched.is_empty() && is_hit(line)).map(|line| line.number)
    }

    /// Selects the next match below or above the selected line. If there is no match, records the
    /// end that was reached.
    fn find(&mut self, is_down: bool) {
        let here = self.place();
        let found = if is_down {
            let below = here.map_or(self.lines.len(), |here| here + 1);
            self.first_hit(self.lines.range(below..))
        } else {
            self.first_hit(self.lines.range(..here.unwrap_or(self.lines.len())).rev())
        };
        if found.is_none() && !self.search_query().is_empty() {
            self.edge = Some(if is_down { Edge::Below } else { Edge::Above });
        }
        self.select(found);
    }

    /// Selects the latest line if none is selected, so that the view no longer follows new lines.
    fn hold(&mut self) {
        if self.selected.is_none() {
            self.select(self.line().map(|line| line.number));
        }
    }

    fn move_up(&mut self, n: usize) {
        let (above, _) = self.around(n.saturating_add(1));
        self.select(above.last().map(|line| line.number));
    }

    fn move_down(&mut self, n: usize) {
        if self.selected.is_none() {
            return;
        }
        if self.around(n).1.len() < n {
            self.held_from = self.n_lines;
        }
        self.selected = self.around(n).1.last().map(|line| line.number).or(self.selected);
        // If the last of all lines is reached, the view follows the latest line again.
        let wanted = self.query();
        let newest = self.lines.iter().rev().find(|line| self.passes(line, &wanted));
        self.selected = self.selected.filter(|it| Some(*it) != newest.map(|line| line.number));
    }

    fn next_source(&self) -> Option<String> {
        let Some(source) = &self.source else { return self.sources.first().cloned() };
        let idx = self.sources.iter().position(|other| other == source)?;
        self.sources.get(idx + 1).cloned()
    }

    /// Selects the line with the number `line`. Does nothing for `None`.
    fn select(&mut self, line: Option<u64>) {
        let Some(number) = line else { return };
        if self.selected.is_none() || number >= self.held_from {
            self.held_from = self.n_lines;
        }
        self.selected = Some(number);
    }
}

/// Returns true if the message, the name of the process or a field of `log` matches `wanted`.
pub(crate) fn matches(log: &LocalLog, wanted: &Pattern) -> bool {
    let texts = [log.message.as_str(), log.process.as_str()];
    wanted.is_empty() || wanted.matches(&texts, &log.fields.pairs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keymap::Action;

    fn logs(messages: &[(&str, Level, &str)]) -> State {
        let mut state = State::default();
        for (process, level, message) in messages {
            state.push(LocalLog {
                process: (*process).to_owned(),
                level: *level,
                time: Timestamp::default(),
                message: (*message).to_owned(),
                fields: Fields::from_iter([("peer", "12D3")]),
            });
        }
        state
    }

    #[track_caller]
    fn check(state: &State, want: &[&str]) {
        let seen = state.window(10).lines;
        let seen: Vec<_> = seen.iter().rev().map(|line| line.log.message.as_str()).collect();
        assert_eq!(seen, want);
    }

    #[track_caller]
    fn check_selected(state: &State, want: &str) {
        assert_eq!(state.line().map(|line| line.log.message.as_str()), Some(want));
    }

    #[test]
    fn log_lines_are_filtered_by_level_source_and_text_together() {
        let mut state = logs(&[
            ("head", Level::Info, "roll call"),
            ("worker-1", Level::Warn, "Slow peer"),
            ("worker-1", Level::Debug, "ping"),
        ]);
        check(&state, &["Slow peer", "roll call"]);
        state.act(Action::LowerLevel, 10);
        check(&state, &["ping", "Slow peer", "roll call"]);
        state.filter.set("slow");
        check(&state, &["ping", "Slow peer", "roll call"]);
        state.act(Action::OnlyMatches, 10);
        check(&state, &["Slow peer"]);
        state.filter.set("!sl.w");
        check(&state, &["ping", "roll call"]);
        state.filter.set("12d3");
        state.source = Some("head".to_owned());
        check(&state, &["roll call"]);
    }

    #[test]
    fn log_search_jumps_between_matches_in_all_lines() {
        let names = ["a match", "b", "c", "d match", "e"];
        let mut state = logs(&names.map(|name| ("head", Level::Info, name)));
        state.act(Action::NextMatch, 10);
        assert_eq!(state.selected, None, "there was no search");
        state.filter.set("match");
        assert!(state.back(), "the cleared text is searched for again");
        for (action, first, edge) in [
            (Action::NextMatch, "e", Some(Edge::Below)),
            (Action::PreviousMatch, "d match", None),
            (Action::PreviousMatch, "a match", None),
            (Action::PreviousMatch, "a match", Some(Edge::Above)),
            (Action::NextMatch, "d match", None),
            (Action::NextMatch, "d match", Some(Edge::Below)),
        ] {
            state.act(action, 10);
            check_selected(&state, first);
            assert_eq!(state.edge, edge, "{action:?}");
            check(&state, &["e", "d match", "c", "b", "a match"]);
        }
        assert!(
            state.back() && state.back() && !state.back(),
            "first the position is reset, then the search"
        );
    }

    #[test]
    fn log_search_begins_at_the_selected_line_after_each_edit() {
        let names = ["hit one", "b", "hit two", "d", "hit three", "f"];
        let mut state = logs(&names.map(|name| ("head", Level::Info, name)));
        let search = |state: &mut State, text: &str| {
            state.act(Action::Filter, 10);
            state.filter.set(text);
            state.edited();
        };
        search(&mut state, "hit");
        check_selected(&state, "hit three");
        search(&mut state, "hit two");
        check_selected(&state, "hit two");
        search(&mut state, "one|three");
        check_selected(&state, "hit one");
        search(&mut state, "^f$");
        check_selected(&state, "f");
        search(&mut state, "nowhere");
        check_selected(&state, "f");
    }

    #[test]
    fn opened_log_line_stays_open_while_other_lines_arrive() {
        let mut state = logs(&[("head", Level::Info, "a"), ("head", Level::Info, "b")]);
        state.act(Action::Open, 10);
        state.log(Level::Info, Timestamp::default(), "c".to_owned());
        assert!(state.is_open);
        check(&state, &["b", "a"]);
        assert!(state.back() && !state.is_open);
        assert!(state.back(), "then the latest line is followed again");
        check(&state, &["c", "b", "a"]);
    }

    #[test]
    fn new_log_lines_do_not_move_the_view_unless_it_follows_them() {
        let mut state = logs(&[("head", Level::Info, "a"), ("head", Level::Info, "b")]);
        state.act(Action::Up, 10);
        check_selected(&state, "a");
        check(&state, &["b", "a"]);
        state.log(Level::Info, Timestamp::default(), "c".to_owned());
        check(&state, &["b", "a"]);
        assert_eq!(state.n_held(), 1);
        state.act(Action::Down, 10);
        check_selected(&state, "b");
        check(&state, &["b", "a"]);
        state.act(Action::Follow, 10);
        check(&state, &["c", "b", "a"]);
    }

    #[test]
    fn selected_log_line_is_in_the_middle_of_the_view() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut state = logs(&names.map(|name| ("head", Level::Info, name)));
        let seen = |state: &State| {
            let window = state.window(3);
            let text: String = window.lines.iter().map(|line| line.log.message.as_str()).collect();
            (text, window.selected)
        };
        assert_eq!(seen(&state), ("efg".to_owned(), None));
        state.act(Action::First, 3);
        assert_eq!(seen(&state), ("abc".to_owned(), Some(0)));
        state.act(Action::Down, 3);
        assert_eq!(seen(&state), ("abc".to_owned(), Some(1)));
        state.act(Action::Down, 3);
        assert_eq!(seen(&state), ("bcd".to_owned(), Some(1)));
        state.act(Action::Last, 3);
        state.act(Action::Up, 3);
        assert_eq!(seen(&state), ("efg".to_owned(), Some(1)));
        for _ in names {
            state.act(Action::Up, 3);
        }
        assert_eq!(seen(&state), ("abc".to_owned(), Some(0)));
        state.act(Action::PageDown, 10);
        assert_eq!(seen(&state), ("efg".to_owned(), None), "followed again");
    }

    #[test]
    fn late_log_lines_are_sorted_by_time() {
        let mut state = State::default();
        for (second, message) in [(1, "a"), (3, "c"), (2, "b"), (3, "d"), (0, "0")] {
            state.log(Level::Info, Timestamp::from_seconds(second), message.to_owned());
        }
        check(&state, &["d", "c", "b", "a", "0"]);
    }

    #[test]
    fn filter_finds_a_single_line_in_a_full_log() {
        let mut state = State::default();
        state.log(Level::Info, Timestamp::default(), "the needle".to_owned());
        for n in 1..LINES_MAX {
            state.log(Level::Info, Timestamp::default(), format!("hay {n}"));
        }
        state.filter.set("NEEDLE -straw");
        state.is_filtered = true;
        check(&state, &["the needle"]);
    }

    #[test]
    fn oldest_lines_are_evicted_and_counted() {
        let mut state = State::default();
        for _ in 0..LINES_MAX + 5 {
            state.log(Level::Info, Timestamp::default(), String::new());
        }
        assert_eq!((state.lines.len(), state.n_dropped()), (LINES_MAX, 5));
    }
}
