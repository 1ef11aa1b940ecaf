//! Follows a dataset: sends the latest or missed rows first, then each new row.
//!
//! The rows of a dataset are numbered in the order of their commits. The embedded store numbers the rows
//! of all datasets together. A row that replaces another gets a new number. A reader that sends the
//! number of its last row gets all rows with higher numbers, including late rows and corrections, each
//! row once and in its current state. Then it gets new rows as they are committed. Missed rows are read
//! from the store, so they are available even after a restart. Deletions are not sent.

use std::io::Write as _;

use bytes::Bytes;
use formats::write::{Writer, row_bytes_max};
use model::block::Block;
use model::dataset::{Column, DatasetId};
use model::key::KeyId;
use model::page::REPLAY_ROWS;
use model::resolution::Resolution;
use serde::Serialize;
use tsdb::catalog::DatasetRef;
use tsdb::store::{Since, Store, StoreError};
use wire::datasets::{EVENT_DATA, EVENT_RESET, Reset};

use crate::Datasets;
use crate::error::{OperationError, Result};
use crate::hub::frame::{CommitRows, Frame, frames_of};
use crate::hub::{CutOff, Hub, HubEvent, Subscription};
use crate::query::SelectedColumns;

/// Maximum number of missed rows that are read at a time. Their events occupy a few megabytes.
const MISSED_ROWS: usize = 8192;

/// Approximate maximum size in bytes of missed rows that are read at a time, which applies to long rows.
const MISSED_BYTES: usize = 4 * 1024 * 1024;

/// Maximum number of readers that catch up concurrently. Further readers wait. After a restart, all
/// readers catch up, each of which takes some milliseconds.
pub(crate) const CATCHING_UP_MAX: usize = 4;

/// Message to a reader with an unknown position, which cannot be resumed.
const RESET_MESSAGE: &str =
    "The rows since the given id are unknown; the latest rows follow, and there may be a gap";

/// Position of a reader: the number of its last row, and the era of the store in which the number is
/// valid.
///
/// The text form is `<timestamp of the row>:<era>-<number>`. The timestamp is only informative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    era: u32,
    number: i64,
}

