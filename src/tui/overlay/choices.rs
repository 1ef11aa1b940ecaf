//! Small overlays: the columns of a table, past notices, themes, jump labels, pending keys.

use ratatui::prelude::*;

use crate::keymap::{Action, Layer};
use crate::overlay::view::{List, raise};
use crate::screens::{Screen, cluster, data, inference};
use crate::state::State;
use crate::state::layout::TableName;
use crate::state::overlay::Themes;
use crate::theme::{Name, Theme};
use crate::view::{Frame, Hits, centered, footer, split_rows, wrapped};
use crate::widget::pane::Pane;
use crate::widget::{format, paint};

/// Returns the table that has focus and the titles of its columns, or `None` if no table has
/// focus.
pub(crate) fn focused_table(state: &State) -> Option<(TableName, Vec<&'static str>)> {
    let (table, columns) = match state.screen {
        Screen::Cluster => {
            let table = match state.cluster.focus {
                cluster::state::Pane::Nodes => TableName::Nodes,
                cluster::state::Pane::Runs => TableName::Runs,
                cluster::state::Pane::Processes => TableName::Processes,
                cluster::state::Pane::Groups => return None,
            };
            (table, cluster::view::columns(state.cluster.focus).to_vec())
        }
        Screen::Data => {
            (TableName::Datasets, data::view::list_columns(u16::MAX, 0, |_| true).to_vec())
        }
        Screen::Inference if state.inference.pane == inference::state::Pane::Topics => {
            (TableName::Topics, inference::view::topic_columns(u16::MAX).to_vec())
        }
        Screen::Inference => {
            let columns = inference::view::actors::columns(u16::MAX, state.inference.detail);
            (TableName::Actors, columns.to_vec())
        }
        Screen::Execute | Screen::Logs | Screen::Overview => return None,
    };
    let titles = columns.iter().map(|column| column.title.trim());
    Some((table, titles.filter(|title| !title.is_empty()).collect()))
}

/// Shows the column in `row` of the list if it is hidden, otherwise hides it. The last visible
/// column cannot be hidden.
pub(crate) fn toggle_column(state: &mut State, row: usize) {
    let Some((table, titles)) = focused_table(state) else { return };
    let Some(title) = titles.get(row) else { return };
    let hidden = &mut state.hidden_columns;
    let n_shown = titles.iter().filter(|title| !hidden.is_hidden(table, title)).count();
    if n_shown > 1 || hidden.is_hidden(table, title) {
        hidden.toggle(table, title);
    }
}

/// Draws the columns of the focused table.
pub(crate) fn draw_columns(area: Rect, buf: &mut Buffer, frame: Frame<'_>, selected: usize) {
    let theme = frame.theme;
    let Some((table, titles)) = focused_table(frame.state) else { return };
    let n_rows = u16::try_from(titles.len()).unwrap_or(u16::MAX);
    let place = centered(area, 34, n_rows.saturating_add(4).min(area.height));
    let hints = [(Action::Open, "shows or hides"), (Action::Back, "closes")];
    let of = Pane::new(format!("Columns of {}", <&str>::from(table)))
        .footer(frame.hints(Layer::Choice, &hints));
    let inside = raise(place, buf, frame, of);
    let list = List { items: &titles, selected, pitch: 1 };
    list.draw(split_rows(inside, 1)[1], buf, frame, |buf, place, title| {
        let is_hidden = frame.state.hidden_columns.is_hidden(table, title);
        let (mark, style) = if is_hidden { ("[ ]", theme.muted) } else { ("[x]", theme.text) };
        paint::text(buf, place, (2, 0), &format!("{mark} {title}"), style);
    });
}

/// Draws past notices, latest first.
pub(crate) fn draw_notices(area: Rect, buf: &mut Buffer, frame: Frame<'_>, selected: usize) {
    /// Rows that show the full text of the selected notice.
    const DETAIL_ROWS: u16 = 4;
    let theme = frame.theme;
    let past: Vec<_> = frame.state.notices.past().collect();
    let n_rows = past.len();
    let height = u16::try_from(n_rows).unwrap_or(u16::MAX).max(1);
    let height = height.saturating_add(DETAIL_ROWS + 3).min(area.height.saturating_sub(2));
    let place = centered(area, area.width.saturating_sub(4).min(110), height);
    let of = Pane::new("Notices").info(format!("{n_rows} · latest first"));
    let inside = raise(place, buf, frame, of);
    if n_rows == 0 {
        paint::text(buf, inside, (0, 0), "No notices yet.", theme.muted);
        return;
    }
    let [upper, below] = split_rows(inside, inside.height.saturating_sub(DETAIL_ROWS + 1));
    let list = List { items: &past, selected, pitch: 1 };
    list.draw(upper, buf, frame, |buf, place, notice| {
        let (glyph, style) = footer::notice_mark(notice.level, theme);
        paint::text(buf, place, (2, 0), &format::clock(notice.at), theme.muted);
        paint::put(buf, place, (11, 0), glyph, style);
        let x = paint::text(buf, place, (13, 0), &notice.text, theme.text);
        paint::text(buf, place, (x.saturating_add(2), 0), &notice.detail, theme.muted);
    });
    let Some(notice) = past.get(selected) else { return };
    let whole = format!("{} · {}", notice.text, notice.detail);
    for (y, line) in (1..below.height).zip(wrapped(&whole, below.width)) {
        paint::text(buf, below, (0, y), &line, theme.text);
    }
}

