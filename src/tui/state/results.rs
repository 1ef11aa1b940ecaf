//! The view of a run's results: the selected group, its output, and the comparison of two groups.

use std::borrow::Cow;
use std::iter;

use serde_json::Value;
use strum::{IntoStaticStr, VariantArray};
use wire::functions::{ExecuteResponse, ResultGroupBody};

use crate::keymap::Action;
use crate::state::navigation::{Steps as _, rows_down};
use crate::state::pattern::Pattern;
use crate::state::runs::{Run, RunId, Runs};

/// An output of a result group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum Output {
    #[default]
    Stdout,
    Stderr,
    /// The complete response of the head.
    #[strum(serialize = "raw JSON")]
    Json,
}

/// The part of a run's results that is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ResultView {
    pub(crate) group_idx: usize,
    /// Output that the user chose. `None` for standard output, or for standard error if only that
    /// has a text.
    pub(crate) output: Option<Output>,
    /// Scroll position of the text.
    pub(crate) position: Position,
    /// Number of columns that are scrolled out on the left.
    pub(crate) n_hidden: usize,
    /// True if long lines are wrapped, false if they are cut.
    pub(crate) is_wrapped: bool,
    /// True if JSON is shown as received, false if it is formatted.
    pub(crate) is_raw: bool,
    /// Index of the line with the current match of the search.
    pub(crate) found: Option<usize>,
    /// True if two groups are compared.
    pub(crate) is_diff: bool,
    /// Index of the group with which other groups are compared.
    pub(crate) marked: Option<usize>,
}

/// The run that a screen shows, and the visible part of its results.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunView {
    /// Selected run. If the run no longer exists, the latest run is shown.
    pub(crate) run: Option<RunId>,
    pub(crate) look: ResultView,
}

impl RunView {
    pub(crate) fn selected(self, runs: &Runs) -> Option<&Run> {
        self.run.and_then(|id| runs.get(id)).or_else(|| runs.newest())
    }

    /// Returns the index of the selected run, counted from the latest run.
    pub(crate) fn idx(self, runs: &Runs) -> usize {
        let selected = self.selected(runs).map(|run| run.id);
        runs.iter().position(|run| Some(run.id) == selected).unwrap_or(0)
    }

    /// Shows the run `id`. The kind of output and its format remain.
    pub(crate) fn show(&mut self, id: RunId) {
        let ResultView { output, is_wrapped, is_raw, .. } = self.look;
        let look = ResultView { output, is_wrapped, is_raw, ..ResultView::default() };
        *self = Self { run: Some(id), look };
    }

    /// Performs an action on the results. `page` is the number of lines by which a page key moves.
    pub(crate) fn take(&mut self, action: Action, runs: &Runs, page: usize) {
        let response = self.selected(runs).and_then(Run::response);
        self.look.take(action, response, page);
    }

    /// Returns the text of the visible output.
    pub(crate) fn text(self, runs: &Runs) -> Option<String> {
        Some(self.look.text(self.selected(runs)?.response()?).into_owned())
    }
}

impl Output {
    /// Returns a file name for the output, without extension.
    pub(crate) const fn file_name(self) -> &'static str {
        match self {
            Self::Json => "response",
            _ => self.into_str(),
        }
    }
}

impl ResultView {
    /// Performs an action on the results in `response`. `page` is the number of lines by which a
    /// page key moves.
    pub(crate) fn take(&mut self, action: Action, response: Option<&ExecuteResponse>, page: usize) {
        if action == Action::NextOutput {
            let shown = response.map_or(Output::default(), |response| self.output(response));
            return self.show(shown.cycled(1));
        }
        let n_lines = response.map_or(0, |response| self.n_lines(response));
        self.act(action, response.map_or(0, |response| response.results.len()), n_lines, page);
    }

    /// Returns the number of lines of the visible output or comparison.
    fn n_lines(self, response: &ExecuteResponse) -> usize {
        let n_groups = response.results.len();
        let (first, second) = self.compared(n_groups);
        match (response.results.get(first), response.results.get(second)) {
            (Some(one), Some(other)) if self.is_diff && n_groups > 1 => {
                diff(&one.result.stdout, &other.result.stdout).changes.len()
            }
            _ => self.shown_text(response).0.lines().count(),
        }
    }

