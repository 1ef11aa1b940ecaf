//! Draws labels over everything that can be clicked.

use ratatui::buffer::Buffer;

use crate::{theme::Theme, view::hits::Hits, widget::paint};

/// Draws the label of each place of `hits`, but for those that do not begin with `typed`.
pub(crate) fn draw(buf: &mut Buffer, theme: &Theme, hits: &Hits, typed: &str) {
    let area = buf.area;
    for (label, place, _) in hits.labels() {
        if let Some(rest) = label.strip_prefix(typed) {
            let at = (place.x.saturating_sub(area.x), place.y.saturating_sub(area.y));
            paint::text(buf, area, at, rest, theme.tag(theme.key));
        }
    }
}
