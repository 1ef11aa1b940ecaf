//! State that outlives the selection of a dataset: streams, pinned datasets and exports.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::dataset::DatasetId;
use model::timestamp::Timestamp;

use crate::event::{ExportSize, NamedRow, RowsEvent, StreamEvent};
use crate::screens::data::state::State;
use crate::screens::data::state::rows::RecentValues;
use crate::state::resource::{Failure, Resource};
use crate::state::runs::span;
use crate::widget::format;

/// Maximum number of rows held back while paused. Further rows are dropped, and loaded when the
/// screen resumes.
pub(crate) const HELD_ROWS_MAX: usize = 2_000;

/// Age from which the latest row counts as historic. Datasets with one row per day are still
/// current.
const PAST_FROM: Duration = Duration::from_hours(48);

/// Time before a timestamp at which it counts as future. The clocks of sources differ by less.
const FUTURE_FROM: Duration = Duration::from_mins(5);

/// Time without a row after which a replay is over.
const REPLAY_OVER: Duration = Duration::from_secs(10);

/// Status of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Status {
    #[default]
    Closed,
    Opening,
    Up,
    /// Lost. The next attempt to connect is at this time.
    Lost(Timestamp),
}

/// A stream, and the rows that are held back while the screen is paused.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveStream {
    pub(crate) status: Status,
    /// Time of the last event.
    heard_at: Option<Timestamp>,
    /// Time at which rows last arrived, apart from rows of the replay.
    new_rows_at: Option<Timestamp>,
    /// Time at which the stream was last connected.
    opened_at: Option<Timestamp>,
    /// Timestamp of the latest row.
    newest_row: Option<Timestamp>,
    /// Number of attempts to connect since the stream was lost.
    n_tries: u32,
    /// True if the stream was lost after rows were last requested, so rows can be missing.
    pub(crate) was_lost: bool,
    /// Rows that are held back while paused. `None` if not paused.
    pub(crate) held: Option<HeldRows>,
}

/// Rows held back.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldRows {
    pub(crate) rows: VecDeque<NamedRow>,
    pub(crate) n_rows: usize,
}

