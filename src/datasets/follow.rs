//! Follows a dataset: sends the latest or missed rows first, then each new row.
//!
//! The rows of a dataset are numbered in the order of their commits. The embedded store numbers the rows
//! of all datasets together. A row that replaces another gets a new number. A reader that sends the
//! number of its last row gets all rows with higher numbers, including late rows and corrections, each
//! row once and in its current state. Then it gets new rows as they are committed. Missed rows are read
//! from the store, so they are available even after a restart.
//!
//! Deletions are only sent to readers that follow changes. These readers read the rows and changes of
//! every commit from the store, so that each change is sent at the same position to all readers.

use std::fmt;
use std::io::Write as _;

use bytes::Bytes;
use formats::write::{Writer, row_bytes_max};
use model::block::Block;
use model::dataset::{Column, DatasetId};
use model::key::KeyId;
use model::page::REPLAY_ROWS;
use model::resolution::Resolution;
use model::row::EARLIEST;
use serde::Serialize;
use tsdb::catalog::DatasetRef;
use tsdb::span::Span;
use tsdb::store::row_changes::RowChange;
use tsdb::store::{Since, Store, StoreError};
use wire::datasets::{Deletion, EVENT_CORRECTION, EVENT_DATA, EVENT_DELETION, EVENT_RESET, Reset};

use crate::Datasets;
use crate::error::{OperationError, Result};
use crate::hub::frame::{CommitRows, Frame, frames_of};
use crate::hub::{CutOff, Hub, HubEvent, Subscription};
use crate::query::SelectedColumns;

/// Maximum number of missed rows that are read at a time. Their events occupy a few megabytes.
const MISSED_ROWS: usize = 8192;

/// Approximate maximum size in bytes of missed rows that are read at a time. If rows are long, fewer than
/// [`MISSED_ROWS`] are read.
const MISSED_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of readers that catch up concurrently. Further readers wait. After a restart, all
/// readers catch up, each of which takes some milliseconds.
pub(crate) const CATCHING_UP_MAX: usize = 4;

/// Maximum number of deletions and corrections that are read at a time.
const CHANGES_MAX: usize = 256;

/// Message to a reader with an unknown position, which cannot be resumed.
const RESET_MESSAGE: &str =
    "The rows since the given id are unknown; the latest rows follow, and there may be a gap";

/// Position of a reader: the number of its last row, and the era of the store in which the number is
/// valid.
///
/// The text form is `<timestamp of the row>:<era>-<number>`. The timestamp is only informative. A reader
/// of changes also has `-<revision>` at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    era: u32,
    number: i64,
    /// Revision up to which the reader has all changes. `None` for a reader of rows only.
    revision: Option<u64>,
}

impl Cursor {
    /// Parses a cursor that a client sent. Returns `None` if no service could have issued it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, row) = text.rsplit_once(':')?;
        let mut parts = row.splitn(3, '-');
        let era = u32::from_str_radix(parts.next()?, 16).ok()?;
        let number: i64 = parts.next()?.parse().ok()?;
        let revision = parts.next().map(str::parse).transpose().ok()?;
        (number >= 0).then_some(Self { era, number, revision })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.era, self.number)?;
        self.revision.map_or(Ok(()), |revision| write!(f, "-{revision}"))
    }
}

/// Point at which a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowFrom {
    /// The stream begins with the latest rows.
    Newest,
    /// The stream begins after the last row that the reader has. `None` if the reader sent an invalid
    /// cursor.
    After(Option<Cursor>),
}

/// Stream of the rows of a dataset.
#[derive(Debug)]
pub(crate) struct FollowStream {
    pub(crate) dataset: DatasetId,
    key: KeyId,
    columns: SelectedColumns,
    /// True if deletions are sent and corrections are marked.
    has_changes: bool,
    /// True once a commit has been received from the hub.
    was_live: bool,
    /// True if the key might have lost access since the last check.
    must_recheck_access: bool,
    datasets: Datasets,
    state: ReaderPhase,
    /// Commits since the latest read of the store. Subscribed from the start, so that an accepted stream
    /// counts as a reader.
    live: Subscription,
}

