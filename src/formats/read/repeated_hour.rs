//! Resolves the rows of an hour that the clock shows twice when it is set back in autumn, by their
//! order.
//!
//! The times ascend up to the point at which the clock was set back, where they restart. Rows before
//! this point have the earlier timestamp and rows after it the later timestamp, or vice versa if the
//! latest row of the file comes first. The rows are rejected unless there is exactly one such point, at
//! which the rows continue without an unusual gap. Otherwise, a repeated or late row would be mistaken
//! for the point.

use std::collections::VecDeque;

use model::timestamp::Timestamp;

use super::time_text::TWICE;
use super::{BadRow, PlacedRow};

/// Maximum number of rows of a repeated hour, which are held in memory. It allows 138 rows per second.
const ROWS_MAX: usize = 500_000;

/// Maximum gap at the point where the times restart, in units of the usual gap.
const GAP_MAX: i64 = 3;

/// A row that was read.
pub(super) struct ReadRow {
    pub(super) placed: PlacedRow,
    /// Later possible timestamp, if the clock shows the time twice. The row has the earlier timestamp.
    pub(super) later: Option<Timestamp>,
}

/// Consecutive rows of a file with times that the clock shows twice.
pub(super) struct RepeatedHour {
    before: Option<Timestamp>,
    /// Each row with its later possible timestamp.
    rows: Vec<(PlacedRow, Timestamp)>,
    bad: Vec<BadRow>,
}

impl RepeatedHour {
    /// Starts with the first row. `before` is the timestamp of the previous row.
    pub(super) fn new(before: Option<Timestamp>, first: ReadRow) -> Self {
        let mut hour = Self { before, rows: Vec::new(), bad: Vec::new() };
        hour.push(first);
        hour
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len().max(self.bad.len()) >= ROWS_MAX
    }

    pub(super) fn push(&mut self, ReadRow { placed, later }: ReadRow) {
        let later = later.unwrap_or(placed.row.timestamp);
        self.rows.push((placed, later));
    }

    pub(super) fn push_bad(&mut self, bad: BadRow) {
        self.bad.push(bad);
    }

    /// Returns the rows with the timestamps that follow from their order, and then `after`, the next
    /// record.
    pub(super) fn resolve(
        self,
        after: Option<Result<PlacedRow, BadRow>>,
    ) -> VecDeque<Result<PlacedRow, BadRow>> {
        let after_row = after.as_ref().and_then(|row| row.as_ref().ok());
        let after_at = after_row.map(|row| row.row.timestamp);
        let times: Vec<Timestamp> = self.rows.iter().map(|(row, _)| row.row.timestamp).collect();
        let turn = turn(&times, self.before, after_at).filter(|turn| {
            let at = |(idx, (placed, later)): (usize, &(PlacedRow, Timestamp))| {
                if turn.is_later(idx) { *later } else { placed.row.timestamp }
            };
            let resolved: Vec<Timestamp> = self.rows.iter().enumerate().map(at).collect();
            is_continuous(&resolved, turn.idx, self.before, after_at)
        });
        let last_idx = self.rows.len().saturating_sub(1);
        let mut resolved: VecDeque<_> = self.bad.into_iter().map(Err).collect();
        for (idx, (mut placed, later)) in self.rows.into_iter().enumerate() {
            // Reading that resumed in the middle would not see all rows of the hour.
            placed.is_resumable = idx == last_idx;
            let Some(turn) = turn else {
                let earlier = placed.row.timestamp;
                let reason = format!("{earlier} or {later}: {TWICE}");
                resolved.push_back(Err(BadRow { line: placed.place.line, reason }));
                continue;
            };
            if turn.is_later(idx) {
                placed.row.timestamp = later;
            }
            resolved.push_back(Ok(placed));
        }
        resolved.extend(after);
        resolved
    }
}

/// Point at which the times restart.
#[derive(Clone, Copy)]
struct Turn {
    /// Index of the first row after the point.
    idx: usize,
    /// True if the latest row of the file comes first.
    is_descending: bool,
}

impl Turn {
    /// Returns true if the row `idx` has the later of its possible timestamps.
    const fn is_later(self, idx: usize) -> bool {
        (idx >= self.idx) != self.is_descending
    }
}

/// Finds the point at which `times`, the earlier possible timestamps of the rows, restart. Returns `None`
/// unless there is exactly one such point.
fn turn(times: &[Timestamp], before: Option<Timestamp>, after: Option<Timestamp>) -> Option<Turn> {
    let is_descending = match (before, after) {
        (Some(before), _) => before > *times.first()?,
        (None, Some(after)) => after < *times.last()?,
        (None, None) => return None,
    };
    let is_turn = |[one, next]: &[Timestamp; 2]| {
        if is_descending { next >= one } else { next <= one }
    };
    let mut turns = times.array_windows().enumerate().filter(|(_, pair)| is_turn(pair));
    match (turns.next(), turns.next()) {
        (Some((idx, _)), None) => Some(Turn { idx: idx + 1, is_descending }),
        _ => None,
    }
}

/// Returns true if the gap before the row `idx` is at most [`GAP_MAX`] times the usual gap, which is
/// `max(longest other gap between the times, min(gap before the times, gap after the times))`.
fn is_continuous(
    times: &[Timestamp],
    idx: usize,
    before: Option<Timestamp>,
    after: Option<Timestamp>,
) -> bool {
    let gap = |(one, next): (Timestamp, Timestamp)| (next.micros() - one.micros()).abs();
    let mut gaps: Vec<i64> = times.array_windows().map(|[one, next]| gap((*one, *next))).collect();
    let at_turn = gaps.remove(idx - 1);
    let outer = [before.zip(times.first().copied()), times.last().copied().zip(after)];
    let outer = outer.into_iter().flatten().map(gap);
    let usual = gaps.into_iter().max().max(outer.min());
    usual.is_some_and(|usual| at_turn <= GAP_MAX * usual)
}