impl LiveStream {
    /// Returns true if the screen is paused, so rows are held back.
    pub(crate) const fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// Returns true if the stream is connected.
    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.status, Status::Up)
    }

    /// Returns true if the note contains a countdown, which changes every second.
    pub(crate) const fn is_counting(&self) -> bool {
        // After five attempts, the waits are long and the note contains no countdown.
        matches!(self.status, Status::Lost(_)) && self.n_tries <= 5
    }

    /// Returns the time at which the latest row was added to the dataset: its timestamp, or its
    /// arrival if the row is historic or in the future. `None` if such rows have only arrived in the
    /// replay, since they can have been added long before.
    pub(crate) fn updated_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.newest_row {
            Some(row) if !is_past(row, now) && !is_future(row, now) => Some(row.min(now)),
            _ => self.new_rows_at,
        }
    }

    /// Describes the state of the stream and the age of the latest row: `live · 2s ago`,
    /// `replay · 2025-11-03`, `paused · 118 new`, `stale 46s · reconnecting in 2s (3)`.
    pub(crate) fn note(&self, now: Timestamp) -> String {
        if let Some(held) = &self.held {
            let new = format!("paused · {} new", format::count(held.n_rows as u64));
            return if self.is_up() { new } else { format!("{new} · {}", self.line(now)) };
        }
        self.line(now)
    }

    /// Like [`Self::note`], without a mention of held rows.
    fn line(&self, now: Timestamp) -> String {
        match (self.status, self.newest_row, self.heard_at) {
            (Status::Closed, ..) => "not followed".to_owned(),
            (Status::Opening, ..) => "connecting".to_owned(),
            (Status::Up, None, _) => "live".to_owned(),
            (Status::Up, Some(row), _) if is_past(row, now) || is_future(row, now) => {
                self.dated(row, now)
            }
            (Status::Up, Some(row), _) => format!("live · {}", format::ago(now.since(row))),
            (Status::Lost(retry_at), _, heard_at) => {
                let again = if self.is_counting() {
                    let left = retry_at.since(now).as_secs();
                    format!("reconnecting in {left}s ({})", self.n_tries)
                } else {
                    "reconnecting".to_owned()
                };
                match heard_at {
                    Some(at) => format!("stale {} · {again}", format::age(now.since(at))),
                    None => format!("never connected · {again}"),
                }
            }
        }
    }

    /// Describes a stream of historic or future rows by the day of the latest row.
    fn dated(&self, newest_row: Timestamp, now: Timestamp) -> String {
        let date = format::date(newest_row);
        match self.new_rows_at.map(|at| now.since(at)) {
            Some(age) if age <= REPLAY_OVER && is_past(newest_row, now) => {
                format!("replay · {date}")
            }
            Some(age) => format!("rows of {date} · came {}", format::ago(age)),
            None => format!("rows of {date}"),
        }
    }

    /// Records the latest timestamp of `rows`, and their arrival unless the stream repeats them.
    fn measure(&mut self, rows: &[NamedRow], now: Timestamp) {
        let Some(newest) = rows.iter().map(|row| row.timestamp).max() else { return };
        // The source can start again at an earlier time.
        let before = self.newest_row.filter(|row| row.since(newest) <= PAST_FROM);
        self.newest_row = before.max(Some(newest));
        // A stream begins with a replay of stored rows.
        if self.opened_at.is_some_and(|at| now.since(at) >= Duration::from_secs(2)) {
            self.new_rows_at = Some(now);
        }
    }

    /// Handles an event of the stream.
    pub(crate) fn on_event(&mut self, news: &RowsEvent, now: Timestamp) {
        if let StreamEvent::Lost { retry_in, .. } = news {
            self.was_lost = true;
            self.n_tries = self.n_tries.saturating_add(1);
            self.status = Status::Lost(now + *retry_in);
            return;
        }
        self.heard_at = Some(now);
        self.n_tries = 0;
        self.status = Status::Up;
        match news {
            StreamEvent::Connected => self.opened_at = Some(now),
            StreamEvent::Item(rows) => self.measure(rows, now),
            _ => {}
        }
    }
}

impl State {
    /// Returns true if any stream is open.
    pub(crate) fn has_streams(&self) -> bool {
        self.live.status != Status::Closed || !self.pins.is_empty()
    }

    /// Returns the pinned datasets, followed by at most [`OTHERS_MAX`] other datasets in the order
    /// of the list.
    pub(crate) fn watched(&self) -> Vec<WatchedDataset<'_>> {
        let pinned = self.pins.iter().map(|pin| WatchedDataset {
            dataset: pin.dataset,
            name: &pin.name,
            column: self.shown_column(pin.dataset, &pin.metadata),
            spark: Some(&pin.spark),
            unit: unit(&pin.metadata),
            pin: Some(pin),
        });
        let others = self.list().iter().filter(|dataset| !self.is_pinned(dataset.id));
        let others = others.take(OTHERS_MAX).map(|dataset| WatchedDataset {
            dataset: dataset.id,
            name: &dataset.name,
            column: self.shown_column(dataset.id, &dataset.metadata),
            spark: self.sparklines.get(&dataset.id),
            unit: unit(&dataset.metadata),
            pin: None,
        });
        pinned.chain(others).collect()
    }

    /// Returns true if `dataset` is pinned.
    pub(crate) fn is_pinned(&self, dataset: DatasetId) -> bool {
        self.pins.iter().any(|pin| pin.dataset == dataset)
    }
}

/// Returns true if a latest row with this timestamp is historic, even if it has just arrived.
pub(crate) fn is_past(newest_row: Timestamp, now: Timestamp) -> bool {
    now.since(newest_row) > PAST_FROM
}

/// Returns true if a latest row has a future timestamp, beyond the differences of clocks, so its age
/// is unknown.
fn is_future(newest_row: Timestamp, now: Timestamp) -> bool {
    newest_row.since(now) > FUTURE_FROM
}

/// Returns the maximum age of the latest row with which a dataset of this frequency counts as
/// fresh.
pub(crate) fn fresh_for(frequency: Option<&str>) -> Duration {
    // `minute` means `1 minute`.
    let apart = frequency.and_then(|text| span(text).or_else(|| span(&format!("1{text}"))));
    // A row can be late by two further intervals.
    apart.map_or(Duration::from_mins(3), |apart| apart.saturating_mul(3))
}

