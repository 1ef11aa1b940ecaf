//! Follows a dataset: the newest rows, or those that a reader has missed, and then each new one.
//!
//! Rows are numbered in the order of their commits, over all datasets, and a row that replaces
//! another has a number of its own. So a reader that says which number it has is sent all rows with
//! higher ones, late and corrected rows among them, each once and as it is now; then it goes on live.
//! This comes from the store and holds over a restart. Rows that were deleted meanwhile are not told.

use std::io::Write as _;

use bytes::Bytes;
use formats::write::{Writer, row_bytes_max};
use model::{block::Block, dataset::DatasetId, key::KeyId, page::REPLAY_ROWS};
use serde::Serialize;
use tsdb::{
    catalog::DatasetRef,
    store::{Sight, StoreError},
};
use wire::datasets::{EVENT_DATA, EVENT_RESET, Reset};

use crate::{
    Datasets,
    catalog::CatalogError,
    hub::{CutOff, FRAME_BYTES, FRAME_ROWS, Frame, HubEvent, HubFull, Subscription},
};

/// Rows that a reader has missed which are read at a time: a few megabytes of events.
const MISSED_ROWS: usize = 8192;

/// Bytes of rows that a reader has missed which are read at a time, about: long rows are fewer.
const MISSED_BYTES: usize = 4 * 1024 * 1024;

/// Readers that read what they have missed at a time. After a restart there are many, and each
/// takes some milliseconds; the others wait.
pub(crate) const CATCHING_UP_MAX: usize = 4;

/// What a reader is told that cannot go on where it stopped.
const RESET_MESSAGE: &str =
    "What came since the given id is not known; the newest rows follow, and there may be a gap";

/// Why a dataset cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FollowError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// There are too many streams.
    #[error("too many streams are open")]
    Full(#[from] HubFull),
    /// The store failed.
    #[error("read the newest rows")]
    Store(#[from] StoreError),
    /// The catalogue failed.
    #[error("find the dataset")]
    Catalog(#[from] CatalogError),
}

/// Where a reader stopped: the number of the last row that it has, in a life of the store.
///
/// Written as `<moment of the row>:<life>-<number>`. The moment is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    era: u32,
    number: i64,
}

impl Cursor {
    /// Reads what a reader sends back; none if it is not of our making.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (_, place) = text.rsplit_once(':')?;
        let (era, number) = place.split_once('-')?;
        let era = u32::from_str_radix(era, 16).ok()?;
        let number: i64 = number.parse().ok()?;
        (number >= 0).then_some(Self { era, number })
    }
}

/// From where on a reader wants rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowFrom {
    /// The newest ones, and what comes after them.
    Newest,
    /// Those committed after the row that it has; none if it could not say which.
    After(Option<Cursor>),
}

/// A dataset being followed.
#[derive(Debug)]
pub(crate) struct FollowStream {
    /// Which.
    pub(crate) dataset: DatasetId,
    /// Whose key it is.
    key: KeyId,
    /// Whether the key may have lost sight of the dataset.
    must_recheck_access: bool,
    datasets: Datasets,
    state: State,
    /// Its place among the readers, until it follows live.
    place: Option<Subscription>,
}

#[derive(Debug)]
enum State {
    /// Rows with numbers above this one are still to be read.
    Behind(Option<Cursor>),
    /// The newest rows are still to be read.
    Replay,
    /// Each commit after this one is sent as it comes.
    Live(u64, Subscription),
}

/// Why following ended before its time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FollowEnd {
    /// The reader was too slow.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// What it missed could not be read.
    #[error("read what was missed")]
    Broken(#[from] FollowError),
}

