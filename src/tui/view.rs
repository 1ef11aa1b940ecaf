//! Draws the state without changing it, and collects the click targets.
//!
//! ```text
//! ◆ TRIPTYCH  1 Cluster  2 Execute …            head ● 12 ms  data ● live  infer ●  as of 14:02:31
//! ╭─ the screen in view ──────────────────────────────────────────────────────────── notices ─╮
//! ╰───────────────────────────────────────────────────────────────────────────────────────────╯
//!  ↑↓ move  ⏎ open  e execute …                                                 ? help  ⣷ 1 run
//! ```
//! `view/x.rs` draws the state of `state/x.rs`. Any size can be drawn, from one cell on.

mod field;
pub(crate) mod footer;
pub(crate) mod header;
mod hits;
pub(crate) mod output;
pub(crate) mod past;
pub(crate) mod results;
pub(crate) mod table;
mod wrap;

use std::time::Duration;

pub(crate) use self::field::{LabelledField, draw_field, draw_search};
pub(crate) use self::hits::{Hits, Mouse};
pub(crate) use self::table::{Cell, Column, Table, draw_facts, first_row};
pub(crate) use self::wrap::{highlighted, wrapped, wrapped_line};
use model::escape::escape_line;
use model::timestamp::Timestamp;
use ratatui::prelude::*;
use ratatui::widgets::Paragraph;

use crate::keymap::{Action, Layer};
use crate::pacer::ANIMATION_EVERY;
use crate::state::State;
use crate::state::layout::Divider;
use crate::state::resource::{Failure, Resource};
use crate::state::services::{Health, Service};
use crate::theme::Theme;
use crate::widget::{format, paint};

/// Minimum width and height of the terminal.
pub(crate) const SIZE_MIN: (u16, u16) = (60, 16);

/// Space that a terminal offers for a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    Small,
    /// Space for a primary pane and a secondary pane.
    Medium,
    Large,
    Huge,
}

/// Data for drawing a frame.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Click targets of the frame.
    pub(crate) hits: &'a Hits,
    pub(crate) state: &'a State,
    pub(crate) theme: &'a Theme,
    pub(crate) tier: Tier,
}

