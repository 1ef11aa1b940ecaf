//! The Logs screen: the lines of every local process and of the screen itself.

mod matching;

use std::collections::VecDeque;

use model::timestamp::Timestamp;

use crate::{
    action::Action,
    local::{Fields, Level, LocalLog},
    state::field::Field,
};

pub use self::matching::Wanted;

/// Lines kept; the oldest gives way. About five megabytes.
pub const LINES_MAX: usize = 20_000;

/// Sources told apart; lines of more processes are kept, but cannot be chosen by their source.
const SOURCES_MAX: usize = 32;

/// What the screen's own lines are called.
pub const OWN_SOURCE: &str = "screen";

/// A line, and its number within the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Counted from 0 since the start.
    pub number: u64,
    /// What was written.
    pub log: LocalLog,
}

/// What the Logs screen shows.
#[derive(Debug)]
pub struct State {
    lines: VecDeque<Line>,
    n_lines: u64,
    /// The processes that wrote, in the order in which they first did.
    pub sources: Vec<String>,
    /// The least serious level shown.
    pub level: Level,
    /// The one source shown; none for all.
    pub source: Option<String>,
    /// What lines must hold.
    pub filter: Field,
    /// What lines were to hold before that was taken back: to go from one to the next.
    pub search: String,
    /// The last line in view; none to follow the newest.
    pub anchor: Option<u64>,
    /// Whether long lines are broken.
    pub is_wrapped: bool,
    /// Whether times are shown.
    pub has_times: bool,
    /// Whether all of the last line in view is shown below.
    pub is_open: bool,
}

impl Default for State {
    fn default() -> Self {
        Self {
            lines: VecDeque::new(),
            n_lines: 0,
            sources: Vec::new(),
            level: Level::Info,
            source: None,
            filter: Field::default(),
            search: String::new(),
            anchor: None,
            is_wrapped: false,
            has_times: true,
            is_open: false,
        }
    }
}

impl State {
    /// Takes in a line.
    pub fn push(&mut self, log: LocalLog) {
        if !self.sources.contains(&log.process) && self.sources.len() < SOURCES_MAX {
            self.sources.push(log.process.clone());
        }
        self.lines.push_back(Line { number: self.n_lines, log });
        self.n_lines += 1;
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
    }

    /// Takes in a line of the screen's own.
    pub fn say(&mut self, level: Level, time: Timestamp, message: String) {
        let process = OWN_SOURCE.to_owned();
        self.push(LocalLog { process, level, time, message, fields: Fields::default() });
    }

    /// How many lines are kept.
    pub fn n_kept(&self) -> usize {
        self.lines.len()
    }

    /// How many lines gave way.
    pub fn n_dropped(&self) -> u64 {
        self.n_lines - self.lines.len() as u64
    }

    /// The last `n` lines of the local processes, oldest first, whatever the filters say, and
    /// without those of reading: most of them come from this screen looking.
    pub fn tail(&self, n: usize) -> Vec<&Line> {
        let is_work =
            |line: &&Line| line.log.process != OWN_SOURCE && !line.log.message.starts_with("GET /");
        let mut tail: Vec<&Line> = self.lines.iter().rev().filter(is_work).take(n).collect();
        tail.reverse();
        tail
    }

    /// As [`Self::tail`], of one process alone.
    pub fn tail_of(&self, process: &str, n: usize) -> Vec<&Line> {
        let is_its = |line: &&Line| line.log.process == process;
        let mut tail: Vec<&Line> = self.lines.iter().rev().filter(is_its).take(n).collect();
        tail.reverse();
        tail
    }

    /// The lines that pass the filters, newest first, from the last one in view on.
    pub fn in_view(&self) -> impl Iterator<Item = &Line> {
        self.upwards(self.anchor)
    }

    fn upwards(&self, from: Option<u64>) -> impl Iterator<Item = &Line> {
        let is_past = move |line: &&Line| from.is_none_or(|from| line.number <= from);
        let wanted = Wanted::of(self.filter.value());
        self.lines.iter().rev().filter(is_past).filter(move |line| self.passes(line, &wanted))
    }