    /// Shows the start of an output.
    pub(crate) const fn show(&mut self, output: Output) {
        self.output = Some(output);
        self.show_start();
    }

    const fn show_start(&mut self) {
        self.position = Position::FromTop(0);
        self.n_hidden = 0;
        self.found = None;
    }

    /// Performs an action on results with `n_groups` groups, while a text of `n_lines` lines is
    /// visible. `page` is the number of lines by which a page key moves.
    fn act(&mut self, action: Action, n_groups: usize, n_lines: usize, page: usize) {
        let last = n_groups.saturating_sub(1);
        match action {
            Action::Mark => {
                let here = self.group_idx.min(last);
                self.marked = (n_groups > 1 && self.marked != Some(here)).then_some(here);
            }
            Action::Diff => {
                self.is_diff = !self.is_diff && n_groups > 1;
                self.show_start();
            }
            // If there is a single group, these keys scroll the text.
            Action::Down if n_groups > 1 => self.select((self.group_idx + 1).min(last)),
            Action::Up if n_groups > 1 => self.select(self.group_idx.saturating_sub(1)),
            Action::First => self.show_start(),
            Action::Last => self.position = Position::FromEnd(0),
            _ => {
                let Some(by) = rows_down(action, page) else { return };
                self.position = self.position.moved(by, n_lines, page.max(1));
            }
        }
    }

    /// Selects a group and shows the start of its output.
    pub(crate) const fn select(&mut self, group_idx: usize) {
        if self.group_idx != group_idx {
            self.show_start();
        }
        self.group_idx = group_idx;
    }

    /// Returns the selected group in `response`.
    pub(crate) fn group(self, response: &ExecuteResponse) -> Option<&ResultGroupBody> {
        response.results.get(self.group_idx.min(response.results.len().saturating_sub(1)))
    }

    /// Returns the indices of the groups that are compared: the marked and the selected group. If no
    /// other group is marked, the selected group and the next group.
    pub(crate) fn compared(self, n_groups: usize) -> (usize, usize) {
        let last = n_groups.saturating_sub(1);
        let selected = self.group_idx.min(last);
        match self.marked.filter(|marked| *marked <= last && *marked != selected) {
            Some(marked) => (marked, selected),
            None => (selected, if selected < last { selected + 1 } else { 0 }),
        }
    }

    /// Returns the visible output: the output that the user chose, otherwise standard output, or
    /// standard error if only standard error has a text.
    pub(crate) fn output(self, response: &ExecuteResponse) -> Output {
        let result = self.group(response).map(|group| &group.result);
        let says = |text: &str| !text.trim().is_empty();
        let is_stderr = result.is_some_and(|it| !says(&it.stdout) && says(&it.stderr));
        self.output.unwrap_or(if is_stderr { Output::Stderr } else { Output::Stdout })
    }

    /// Returns the text of the visible output. Standard output and standard error are as received.
    pub(crate) fn text(self, response: &ExecuteResponse) -> Cow<'_, str> {
        match (self.output(response), self.group(response)) {
            (Output::Json, _) => serde_json::to_string_pretty(response).unwrap_or_default().into(),
            (Output::Stdout, Some(group)) => (&*group.result.stdout).into(),
            (Output::Stderr, Some(group)) => (&*group.result.stderr).into(),
            (_, None) => Cow::default(),
        }
    }

    /// Returns the text of the visible output as shown, and true if it is formatted JSON.
    pub(crate) fn shown_text(self, response: &ExecuteResponse) -> (Cow<'_, str>, bool) {
        let text = self.text(response);
        if self.output(response) == Output::Json {
            return (text, true);
        }
        match if self.is_raw { None } else { pretty(&text) } {
            Some(pretty) => (pretty.into(), true),
            None => (text, false),
        }
    }
}

