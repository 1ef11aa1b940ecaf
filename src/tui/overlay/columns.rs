//! Chooses the columns of the table that has focus.

use crate::{
    action::Action,
    keymap::Layer,
    overlay::view::{List, Surface, raise},
    screens::{Screen, cluster, data, inference},
    state::{State, columns::TableName},
    view::{centered, split_rows},
    widget::{paint, pane::Pane},
};

/// The width of the box.
const WIDTH: u16 = 34;

/// Returns the table that has focus, and the titles of its columns; `None` if no table has it.
pub(crate) fn table_in_view(state: &State) -> Option<(TableName, Vec<&'static str>)> {
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
        Screen::Data => (TableName::Datasets, data::view::list_columns(u16::MAX, 0).to_vec()),
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

/// Hides the column at `row` of the list, or shows it again. The last column stays.
pub(crate) fn toggle(state: &mut State, row: usize) {
    let Some((table, titles)) = table_in_view(state) else { return };
    let Some(title) = titles.get(row) else { return };
    let hidden = &mut state.hidden_columns;
    let n_shown = titles.iter().filter(|title| !hidden.is_hidden(table, title)).count();
    if n_shown > 1 || hidden.is_hidden(table, title) {
        hidden.toggle(table, title);
    }
}

/// Draws the list of columns.
pub(crate) fn draw(on: Surface<'_>, selected: usize) {
    let Surface { area, buf, frame, hits } = on;
    let theme = frame.theme;
    let Some((table, titles)) = table_in_view(frame.state) else { return };
    let n_rows = u16::try_from(titles.len()).unwrap_or(u16::MAX);
    let place = centered(area, WIDTH, n_rows.saturating_add(4).min(area.height));
    let hints = [(Action::Open, "shows or hides"), (Action::Back, "closes")];
    let of = Pane::new(format!("Columns of {}", <&str>::from(table)))
        .footer(frame.hints(Layer::Choice, &hints));
    let inside = raise(place, buf, frame, of, hits);
    let list = List { n_rows: titles.len(), selected, pitch: 1 };
    list.draw(split_rows(inside, 1)[1], buf, frame, hits, |buf, place, row| {
        let Some(title) = titles.get(row) else { return };
        let is_hidden = frame.state.hidden_columns.is_hidden(table, title);
        let (mark, style) = if is_hidden { ("[ ]", theme.muted) } else { ("[x]", theme.text) };
        paint::text(buf, place, (2, 0), &format!("{mark} {title}"), style);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{harness::Harness, state::session};

    #[test]
    fn hidden_column_is_left_out_and_saved() {
        let mut screen = Harness::ready(160, 45);
        assert!(screen.text().contains(" PING "), "{}", screen.text());
        screen.press("C");
        assert!(screen.text().contains("╭─ Columns of nodes"), "{}", screen.text());
        let (_, titles) = table_in_view(&screen.state).unwrap();
        let row = titles.iter().position(|title| *title == "PING").unwrap();
        for _ in 0..row {
            screen.press("down");
        }
        screen.press("enter esc");
        assert!(!screen.text().contains(" PING "), "{}", screen.text());
        let text = session::text(&screen.state);
        let mut again = Harness::ready(160, 45);
        session::take_up(&mut again.state, &text);
        assert_eq!(again.state.hidden_columns, screen.state.hidden_columns);
        screen.press("C");
        for _ in 0..row {
            screen.press("down");
        }
        screen.press("enter esc");
        assert!(screen.text().contains(" PING "), "{}", screen.text());
    }

    #[test]
    fn every_table_lists_its_columns_and_keeps_one() {
        let mut screen = Harness::ready(160, 45);
        screen.run_split();
        for keys in ["1", "1 L", "1 H J", "3", "4", "4 L J J"] {
            screen.press(&format!("esc {keys}"));
            let Some((table, titles)) = table_in_view(&screen.state) else { panic!("{keys}") };
            for row in 0..titles.len() {
                toggle(&mut screen.state, row);
            }
            let hidden = &screen.state.hidden_columns;
            let n_shown = titles.iter().filter(|title| !hidden.is_hidden(table, title)).count();
            assert_eq!(n_shown, 1, "{keys}");
            screen.text();
        }
        screen.press("esc 5 C");
        assert!(screen.text().contains("no table has focus"), "{}", screen.text());
    }
}
