//! Draws the topmost overlay, with the screen beneath dimmed.

use ratatui::{buffer::Buffer, layout::Rect};

use super::{Overlay, copy_as, help, notices, palette, profiles, save, themes};
use crate::{
    action::Action,
    event::Target,
    keymap::Layer,
    screens::{cluster, execute},
    view::{Frame, centered, hits::Hits},
    widget::{
        paint,
        pane::{self, Focus, Pane},
    },
};

/// Draws the topmost overlay over `area`, if there is one. The screen beneath cannot be clicked; a
/// click beside the overlay closes it.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let Some(overlay) = frame.state.overlays.last() else { return };
    if matches!(overlay, Overlay::Jump(_)) {
        // Labels are for what is beneath; the view lays them over the whole frame.
        return;
    }
    hits.clear();
    hits.add(area, Target::Action(Action::Back));
    if overlay.is_fading() {
        frame.theme.fade(area, buf);
    }
    match overlay {
        Overlay::Jump(_) => {}
        Overlay::Help(help) => help::view::draw(area, buf, frame, help, hits),
        Overlay::ConfirmQuit => draw_confirm(area, buf, frame, hits),
        Overlay::Palette(palette) => palette::view::draw(area, buf, frame, palette, hits),
        Overlay::Themes(themes) => themes::view::draw(area, buf, frame, *themes, hits),
        Overlay::AddNode => cluster::view::node_form::draw(area, buf, frame, hits),
        Overlay::ConfirmStop => cluster::view::node_form::draw_confirm(area, buf, frame),
        Overlay::Presets => execute::view::presets::draw(area, buf, frame),
        Overlay::PresetName => execute::view::presets::draw_name(area, buf, frame),
        Overlay::Save(save) => save::view::draw(area, buf, frame, save, hits),
        Overlay::CopyAs(copy_as) => copy_as::view::draw(area, buf, frame, copy_as, hits),
        Overlay::Profiles(row) => profiles::view::draw(area, buf, frame, *row, hits),
        Overlay::Key(form) => profiles::view::draw_key(area, buf, frame, form, hits),
        Overlay::Notices(row) => notices::view::draw(area, buf, frame, *row, hits),
    }
}

/// Draws a raised box at `place` and returns its inner area.
pub(crate) fn raise(
    place: Rect,
    buf: &mut Buffer,
    frame: Frame<'_>,
    of: Pane<'_>,
    hits: &mut Hits,
) -> Rect {
    frame.theme.clear(place, buf);
    buf.set_style(place, frame.theme.bar);
    hits.add(place, Target::Pane(0));
    pane::padded(of.focus(Focus::Here).draw(place, buf, frame.theme))
}

/// Rows of a list of `n_rows` that are shown in `height` rows when row `row` is to be among them.
pub(crate) fn window(row: usize, n_rows: usize, height: u16) -> std::ops::Range<usize> {
    let height = usize::from(height);
    let first = row.saturating_sub(height.saturating_sub(1)).min(n_rows.saturating_sub(height));
    first..n_rows.min(first + height)
}

/// Highlights row `y` of a list as selected.
pub(crate) fn mark(inside: Rect, buf: &mut Buffer, y: u16, frame: Frame<'_>) {
    paint::row_style(buf, inside, y, frame.theme.sel);
    paint::put(buf, inside, (0, y), '▌', frame.theme.focus);
}

/// Asks whether to quit although a run is awaited, or an added node would end.
fn draw_confirm(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
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
    let mut keys = vec![(Action::Quit, "quit ")];
    if nodes.is_some() {
        keys.push((Action::QuitKeeping, "quit, and keep them running "));
    }
    keys.push((Action::Back, "stay"));
    let reasons: Vec<String> = runs.into_iter().chain(nodes).collect();
    let n_rows = u16::try_from(reasons.len()).unwrap_or(u16::MAX);
    let place = centered(area, 60, n_rows.saturating_add(4));
    let inside = raise(place, buf, frame, Pane::new("Quit?"), hits);
    for (y, reason) in (0..).zip(&reasons) {
        paint::text(buf, inside, (0, y), reason, theme.text);
    }
    let keys = frame.hints(Layer::Confirm, &keys);
    paint::line(buf, inside, (0, n_rows.saturating_add(1)), &keys);
}
