//! Long-lived state: streams, pinned datasets and exports.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use strum::{IntoStaticStr, VariantArray};

use crate::event::{ExportSize, NamedRow, RowsEvent, StreamEvent};
use crate::screens::data::state::State;
use crate::screens::data::state::rows::RecentValues;
use crate::state::field::Field;
use crate::state::resource::{Failure, Resource};
use crate::state::runs::span;
use crate::widget::format;

/// Maximum number of rows held back while paused. Further rows are dropped and loaded again on resume.
pub(crate) const HELD_ROWS_MAX: usize = 2_000;

/// Age from which the latest row counts as historic, even with one row per day.
const PAST_FROM: Duration = Duration::from_hours(48);

/// A measurement of the pace is replaced by a newer one after this time. Otherwise, the pace of a
/// source that is up to date would include the time in which it caught up.
const PACE_WINDOW: Duration = Duration::from_secs(20);

/// Status of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) enum Status {
    #[default]
    Closed,
    Opening,
    Up,
    /// Lost. The next attempt to reconnect is at this time.
    Lost(Timestamp),
}

/// A stream and the rows held back while paused.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveStream {
    pub(crate) status: Status,
    /// Time of the last event of the stream.
    heard_at: Option<Timestamp>,
    /// Time at which rows last arrived.
    pub(crate) rows_at: Option<Timestamp>,
    /// Time at which rows last arrived that are not part of the replay.
    new_rows_at: Option<Timestamp>,
    /// Time at which the stream was last opened.
    opened_at: Option<Timestamp>,
    /// Timestamp of the latest row of the stream.
    newest_row: Option<Timestamp>,
    /// Arrival and timestamp of the row from which the pace is measured.
    pace_from: Option<(Timestamp, Timestamp)>,
    /// Arrival and timestamp of a later row, from which the pace is measured after [`PACE_WINDOW`].
    pace_next: Option<(Timestamp, Timestamp)>,
    /// Number of attempts to reconnect since the connection was lost.
    n_tries: u32,
    /// True if the stream was lost since rows were last read.
    pub(crate) was_lost: bool,
    /// Rows that arrived while paused, or `None` if not paused.
    pub(crate) held: Option<HeldRows>,
}

/// Rows held back.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldRows {
    pub(crate) rows: VecDeque<NamedRow>,
    pub(crate) n_rows: usize,
}

impl LiveStream {
    /// Returns true if rows are held back.
    pub(crate) const fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// Returns true if rows still arrive: a connected stream can be silent.
    pub(crate) fn is_flowing(&self, now: Timestamp) -> bool {
        // Rows can arrive once per minute, so somewhat more than a minute is allowed.
        self.is_up() && self.rows_at.is_some_and(|at| now.since(at) <= Duration::from_secs(90))
    }

    /// Returns true if the stream is connected.
    pub(crate) const fn is_up(&self) -> bool {
        matches!(self.status, Status::Up)
    }

    /// Returns true if the note of the stream changes every second.
    pub(crate) const fn is_counting(&self) -> bool {
        // Later attempts are far apart, without a countdown.
        matches!(self.status, Status::Lost(_)) && self.n_tries <= 5
    }

