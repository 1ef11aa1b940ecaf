//! Draws the results of a run: its groups, the output of the selected group, and comparisons of
//! outputs.

use ratatui::prelude::*;
use similar::ChangeTag;
use wire::functions::{ExecuteResponse, ResultGroupBody};

use super::output::{self, printable};
use super::wrap::wrapped;
use super::{Frame, spinner, split_rows, strip, text_cut};
use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::screens::{Screen, cluster, execute};
use crate::state::navigation::Steps as _;
use crate::state::resource::Failure;
use crate::state::results::{self, DIFF_LINES_MAX, Position};
use crate::state::runs::{Phase, Run, Verdict, workers_text};
use crate::state::services::host_of;
use crate::theme::Theme;
use crate::widget::bars::ShareBar;
use crate::widget::{format, paint};

/// Width of the bar that shows a group's share.
const BAR_WIDTH: u16 = 20;

/// Maximum number of characters of an output in the line of its group. So many characters fill more than
/// a wide terminal.
const GIST_CHARS_MAX: usize = 400;

/// Minimum height of a comparison: its title, a removed line and an added line.
const DIFF_ROWS_MIN: u16 = 3;

/// Adds the required workers of `run` to `title`, if it requires particular workers.
pub(crate) fn title_with_workers(title: String, run: Option<&Run>) -> String {
    /// Maximum width of the required workers. The rest of the border needs space, too.
    const WORKERS_WIDTH_MAX: usize = 32;
    match run.and_then(|run| workers_text(&run.request)) {
        Some(workers) => format!("{title} · {}", format::fit(&workers, WORKERS_WIDTH_MAX)),
        None => title,
    }
}

/// Returns the symbol and the style for the outcome of `run`.
pub(crate) fn mark(run: &Run, frame: Frame<'_>) -> (char, Style) {
    let theme = frame.theme;
    match run.verdict() {
        Verdict::Waiting => (spinner(frame.state.now), theme.info),
        Verdict::Agreed if run.live.n_failed() == 0 => ('✓', theme.up),
        Verdict::Agreed | Verdict::Split(_) | Verdict::NoResult => ('!', theme.warn),
        Verdict::BadExit(..) | Verdict::Failed => ('✗', theme.down),
        Verdict::Cancelled => ('–', theme.muted),
    }
}

/// Returns the height that the results of `run` need: all groups and the longest output.
pub(crate) fn height(run: &Run) -> u16 {
    let Some(response) = run.response() else { return 0 };
    let n_lines = |group: &ResultGroupBody| {
        group.result.stdout.lines().count() + group.result.stderr.lines().count()
    };
    let n_text = response.results.iter().map(n_lines).max().unwrap_or_default();
    let n_rows = response.results.len() * 2 + n_text + 4;
    u16::try_from(n_rows).unwrap_or(u16::MAX)
}

/// Describes the progress of `run` for the border of its pane. `time` is shown for a run with a
/// response, `end` for a run without a response.
pub(crate) fn info(run: &Run, frame: Frame<'_>, time: &str, end: &str) -> String {
    let text = match &run.phase {
        Phase::Waiting => {
            let cancel = frame.key(Layer::Always, Action::Interrupt);
            let took = format::elapsed(run.elapsed(frame.state.now));
            format!("running {took} · {cancel} cancels")
        }
        Phase::Done(response) => {
            format!("request {} · {time}", format::shorten(&response.request_id, 4, 4))
        }
        Phase::Failed(_) | Phase::Cancelled => end.to_owned(),
    };
    let has_several = frame.state.services.has_several_heads();
    match run.head.address.as_deref().filter(|_| has_several) {
        Some(address) => format!("{text} · at {}", host_of(address)),
        None => text,
    }
}

/// Draws the results of `run`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) {
    match &run.phase {
        Phase::Waiting => {
            paint::text(buf, area, (0, 1), "waiting for the head", frame.theme.info);
        }
        Phase::Cancelled => {
            paint::text(buf, area, (0, 1), "cancelled", frame.theme.muted);
        }
        Phase::Failed(failure) => draw_failure(area, buf, frame, failure),
        Phase::Done(_) => draw_groups(area, buf, frame, run),
    }
}

fn draw_failure(area: Rect, buf: &mut Buffer, frame: Frame<'_>, failure: &Failure) {
    let theme = frame.theme;
    let Failure { what, why, next, .. } = failure;
    let bold = theme.down.add_modifier(Modifier::BOLD);
    paint::text(buf, area, (0, 1), &format!("✗ failed to {what}"), bold);
    let mut y = 2;
    for line in wrapped(why, area.width.saturating_sub(2)) {
        paint::text(buf, area, (2, y), &line, theme.text);
        y += 1;
    }
    text_cut(buf, area, (2, y + 1), next, theme.muted);
}