    /// What is looked for: what lines must hold, else what they had to before.
    pub fn searched(&self) -> Wanted {
        match self.filter.value() {
            "" => Wanted::of(&self.search),
            typed => Wanted::of(typed),
        }
    }

    /// Goes to the next line that fits what is looked for, down or up, around the end.
    fn find(&mut self, is_down: bool) {
        let (wanted, searched) = (self.wanted(), self.searched());
        if searched == Wanted::default() {
            return;
        }
        let Some(here) = self.in_view().next().map(|line| line.number) else { return };
        let fits = |line: &&Line| self.passes(line, &wanted) && searched.is_in(&line.log);
        let found = if is_down {
            let below = self.lines.iter().find(|line| line.number > here && fits(line));
            below.or_else(|| self.lines.iter().find(fits))
        } else {
            let above = self.lines.iter().rev().find(|line| line.number < here && fits(line));
            above.or_else(|| self.lines.iter().rev().find(fits))
        };
        self.anchor = found.map(|line| line.number).or(self.anchor);
    }

    /// What lines must hold.
    pub fn wanted(&self) -> Wanted {
        Wanted::of(self.filter.value())
    }

    fn passes(&self, line: &Line, wanted: &Wanted) -> bool {
        let log = &line.log;
        let is_source = self.source.as_ref().is_none_or(|source| *source == log.process);
        log.level >= self.level && is_source && wanted.is_in(log)
    }

    /// Takes an action, where a page has `page` lines.
    pub fn act(&mut self, action: Action, page: usize) {
        match action {
            Action::Up => self.move_up(1),
            Action::PageUp => self.move_up(page),
            Action::HalfPageUp => self.move_up(page / 2),
            Action::Down => self.move_down(1),
            Action::PageDown => self.move_down(page),
            Action::HalfPageDown => self.move_down(page / 2),
            Action::First => {
                let wanted = self.wanted();
                let first = self.lines.iter().filter(|line| self.passes(line, &wanted)).nth(page);
                self.anchor = first.map(|line| line.number);
            }
            Action::Last | Action::Follow => self.anchor = None,
            Action::Pause => {
                self.anchor = match self.anchor {
                    Some(_) => None,
                    None => self.lines.back().map(|line| line.number),
                }
            }
            Action::LowerLevel => self.level = step(self.level, -1),
            Action::HigherLevel => self.level = step(self.level, 1),
            Action::NextSource => self.source = self.next_source(),
            Action::NextMatch => self.find(true),
            Action::PreviousMatch => self.find(false),
            Action::Wrap => self.is_wrapped = !self.is_wrapped,
            Action::Times => self.has_times = !self.has_times,
            Action::Filter => self.filter.edit(),
            // What is read stays, so that lines that come do not change it.
            Action::Open => {
                self.is_open = !self.is_open;
                self.anchor = self.anchor.or_else(|| Some(self.in_view().next()?.number));
            }
            _ => {}
        }
    }

    /// Goes back one step; whether there was one.
    pub fn back(&mut self) -> bool {
        if std::mem::take(&mut self.is_open) {
            return true;
        }
        if !self.filter.value().is_empty() {
            self.search = self.filter.value().to_owned();
        }
        self.filter.leave()
            || self.source.take().is_some()
            || self.anchor.take().is_some()
            || !std::mem::take(&mut self.search).is_empty()
    }

    /// The last line in view, as text.
    pub fn selection(&self) -> Option<String> {
        let log = &self.in_view().next()?.log;
        let mut text = format!("{} {} {}", log.time, log.level.short(), log.process);
        text.extend([" ", log.message.as_str()]);
        for (name, value) in log.fields.pairs() {
            text.extend([" ", name, "=", value]);
        }
        Some(text)
    }

    fn move_up(&mut self, n: usize) {
        let above = self.upwards(self.anchor).nth(n.max(1));
        if let Some(number) = above.map(|line| line.number) {
            self.anchor = Some(number);
        }
    }

    fn move_down(&mut self, n: usize) {
        let Some(anchor) = self.anchor else { return };
        let wanted = self.wanted();
        let below = self.lines.iter();
        let below = below.filter(|line| line.number > anchor && self.passes(line, &wanted));
        let below = below.take(n.max(1)).last().map(|line| line.number);
        let newest = self.upwards(None).next().map(|line| line.number);
        self.anchor = below.filter(|_| below != newest);
    }