#[derive(Debug)]
enum ReaderPhase {
    /// The rows after the cursor are still to be read from the store.
    Behind(Option<Cursor>),
    /// The latest rows are still to be read from the store.
    Replay,
    /// All rows up to this revision were sent. Later commits are sent as they are published. `number` is
    /// the number of the last row, which is only needed to follow changes.
    Live { revision: u64, number: i64 },
}

/// Reason why a stream was closed early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FollowEnd {
    /// The reader was too slow, so the hub discarded frames before the reader received them.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// The commits after the reader's position are no longer recorded.
    #[error("commits after the reader's position are no longer recorded")]
    Lost,
    #[error("rows that the reader missed could not be read")]
    Failed(#[from] OperationError),
}

impl FollowStream {
    /// Returns the next rows as events, each commit once. Returns `None` when the service stops, or when
    /// the key loses access to the dataset.
    ///
    /// The stream begins with the missed rows, or else with the latest rows. If the missed rows cannot
    /// be determined, a reset event precedes the latest rows. Cancel-safe.
    ///
    /// # Errors
    /// [`FollowEnd`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, FollowEnd> {
        let (key, dataset) = (self.key, self.dataset);
        loop {
            if self.must_recheck_access {
                let which = DatasetRef::Id(self.dataset);
                if self.datasets.find_sight(self.key, which).await?.is_none() {
                    return Ok(None);
                }
                self.must_recheck_access = false;
            }
            if !matches!(self.state, ReaderPhase::Live { .. }) {
                // Restarts before the store is read, so that no later commit and no loss of access is
                // missed.
                self.live.restart();
            }
            let next = match self.state {
                ReaderPhase::Replay => {
                    self.datasets.read_replay(key, dataset, self.has_changes, Vec::new()).await
                }
                ReaderPhase::Behind(cursor) => {
                    let permits = if self.was_live {
                        &self.datasets.reading_changes
                    } else {
                        &self.datasets.catching_up
                    };
                    let permit = permits.acquire().await.map_err(|_| StoreError::Closed);
                    let _permit = permit.map_err(OperationError::from)?;
                    self.datasets.read_missed(key, dataset, self.has_changes, cursor).await
                }
                ReaderPhase::Live { revision, number } => match self.live.next().await {
                    Ok(None) => return Ok(None),
                    Ok(Some(HubEvent::Access)) => {
                        self.must_recheck_access = true;
                        continue;
                    }
                    // A reader of changes reads them from the store, even if it received only the latest
                    // of the commits.
                    Ok(Some(HubEvent::Frame(_) | HubEvent::Removal)) | Err(_)
                        if self.has_changes =>
                    {
                        let (era, revision) = (self.datasets.era, Some(revision));
                        self.state = ReaderPhase::Behind(Some(Cursor { era, number, revision }));
                        self.was_live = true;
                        continue;
                    }
                    Ok(Some(HubEvent::Removal)) => continue,
                    // A commit between the restart and the read was also found by the read, so its events
                    // are skipped here.
                    Ok(Some(HubEvent::Frame(frame))) => match frame.after(revision) {
                        None => continue,
                        Some(events) => return Ok(Some(self.columns.filter_events(events))),
                    },
                    Ok(Some(HubEvent::Lost)) => return Err(FollowEnd::Lost),
                    Err(cut_off) => return Err(cut_off.into()),
                },
            };
            let (state, events) = match next {
                Err(OperationError::NotFound) => return Ok(None),
                next => next?,
            };
            self.state = state;
            if !events.is_empty() {
                return Ok(Some(self.columns.filter_events(events)));
            }
        }
    }
}