    /// Returns the time at which the latest row was added: its timestamp, or its arrival if the row is
    /// historic. `None` for historic rows of the replay, which can have been added long before.
    pub(crate) fn updated_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.newest_row {
            Some(row) if !is_past(row, now) => Some(row.min(now)),
            _ => self.new_rows_at,
        }
    }

    /// Returns a short note with the age of the latest row: `live · 2s ago`, `replay 60× ·
    /// 2025-11-03`,
    /// `paused · 118 new`, `stale 46s · reconnecting in 2s (3)`.
    pub(crate) fn note(&self, now: Timestamp) -> String {
        if let Some(held) = &self.held {
            let new = format!("paused · {} new", format::count(held.n_rows as u64));
            return if self.is_up() { new } else { format!("{new} · {}", self.line(now)) };
        }
        self.line(now)
    }

    /// Like [`Self::note`], without the held rows.
    fn line(&self, now: Timestamp) -> String {
        match (self.status, self.newest_row, self.heard_at) {
            (Status::Closed, ..) => "not followed".to_owned(),
            (Status::Opening, ..) => "connecting".to_owned(),
            (Status::Up, None, _) => "live".to_owned(),
            (Status::Up, Some(row), _) if is_past(row, now) => self.past(row, now),
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

    /// Describes historic rows that arrive now by their day, and by their pace if measured.
    fn past(&self, newest_row: Timestamp, now: Timestamp) -> String {
        let date = format::date(newest_row);
        if let (Some((at, row)), Some(rows_at)) = (self.pace_from, self.rows_at) {
            let took = rows_at.since(at);
            let pace = newest_row.since(row).as_secs_f64() / took.as_secs_f64();
            // The pace is shown after 2 s. Slower rows are late and not a replay.
            if took >= Duration::from_secs(2) && pace >= 1.5 && self.is_flowing(now) {
                return format!("replay {}× · {date}", format::grouped(pace.round(), 0));
            }
        }
        match self.new_rows_at {
            Some(at) => format!("rows of {date} · came {}", format::ago(now.since(at))),
            None => format!("rows of {date}"),
        }
    }

    /// Records the latest timestamp of `rows` and its pace.
    fn measure(&mut self, rows: &[NamedRow], now: Timestamp) {
        let Some(newest) = rows.iter().map(|row| row.timestamp).max() else { return };
        // The pace of a replay that starts over is measured again.
        if self.newest_row.is_some_and(|row| row.since(newest) > PAST_FROM) {
            self.newest_row = None;
            (self.pace_from, self.pace_next) = (None, None);
        }
        let newest = self.newest_row.map_or(newest, |row| row.max(newest));
        self.newest_row = Some(newest);
        // A stream starts with a replay, which does not indicate the pace.
        let is_repeated = self.opened_at.is_none_or(|at| now.since(at) < Duration::from_secs(2));
        if is_repeated {
            return;
        }
        self.new_rows_at = Some(now);
        match self.pace_next {
            None => {
                self.pace_from = Some((now, newest));
                self.pace_next = self.pace_from;
            }
            Some((at, _)) if now.since(at) >= PACE_WINDOW => {
                self.pace_from = self.pace_next.replace((now, newest));
            }
            Some(_) => {}
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
            StreamEvent::Connected => {
                self.opened_at = Some(now);
                (self.pace_from, self.pace_next) = (None, None);
            }
            StreamEvent::Item(rows) => {
                self.rows_at = Some(now);
                self.measure(rows, now);
            }
            _ => {}
        }
    }
}

impl State {
    /// Returns true if any stream is open.
    pub(crate) fn has_streams(&self) -> bool {
        self.live.status != Status::Closed || !self.pins.is_empty()
    }
}

/// Returns true if the latest row is historic, even if it arrives now.
pub(crate) fn is_past(newest_row: Timestamp, now: Timestamp) -> bool {
    now.since(newest_row) > PAST_FROM
}

/// Returns the age of the last row up to which a dataset of this frequency counts as fresh.
pub(crate) fn fresh_for(frequency: Option<&str>) -> Duration {
    // `minute` means `1 minute`.
    let apart = frequency.and_then(|text| span(text).or_else(|| span(&format!("1{text}"))));
    // A row can be late by three intervals.
    apart.map_or(Duration::from_mins(3), |apart| apart.saturating_mul(3))
}

/// Maximum number of pinned datasets. Each has a stream, and a service limits the streams per key.
pub(crate) const PINS_MAX: usize = 6;

/// Maximum number of unpinned datasets on the Overview, more than fit on most screens.
pub(crate) const OTHERS_MAX: usize = 12;

/// Number of values of a pinned dataset: two for each column of the widest sparkline.
pub(crate) const PIN_VALUES: usize = 240;

/// Statuses for a dataset that is deleted or not visible.
const GONE: [u16; 2] = [404, 410];

/// A pinned dataset.
#[derive(Debug, Clone)]
pub(crate) struct Pin {
    pub(crate) dataset: DatasetId,
    /// The display name.
    pub(crate) name: String,
    pub(crate) live: LiveStream,
    /// Latest values.
    pub(crate) spark: RecentValues,
    /// Loading of the details of the dataset, which are missing for a pin of an earlier session.
    pub(crate) details: Resource<()>,
    /// The metadata, which names the charted column.
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Pin {
    /// Returns a pin of which only id and name are known.
    pub(crate) fn new(dataset: DatasetId, name: String) -> Self {
        let spark = RecentValues::new(PIN_VALUES, Timestamp::MIN);
        let (live, metadata) = (LiveStream::default(), BTreeMap::new());
        Self { dataset, name, live, spark, details: Resource::EMPTY, metadata }
    }
}

/// A dataset on the Overview.
#[derive(Debug, Clone)]
pub(crate) struct WatchedDataset<'a> {
    pub(crate) dataset: DatasetId,
    /// The display name.
    pub(crate) name: &'a str,
    /// Column of the values, if the dataset has several.
    pub(crate) column: Option<String>,
    /// Latest values, once loaded.
    pub(crate) spark: Option<&'a RecentValues>,
    /// Unit of the dataset's values. Can be empty.
    pub(crate) unit: &'a str,
    /// The pin, if it is pinned.
    pub(crate) pin: Option<&'a Pin>,
}

/// The unit of shares.
pub(crate) const PERCENT: &str = "%";

/// Returns the unit of a dataset's values by its metadata, abbreviated where common.
pub(crate) fn unit(metadata: &BTreeMap<String, String>) -> &str {
    unit_in_short(metadata.get("unit").map_or("", String::as_str))
}

/// Abbreviates a common unit.
pub(crate) fn unit_in_short(unit: &str) -> &str {
    match unit {
        "percent" => PERCENT,
        "bytes per second" => "B/s",
        "bytes" => "B",
        "seconds" => "s",
        other => other,
    }
}

/// Returns true if a dataset is deleted or not visible.
pub(crate) fn is_gone(why: &Failure) -> bool {
    why.status.is_some_and(|status| GONE.contains(&status))
}

impl State {
    /// Returns the pinned datasets, then others in the order of the list.
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

/// Range of an export. The names are the labels in the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub(crate) enum Range {
    #[default]
    #[strum(serialize = "the charted range")]
    Loaded,
    /// A day up to the latest row.
    #[strum(serialize = "24 hours")]
    Day,
    /// A week up to the latest row.
    #[strum(serialize = "7 days")]
    Week,
    #[strum(serialize = "everything")]
    All,
}

/// The form and the running export.
#[derive(Debug, Clone, Default)]
pub(crate) struct Export {
    /// The path, as typed.
    pub(crate) path: Field,
    pub(crate) range: Range,
    /// Progress of the running export, if any.
    pub(crate) progress: Option<ExportSize>,
}

impl Export {
    /// Returns the format of the path's extension, by default CSV, which every service supports.
    pub(crate) fn format(&self) -> &'static str {
        let path = self.path.value().to_lowercase();
        let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
        let formats = ["csv", "json", "ndjson", "parquet", "arrow"];
        formats.into_iter().find(|format| *format == ending).unwrap_or("csv")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn timestamp(second: i64) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000 + second)
    }

    #[test]
    fn freshness_depends_on_the_frequency() {
        assert_eq!(fresh_for(Some("1s")), Duration::from_secs(3));
        assert_eq!(fresh_for(Some("5m")), Duration::from_mins(15));
        assert_eq!(fresh_for(Some("often")), Duration::from_mins(3));
        assert_eq!(fresh_for(None), Duration::from_mins(3));
    }

    #[test]
    fn replay_speed_ignores_catch_up() {
        let mut live = LiveStream::default();
        let year = 365 * 24 * 3_600;
        let mut hear = |news: RowsEvent, second: i64| {
            live.on_event(&news, timestamp(year + second));
            live.note(timestamp(year + second))
        };
        hear(StreamEvent::Connected, 0);
        // A month in a few seconds, then a minute each second.
        let row = |second: i64| {
            let values = BTreeMap::new();
            StreamEvent::Item(vec![NamedRow { timestamp: timestamp(second), values }])
        };
        hear(row(0), 5);
        assert!(hear(row(2_592_000), 10).starts_with("replay 518 400×"));
        let mut note = String::new();
        for second in 11..=60 {
            note = hear(row(2_592_000 + (second - 10) * 60), second);
        }
        assert!(note.starts_with("replay 60×"), "{note}");
    }
}