/// Maximum number of lines of each text that are compared. The cost grows with the product of both
/// numbers.
pub(crate) const DIFF_LINES_MAX: usize = 400;

/// A comparison of two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Comparison<'a> {
    /// Removed, added and common lines, in the order of the texts.
    pub(crate) changes: Vec<similar::Change<&'a str>>,
    /// Numbers of lines at the end of the first and of the second text that were not compared.
    pub(crate) n_left_out: (usize, usize),
}

/// Compares the first [`DIFF_LINES_MAX`] lines of two texts.
pub(crate) fn diff<'a>(before: &'a str, after: &'a str) -> Comparison<'a> {
    let n_left_out = |text: &str| text.lines().count().saturating_sub(DIFF_LINES_MAX);
    let n_left_out = (n_left_out(before), n_left_out(after));
    let old: Vec<&str> = before.lines().take(DIFF_LINES_MAX).collect();
    let new: Vec<&str> = after.lines().take(DIFF_LINES_MAX).collect();
    let steps = similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new);
    let changes = steps.iter().flat_map(|step| step.iter_changes(&old, &new)).collect();
    Comparison { changes, n_left_out }
}

/// Scroll position of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Index of the first visible line.
    FromTop(usize),
    /// Number of lines below the last visible line. 0 shows the end.
    FromEnd(usize),
}

impl Default for Position {
    fn default() -> Self {
        Self::FromTop(0)
    }
}

impl Position {
    /// Returns the index of the first visible line of a text with `n_lines` lines, of which
    /// `n_fit` fit. The space is filled if there are enough lines.
    pub(crate) fn first(self, n_lines: usize, n_fit: usize) -> usize {
        let last = n_lines.saturating_sub(n_fit.max(1));
        match self {
            Self::FromTop(line) => line.min(last),
            Self::FromEnd(n_below) => last.saturating_sub(n_below),
        }
    }

    /// Returns the position `by` lines further down in a text with `n_lines` lines, of which about
    /// `page` are visible.
    pub(crate) fn moved(self, by: isize, n_lines: usize, page: usize) -> Self {
        match self {
            Self::FromTop(line) => {
                // A position near the end shows the last page. Moving up starts from the top of
                // that page.
                let line = if by < 0 { line.min(n_lines.saturating_sub(page)) } else { line };
                Self::FromTop(line.saturating_add_signed(by).min(n_lines.saturating_sub(1)))
            }
            Self::FromEnd(n_below) => {
                Self::FromEnd(n_below.saturating_add_signed(by.saturating_neg()).min(n_lines))
            }
        }
    }
}

/// Returns the number of hidden columns after scrolling `by` steps of 8 columns to the right.
pub(crate) fn shifted(n_hidden: usize, by: isize) -> usize {
    n_hidden.saturating_add_signed(by.saturating_mul(8)).min(1_000_000)
}

/// Returns `text` as formatted JSON, or `None` if it is no JSON object or array.
pub(crate) fn pretty(text: &str) -> Option<String> {
    let text = text.trim();
    // Formatting a longer text takes too long for a frame.
    if text.len() > (256 * 1024) || !text.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    serde_json::to_string_pretty(&value).ok()
}

/// Returns the index of the next line after line `from` that matches `wanted`. If `is_forward` is
/// false, returns the previous one before `from`. The search wraps around. If `from` is `None`, the
/// search begins at the start of `text`, or at its end if `is_forward` is false.
pub(crate) fn find(
    text: &str,
    wanted: &Pattern,
    from: Option<usize>,
    is_forward: bool,
) -> Option<usize> {
    let found: Vec<usize> = (0..)
        .zip(text.lines())
        .filter(|(_, line)| wanted.matches(&[line], &iter::empty()))
        .map(|(idx, _)| idx)
        .collect();
    let next = match (from, is_forward) {
        (None, true) => found.first(),
        (None, false) => found.last(),
        (Some(from), true) => found.iter().find(|line| **line > from).or(found.first()),
        (Some(from), false) => found.iter().rfind(|line| **line < from).or(found.last()),
    };
    next.copied()
}

