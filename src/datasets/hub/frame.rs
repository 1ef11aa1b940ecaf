//! Rendered events of consecutive commits, grouped into frames.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

/// Maximum number of rows in a frame.
pub(crate) const FRAME_ROWS: usize = 256;

/// Size in bytes at which a frame is complete, large enough for [`FRAME_ROWS`] rows of average length.
pub(crate) const FRAME_BYTES: usize = 80 * 1024;

/// Rendered events of one or several consecutive commits of a dataset.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Revision of the last commit in the frame.
    pub(super) revision: u64,
    /// Complete events of the rows, in the order of their commits.
    pub(super) events: Bytes,
    /// Revision of each commit and the offset of its first event. `None` for a single commit.
    starts: Option<Arc<[(u64, usize)]>>,
}

/// Rows that a commit added, as a range of a block with the rows of several commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommitRows {
    /// Revision of the dataset after the commit.
    pub(crate) revision: u64,
    /// Indices of the commit's rows in the block.
    pub(crate) rows: Range<usize>,
}

impl Frame {
    /// Returns the events of the commits with revisions above `revision`, or `None` if there are none.
    pub(crate) fn after(&self, revision: u64) -> Option<Bytes> {
        if self.revision <= revision {
            return None;
        }
        let starts = self.starts.iter().flat_map(|starts| starts.iter());
        let first =
            starts.map(|(commit, at)| (*commit > revision, *at)).find(|(is_after, _)| *is_after);
        Some(self.events.slice(first.map_or(0, |(_, at)| at)..))
    }

    /// Removes the events of commits up to `revision`. Returns `None` if no events remain.
    pub(crate) fn trim(self, revision: u64) -> Option<Self> {
        let events = self.after(revision)?;
        let n_cut = self.events.len() - events.len();
        let starts = self.starts.map(|starts| {
            let rest = starts.iter().filter(|(commit, _)| *commit > revision);
            rest.map(|(commit, at)| (*commit, at - n_cut)).collect()
        });
        Some(Self { events, starts, ..self })
    }
}

/// Renders commits into frames of at most [`FRAME_ROWS`] rows and about [`FRAME_BYTES`]. `push` appends
/// the event of the row with the given index.
pub(crate) fn frames_of(
    commits: &[CommitRows],
    mut push: impl FnMut(&mut Vec<u8>, usize),
) -> Vec<Frame> {
    let mut frames = Vec::new();
    let (mut events, mut starts, mut n_rows) = (Vec::new(), Vec::<(u64, usize)>::new(), 0);
    for CommitRows { revision, rows } in commits {
        for row_idx in rows.clone() {
            if starts.last().is_none_or(|(commit, _)| commit != revision) {
                starts.push((*revision, events.len()));
            }
            push(&mut events, row_idx);
            n_rows += 1;
            if n_rows == FRAME_ROWS || events.len() >= FRAME_BYTES {
                frames.extend(finish(&mut events, &mut starts));
                n_rows = 0;
            }
        }
    }
    frames.extend(finish(&mut events, &mut starts));
    frames
}

/// Returns the collected events as a frame, or `None` if there are none.
fn finish(events: &mut Vec<u8>, starts: &mut Vec<(u64, usize)>) -> Option<Frame> {
    let (revision, _) = *starts.last()?;
    let several = (starts.len() > 1).then(|| starts.as_slice().into());
    starts.clear();
    Some(Frame { revision, events: Bytes::from(std::mem::take(events)), starts: several })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns frames with commit 5 of rows 0 and 1, commit 7 of row 2, and commit 8 of rows 3 to
    /// `n_rows`. The event of a row is its index.
    fn frames(n_rows: usize) -> Vec<Frame> {
        let commit = |revision, rows| CommitRows { revision, rows };
        let commits = [commit(5, 0..2), commit(6, 2..2), commit(7, 2..3), commit(8, 3..n_rows)];
        frames_of(&commits, |to, row_idx| to.extend(format!("{row_idx} ").bytes()))
    }

    /// Checks the events for a reader that has all commits up to `revision`. Also checks frames that
    /// were trimmed before.
    #[track_caller]
    fn check(revision: u64, want: Option<&'static str>) {
        let frame = frames(5).remove(0);
        assert_eq!(frame.after(revision), want.map(Bytes::from));
        for trimmed_to in 0..=revision {
            let trimmed = frame.clone().trim(trimmed_to).and_then(|frame| frame.after(revision));
            assert_eq!(trimmed, want.map(Bytes::from), "trimmed to {trimmed_to}");
        }
    }

    #[test]
    fn reader_gets_only_commits_after_its_revision() {
        check(0, Some("0 1 2 3 4 "));
        check(4, Some("0 1 2 3 4 "));
        check(5, Some("2 3 4 "));
        check(6, Some("2 3 4 "));
        check(7, Some("3 4 "));
        check(8, None);
        check(9, None);
    }

    #[test]
    fn long_commit_is_split_into_frames() {
        let frames = frames(FRAME_ROWS * 2 + 1);
        assert_eq!(frames.len(), 3);
        let rest: Vec<Bytes> = frames.iter().filter_map(|frame| frame.after(7)).collect();
        let rows: Vec<String> = (3..=FRAME_ROWS * 2).map(|row_idx| row_idx.to_string()).collect();
        assert_eq!(rest.concat(), format!("{} ", rows.join(" ")).into_bytes());
        assert!(frames.iter().all(|frame| frame.after(8).is_none()));
    }

    #[test]
    fn commit_without_rows_causes_no_frame() {
        let commits = [CommitRows { revision: 3, rows: 0..0 }];
        assert!(frames_of(&commits, |_, _| panic!("there are no rows")).is_empty());
    }
}
