//! Follows the charted dataset: takes live rows, pauses, opens and closes streams.

use model::{resolution::Resolution, row::Bucket, timestamp::Timestamp};

use super::{BUCKETS_AGAIN, TAPE_ROWS};
use crate::{
    event::{Effect, NamedRow, RowsEvent, StreamEvent},
    screens::data::state::{
        State, spark,
        stream::{HELD_ROWS_MAX, HeldRows, Status},
    },
};

impl State {
    /// Follows the dataset that is charted.
    pub(crate) fn open_stream(&mut self) {
        let Some(dataset) = self.selected else { return };
        self.live.status = Status::Opening;
        self.effects.push(Effect::OpenStream { dataset });
    }

    /// Follows the dataset that is charted no longer, unless it is pinned.
    pub(crate) fn close_stream(&mut self) {
        self.live.status = Status::Closed;
        if let Some(dataset) = self.selected.filter(|dataset| !self.is_pinned(*dataset)) {
            self.effects.push(Effect::CloseStream { dataset });
        }
    }

    /// Handles an event of the charted dataset's stream.
    pub(crate) fn on_stream(&mut self, news: RowsEvent, now: Timestamp) {
        self.live.on_event(&news, now);
        match news {
            // What came meanwhile comes by the stream, in rows; what is shown may be buckets.
            StreamEvent::Connected => {
                let was_lost = std::mem::take(&mut self.live.was_lost);
                let is_raw = self.chart.resolution() == Resolution::Raw;
                if was_lost && !is_raw {
                    self.load_rows(now);
                }
            }
            // Late rows may have been missed.
            StreamEvent::Reset => self.load_rows(now),
            StreamEvent::Item(rows) => match &mut self.live.held {
                Some(held) => {
                    held.n_rows = held.n_rows.saturating_add(rows.len());
                    held.rows.extend(rows);
                    let n_over = held.rows.len().saturating_sub(HELD_ROWS_MAX);
                    held.rows.drain(..n_over);
                }
                None => self.add_rows(rows, now),
            },
            StreamEvent::Heartbeat | StreamEvent::Lost { .. } | StreamEvent::NotServed => {}
        }
    }

    /// Holds back what comes from now on, or takes what was held back.
    pub(crate) fn pause(&mut self, now: Timestamp) {
        let Some(held) = self.live.held.take() else {
            self.live.held = Some(HeldRows::default());
            return;
        };
        if held.n_rows != held.rows.len() {
            self.load_rows(now);
        }
        self.add_rows(held.rows.into(), now);
    }

    /// Takes rows into the chart, the tape and the sparkline.
    pub(crate) fn add_rows(&mut self, rows: Vec<NamedRow>, now: Timestamp) {
        let shape = self.shape_of(rows.first());
        let samples = rows.iter().filter_map(|row| shape.as_ref()?.sample(row));
        let samples: Vec<Bucket> = samples.collect();
        let has_new_column = self.has_new_column(&rows);
        self.update_own_sparkline(&rows, now);
        if self.chart.resolution() == Resolution::Raw {
            self.table.add_live_rows(&rows);
        }
        for row in rows {
            spark::put_newest(&mut self.tape, row, TAPE_ROWS);
        }
        self.tape.truncate(TAPE_ROWS);
        let newest_before = self.chart.nth_newest(0).map(|candle| candle.timestamp);
        self.chart.add_live_rows(samples);
        let newest = self.chart.nth_newest(0).map(|candle| candle.timestamp);
        let is_over = newest_before.is_some() && newest > newest_before;
        self.load_again(is_over);
        if has_new_column && let Some(dataset) = self.selected {
            self.columns.begin(now);
            self.effects.push(Effect::LoadColumns { dataset });
        }
    }

    /// Asks for the newest buckets again if one is over, and nothing else is under way.
    pub(crate) fn load_again(&mut self, is_over: bool) {
        let is_raw = self.chart.resolution() == Resolution::Raw;
        if let Some(query) = self.newest_rows(BUCKETS_AGAIN)
            && is_over
            && !is_raw
            && self.asked.is_none()
        {
            self.ask(query);
        }
    }
}