impl Datasets {
    /// Follows a dataset that is visible to `key`, with deletions and corrections if `has_changes`.
    ///
    /// # Errors
    /// [`OperationError`].
    pub(crate) async fn follow(
        &self,
        key: KeyId,
        which: DatasetRef,
        columns: SelectedColumns,
        has_changes: bool,
        from: FollowFrom,
    ) -> Result<FollowStream> {
        let sight = self.sight(key, which).await?;
        columns.of(&sight, Resolution::Raw, false)?;
        let dataset = sight.dataset.id;
        let state = match from {
            FollowFrom::Newest => ReaderPhase::Replay,
            FollowFrom::After(cursor) => ReaderPhase::Behind(cursor),
        };
        // Subscribes before the response begins, so that the request can still be rejected if there are
        // too many streams.
        let live = self.hub.subscribe(dataset, key).ok_or(OperationError::FULL)?;
        let datasets = self.clone();
        let must_recheck_access = false;
        Ok(FollowStream {
            dataset,
            key,
            columns,
            has_changes,
            was_live: false,
            must_recheck_access,
            datasets,
            state,
            live,
        })
    }

    /// Appends the latest rows to `events`, oldest first.
    async fn read_replay(
        &self,
        key: KeyId,
        dataset: DatasetId,
        has_changes: bool,
        mut events: Vec<u8>,
    ) -> Result<(ReaderPhase, Bytes)> {
        let (era, hub) = (self.era, self.hub.clone());
        let replay = self.read_store(move |store| {
            let columns = begin(&hub, store, key, dataset)?;
            let last_row = if has_changes { store.last_row(dataset)? } else { 0 };
            let (rows, revision) = store.newest(dataset, REPLAY_ROWS)?;
            let mut writer = Writer::new(dataset, &columns);
            let mut numbers = safe_numbers(&rows.ids);
            // A reader of changes continues after the commit `revision`. Its number is the highest of
            // the dataset, even if the row with this number is older than the replay.
            let number = numbers.last().copied().unwrap_or_default().max(last_row);
            if let Some(last) = numbers.last_mut() {
                *last = number;
            }
            for (row_idx, number) in numbers.into_iter().enumerate() {
                let cursor = Cursor { era, number, revision: has_changes.then_some(revision) };
                push_row_event(&mut events, EVENT_DATA, &mut writer, &rows, row_idx, cursor);
            }
            Ok((Bytes::from(events), ReaderPhase::Live { revision, number }))
        });
        let (events, state) = replay.await?;
        Ok((state, events))
    }

    /// Reads the next rows that were committed after `cursor`, in the order of their commits.
    async fn read_missed(
        &self,
        key: KeyId,
        dataset: DatasetId,
        has_changes: bool,
        cursor: Option<Cursor>,
    ) -> Result<(ReaderPhase, Bytes)> {
        let is_known =
            |cursor: &Cursor| cursor.era == self.era && (cursor.revision.is_some() || !has_changes);
        let Some(mut cursor) = cursor.filter(is_known) else {
            return self.read_replay(key, dataset, has_changes, render_reset(dataset)).await;
        };
        cursor.revision.take_if(|_| !has_changes);
        let hub = self.hub.clone();
        let missed = self.read_store(move |store| {
            let columns = begin(&hub, store, key, dataset)?;
            let limit = (MISSED_BYTES / row_bytes_max(&columns)).clamp(1, MISSED_ROWS);
            let Some(since) = store.since(dataset, cursor.number, limit)? else {
                return Ok(None);
            };
            let Some(missed) = Missed::read(store, dataset, cursor, since)? else {
                return Ok(None);
            };
            let mut writer = Writer::new(dataset, &columns);
            Ok(Some((missed.render(dataset, &mut writer), missed.next)))
        });
        match missed.await? {
            Some((events, next)) => Ok((next, events)),
            // The store no longer knows the rows after the cursor.
            None => self.read_replay(key, dataset, has_changes, render_reset(dataset)).await,
        }
    }
}

/// Rows and changes after a cursor.
struct Missed {
    cursor: Cursor,
    since: Since,
    /// Changes in the order of their commits. Empty for a reader of rows only.
    changes: Vec<RowChange>,
    /// State of the reader after it has received these rows and changes.
    next: ReaderPhase,
}

