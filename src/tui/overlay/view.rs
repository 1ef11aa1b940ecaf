//! Parts of overlays: a raised box, a list, a question.

use ratatui::prelude::*;

use crate::event::Target;
use crate::keymap::{Action, Layer};
use crate::view::{Frame, centered};
use crate::widget::paint;
use crate::widget::pane::Pane;

/// Draws an empty raised box at `place` and returns the area within its border.
pub(crate) fn raise(place: Rect, buf: &mut Buffer, frame: Frame<'_>, of: Pane<'_>) -> Rect {
    frame.theme.clear(place, buf);
    buf.set_style(place, frame.theme.bar);
    frame.hits.add(place, Target::Pane(0));
    of.focus(true).draw(place, buf, frame.theme)
}

/// A list in an overlay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a, T> {
    pub(crate) items: &'a [T],
    pub(crate) selected: usize,
    /// Distance of a row from the next, in lines.
    pub(crate) pitch: u16,
}

impl<T> List<'_, T> {
    /// Draws as many items as fit, including the selected one. Calls `draw_item` for each item
    /// with its area.
    pub(crate) fn draw(
        self,
        area: Rect,
        buf: &mut Buffer,
        frame: Frame<'_>,
        draw_item: impl Fn(&mut Buffer, Rect, &T),
    ) {
        let n_fit = usize::from(area.height.div_ceil(self.pitch));
        let first = self.selected.saturating_sub(n_fit.saturating_sub(1));
        let first = first.min(self.items.len().saturating_sub(n_fit));
        let shown = self.items.iter().enumerate().skip(first);
        for (y, (row, item)) in (0..area.height).step_by(self.pitch.into()).zip(shown) {
            let place = Rect { y: area.y.saturating_add(y), height: 1, ..area };
            draw_item(buf, place, item);
            if row == self.selected {
                paint::row_style(buf, place, 0, frame.theme.sel);
                paint::put(buf, place, (0, 0), '▌', frame.theme.focus);
            }
            frame.hits.add(place, Target::Row { pane: 0, row });
        }
    }
}

/// A question and the keys that respond to it.
pub(crate) struct Question<'a> {
    pub(crate) title: &'a str,
    pub(crate) width: u16,
    pub(crate) lines: Vec<Line<'a>>,
    pub(crate) keys: Line<'a>,
}

impl Question<'_> {
    /// Draws the question in the middle of `area`.
    pub(crate) fn draw(&self, area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
        let n_rows = u16::try_from(self.lines.len()).unwrap_or(u16::MAX);
        let place = centered(area, self.width, n_rows.saturating_add(4));
        let inside = raise(place, buf, frame, Pane::new(self.title));
        for (y, line) in (0..).zip(&self.lines) {
            paint::line(buf, inside, (0, y), line);
        }
        paint::line(buf, inside, (0, n_rows.saturating_add(1)), &self.keys);
    }
}

/// Draws the question that precedes an exit while a run is pending or an added node would stop.
pub(crate) fn draw_confirm(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let theme = frame.theme;
    let runs = match frame.state.runs.n_waiting() {
        0 => None,
        1 => Some("1 run is still waiting.".to_owned()),
        n => Some(format!("{n} runs are still waiting.")),
    };
    let nodes = match frame.state.stack.n_leaving() {
        0 => None,
        1 => Some("1 node that you started would stop with this screen.".to_owned()),
        n => Some(format!("{n} nodes that you started would stop with this screen.")),
    };
    let mut keys = vec![(Action::Confirm, "quit ")];
    if nodes.is_some() {
        keys.push((Action::QuitKeeping, "quit, and keep them running "));
    }
    keys.push((Action::Back, "stay"));
    let reasons = runs.into_iter().chain(nodes);
    Question {
        title: "Quit?",
        width: 60,
        lines: reasons.map(|reason| Line::styled(reason, theme.text)).collect(),
        keys: frame.hints(Layer::Confirm, &keys),
    }
    .draw(area, buf, frame);
}
