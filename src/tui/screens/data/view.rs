//! Draws the Data screen.
//!
//! ```text
//! ╭─ Datasets ────────── 7 ╮╭─ BTC-USD ────────── 5m · live ╮
//! │ list, with sparklines  ││ last value, change, O H L V   │
//! ├─ BTC-USD ──────────────┤│ kinds │ averages │ resolutions│
//! │ what it is             ││                               │
//! ╰────────────────────────╯│ candles or a line, volumes    │
//! ╭─ Live tape ────────────╮│                               │
//! │ the newest rows        ││                               │
//! │                        │╰───────────────────────────────╯
//! │                        │╭─ Pinned ──────────────────────╮
//! ╰────────────────────────╯╰───────────────────────────────╯
//! ```
//!
//! Called with the part of the screen between header and footer. What can be clicked goes into
//! `hits`, in the numbers that `state/data.rs` knows.

mod chart;
pub(crate) mod list;
pub(crate) mod pins;
mod table;
mod tape;

use ratatui::{buffer::Buffer, layout::Rect};

use super::state::{Pane, State};
use crate::{
    event::Target,
    state::{
        layout::{Divider, Nudge},
        navigation::Steps as _,
    },
    view::{Frame, hits::Hits, split_columns, split_rows},
};

/// Where the panes are; one without cells is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Places {
    list: Rect,
    chart: Rect,
    tape: Rect,
    pins: Rect,
}

/// Draws `frame.state.data` into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let state = &frame.state.data;
    let places = Places::new(area, state, frame.state.is_zoomed, frame.state.nudge());
    for (pane, place) in
        [(Pane::List, places.list), (Pane::Chart, places.chart), (Pane::Tape, places.tape)]
    {
        hits.add(place, Target::Pane(pane.number()));
    }
    list::draw(places.list, buf, frame, hits);
    chart::draw(places.chart, buf, frame, hits);
    let is_wide = !places.list.is_empty() && !places.tape.is_empty();
    if is_wide {
        hits.add_column_divider(places.list.union(places.tape));
        hits.add_row_divider(Divider::LeftRows, places.list);
    }
    tape::draw(places.tape, buf, frame);
    pins::draw(places.pins, buf, frame);
}

impl Places {
    /// Divides `area` by its size: all panes, two, or only the one that keys go to.
    fn new(area: Rect, state: &State, is_zoomed: bool, nudge: Nudge) -> Self {
        let pane = state.pane;
        let only = match pane {
            Pane::List => Self { list: area, ..Self::default() },
            Pane::Chart => Self { chart: area, ..Self::default() },
            Pane::Tape => Self { tape: area, ..Self::default() },
        };
        if is_zoomed || area.width < 76 || area.height < 14 {
            return only;
        }
        if area.width < 108 || area.height < 26 {
            let [left, chart] = split_columns(area, 30);
            return match pane {
                Pane::List => Self { list: left, chart, ..Self::default() },
                Pane::Chart => only,
                Pane::Tape => Self { tape: left, chart, ..Self::default() },
            };
        }
        let at = nudge.column(if area.width < 148 { 40 } else { 58 }, area.width);
        let [left, chart] = split_columns(area, at);
        // What a short list does not need is worth more rows of the tape.
        let n_datasets = u16::try_from(state.list().len()).unwrap_or(u16::MAX);
        let list_height = n_datasets.saturating_add(list::FACTS_HEIGHT + 5);
        let tape_height = left.height.saturating_sub(list_height).max((left.height / 3).max(8));
        let at = nudge.left_row(left.height.saturating_sub(tape_height), left.height);
        let [list, tape] = split_rows(left, at);
        let pins_height = pins::height(state.pins.len(), chart.width).min(chart.height / 2);
        let [chart, pins] = split_rows(chart, chart.height - pins_height);
        Self { list, chart, tape, pins }
    }
}

#[cfg(test)]
mod tests;
