//! Follows a dataset: the newest rows, or those that a reader has missed, and then each new one.
//!
//! The rows of a dataset are numbered in the order of their commits, in the embedded store over all
//! datasets, and a row that replaces another gets a new number. A reader that names the number of its
//! last row is sent all rows with higher ones, including late rows and corrections, each once and as it is
//! now; then it follows live. The rows come from the store, so this works across restarts. Deletions are
//! not sent.

use std::io::Write as _;

use bytes::Bytes;
use formats::write::{Writer, row_bytes_max};
use model::{
    block::Block,
    dataset::{Column, DatasetId},
    key::KeyId,
    page::REPLAY_ROWS,
};
use serde::Serialize;
use tsdb::{
    catalog::DatasetRef,
    store::{Since, Store, StoreError},
};
use wire::datasets::{EVENT_DATA, EVENT_RESET, Reset};

use crate::{
    Datasets,
    error::{OperationError, Result},
    hub::{
        CutOff, Hub, HubEvent, Subscription,
        frame::{CommitRows, Frame, frames_of},
    },
};

/// Missed rows that are read at a time: a few megabytes of events.
const MISSED_ROWS: usize = 8192;

/// About the bytes of missed rows that are read at a time, for long rows.
const MISSED_BYTES: usize = 4 * 1024 * 1024;

/// Readers that catch up at a time. After a restart there are many, and each takes some milliseconds;
/// the others wait.
pub(crate) const CATCHING_UP_MAX: usize = 4;

/// The message to a reader that cannot resume.
const RESET_MESSAGE: &str =
    "What came since the given id is not known; the newest rows follow, and there may be a gap";

/// Where a reader stopped: the number of the last row that it has, in an era of the store.
///
/// Written as `<timestamp of the row>:<era>-<number>`. The timestamp is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    era: u32,
    number: i64,
}

impl Cursor {
    /// Parses what a reader sends back; `None` if it is not a cursor of this service.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, row) = text.rsplit_once(':')?;
        let (era, number) = row.split_once('-')?;
        let era = u32::from_str_radix(era, 16).ok()?;
        let number: i64 = number.parse().ok()?;
        (number >= 0).then_some(Self { era, number })
    }
}

/// Where a reader starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowFrom {
    /// At the newest rows.
    Newest,
    /// After the row that it has; `None` if its cursor was not valid.
    After(Option<Cursor>),
}

/// A dataset being followed.
#[derive(Debug)]
pub(crate) struct FollowStream {
    pub(crate) dataset: DatasetId,
    key: KeyId,
    /// Whether the access of the key may have ended.
    must_recheck_access: bool,
    datasets: Datasets,
    state: State,
    /// Commits since the last read of the store. It is there from the start, so that a stream that
    /// began has its place among the readers.
    live: Subscription,
}

#[derive(Debug)]
enum State {
    /// Rows with numbers above this one are still to be read.
    Behind(Option<Cursor>),
    /// The newest rows are still to be read.
    Replay,
    /// Each commit after this one is sent as it comes.
    Live(u64),
}

/// Why following ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FollowEnd {
    /// The reader was too slow.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// The service does not know what follows.
    #[error("follow commits that the service has no record of any more")]
    Lost,
    /// The missed rows could not be read.
    #[error("read what was missed")]
    Broken(#[from] OperationError),
}

impl FollowStream {
    /// Returns the next rows as events, each commit once; `None` when the service stops, or the key does
    /// not see the dataset any more.
    ///
    /// First come the missed rows, or the newest ones. Where the missed rows are not known, a reset
    /// event comes before the newest ones. Cancel-safe.
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
            if !matches!(self.state, State::Live(_)) {
                // Before the store is read: no commit is missed, and no end of the access.
                self.live.restart();
            }
            let next = match self.state {
                State::Replay => self.datasets.read_replay(key, dataset, Vec::new()).await,
                State::Behind(cursor) => self.datasets.read_missed(key, dataset, cursor).await,
                State::Live(revision) => match self.live.next().await? {
                    None => return Ok(None),
                    Some(HubEvent::Access(_)) => {
                        self.must_recheck_access = true;
                        continue;
                    }
                    // Between subscribing and reading some commits came both ways.
                    Some(HubEvent::Frame(frame)) => match frame.after(revision) {
                        None => continue,
                        events => return Ok(events),
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
                return Ok(Some(events));
            }
        }
    }
}

impl Datasets {
    /// Follows a dataset that `key` sees.
    ///
    /// # Errors
    /// [`OperationError`].
    pub(crate) async fn follow(
        &self,
        key: KeyId,
        which: DatasetRef,
        from: FollowFrom,
    ) -> Result<FollowStream> {
        let dataset = self.sight(key, which).await?.dataset.id;
        let state = match from {
            FollowFrom::Newest => State::Replay,
            FollowFrom::After(cursor) => State::Behind(cursor),
        };
        // A full hub must be known before the response starts.
        let live = self.hub.subscribe(dataset, key).ok_or(OperationError::FULL)?;
        let (datasets, must_recheck_access) = (self.clone(), false);
        Ok(FollowStream { dataset, key, must_recheck_access, datasets, state, live })
    }

    /// Appends the newest rows, oldest first, to `events`.
    async fn read_replay(
        &self,
        key: KeyId,
        dataset: DatasetId,
        mut events: Vec<u8>,
    ) -> Result<(State, Bytes)> {
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
        Ok((State::Live(revision), events))
    }

    /// Reads rows committed after `cursor`, or the first of them, in the order of their commits.
    async fn read_missed(
        &self,
        key: KeyId,
        dataset: DatasetId,
        cursor: Option<Cursor>,
    ) -> Result<(State, Bytes)> {
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
        // The store has no record of what came after the cursor.
        let Some((events, Since { rows, is_all, revision })) = missed else {
            return self.read_replay(key, dataset, render_reset(dataset)).await;
        };
        if is_all {
            return Ok((State::Live(revision), events));
        }
        let number = rows.ids.last().copied().unwrap_or(cursor.number);
        Ok((State::Behind(Some(Cursor { era, number })), events))
    }
}

/// The columns of a dataset that the key still sees, whose rows it is about to read.
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

/// For each row the cursor with which a reader that stops after it is sent the rest: the highest number
/// below all rows that follow.
///
/// Numbers are in the order of commits, and the rows in the order of their timestamps: a correction
/// has a higher number than rows that follow it.
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
    // After the last row nothing is missing up to the highest number.
    if let (Some(last), Some(highest)) = (safe.first_mut(), numbers.iter().max()) {
        *last = *highest;
    }
    safe.reverse();
    safe
}

/// Renders the event for a reader that cannot resume.
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

/// Renders a row as a server-sent event whose id is `cursor`.
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
    // Writing numbers and text to memory cannot fail.
    serde_json::to_writer(&mut event, data).unwrap_or_default();
    event.extend_from_slice(b"\n\n");
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_cursors_parse() {
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
    fn an_interrupted_replay_can_be_resumed() {
        check(&[], &[]);
        check(&[7], &[7]);
        check(&[5, 6, 9], &[5, 8, 9]);
        check(&[5, 90, 6, 7], &[5, 5, 6, 90]);
    }
}