fn draw_groups(area: Rect, buf: &mut Buffer, frame: Frame<'_>, run: &Run) {
    let Frame { state, theme, .. } = frame;
    let Some(response) = run.response() else { return };
    let look = state.results().look;
    let pane = match state.screen {
        Screen::Cluster => cluster::state::Pane::Groups.number(),
        _ => execute::state::Pane::Results.number(),
    };
    let n_peers = response.cluster.peers.len();
    let n_groups = response.results.len();
    let top = u16::from(area.height > 12);
    let mut y = 2 * top + 1;
    // At least a third of the height is for the output below the groups.
    let groups_end = area.height.saturating_sub(area.height / 3);
    let selected = look.group_idx.min(n_groups.saturating_sub(1));
    let n_fit = usize::from(groups_end.saturating_sub(y) / 2).max(1);
    let first = super::table::first_row(selected, n_groups, n_fit);
    let hidden = (first, n_groups.saturating_sub(first + n_fit));
    let (sentence, style) = match (sentence(response, hidden, theme), run.live.n_failed()) {
        (it, 0) => it,
        ((text, _), n_failed) => (format!("{text}; {n_failed} failed"), theme.warn),
    };
    text_cut(buf, area, (0, top), &sentence, style);
    for (idx, group) in response.results.iter().enumerate().skip(first).take(n_fit) {
        let place = Rect { y: area.y.saturating_add(y), height: 2, ..area };
        draw_group(place.intersection(area), buf, frame, idx, group, n_peers);
        if n_groups > 1 && idx == selected {
            paint::row_style(buf, area, y, theme.sel);
        }
        if look.marked == Some(idx) {
            paint::put(buf, area, (0, y + 1), '◆', theme.focus);
        }
        frame.hits.add(place.intersection(area), Target::Row { pane, row: idx });
        y += 2;
    }
    let without = without_result(response);
    if !without.is_empty() {
        let stack = &state.stack;
        let peers: Vec<_> = without.iter().map(|peer| stack.node_name(peer)).collect();
        let line = format!("no result: {}", peers.join(" "));
        text_cut(buf, area, (2, y), &line, theme.warn);
        y += 1;
    }
    let [_, below] = split_rows(area, y + top);
    if look.is_diff
        && let (first, second) = look.compared(n_groups)
        && let (Some(group), Some(other)) =
            (response.results.get(first), response.results.get(second))
    {
        draw_diff(below, buf, frame, [(first, group), (second, other)], look.position);
    } else {
        let height = output::draw(below, buf, frame, response, look);
        let [_, mut below] = split_rows(below, height + 1);
        let Some(group) = response.results.get(selected) else { return };
        // The remaining space is for comparisons with the other groups.
        for (idx, other) in response.results.iter().enumerate().filter(|(idx, _)| *idx != selected)
        {
            if below.height < DIFF_ROWS_MIN {
                break;
            }
            let pair = [(selected, group), (idx, other)];
            let height = draw_diff(below, buf, frame, pair, Position::default());
            [_, below] = split_rows(below, height + 1);
        }
    }
}

/// Summarizes the peers and the results. `hidden` are the numbers of groups that are scrolled out
/// above and below the visible groups. The summary contains these numbers unless both are 0.
fn sentence(response: &ExecuteResponse, hidden: (usize, usize), theme: &Theme) -> (String, Style) {
    let (n, n_groups) = (response.cluster.peers.len(), response.results.len());
    let few =
        format!("{}, {}", format::counted(n, "peer"), format::counted(n_groups, "distinct result"));
    match hidden {
        (0, 0) => {}
        (0, below) => return (format!("{few} · {below} more ↓"), theme.warn),
        (above, 0) => return (format!("{few} · {above} more ↑"), theme.warn),
        (above, below) => return (format!("{few} · {above} more ↑ {below} ↓"), theme.warn),
    }
    let code = response.results.first().map_or(0, |group| group.result.exit_code);
    let n_results = n - without_result(response).len();
    match (n_groups, n, code) {
        (0, ..) => ("no results".to_owned(), theme.warn),
        (1, ..) if n_results < n => {
            let peers = format::counted(n, "peer");
            (format!("{n_results} of {peers} returned a result"), theme.warn)
        }
        (1, 1, 0) => ("1 peer took part".to_owned(), theme.muted),
        (1, 1, _) => (format!("1 peer took part: exit {code}"), theme.down),
        (1, _, 0) => (format!("{n} peers took part, and all agree"), theme.up),
        (1, ..) => (format!("{n} peers took part, all agree on exit {code}"), theme.down),
        _ => {
            let text = format!("{n} peers took part, {n_groups} distinct results");
            (format!("{text} — peers disagree"), theme.warn)
        }
    }
}

