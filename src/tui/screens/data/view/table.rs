//! The rows of the dataset as a table: all columns, as far into the past as one scrolls.

use model::row::Value;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    text::Line,
    widgets::{self, Row, StatefulWidget as _, TableState},
};
use unicode_width::UnicodeWidthStr;

use crate::{
    event::NamedRow,
    screens::data::state::{past::OlderRows, table::Table},
    view::{Frame, split_rows, table::first_row},
    widget::{format, note, paint},
};

/// The widest column of text.
const TEXT_MAX: usize = 32;

/// The columns of a timestamp.
const TIME_WIDTH: u16 = 19;

/// The least columns between two.
pub(super) const GAP: u16 = 2;

/// A column of texts, with its title and its width.
pub(super) struct TextColumn {
    pub(super) title: Line<'static>,
    pub(super) cells: Vec<Line<'static>>,
    pub(super) width: u16,
}

impl TextColumn {
    /// As wide as the widest of `texts`, and as `name` up to `name_max`.
    pub(super) fn new(name: &str, name_max: usize, texts: Vec<String>) -> Self {
        let widths = texts.iter().map(|text| text.width());
        let width = widths.chain([name.width().min(name_max)]).max().unwrap_or(0);
        let right = |text| Line::raw(text).right_aligned();
        Self {
            title: right(format::fit(name, width).to_uppercase()),
            cells: texts.into_iter().map(right).collect(),
            width: u16::try_from(width).unwrap_or(u16::MAX),
        }
    }
}

/// The columns beside one another, below a head.
pub(super) fn into_table(columns: Vec<TextColumn>, style: Style) -> widgets::Table<'static> {
    let widths: Vec<u16> = columns.iter().map(|column| column.width).collect();
    let n_rows = columns.first().map_or(0, |column| column.cells.len());
    let (head, mut cells): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|column| (column.title, column.cells.into_iter())).unzip();
    let mut row = || cells.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>();
    let rows: Vec<_> = (0..n_rows).map(|_| Row::new(row()).style(style)).collect();
    widgets::Table::new(rows, widths).header(Row::new(head)).column_spacing(GAP)
}

/// Draws the rows around the chosen one into `area`.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (table, theme) = (&frame.state.data.table, frame.theme);
    if area.height < 3 {
        return;
    }
    if table.rows.is_empty() {
        draw_nothing(area, buf, frame);
        return;
    }
    // The last row says what there is beyond those above.
    let [body, last] = split_rows(area, area.height - 1);
    let n_shown = usize::from(body.height - 1);
    let chosen = table.selected_idx();
    let first = first_row(chosen, table.rows.len(), n_shown);
    let shown: Vec<&NamedRow> = table.rows.iter().skip(first).take(n_shown).collect();
    let time = |row: &&NamedRow| {
        let time = format!("{} {}", format::date(row.timestamp), format::clock(row.timestamp));
        Line::styled(time, theme.muted)
    };
    let names = frame.state.data.table_columns();
    let n_hidden = table.n_hidden.min(names.len().saturating_sub(1));
    let times = shown.iter().map(time).collect();
    let mut columns = vec![TextColumn { title: "TIME".into(), cells: times, width: TIME_WIDTH }];
    let mut end = TIME_WIDTH;
    for name in names.into_iter().skip(n_hidden) {
        let cells = || shown.iter().map(|row| row.values.get(name));
        let decimals = format::decimals_for(cells().flatten().filter_map(Value::as_f64));
        // A float that is a whole number reads as an integer.
        let has_floats = cells().flatten().any(|value| matches!(value, Value::Float(_)));
        let texts = cells().map(|value| match value {
            Some(Value::Integer(number)) if has_floats => {
                #[expect(
                    clippy::cast_precision_loss,
                    reason = "it is a float that was written whole"
                )]
                let number = *number as f64;
                format::grouped(number, decimals)
            }
            value => cell_text(value, decimals),
        });
        let texts = texts.collect();
        let column = TextColumn::new(name, TEXT_MAX, texts);
        end = end.saturating_add(column.width).saturating_add(GAP);
        if end > body.width {
            break;
        }
        columns.push(column);
    }
    let mut selection = TableState::new().with_selected(chosen - first);
    let head_style = theme.muted.bold();
    into_table(columns, theme.text).row_highlight_style(theme.sel).render(
        body.intersection(buf.area),
        buf,
        &mut selection,
    );
    paint::row_style(buf, body, 0, head_style);
    // Hints at columns before and after stand where they would begin.
    if n_hidden > 0 {
        paint::text(buf, body, (TIME_WIDTH + 1, 0), "…", head_style);
    }
    if end > body.width {
        paint::text_before(buf, body, (body.width, 0), "…", head_style);
    }
    paint::text(buf, last, (0, 0), &beyond(table, chosen), theme.muted);
}

/// What there is before and after the rows that are kept.
fn beyond(table: &Table, chosen: usize) -> String {
    let here = format!("row {} of {} read", chosen + 1, format::count(table.rows.len() as u64));
    let older = match &table.failure {
        Some(why) => format!("failed to {}: {}", why.what, why.why),
        None if table.asked.is_some() => "reading older rows…".to_owned(),
        None if table.older == OlderRows::Nothing => "oldest row reached".to_owned(),
        None => "more rows follow".to_owned(),
    };
    let newest = if table.chosen.is_none() { " · follows the newest" } else { "" };
    format!("{here} · {older}{newest}")
}

pub(super) fn cell_text(value: Option<&Value>, decimals: usize) -> String {
    match value {
        None => format::NONE.to_owned(),
        Some(Value::String(text)) => format::fit(text, TEXT_MAX).into_owned(),
        Some(Value::Boolean(truth)) => truth.to_string(),
        Some(Value::Integer(number)) => format::integer(*number),
        Some(Value::Float(number)) => format::telling(*number, decimals, format::grouped),
    }
}

fn draw_nothing(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (table, theme) = (&frame.state.data.table, frame.theme);
    match &table.failure {
        Some(why) => note::failed(buf, area, why, theme),
        None if table.asked.is_some() => frame.draw_loading(area, buf),
        None => note::centered(buf, area, &[("no rows", theme.muted)]),
    }
}