impl FollowStream {
    /// The next rows as events, each commit once; none when the service stops, or the key does not
    /// see the dataset any more.
    ///
    /// First come the rows that the reader has missed, or the newest ones. Where it is not known what
    /// it has missed, an event says so before the newest ones. Cancel-safe.
    ///
    /// # Errors
    /// [`FollowEnd`].
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, FollowEnd> {
        let who = (self.key, self.dataset);
        loop {
            if self.must_recheck_access {
                let which = DatasetRef::Id(self.dataset);
                let grant =
                    self.datasets.find_grant(self.key, which).await.map_err(FollowError::from)?;
                if grant.is_none() {
                    return Ok(None);
                }
                self.must_recheck_access = false;
            }
            let next = match &mut self.state {
                State::Replay => self.datasets.read_replay(who, Vec::new()).await,
                State::Behind(cursor) => self.datasets.read_missed(who, *cursor).await,
                State::Live(revision, live) => match live.next().await? {
                    None => return Ok(None),
                    Some(HubEvent::Access) => {
                        self.must_recheck_access = true;
                        continue;
                    }
                    // Between subscribing and reading some commits came both ways.
                    Some(HubEvent::Frame(frame)) if frame.revision <= *revision => continue,
                    Some(HubEvent::Frame(frame)) => return Ok(Some(frame.events)),
                },
            };
            let (state, events) = match next {
                Err(FollowError::NotFound) => return Ok(None),
                next => next?,
            };
            self.state = state;
            if matches!(self.state, State::Live(..)) {
                self.place = None;
            }
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
    /// [`FollowError`].
    pub(crate) async fn follow(
        &self,
        key: KeyId,
        which: DatasetRef,
        from: FollowFrom,
    ) -> Result<FollowStream, FollowError> {
        let grant = self.find_grant(key, which).await?.ok_or(FollowError::NotFound)?;
        let dataset = grant.dataset;
        let state = match from {
            FollowFrom::Newest => State::Replay,
            FollowFrom::After(cursor) => State::Behind(cursor),
        };
        // Whether there is room is to be known before the answer begins.
        let place = Some(self.hub.subscribe(dataset, key)?);
        let (datasets, must_recheck_access) = (self.clone(), false);
        Ok(FollowStream { dataset, key, must_recheck_access, datasets, state, place })
    }

    /// The newest rows, oldest first, behind what is in `events`.
    async fn read_replay(
        &self,
        (key, dataset): (KeyId, DatasetId),
        mut events: Vec<u8>,
    ) -> Result<(State, Bytes), FollowError> {
        // In this order no commit can be missed, and no end of the key's access.
        let live = self.hub.subscribe(dataset, key)?;
        let era = self.era;
        let replay = self.read_store(move |store| {
            let Some(sight) = store.sight(key, &DatasetRef::Id(dataset))? else { return Ok(None) };
            let newest = store.newest(dataset, REPLAY_ROWS)?;
            let mut writer = Writer::new(dataset, &sight.columns);
            for (row_idx, number) in safe_numbers(&newest.rows.ids).into_iter().enumerate() {
                push_data_event(&mut events, &mut writer, (&newest.rows, row_idx), (era, number));
            }
            Ok(Some((Bytes::from(events), newest.revision)))
        });
        let (events, revision) = replay.await?.ok_or(FollowError::NotFound)?;
        Ok((State::Live(revision, live), events))
    }

    /// The rows committed after `cursor`, or some of them, in the order of their commits.
    async fn read_missed(
        &self,
        (key, dataset): (KeyId, DatasetId),
        cursor: Option<Cursor>,
    ) -> Result<(State, Bytes), FollowError> {
        let era = self.era;
        let Some(cursor) = cursor.filter(|cursor| cursor.era == era) else {
            return self.read_replay((key, dataset), render_reset(dataset)).await;
        };
        let live = self.hub.subscribe(dataset, key)?;
        let permit = self.catching_up.acquire().await.map_err(|_| StoreError::Closed)?;
        let missed = self.read_store(move |store| {
            let Some(Sight { columns, .. }) = store.sight(key, &DatasetRef::Id(dataset))? else {
                return Ok(Missed::Hidden);
            };
            let limit = (MISSED_BYTES / row_bytes_max(&columns)).clamp(1, MISSED_ROWS);
            let Some(since) = store.since(dataset, cursor.number, limit)? else {
                return Ok(Missed::Unknown);
            };
            let mut writer = Writer::new(dataset, &columns);
            let mut events = Vec::new();
            for (row_idx, number) in since.rows.ids.iter().enumerate() {
                push_data_event(&mut events, &mut writer, (&since.rows, row_idx), (era, *number));
            }
            let last = since.rows.ids.last().copied().unwrap_or(cursor.number);
            let events = Bytes::from(events);
            Ok(if since.is_all {
                Missed::All(events, since.revision)
            } else {
                Missed::Some(events, last)
            })
        });
        let missed = missed.await?;
        drop(permit);
        match missed {
            Missed::Hidden => Err(FollowError::NotFound),
            Missed::Unknown => self.read_replay((key, dataset), render_reset(dataset)).await,
            Missed::All(events, revision) => Ok((State::Live(revision, live), events)),
            Missed::Some(events, number) => {
                Ok((State::Behind(Some(Cursor { era, number })), events))
            }
        }
    }
}

/// What a reader has missed.
enum Missed {
    /// It does not see the dataset any more.
    Hidden,
    /// Nobody knows.
    Unknown,
    /// These events, up to the commit of this number.
    All(Bytes, u64),
    /// These events and more, which have higher numbers than this.
    Some(Bytes, i64),
}

/// For each row the number below which all rows up to it lie, and none after it: the cursor from
/// which a reader that has got so far is sent the rest.
///
/// Numbers are those of commits, and the rows are in the order of their moments: behind a corrected
/// row, which has a high number, there are others with lower ones.
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
    // Behind the last one nothing is missing up to the highest of all.
    if let (Some(last), Some(highest)) = (safe.first_mut(), numbers.iter().max()) {
        *last = *highest;
    }
    safe.reverse();
    safe
}

/// The event that says that it is not known what a reader has missed.
fn render_reset(dataset: DatasetId) -> Vec<u8> {
    render_event(
        EVENT_RESET,
        &Reset { dataset_id: dataset.get(), message: RESET_MESSAGE.to_owned() },
    )
}

/// Rows as events, in frames of at most [`FRAME_ROWS`] and about [`FRAME_BYTES`].
pub(crate) fn render_frames(
    writer: &mut Writer,
    rows: &Block,
    revision: u64,
    era: u32,
) -> Vec<Frame> {
    let (mut frames, mut events, mut n_rows) = (Vec::new(), Vec::new(), 0);
    for row_idx in 0..rows.len() {
        let number = rows.ids.get(row_idx).copied().unwrap_or_default();
        push_data_event(&mut events, writer, (rows, row_idx), (era, number));
        n_rows += 1;
        if n_rows == FRAME_ROWS || events.len() >= FRAME_BYTES || row_idx + 1 == rows.len() {
            frames.push(Frame { revision, events: Bytes::from(std::mem::take(&mut events)) });
            n_rows = 0;
        }
    }
    frames
}

/// A row as a server-sent event, and the cursor that stands behind it.
fn push_data_event(
    to: &mut Vec<u8>,
    writer: &mut Writer,
    (rows, row_idx): (&Block, usize),
    (era, number): (u32, i64),
) {
    to.extend_from_slice(b"event: ");
    to.extend_from_slice(EVENT_DATA.as_bytes());
    to.extend_from_slice(b"\ndata: ");
    writer.flat_row(to, rows, row_idx);
    to.extend_from_slice(b"\nid: ");
    writer.timestamp(to, rows, row_idx);
    // Writing to memory cannot fail.
    write!(to, ":{era:08x}-{number}\n\n").unwrap_or_default();
}

/// An event in the form of server-sent events.
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
    fn a_cursor_is_read_back_and_nothing_else_is() {
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
            assert!(behind.iter().all(|number| number > safe), "what is behind comes after it");
        }
    }

    #[test]
    fn a_replay_that_breaks_off_can_be_taken_up_again() {
        check(&[], &[]);
        check(&[7], &[7]);
        check(&[5, 6, 9], &[5, 8, 9]);
        check(&[5, 90, 6, 7], &[5, 5, 6, 90]);
    }
}