    fn next_source(&self) -> Option<String> {
        let Some(source) = &self.source else { return self.sources.first().cloned() };
        let idx = self.sources.iter().position(|other| other == source)?;
        self.sources.get(idx + 1).cloned()
    }
}

/// The level `by` steps more serious, held within the range.
fn step(level: Level, by: isize) -> Level {
    let idx = Level::ALL.iter().position(|other| *other == level).unwrap_or(0);
    let idx = idx.saturating_add_signed(by).min(Level::ALL.len() - 1);
    Level::ALL.get(idx).copied().unwrap_or(level)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let seen: Vec<_> = state.in_view().map(|line| line.log.message.as_str()).collect();
        assert_eq!(seen, want);
    }

    #[test]
    fn level_source_and_text_filter_together() {
        let mut state = logs(&[
            ("head", Level::Info, "roll call"),
            ("worker-1", Level::Warn, "Slow peer"),
            ("worker-1", Level::Debug, "ping"),
        ]);
        check(&state, &["Slow peer", "roll call"]);
        state.act(Action::LowerLevel, 10);
        check(&state, &["ping", "Slow peer", "roll call"]);
        state.filter.set("slow");
        check(&state, &["Slow peer"]);
        state.filter.set("12d3");
        state.source = Some("head".to_owned());
        check(&state, &["roll call"]);
    }

    #[test]
    fn what_was_searched_for_is_gone_through_among_all_lines() {
        let names = ["a match", "b", "c", "d match", "e"];
        let mut state = logs(&names.map(|name| ("head", Level::Info, name)));
        state.act(Action::NextMatch, 10);
        assert_eq!(state.anchor, None, "nothing was searched for");
        state.filter.set("match");
        check(&state, &["d match", "a match"]);
        assert!(state.back(), "the filter is taken back, and what it held is kept");
        check(&state, &["e", "d match", "c", "b", "a match"]);
        for (action, first) in [
            (Action::PreviousMatch, "d match"),
            (Action::PreviousMatch, "a match"),
            (Action::PreviousMatch, "d match"),
            (Action::NextMatch, "a match"),
            (Action::NextMatch, "d match"),
        ] {
            state.act(action, 10);
            assert_eq!(state.in_view().next().unwrap().log.message, first);
        }
        assert!(state.back() && state.back() && !state.back(), "the place, then the search");
    }

    #[test]
    fn an_opened_line_stays_while_others_come() {
        let mut state = logs(&[("head", Level::Info, "a"), ("head", Level::Info, "b")]);
        state.act(Action::Open, 10);
        state.say(Level::Info, Timestamp::default(), "c".to_owned());
        assert!(state.is_open);
        check(&state, &["b", "a"]);
        assert!(state.back() && !state.is_open);
        assert!(state.back(), "then the newest is followed again");
        check(&state, &["c", "b", "a"]);
    }

    #[test]
    fn a_new_line_does_not_move_what_is_read_until_followed_again() {
        let mut state = logs(&[("head", Level::Info, "a"), ("head", Level::Info, "b")]);
        state.act(Action::Up, 10);
        check(&state, &["a"]);
        state.say(Level::Info, Timestamp::default(), "c".to_owned());
        check(&state, &["a"]);
        state.act(Action::Down, 10);
        check(&state, &["b", "a"]);
        state.act(Action::Follow, 10);
        check(&state, &["c", "b", "a"]);
    }

    #[test]
    fn a_search_through_all_lines_finds_the_one() {
        let mut state = State::default();
        state.say(Level::Info, Timestamp::default(), "the needle".to_owned());
        for n in 1..LINES_MAX {
            state.say(Level::Info, Timestamp::default(), format!("hay {n}"));
        }
        state.filter.set("NEEDLE -straw");
        check(&state, &["the needle"]);
    }

    #[test]
    fn the_oldest_lines_give_way_and_are_counted() {
        let mut state = State::default();
        for _ in 0..LINES_MAX + 5 {
            state.say(Level::Info, Timestamp::default(), String::new());
        }
        assert_eq!((state.n_kept(), state.n_dropped()), (LINES_MAX, 5));
    }
}