impl Cursor {
    /// Parses a cursor that a client sent. Returns `None` if no service can have issued it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, row) = text.rsplit_once(':')?;
        let (era, number) = row.split_once('-')?;
        let era = u32::from_str_radix(era, 16).ok()?;
        let number: i64 = number.parse().ok()?;
        (number >= 0).then_some(Self { era, number })
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
    /// True if the key can have lost access since the last check.
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
    /// All rows up to this revision were sent. Later commits are sent as they are published.
    Live(u64),
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
            if !matches!(self.state, ReaderPhase::Live(_)) {
                // Restarts before the store is read, so that no later commit and no loss of access is
                // missed.
                self.live.restart();
            }
            let next = match self.state {
                ReaderPhase::Replay => self.datasets.read_replay(key, dataset, Vec::new()).await,
                ReaderPhase::Behind(cursor) => {
                    self.datasets.read_missed(key, dataset, cursor).await
                }
                ReaderPhase::Live(revision) => match self.live.next().await? {
                    None => return Ok(None),
                    Some(HubEvent::Access(_)) => {
                        self.must_recheck_access = true;
                        continue;
                    }
                    // A commit between the restart and the read is in both, but is sent only once.
                    Some(HubEvent::Frame(frame)) => match frame.after(revision) {
                        None => continue,
                        Some(events) => return Ok(Some(self.columns.filter_events(events))),
                    },
                    Some(HubEvent::Lost) => return Err(FollowEnd::Lost),
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
    /// Follows a dataset that is visible to `key`.
    ///
    /// # Errors
    /// [`OperationError`].
    pub(crate) async fn follow(
        &self,
        key: KeyId,
        which: DatasetRef,
        columns: SelectedColumns,
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
        let (datasets, must_recheck_access) = (self.clone(), false);
        Ok(FollowStream { dataset, key, columns, must_recheck_access, datasets, state, live })
    }

    /// Appends the latest rows to `events`, oldest first.
    async fn read_replay(
        &self,
        key: KeyId,
        dataset: DatasetId,
        mut events: Vec<u8>,
    ) -> Result<(ReaderPhase, Bytes)> {
        let (era, hub) = (self.era, self.hub.clone());
        let replay = self.read_store(move |store| {
            let columns = begin(&hub, store, key, dataset)?;
            let (rows, revision) = store.newest(dataset, REPLAY_ROWS)?;
            let mut writer = Writer::new(dataset, &columns);
            for (row_idx, number) in safe_numbers(&rows.ids).into_iter().enumerate() {
                push_data_event(&mut events, &mut writer, &rows, row_idx, Cursor { era, number });
            }
            Ok((Bytes::from(events), revision))
        });
        let (events, revision) = replay.await?;
        Ok((ReaderPhase::Live(revision), events))
    }

    /// Reads the next rows that were committed after `cursor`, in the order of their commits.
    async fn read_missed(
        &self,
        key: KeyId,
        dataset: DatasetId,
        cursor: Option<Cursor>,
    ) -> Result<(ReaderPhase, Bytes)> {
        let era = self.era;
        let Some(cursor) = cursor.filter(|cursor| cursor.era == era) else {
            return self.read_replay(key, dataset, render_reset(dataset)).await;
        };
        let permit = self.catching_up.acquire().await.map_err(|_| StoreError::Closed)?;
        let hub = self.hub.clone();
        let missed = self.read_store(move |store| {
            let columns = begin(&hub, store, key, dataset)?;
            let limit = (MISSED_BYTES / row_bytes_max(&columns)).clamp(1, MISSED_ROWS);
            let Some(since) = store.since(dataset, cursor.number, limit)? else {
                return Ok(None);
            };
            let mut writer = Writer::new(dataset, &columns);
            let mut events = Vec::new();
            for (row_idx, number) in since.rows.ids.iter().copied().enumerate() {
                let cursor = Cursor { era, number };
                push_data_event(&mut events, &mut writer, &since.rows, row_idx, cursor);
            }
            Ok(Some((Bytes::from(events), since)))
        });
        let missed = missed.await?;
        drop(permit);
        // The store no longer knows the rows after the cursor.
        let Some((events, Since { rows, is_all, revision })) = missed else {
            return self.read_replay(key, dataset, render_reset(dataset)).await;
        };
        if is_all {
            return Ok((ReaderPhase::Live(revision), events));
        }
        let number = rows.ids.last().copied().unwrap_or(cursor.number);
        Ok((ReaderPhase::Behind(Some(Cursor { era, number })), events))
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

/// Returns a row number for the cursor of each row. A reader that stops after a row and resumes with its
/// cursor gets all rows that follow, since the number is lower than the numbers of all following rows.
/// It is the highest such number.
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
        push_data_event(events, writer, rows, row_idx, Cursor { era, number });
    })
}

/// Renders a row as a server-sent event with `cursor` as its id.
fn push_data_event(
    to: &mut Vec<u8>,
    writer: &mut Writer,
    rows: &Block,
    row_idx: usize,
    cursor: Cursor,
) {
    to.extend_from_slice(b"event: ");
    to.extend_from_slice(EVENT_DATA.as_bytes());
    to.extend_from_slice(b"\ndata: ");
    writer.flat_row(to, rows, row_idx);
    to.extend_from_slice(b"\nid: ");
    writer.timestamp(to, rows, row_idx);
    // Writing to memory cannot fail.
    write!(to, ":{:08x}-{}\n\n", cursor.era, cursor.number).unwrap_or_default();
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
        let cursor = Cursor { era: 0x00c0_ffee, number: 1447 };
        assert_eq!(Cursor::parse("2026-07-30T21:59:00Z:00c0ffee-1447"), Some(cursor));
        for text in ["", "1447", "2026-07-30T21:59:00Z", "a:b-c", "t:00c0ffee--1", "t:1-"] {
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