impl Missed {
    /// Reads the changes between `cursor` and the last row of `since`. Returns `None` if some of them are
    /// no longer recorded.
    fn read(
        store: &dyn Store,
        dataset: DatasetId,
        cursor: Cursor,
        mut since: Since,
    ) -> Result<Option<Self>, StoreError> {
        let last_row = since.rows.ids.last().copied();
        let mut end = if since.is_all { i64::MAX } else { last_row.unwrap_or(cursor.number) };
        let mut changes = Vec::new();
        if let Some(revision) = cursor.revision {
            let after = (revision, cursor.number);
            let found = store.row_changes(dataset, after, CHANGES_MAX)?;
            let Some(found) = found.filter(|_| revision <= since.revision) else {
                return Ok(None);
            };
            changes = found;
            // Drops the changes of commits that were made after the rows were read.
            changes.retain(|change| change.revision <= since.revision);
            if changes.len() == CHANGES_MAX
                && let Some(last) = changes.last()
            {
                // There can be more changes, which must be sent before the rows of later commits. Ends
                // at the last change that was read, and the next read continues there.
                (end, since.is_all) = (end.min(last.last_row), false);
                since.rows.truncate(since.rows.ids.partition_point(|number| *number <= end));
            }
            changes.retain(|change| change.last_row <= end || change.removed.is_none());
        }
        let Since { is_all, revision, .. } = since;
        let next = if is_all {
            let number = last_row.unwrap_or(cursor.number).max(cursor.number);
            ReaderPhase::Live { revision, number }
        } else {
            let before = changes.iter().rfind(|change| change.last_row <= end);
            let revision = cursor.revision.max(before.map(|change| change.revision));
            ReaderPhase::Behind(Some(Cursor { number: end, revision, ..cursor }))
        };
        Ok(Some(Self { cursor, since, changes, next }))
    }

    /// Renders rows and deletions as events, in the order of their commits.
    fn render(&self, dataset: DatasetId, writer: &mut Writer) -> Bytes {
        let Since { rows, is_all, revision } = &self.since;
        let (mut events, mut cursor) = (Vec::new(), self.cursor);
        let is_new = |change: &&RowChange| Some(change.revision) > self.cursor.revision;
        let deletions = self.changes.iter().filter(is_new);
        let mut deletions =
            deletions.filter_map(|change| Some((change.removed?, change))).peekable();
        for (row_idx, number) in rows.ids.iter().copied().enumerate() {
            while let Some((span, change)) =
                deletions.next_if(|(_, change)| change.last_row < number)
            {
                cursor.revision = Some(change.revision);
                push_deletion_event(&mut events, dataset, span, change, cursor.era);
            }
            cursor.number = number;
            if *is_all && row_idx + 1 == rows.len() && deletions.peek().is_none() {
                cursor.revision = cursor.revision.map(|_| *revision);
            }
            let change_idx = self.changes.partition_point(|change| change.last_row < number);
            let is_correction =
                self.changes.get(change_idx).is_some_and(|change| change.has_replaced(number));
            let name = if is_correction { EVENT_CORRECTION } else { EVENT_DATA };
            push_row_event(&mut events, name, writer, rows, row_idx, cursor);
        }
        for (span, change) in deletions {
            push_deletion_event(&mut events, dataset, span, change, cursor.era);
        }
        events.into()
    }
}

/// Checks that the dataset is still visible to the key, and returns its columns. Must be called before
/// its rows are read.
fn begin(
    hub: &Hub,
    store: &dyn Store,
    key: KeyId,
    dataset: DatasetId,
) -> Result<Vec<Column>, StoreError> {
    let sight = store.sight(Some(key), &DatasetRef::Id(dataset))?;
    let sight = sight.ok_or(StoreError::NoDataset { dataset })?;
    hub.begin(dataset, sight.revision);
    Ok(sight.columns)
}

/// Returns a number for the cursor of each row: the highest number that is lower than the numbers of all
/// following rows. A reader that stops after a row and resumes with its cursor gets all following rows.
///
/// Row numbers are in the order of commits, but the rows are in the order of timestamps. Therefore a
/// correction has a higher number than some of the rows that follow it.
fn safe_numbers(numbers: &[i64]) -> Vec<i64> {
    let mut lowest = i64::MAX;
    let mut safe: Vec<i64> = numbers
        .iter()
        .rev()
        .map(|number| {
            let safe = if lowest == i64::MAX { *number } else { lowest - 1 };
            lowest = lowest.min(*number);
            safe
        })
        .collect();
    // After the last row, the reader has all rows, so its cursor has the highest number.
    if let (Some(last), Some(highest)) = (safe.first_mut(), numbers.iter().max()) {
        *last = *highest;
    }
    safe.reverse();
    safe
}