/// Maximum number of pinned datasets. Each has a stream, and services limit the streams of a key.
pub(crate) const PINS_MAX: usize = 6;

/// Maximum number of unpinned datasets on the Overview screen. Most screens have space for fewer.
pub(crate) const OTHERS_MAX: usize = 12;

/// Number of values of a pinned dataset: two for each column of the widest sparkline.
pub(crate) const PIN_VALUES: usize = 240;

/// HTTP statuses for a dataset that is deleted or not visible.
const GONE: [u16; 2] = [404, 410];

/// A pinned dataset.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    pub(crate) dataset: DatasetId,
    /// The display name.
    pub(crate) name: String,
    pub(crate) live: LiveStream,
    /// Latest values of the charted column.
    pub(crate) spark: RecentValues,
    /// Loading of the dataset's details, which are unknown for a pin restored from a session.
    pub(crate) details: Resource<()>,
    /// Metadata of the dataset. It can name the column to chart.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Pin {
    /// Returns a pin of a dataset with known id and name.
    pub(crate) fn new(dataset: DatasetId, name: String) -> Self {
        let spark = RecentValues::new(PIN_VALUES, Timestamp::MIN);
        let (live, metadata) = (LiveStream::default(), BTreeMap::new());
        Self { dataset, name, live, spark, details: Resource::EMPTY, metadata }
    }
}

/// A dataset on the Overview screen.
#[derive(Debug, Clone)]
pub(crate) struct WatchedDataset<'a> {
    pub(crate) dataset: DatasetId,
    /// The display name.
    pub(crate) name: &'a str,
    /// Name of the displayed column, if the dataset has several numeric columns.
    pub(crate) column: Option<String>,
    /// Latest values. `None` until they are loaded.
    pub(crate) spark: Option<&'a RecentValues>,
    /// Unit of the values. Empty if unknown.
    pub(crate) unit: &'a str,
    /// Pin of the dataset, if it is pinned.
    pub(crate) pin: Option<&'a Pin>,
}

/// Short form of the unit `percent`.
pub(crate) const PERCENT: &str = "%";

/// Returns the unit that the metadata contains, abbreviated if it is a common one. Empty if
/// unknown.
pub(crate) fn unit(metadata: &BTreeMap<String, String>) -> &str {
    unit_in_short(metadata.get("unit").map_or("", String::as_str))
}

/// Abbreviates a unit if it is a common one.
pub(crate) fn unit_in_short(unit: &str) -> &str {
    match unit {
        "percent" => PERCENT,
        "bytes per second" => "B/s",
        "bytes" => "B",
        "seconds" => "s",
        other => other,
    }
}

/// Returns true if a request failed because the dataset is deleted or not visible.
pub(crate) fn is_gone(why: &Failure) -> bool {
    why.status.is_some_and(|status| GONE.contains(&status))
}

/// Ranges of an export, as in its form: the charted range, the last day or week before the latest row,
/// or everything.
pub(crate) const RANGES: &[&str] = &["the charted range", "24 hours", "7 days", "everything"];

/// State of the exports of rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Export {
    /// Path of the last export.
    pub(crate) path: String,
    /// Progress of the export. `None` if no export is in progress.
    pub(crate) progress: Option<ExportSize>,
}

/// Returns the format that the extension of the path names. The default is CSV, which every service
/// supports.
pub(crate) fn format_of(path: &str) -> &'static str {
    let path = path.to_lowercase();
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let formats = ["csv", "json", "ndjson", "parquet", "arrow"];
    formats.into_iter().find(|format| *format == ending).unwrap_or("csv")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_of_a_dataset_depends_on_the_frequency_of_its_rows() {
        assert_eq!(fresh_for(Some("1s")), Duration::from_secs(3));
        assert_eq!(fresh_for(Some("5m")), Duration::from_mins(15));
        assert_eq!(fresh_for(Some("often")), Duration::from_mins(3));
        assert_eq!(fresh_for(None), Duration::from_mins(3));
    }
}