/// Draws the list of themes at the right edge. The rest of the screen previews the selected theme.
pub(crate) fn draw_themes(area: Rect, buf: &mut Buffer, frame: Frame<'_>, themes: Themes) {
    let theme = frame.theme;
    let names: Vec<_> = Themes::rows(&frame.state.custom_themes).collect();
    let n_rows = u16::try_from(names.len()).unwrap_or(u16::MAX);
    let place = centered(area, 46, n_rows.saturating_add(6));
    let x = area.right().saturating_sub(place.width.saturating_add(2)).max(area.x);
    let place = Rect { x, y: area.y + (area.height - place.height).min(2), ..place };
    let of = Pane::new("Theme").info(
        frame.hints(Layer::Choice, &[(Action::Open, "takes it"), (Action::Back, "goes back")]),
    );
    let inside = raise(place, buf, frame, of);
    let list = List { items: &names, selected: themes.row, pitch: 1 };
    list.draw(split_rows(inside, 1)[1], buf, frame, |buf, place, name| {
        let text = name.map_or_else(|| "auto".to_owned(), |name| name.to_string());
        paint::text(buf, place, (2, 0), &text, theme.text);
        paint::text(buf, place, (17, 0), describe_theme(*name), theme.muted);
    });
    let swatches = [
        ("focus ", theme.focus),
        ("▲ up ", theme.up),
        ("▼ down ", theme.down),
        ("warn ", theme.warn),
        ("info ", theme.info),
        ("key", theme.key),
    ];
    let spans = swatches.map(|(text, style)| Span::styled(text, style));
    paint::line(buf, inside, (2, n_rows.saturating_add(2)), &Line::from(spans.to_vec()));
}

const fn describe_theme(name: Option<Name>) -> &'static str {
    match name {
        None => "suits the terminal",
        Some(Name::Dark) => "on dark blue-gray",
        Some(Name::Light) => "on nearly white",
        Some(Name::Cvd) => "blue and orange",
        Some(Name::HighContrast) => "7 to 1 or better",
        Some(Name::Mono) => "weight, no color",
        Some(Name::Custom(_)) => "of your own",
        Some(Name::Ansi16) => "your own 16 colors",
    }
}

/// Draws the labels of `hits` that start with `typed`, each without the typed letter.
pub(crate) fn draw_jump_labels(buf: &mut Buffer, theme: &Theme, hits: &Hits, typed: &str) {
    let area = buf.area;
    for (label, place, _) in hits.labels() {
        if let Some(rest) = label.strip_prefix(typed) {
            let at = (place.x.saturating_sub(area.x), place.y.saturating_sub(area.y));
            paint::text(buf, area, at, rest, theme.tag(theme.key));
        }
    }
}

/// Draws the keys that can continue the pending sequence at the lower right of `area`, if there is
/// a pending sequence.
pub(crate) fn draw_pending_keys(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let state = frame.state;
    if state.pending.is_empty() {
        return;
    }
    let rows = state.keys.continuations(&state.layers(), &state.pending);
    let n_rows = u16::try_from(rows.len()).unwrap_or(u16::MAX);
    let place = centered(area, 44, n_rows.saturating_add(2));
    let (x, y) = (area.right() - place.width, area.bottom() - place.height);
    let place = Rect { x, y, ..place };
    // The box adds no click targets, so that everything beneath remains clickable.
    let of = Pane::new(format!("{} …", state.keys.sequence_text(&state.pending)));
    let frame = Frame { hits: &Hits::default(), ..frame };
    let inside = raise(place, buf, frame, of);
    for (y, (keys, action)) in (0..inside.height).zip(&rows) {
        paint::line(buf, inside, (0, y), &frame.key_line(keys, 6, *action));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Harness;
    use crate::state::session;

    #[test]
    fn hidden_column_is_saved_in_the_session_and_not_drawn() {
        let mut screen = Harness::ready(160, 45);
        screen.shows(&[" PING "]);
        screen.press("C");
        screen.shows(&["╭─ Columns of nodes"]);
        let (_, titles) = focused_table(&screen.state).unwrap();
        let row = titles.iter().position(|title| *title == "PING").unwrap();
        for _ in 0..row {
            screen.press("down");
        }
        screen.press("enter esc");
        screen.hides(&[" PING "]);
        let text = session::text(&screen.state);
        let mut again = Harness::ready(160, 45);
        session::restore(&mut again.state, &text);
        assert_eq!(again.state.hidden_columns, screen.state.hidden_columns);
        screen.press("C");
        for _ in 0..row {
            screen.press("down");
        }
        screen.press("enter esc");
        screen.shows(&[" PING "]);
    }

    #[test]
    fn all_columns_of_a_table_except_one_can_be_hidden() {
        let mut screen = Harness::split((160, 45));
        for keys in ["1", "1 L", "1 H J", "3", "4", "4 L J J J"] {
            screen.press(&format!("esc {keys}"));
            let Some((table, titles)) = focused_table(&screen.state) else { panic!("{keys}") };
            for row in 0..titles.len() {
                toggle_column(&mut screen.state, row);
            }
            let hidden = &screen.state.hidden_columns;
            let n_shown = titles.iter().filter(|title| !hidden.is_hidden(table, title)).count();
            assert_eq!(n_shown, 1, "{keys}");
            screen.text();
        }
        screen.press("esc 5 C");
        screen.shows(&["no table has focus"]);
    }
}