/// Renders the event that tells a reader that it cannot be resumed.
fn render_reset(dataset: DatasetId) -> Vec<u8> {
    render_event(
        EVENT_RESET,
        &Reset { dataset_id: dataset.get(), message: RESET_MESSAGE.to_owned() },
    )
}

/// Renders the rows of commits as events.
pub(crate) fn render_frames(
    writer: &mut Writer,
    rows: &Block,
    commits: &[CommitRows],
    era: u32,
) -> Vec<Frame> {
    frames_of(commits, |events, row_idx| {
        let number = rows.ids.get(row_idx).copied().unwrap_or_default();
        let cursor = Cursor { era, number, revision: None };
        push_row_event(events, EVENT_DATA, writer, rows, row_idx, cursor);
    })
}

/// Renders a row as a server-sent event called `name` with `cursor` as its id.
fn push_row_event(
    to: &mut Vec<u8>,
    name: &str,
    writer: &mut Writer,
    rows: &Block,
    row_idx: usize,
    cursor: Cursor,
) {
    to.extend_from_slice(b"event: ");
    to.extend_from_slice(name.as_bytes());
    to.extend_from_slice(b"\ndata: ");
    writer.flat_row(to, rows, row_idx);
    to.extend_from_slice(b"\nid: ");
    writer.timestamp(to, rows, row_idx);
    // Writing to memory cannot fail.
    write!(to, ":{cursor}\n\n").unwrap_or_default();
}

/// Renders the deletion of the rows of `span` as a server-sent event.
fn push_deletion_event(
    to: &mut Vec<u8>,
    dataset: DatasetId,
    span: Span,
    change: &RowChange,
    era: u32,
) {
    let RowChange { revision, last_row, .. } = *change;
    let deletion = Deletion {
        dataset_id: dataset.get(),
        start: (span.first > EARLIEST).then(|| span.first.to_string()),
        end: span.last.to_string(),
        revision,
    };
    let cursor = Cursor { era, number: last_row, revision: Some(revision) };
    to.extend(render_event(EVENT_DELETION, &deletion));
    // The id is inserted before the empty line.
    to.pop();
    write!(to, "id: {}:{cursor}\n\n", deletion.end).unwrap_or_default();
}

/// Renders a server-sent event.
pub(crate) fn render_event(name: &str, data: &impl Serialize) -> Vec<u8> {
    let mut event = format!("event: {name}\ndata: ").into_bytes();
    // Writing to memory cannot fail.
    serde_json::to_writer(&mut event, data).unwrap_or_default();
    event.extend_from_slice(b"\n\n");
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_cursors_are_rejected() {
        for revision in [None, Some(12)] {
            let cursor = Cursor { era: 0x00c0_ffee, number: 1447, revision };
            assert_eq!(Cursor::parse(&format!("2026-07-30T21:59:00Z:{cursor}")), Some(cursor));
        }
        for text in [
            "",
            "1447",
            "2026-07-30T21:59:00Z",
            "a:b-c",
            "t:00c0ffee--1",
            "t:1-",
            "t:1-2-",
            "t:1-2-x",
        ] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }

    #[track_caller]
    fn check(numbers: &[i64], want: &[i64]) {
        let got = safe_numbers(numbers);
        assert_eq!(got, want);
        for (idx, safe) in got.iter().enumerate() {
            let behind = numbers.get(idx + 1..).unwrap();
            assert!(behind.iter().all(|number| number > safe), "the rest comes after it");
        }
    }

    #[test]
    fn cursor_within_a_replay_precedes_all_rows_not_sent_yet() {
        check(&[], &[]);
        check(&[7], &[7]);
        check(&[5, 6, 9], &[5, 8, 9]);
        check(&[5, 90, 6, 7], &[5, 5, 6, 90]);
    }
}