impl Frame<'_> {
    /// Returns the key of `action` in `layer` for display. If there is no key, the text that finds
    /// the action in the palette.
    pub(crate) fn key(&self, layer: Layer, action: Action) -> String {
        self.state.keys.key_text(layer, action)
    }

    /// Describes how long `service` has been unavailable. `None` if it is available.
    pub(crate) fn away(&self, service: Service) -> Option<Span<'static>> {
        header::away(service, self.state).map(|text| Span::styled(text, self.theme.down))
    }

    /// Returns `stream`, the description of the service's stream. If the service is connected but does
    /// not respond, or if it rejects the API key, returns that problem instead.
    pub(crate) fn silent_or(&self, service: Service, stream: String) -> Span<'static> {
        let trouble = match self.state.services.health(service) {
            Health::Silent => self.away(service),
            Health::Refused { .. } => Some(Span::styled("refused", self.theme.down)),
            _ => None,
        };
        trouble.unwrap_or_else(|| stream.into())
    }

    /// Returns [`Self::away`] if the service is unavailable, otherwise `usual`.
    pub(crate) fn away_or(
        &self,
        service: Service,
        usual: impl Into<Span<'static>>,
    ) -> Span<'static> {
        self.away(service).unwrap_or_else(|| usual.into())
    }

    /// Returns a line with `keys`, right-aligned in `width` columns, followed by the title of
    /// `action`.
    pub(crate) fn key_line(&self, keys: &str, width: usize, action: Action) -> Line<'static> {
        let keys = Span::styled(format::right(keys, width), self.theme.key);
        Line::from(vec![keys, Span::raw("  "), Span::styled(action.title(), self.theme.text)])
    }

    /// Returns hints for the border of an overlay: for each action its key in `layer` and a text.
    /// Actions without a key are omitted.
    pub(crate) fn hints(&self, layer: Layer, hints: &[(Action, &'static str)]) -> Line<'static> {
        let mut line = Line::default();
        for (action, words) in hints {
            let Some(key) = self.state.keys.key_of(layer, *action) else { continue };
            let gap = if line.spans.is_empty() { "" } else { "  " };
            line.push_span(Span::raw(gap));
            line.push_span(Span::styled(key, self.theme.key));
            line.push_span(Span::styled(format!(" {words}"), self.theme.muted));
        }
        line
    }

    /// Draws the reason why `list` is empty in the middle of `area`: `idle` if it was never
    /// requested, `empty` if it was loaded, otherwise that it is loading or has failed, or that the
    /// local stack is starting. A failed request is repeated within `every`, if that is given.
    pub(crate) fn draw_absent<T>(
        &self,
        area: Rect,
        buf: &mut Buffer,
        list: &Resource<T>,
        every: Option<Duration>,
        [idle, empty]: [&str; 2],
    ) {
        match list.failure() {
            // A low area has no space for advice.
            Some(why) if every.is_some() && why.status.is_none() && area.height < 4 => {
                let first = format!("failed to {}: {}", why.what, why.why);
                let again = self.again(why, every);
                draw_centered(buf, area, &[(&first, self.theme.down), (&again, self.theme.muted)]);
            }
            Some(why) => {
                let next = format!("{}\n{}", why.next, self.again(why, every));
                let why = Failure { next: next.trim_start().to_owned(), ..why.clone() };
                draw_failure(buf, area, &why, self.theme);
            }
            None if list.is_idle() => {
                let picture = spinner(self.state.now);
                let starting = self.state.stack.step().map(|it| format!("{picture} starting {it}"));
                draw_empty(area, buf, self.theme, &[starting.as_deref().unwrap_or(idle)]);
            }
            None if list.is_loading() => self.draw_loading(area, buf),
            None => draw_empty(area, buf, self.theme, &[empty]),
        }
    }

    /// Names the key that repeats a failed request, and describes when it is repeated without the key:
    /// within `every`, unless the service demands another wait.
    pub(crate) fn again(&self, why: &Failure, every: Option<Duration>) -> String {
        let key = self.key(Layer::Global, Action::Refresh);
        match every.map(|every| format::span(why.retry_after.unwrap_or(every))) {
            Some(wait) => format!("retries within {wait} · {key} retries now"),
            None => format!("{key} tries again"),
        }
    }

    /// Splits `area` at column or row `at`, or at the position to which the user has moved the
    /// divider. Makes the divider draggable.
    pub(crate) fn split(&self, divider: Divider, area: Rect, at: u16) -> [Rect; 2] {
        let nudge = self.state.nudge();
        let parts = match divider {
            Divider::Columns => split_columns(area, nudge.place(divider, at, area.width)),
            _ => split_rows(area, nudge.place(divider, at, area.height)),
        };
        self.hits.add_divider(divider, parts[0]);
        parts
    }

    /// Draws a spinner in the middle of `area`.
    pub(crate) fn draw_loading(&self, area: Rect, buf: &mut Buffer) {
        let text = format!("{} loading", spinner(self.state.now));
        draw_empty(area, buf, self.theme, &[text]);
    }
}

impl Tier {
    /// Returns the space that a terminal of this size offers. `None` if it is too small for any
    /// screen.
    pub(crate) fn for_area(area: Rect) -> Option<Self> {
        let sizes = [
            (SIZE_MIN, Self::Small),
            ((80, 24), Self::Medium),
            ((110, 30), Self::Large),
            ((150, 40), Self::Huge),
        ];
        let fits = |((width, height), _): &((u16, u16), Self)| {
            area.width >= *width && area.height >= *height
        };
        sizes.into_iter().rfind(fits).map(|(_, tier)| tier)
    }
}

/// Splits `area` at row `at`, counted from its top.
pub(crate) fn split_rows(area: Rect, at: u16) -> [Rect; 2] {
    let at = at.min(area.height);
    let below = Rect { y: area.y.saturating_add(at), height: area.height - at, ..area };
    [Rect { height: at, ..area }, below]
}

/// Splits `area` at column `at`, counted from its left.
pub(crate) fn split_columns(area: Rect, at: u16) -> [Rect; 2] {
    let at = at.min(area.width);
    let right = Rect { x: area.x.saturating_add(at), width: area.width - at, ..area };
    [Rect { width: at, ..area }, right]
}

/// Returns a part of `area` that is one row high and `width` columns wide. It starts at the
/// position `at` within `area`.
pub(crate) fn strip(area: Rect, at: impl Into<Position>, width: u16) -> Rect {
    let Position { x, y } = at.into();
    let place = Rect::new(area.x.saturating_add(x), area.y.saturating_add(y), width, 1);
    place.intersection(area)
}

/// Returns the area of this size in the middle of `area`. The returned area is smaller if it does not
/// fit in `area`.
pub(crate) fn centered(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect {
        x: area.x.saturating_add((area.width - width) / 2),
        y: area.y.saturating_add((area.height - height) / 2),
        width,
        height,
    }
}

/// Joins facts to a line of at most `room` columns. If not all facts fit, the first facts are omitted.
pub(crate) fn join_facts(mut facts: Vec<Span<'static>>, room: usize) -> Line<'static> {
    const GAP: &str = " · ";
    let width = |facts: &[Span<'_>]| facts.iter().map(|fact| fact.width() + 3).sum::<usize>();
    while facts.len() > 1 && width(&facts) > room.saturating_add(3) {
        facts.remove(0);
    }
    let gaps = std::iter::once(Span::raw("")).chain(std::iter::repeat(Span::raw(GAP)));
    gaps.zip(facts).flat_map(|(gap, fact)| [gap, fact]).collect()
}

/// Draws a text like [`paint::text`]. A text that does not fit is cut and ends with `…`.
pub(crate) fn text_cut(
    buf: &mut Buffer,
    area: Rect,
    at: impl Into<Position>,
    whole: &str,
    style: Style,
) -> u16 {
    let at = at.into();
    let room = usize::from(area.width.saturating_sub(at.x));
    paint::text(buf, area, at, &format::fit(whole, room), style)
}

/// Draws the text of an empty pane in the middle of `area`.
pub(crate) fn draw_empty(area: Rect, buf: &mut Buffer, theme: &Theme, lines: &[impl AsRef<str>]) {
    let lines: Vec<_> = lines.iter().map(|line| (line.as_ref(), theme.muted)).collect();
    draw_centered(buf, area, &lines);
}

/// Draws a failure in the middle of `area`: the operation, the reason, and advice.
pub(crate) fn draw_failure(buf: &mut Buffer, area: Rect, why: &Failure, theme: &Theme) {
    let first = format!("failed to {}", why.what);
    let lines = [(&*first, theme.down), (&*why.why, theme.text), (&*why.next, theme.muted)];
    draw_centered(buf, area, &lines);
}

/// Draws `lines` in the middle of `area`. A line that does not fit is wrapped.
pub(crate) fn draw_centered(buf: &mut Buffer, area: Rect, lines: &[(&str, Style)]) {
    let lines = lines.iter().flat_map(|(text, style)| {
        let parts = wrapped(text, area.width).into_iter();
        parts.map(|part| Line::styled(escape_line(&part).into_owned(), *style))
    });
    let text: Text<'_> = lines.collect();
    let n_lines = u16::try_from(text.height()).unwrap_or(u16::MAX);
    let area = area.centered_vertically(Constraint::Length(n_lines));
    Paragraph::new(text).centered().render(area.intersection(buf.area), buf);
}

/// Returns the symbol of the spinner at `now`.
pub(crate) fn spinner(now: Timestamp) -> char {
    const SYMBOLS: [char; 8] = ['⣷', '⣯', '⣟', '⡿', '⢿', '⣻', '⣽', '⣾'];
    let step = i64::try_from(ANIMATION_EVERY.as_micros()).unwrap_or(1);
    let number = usize::try_from(now.micros().div_euclid(step).rem_euclid(8)).unwrap_or(0);
    SYMBOLS.get(number).copied().unwrap_or('·')
}

#[cfg(test)]
pub(crate) mod tests;
