//! The last line: the keys that do something now, and what goes on in the background.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
};

use super::{Frame, hits::Hits, spinner};
use crate::{
    action::Action,
    event::Target,
    keymap::{Chord, Layer},
    widget::paint,
};

/// Draws the footer into the one row of `area`.
pub(super) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>, hits: &mut Hits) {
    let theme = frame.theme;
    buf.set_style(area, theme.bar);
    let right = right(frame);
    let width = u16::try_from(right.width()).unwrap_or(u16::MAX);
    let room = Rect { width: area.width.saturating_sub(width + 2), ..area };
    paint::line_right(buf, area, 0, &right);

    let state = frame.state;
    if !state.pending.is_empty() {
        let presses: Vec<String> = state.pending.iter().map(Chord::to_string).collect();
        paint::text(buf, room, (1, 0), &format!("{} …", presses.join(" ")), theme.key);
        return;
    }
    let mut x = 1;
    let layers = state.layers();
    if layers.contains(&Layer::List) {
        x = paint::text(buf, room, (x, 0), "↑↓", theme.key);
        x = paint::text(buf, room, (x + 1, 0), "move", theme.muted) + 2;
    }
    let mut hinted: Vec<&str> = Vec::new();
    for binding in state.keys.in_force(layers) {
        if binding.hint.is_empty() || hinted.contains(&binding.hint) {
            continue;
        }
        let key = binding.first_key_text();
        let needed = key.chars().count() + 1 + binding.hint.chars().count();
        if usize::from(room.width.saturating_sub(x)) < needed {
            break;
        }
        hinted.push(binding.hint);
        let from = x;
        x = paint::text(buf, room, (x, 0), &key, theme.key);
        x = paint::text(buf, room, (x + 1, 0), binding.hint, theme.muted);
        let place = Rect { x: area.x.saturating_add(from), width: x - from, ..area };
        hits.add(place, Target::Action(binding.action));
        x += 2;
    }
}

fn right(frame: Frame<'_>) -> Line<'static> {
    let (state, theme) = (frame.state, frame.theme);
    let mut line = Line::default();
    if state.is_interrupted {
        let key = frame.key(Layer::Always, Action::Interrupt);
        line.push_span(Span::styled(format!("{key} again quits  "), theme.warn));
    }
    // Of the keys in force, the one that is easiest to press: `?` where that is no text.
    let keys = state.keys.in_force(state.layers());
    if let Some(help) = keys.iter().find(|binding| binding.action == Action::Help) {
        line.push_span(Span::styled(help.first_key_text(), theme.key));
        line.push_span(Span::styled(" help", theme.muted));
    }
    match state.runs.n_waiting() {
        0 => {}
        n => {
            let picture = spinner::picture(state.now);
            let runs = if n == 1 { "run" } else { "runs" };
            line.push_span(Span::styled(format!("  {picture} {n} {runs}"), theme.info));
        }
    }
    line.push_span(Span::raw(" "));
    line
}