/// Returns the peers that belong to no result group.
fn without_result(response: &ExecuteResponse) -> Vec<&String> {
    let has_result =
        |peer: &&String| !response.results.iter().any(|group| group.peers.contains(peer));
    response.cluster.peers.iter().filter(has_result).collect()
}

fn draw_group(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    idx: usize,
    group: &ResultGroupBody,
    n_peers: usize,
) {
    let theme = frame.theme;
    let style = match (idx, group.result.exit_code) {
        (0, 0) => theme.up,
        (0, _) => theme.down,
        _ => theme.warn,
    };
    let bold = theme.text.add_modifier(Modifier::BOLD);
    paint::text(buf, area, (0, 0), &(idx + 1).to_string(), theme.key);
    let share = ShareBar { share: group.frequency / 100.0, bar: style, rest: theme.faint };
    share.render(strip(area, (2, 0), BAR_WIDTH), buf);
    let result = &group.result;
    let exit = if result.exit_code == 0 { theme.up } else { theme.down };
    let text = if result.stdout.trim().is_empty() { &result.stderr } else { &result.stdout };
    // The text of bytes that are not UTF-8 can be equal in several groups.
    let hash = [&result.stdout_sha256, &result.stderr_sha256].into_iter().find(|it| !it.is_empty());
    let hash = hash.map_or(String::new(), |it| format!("SHA-256 {}  ", format::shorten(it, 8, 0)));
    let line = Line::from(vec![
        Span::styled(format!("{:>4}", frequency(group.frequency)), bold),
        Span::styled(" freq  ", theme.muted),
        Span::styled(
            format!("{}/{}  ", group.peers.len(), format::counted(n_peers, "peer")),
            theme.text,
        ),
        Span::styled(format!("exit {}  ", result.exit_code), exit),
        Span::styled(hash + &gist(text), theme.muted),
    ]);
    paint::line_cut(buf, area, (BAR_WIDTH + 3, 0), &line);
    let stack = &frame.state.stack;
    let mut peers: Vec<_> = group.peers.iter().map(|peer| stack.node_name(peer)).collect();
    peers.sort_unstable();
    text_cut(buf, area, (2, 1), &peers.join(" "), theme.muted);
}

/// Formats a frequency. An integral frequency has no fraction.
pub(crate) fn frequency(percent: f64) -> String {
    let text = format::fixed(percent, 1);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Returns the start of `text` as a single line. Consecutive whitespace becomes a single space.
pub(crate) fn gist(text: &str) -> String {
    let start: String = text.chars().take(GIST_CHARS_MAX).collect();
    let words: Vec<&str> = start.split_whitespace().collect();
    printable(&words.join(" "))
}

/// Draws the comparison of two groups. Returns the height that it takes.
fn draw_diff(
    area: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    [(first, group), (second, other)]: [(usize, &ResultGroupBody); 2],
    position: Position,
) -> u16 {
    let theme = frame.theme;
    let numbers = (first + 1, second + 1);
    let title = format!("group {} ▸ group {}", numbers.0, numbers.1);
    let end = paint::text(buf, area, (0, 0), &title, theme.muted);
    let comparison = results::diff(&group.result.stdout, &other.result.stdout);
    let changes = &comparison.changes;
    let stop = match comparison.n_left_out {
        (0, 0) => None,
        (before, after) => Some(format!(
            "compared up to line {DIFF_LINES_MAX}: {before} more lines of group {} and {after} of group {} are left out",
            numbers.0, numbers.1
        )),
    };
    let n_fit = usize::from(area.height.saturating_sub(1 + u16::from(stop.is_some())));
    let first = position.first(changes.len(), n_fit);
    let n_below = changes.len().saturating_sub(first + n_fit);
    if n_below > 0 || first > 0 {
        let more = format!("  {} below · {} above", format::counted(n_below, "line"), first);
        paint::text(buf, area, (end, 0), &more, theme.warn);
    }
    let mut y = 1;
    for change in changes.iter().skip(first).take(n_fit) {
        let (mark, style) = match change.tag() {
            ChangeTag::Equal => (' ', theme.muted),
            ChangeTag::Delete => ('-', theme.down),
            ChangeTag::Insert => ('+', theme.up),
        };
        let line = format!("{mark} {}", printable(change.value()));
        text_cut(buf, area, (0, y), &line, style);
        y += 1;
    }
    if let Some(stop) = stop {
        text_cut(buf, area, (0, y), &stop, theme.warn);
        y += 1;
    }
    y.min(area.height)
}