#[cfg(test)]
mod results_tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, want: &[&str]) {
        let changes = diff(before, after).changes;
        let lines: Vec<String> =
            changes.iter().map(|it| format!("{}{}", it.tag(), it.value())).collect();
        assert_eq!(lines, want);
    }

    #[test]
    fn diff_shows_a_changed_line_as_removed_and_added() {
        check("a\nb\nc", "a\nx\nc", &[" a", "-b", "+x", " c"]);
        check("", "x", &["+x"]);
        check("x", "", &["-x"]);
        check("", "", &[]);
    }

    #[test]
    fn stderr_is_shown_for_an_empty_stdout_by_default() {
        let mut response = crate::harness::failed_response();
        response.results.truncate(1);
        let mut look = ResultView::default();
        assert_eq!(look.text(&response), "no such symbol\n");
        for want in [Output::Json, Output::Stdout, Output::Stderr] {
            look.take(Action::NextOutput, Some(&response), 10);
            assert_eq!(look.output(&response), want);
        }
    }

    #[test]
    fn any_two_result_groups_can_be_compared() {
        let mut look = ResultView::default();
        assert_eq!(look.compared(4), (0, 1));
        for action in [Action::Down, Action::Mark, Action::Down, Action::Down, Action::Diff] {
            look.act(action, 4, 50, 10);
        }
        assert_eq!((look.is_diff, look.compared(4)), (true, (1, 3)));
        look.select(1);
        assert_eq!(look.compared(4), (1, 2), "itself says nothing");
        look.act(Action::Mark, 4, 50, 10);
        look.select(3);
        assert_eq!((look.marked, look.compared(4)), (None, (3, 0)));
    }

    #[test]
    fn arrow_keys_select_a_result_group_or_scroll_the_only_group() {
        let mut look = ResultView::default();
        look.act(Action::Down, 3, 50, 10);
        look.act(Action::Down, 3, 50, 10);
        look.act(Action::Down, 3, 50, 10);
        assert_eq!((look.group_idx, look.position), (2, Position::FromTop(0)));
        let mut look = ResultView::default();
        look.act(Action::Down, 1, 50, 10);
        assert_eq!((look.group_idx, look.position), (0, Position::FromTop(1)));
    }
}

#[cfg(test)]
mod text_tests {
    use super::*;

    #[test]
    fn scrolling_up_moves_immediately_after_scrolling_down_beyond_the_end() {
        let end = Position::FromEnd(0);
        assert_eq!(end.first(100, 10), 90);
        assert_eq!(end.moved(-1, 100, 10).first(100, 10), 89);
        assert_eq!(end.moved(5, 100, 10), end);
        let beyond = Position::FromTop(0).moved(1_000, 100, 10);
        assert_eq!(beyond.first(100, 10), 90);
        assert_eq!(beyond.moved(-1, 100, 10).first(100, 10), 89, "no dead presses");
        assert_eq!(Position::FromTop(3).first(2, 10), 0);
    }

    #[test]
    fn only_json_output_is_formatted() {
        assert_eq!(pretty("{\"a\":[1]}").as_deref(), Some("{\n  \"a\": [\n    1\n  ]\n}"));
        assert_eq!(pretty("12"), None);
        assert_eq!(pretty("{not json}"), None);
    }

    #[test]
    fn output_searches_wrap_around_in_both_directions() {
        let find = |wanted: &str, from, is_forward| {
            find("Mean 1\nx\nmean 2", &Pattern::parse_phrase(wanted), from, is_forward)
        };
        assert_eq!(find("mean", None, true), Some(0));
        assert_eq!(find("mean", Some(0), true), Some(2));
        assert_eq!(find("mean", Some(2), true), Some(0));
        assert_eq!(find("mean", Some(0), false), Some(2));
        assert_eq!(find("nowhere", None, true), None);
        assert_eq!(find("n.2$", None, true), Some(2));
        assert_eq!(find("ean 2", None, true), Some(2), "a phrase");
        assert_eq!(find("!mean", None, true), Some(1));
    }
}
