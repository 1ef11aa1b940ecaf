//! The stream of the dataset that is charted: how it stands, and what it brings.

use std::{collections::VecDeque, time::Duration};

use model::{dataset::DatasetId, page::Limit, resolution::Resolution, timestamp::Timestamp};

use super::{BUCKETS_AGAIN, State, TAPE_ROWS, sample::Shape, spark};
use crate::{
    event::{Effect, NamedRow, RowsQuery, StreamNews},
    state::loadable::Failure,
    widget::{candles::Candle, format},
};

/// Rows held back while paused. What is more is let go, and asked for again on going on.
const HELD_ROWS_MAX: usize = 2_000;

/// How a stream stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Status {
    /// Not wanted.
    #[default]
    Closed,
    /// Asked for.
    Opening,
    /// Up.
    Up {
        /// When something was last heard.
        heard: Timestamp,
    },
    /// Down, and tried again by itself.
    Lost {
        /// Why.
        why: Failure,
        /// When it is tried again.
        retry_at: Timestamp,
    },
}

/// A stream, and what of it is held back.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// How it stands.
    pub status: Status,
    /// When it last brought rows.
    rows_at: Option<Timestamp>,
    /// Whether it was lost since rows were last read.
    was_lost: bool,
    /// What came while paused; none while not.
    held: Option<Held>,
}

/// Rows held back.
#[derive(Debug, Clone, Default)]
struct Held {
    rows: VecDeque<NamedRow>,
    n_rows: usize,
}

impl Live {
    /// Asks for the stream of `dataset`.
    pub(super) fn open(&mut self, dataset: DatasetId, _now: Timestamp) -> Effect {
        self.status = Status::Opening;
        Effect::OpenStream { dataset }
    }

    /// The stream is no longer wanted.
    pub(super) fn close(&mut self) {
        self.status = Status::Closed;
    }

    /// Whether rows are held back.
    pub const fn is_paused(&self) -> bool {
        self.held.is_some()
    }

    /// Whether rows still come: a stream that is up may be silent.
    pub fn is_flowing(&self, now: Timestamp) -> bool {
        /// A little more than the distance of rows a minute apart.
        const SILENCE_MAX: Duration = Duration::from_secs(90);
        self.is_up() && self.rows_at.is_some_and(|at| now.since(at) <= SILENCE_MAX)
    }

    /// When it last brought rows.
    pub const fn rows_at(&self) -> Option<Timestamp> {
        self.rows_at
    }

    /// Whether it is up.
    pub const fn is_up(&self) -> bool {
        matches!(self.status, Status::Up { .. })
    }

    /// How it stands, in a few words: `live · 2s ago`, `paused · 118 new`.
    pub fn note(&self, now: Timestamp) -> String {
        if let Some(held) = &self.held {
            return format!("paused · {} new", held.n_rows);
        }
        match &self.status {
            Status::Closed => "not followed".to_owned(),
            Status::Opening => "connecting".to_owned(),
            Status::Up { heard } => format!("live · {}", format::ago(now.since(*heard))),
            Status::Lost { retry_at, .. } => {
                format!("lost · retry in {}s", retry_at.since(now).as_secs())
            }
        }
    }
}

impl State {
    /// Something happened on the stream.
    pub(super) fn on_stream(&mut self, news: StreamNews, now: Timestamp) -> Vec<Effect> {
        match news {
            StreamNews::Connected => {
                self.live.status = Status::Up { heard: now };
                // The replay is short; what is older and was missed is asked for.
                if std::mem::take(&mut self.live.was_lost) {
                    return self.load_rows(now).into_iter().collect();
                }
                Vec::new()
            }
            StreamNews::Heartbeat => {
                self.live.status = Status::Up { heard: now };
                Vec::new()
            }
            StreamNews::Rows(rows) => {
                self.live.status = Status::Up { heard: now };
                self.live.rows_at = Some(now);
                match &mut self.live.held {
                    Some(held) => {
                        held.n_rows = held.n_rows.saturating_add(rows.len());
                        held.rows.extend(rows);
                        let n_over = held.rows.len().saturating_sub(HELD_ROWS_MAX);
                        held.rows.drain(..n_over);
                        Vec::new()
                    }
                    None => self.take_rows(rows, now),
                }
            }
            StreamNews::Lost { why, retry_in } => {
                self.live.was_lost = true;
                self.live.status = Status::Lost { why, retry_at: now + retry_in };
                Vec::new()
            }
        }
    }

    /// Holds back what comes from now on, or takes what was held back.
    pub(super) fn pause(&mut self, now: Timestamp) -> Vec<Effect> {
        let Some(held) = self.live.held.take() else {
            self.live.held = Some(Held::default());
            return Vec::new();
        };
        let is_whole = held.n_rows == held.rows.len();
        let mut effects = self.take_rows(held.rows.into(), now);
        if !is_whole {
            effects = self.load_rows(now).into_iter().collect();
        }
        effects
    }

    /// Takes rows into the chart, the tape and the sparkline.
    fn take_rows(&mut self, rows: Vec<NamedRow>, now: Timestamp) -> Vec<Effect> {
        let shape = self.shape().or_else(|| {
            let metadata = &self.dataset()?.metadata;
            rows.first().map(|row| Shape::guess(metadata, row))
        });
        let samples = rows.iter().filter_map(|row| shape.as_ref()?.sample(row));
        let samples: Vec<Candle> = samples.collect();
        for row in rows {
            spark::put_newest(&mut self.tape, row, TAPE_ROWS);
        }
        let newest_before = self.chart.nth_newest(0).map(|candle| candle.time);
        self.take_own_spark(&samples, now);
        self.chart.take_rows(samples);
        let newest = self.chart.nth_newest(0).map(|candle| candle.time);
        let is_over = newest_before.is_some() && newest > newest_before;
        self.load_again(is_over)
    }

    /// Asks for the newest buckets again if one is over, and nothing else is under way.
    fn load_again(&mut self, is_over: bool) -> Vec<Effect> {
        let resolution = self.chart.resolution();
        match self.selected {
            Some(dataset) if is_over && resolution != Resolution::Raw && self.asked.is_none() => {
                let limit = Limit::clamped(BUCKETS_AGAIN);
                vec![self.ask(RowsQuery::newest(dataset, resolution, limit))]
            }
            _ => Vec::new(),
        }
    }
}

/// How long after its last row a dataset of this frequency is still called fresh.
#[must_use]
pub fn fresh_for(frequency: Option<&str>) -> Duration {
    /// Where a dataset does not say how often it has rows.
    const UNKNOWN: Duration = Duration::from_mins(3);
    /// A row may be late by this many times its distance to the one before.
    const LATE: u32 = 3;
    let Some(text) = frequency else { return UNKNOWN };
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(n_digits).unwrap_or((text, ""));
    let number = number.parse().unwrap_or(1_u64);
    let seconds = match unit.trim() {
        "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        _ => return UNKNOWN,
    };
    Duration::from_secs(number.saturating_mul(seconds)).saturating_mul(LATE)
}
