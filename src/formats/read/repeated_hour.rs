//! Rows of the hour that the clock shows twice when it is set back in autumn, told apart by their
//! order.
//!
//! Their times ascend up to the one at which the clock was set back, where they begin again: rows
//! before it have the earlier meaning, rows after it the later one; the other way round in a file
//! whose newest row is first. Rows without exactly one such place are rejected.

use std::collections::VecDeque;

use model::timestamp::Timestamp;

use super::{BadRow, PlacedRow, time_text::TWICE};

/// Rows of such an hour at most, which are held in memory: more than 60 each second.
const ROWS_MAX: usize = 500_000;

/// A row as it was read.
pub(super) struct ReadRow {
    pub(super) placed: PlacedRow,
    /// Second meaning of its timestamp, if the clock shows it twice. The first one is in the row.
    pub(super) later: Option<Timestamp>,
}

/// Rows that follow one another in a file, whose times the clock shows twice.
pub(super) struct RepeatedHour {
    before: Option<Timestamp>,
    /// Each with the later meaning of its timestamp.
    rows: Vec<(PlacedRow, Timestamp)>,
    bad: Vec<BadRow>,
}

impl RepeatedHour {
    /// Begins with the first of them; `before` is the timestamp of the row before.
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

    /// Returns the rows with the timestamps that their order tells, and `after`, the record after them.
    pub(super) fn resolve(
        self,
        after: Option<Result<PlacedRow, BadRow>>,
    ) -> VecDeque<Result<PlacedRow, BadRow>> {
        let after_row = after.as_ref().and_then(|row| row.as_ref().ok());
        let after_at = after_row.map(|row| row.row.timestamp);
        let times: Vec<Timestamp> = self.rows.iter().map(|(row, _)| row.row.timestamp).collect();
        let turn = turn(&times, self.before, after_at);
        let last_idx = self.rows.len().saturating_sub(1);
        let mut resolved: VecDeque<_> = self.bad.into_iter().map(Err).collect();
        for (idx, (mut placed, later)) in self.rows.into_iter().enumerate() {
            // An import that resumed among them would see only some.
            placed.is_resumable = idx == last_idx;
            let Some(Turn { idx: turn_idx, is_descending }) = turn else {
                let earlier = placed.row.timestamp;
                let reason = format!("{earlier} or {later}: {TWICE}");
                resolved.push_back(Err(BadRow { line: placed.place.line, reason }));
                continue;
            };
            if (idx >= turn_idx) != is_descending {
                placed.row.timestamp = later;
            }
            resolved.push_back(Ok(placed));
        }
        resolved.extend(after);
        resolved
    }
}

/// Where the times of an hour begin again.
#[derive(Clone, Copy)]
struct Turn {
    /// The first row after it.
    idx: usize,
    /// True if the newest row of the file is the first.
    is_descending: bool,
}

/// Finds the place where `times`, all with their earlier meaning, begin again; `None` if there is none
/// or there are several.
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
