//! The rows of the dataset as a table: all columns, as far into the past as one scrolls.

use std::borrow::Cow;

use model::row::Value;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::Line,
    widgets::{self, Row, StatefulWidget as _, TableState},
};
use unicode_width::UnicodeWidthStr;

use crate::{
    screens::data::state::table::{Table, TableRow},
    view::{Frame, split_rows, table::first_row},
    widget::{format, note, paint},
};

/// The widest column of text.
const TEXT_MAX: usize = 32;

/// The columns of a timestamp.
const TIME_WIDTH: u16 = 19;

/// The columns between two.
const GAP: u16 = 2;

/// Draws the rows around the chosen one into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (table, theme) = (&frame.state.data.table, frame.theme);
    if area.height < 3 {
        return;
    }
    if table.rows().is_empty() {
        draw_nothing(area, buf, frame);
        return;
    }
    // The last row says what there is beyond those above.
    let [body, last] = split_rows(area, area.height - 1);
    let n_shown = usize::from(body.height - 1);
    let chosen = table.selected_idx();
    let first = first_row(chosen, table.rows().len(), n_shown);
    let shown: Vec<&TableRow> = table.rows().iter().skip(first).take(n_shown).collect();
    let time = |row: &&TableRow| format!("{} {}", format::date(row.time), format::clock(row.time));
    let mut rows: Vec<Vec<Line<'_>>> =
        shown.iter().map(|row| vec![Line::styled(time(row), theme.muted)]).collect();
    let mut head = vec![Line::raw("TIME")];
    let mut widths = vec![TIME_WIDTH];
    let mut end = TIME_WIDTH;
    for (idx, name) in table.columns.iter().enumerate().skip(table.n_hidden) {
        let cells = || shown.iter().map(|row| row.cells.get(idx).and_then(Option::as_ref));
        let decimals = format::decimals_for(cells().flatten().filter_map(Value::as_f64));
        let texts: Vec<_> = cells().map(|value| cell_text(value, decimals)).collect();
        let title = format::fit(name, TEXT_MAX).to_uppercase();
        let width = texts.iter().map(|text| text.width()).chain([title.width()]).max();
        let width = u16::try_from(width.unwrap_or(0)).unwrap_or(u16::MAX);
        end = end.saturating_add(width).saturating_add(GAP);
        if end > body.width {
            break;
        }
        widths.push(width);
        head.push(Line::raw(title).right_aligned());
        for (row, text) in rows.iter_mut().zip(texts) {
            row.push(Line::raw(text).right_aligned());
        }
    }
    let mut selection = TableState::new().with_selected(chosen - first);
    let head_style = theme.muted.bold();
    widgets::Table::new(rows.into_iter().map(Row::new), widths)
        .style(theme.text)
        .header(Row::new(head).style(head_style))
        .column_spacing(GAP)
        .row_highlight_style(theme.sel)
        .render(body.intersection(buf.area), buf, &mut selection);
    // Hints at columns before and after stand where they would begin.
    if table.n_hidden > 0 {
        paint::text(buf, body, (TIME_WIDTH + 1, 0), "…", head_style);
    }
    if end > body.width {
        paint::text_before(buf, body, (body.width, 0), "…", head_style);
    }
    paint::text(buf, last, (0, 0), &beyond(table, chosen), theme.muted);
}

/// What there is before and after the rows that are kept.
fn beyond(table: &Table, chosen: usize) -> String {
    let here = format!("row {} of {} read", chosen + 1, format::count(table.rows().len() as u64));
    let older = match &table.failure {
        Some(why) => format!("failed to {}: {}", why.what, why.why),
        None if table.is_loading() => "reading older rows…".to_owned(),
        None if table.is_at_start() => "oldest row reached".to_owned(),
        None => "more rows follow".to_owned(),
    };
    let newest = if table.is_following() { " · follows the newest" } else { "" };
    format!("{here} · {older}{newest}")
}

fn cell_text(value: Option<&Value>, decimals: usize) -> Cow<'_, str> {
    match value {
        None => format::NONE.into(),
        Some(Value::String(text)) => format::fit(text, TEXT_MAX),
        Some(Value::Boolean(truth)) => truth.to_string().into(),
        Some(Value::Integer(number)) => format::integer(*number).into(),
        Some(Value::Float(number)) => format::telling(*number, decimals, format::grouped).into(),
    }
}

fn draw_nothing(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (table, theme) = (&frame.state.data.table, frame.theme);
    match &table.failure {
        Some(why) => note::failed(buf, area, why, theme),
        None if table.is_loading() => frame.draw_loading(area, buf),
        None => note::centered(buf, area, &[("no rows", theme.muted)]),
    }
}
