//! Saving the current view to a file.

use std::collections::BTreeMap;

use model::timestamp::Timestamp;
use serde_json::{Map, Value};

use crate::local::LocalLog;
use crate::screens::Screen;
use crate::screens::inference::state::History;
use crate::state::State;

/// A table to export.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ExportTable {
    columns: &'static [&'static str],
    /// Rows of cells: texts, numbers, or `null` for an empty cell.
    pub(crate) rows: Vec<Vec<Value>>,
}

impl ExportTable {
    /// Returns a table with these columns and rows.
    pub(crate) fn new<const N: usize, Cell: Into<Value>>(
        columns: &'static [&'static str; N],
        rows: impl IntoIterator<Item = [Cell; N]>,
    ) -> Self {
        let rows = rows.into_iter().map(|cells| cells.map(Into::into).to_vec());
        Self { columns, rows: rows.collect() }
    }

    /// Returns a table with a row for each log line.
    pub(crate) fn from_log_lines<'a>(lines: impl IntoIterator<Item = &'a LocalLog>) -> Self {
        Self::new(&["time", "level", "source", "message", "fields"], lines.into_iter().map(line))
    }

    /// Returns the table that the current screen exports, oldest row first: the log lines that
    /// match the filters, or the epochs of the topic.
    pub(crate) fn for_screen(state: &State) -> Self {
        match state.screen {
            Screen::Logs => Self::from_log_lines(state.logs.visible_lines().map(|line| &line.log)),
            Screen::Inference => {
                Self::new(&["time", "label", "combined", "naive", "truth"], epochs(state))
            }
            _ => Self::default(),
        }
    }

    /// Formats the table as CSV, or as JSON with an object for each row.
    pub(crate) fn text(&self, is_json: bool) -> String {
        if is_json {
            let object = |row: &Vec<Value>| {
                let members = self.columns.iter().zip(row);
                let members = members.map(|(name, value)| ((*name).to_owned(), value.clone()));
                Value::Object(members.collect::<Map<_, _>>())
            };
            let rows: Vec<Value> = self.rows.iter().map(object).collect();
            return format!("{:#}\n", Value::Array(rows));
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail, and each row has a cell for each column.
        writer.write_record(self.columns).ok();
        for row in &self.rows {
            writer.write_record(row.iter().map(csv_cell)).ok();
        }
        writer.into_inner().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

fn csv_cell(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        // Without the `.0` that JSON adds to a whole number.
        cell => cell.as_f64().map_or_else(|| cell.to_string(), |number| number.to_string()),
    }
}

fn line(log: &LocalLog) -> [String; 5] {
    let fields: Vec<String> =
        log.fields.pairs().map(|(name, value)| format!("{name}={value}")).collect();
    [
        log.time.to_string(),
        log.level.short().to_owned(),
        log.process.clone(),
        log.message.clone(),
        fields.join(" "),
    ]
}

/// Returns a row for each epoch and label of the selected topic.
fn epochs(state: &State) -> Vec<[Value; 5]> {
    let mut rows = Vec::new();
    for epoch in state.inference.past().into_iter().flat_map(History::epochs) {
        let time: Timestamp = epoch.time;
        for label in epoch.combined.keys() {
            let number = |of: &BTreeMap<String, f64>| Value::from(of.get(label).copied());
            rows.push([
                time.to_string().into(),
                label.clone().into(),
                number(&epoch.combined),
                number(&epoch.naive),
                number(&epoch.truth),
            ]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Effect, Event};
    use crate::harness::Harness;
    use crate::state::resource::Failure;

    #[test]
    fn saved_table_is_written_as_csv_or_json() {
        let cells = ["1,\"2\"".into(), Value::Null, 60_523.86.into(), 12.0.into()];
        let table = ExportTable::new(&["a", "b", "c", "d"], [cells]);
        assert_eq!(table.text(false), "a,b,c,d\n\"1,\"\"2\"\"\",,60523.86,12\n");
        let rows: Value = serde_json::from_str(&table.text(true)).unwrap();
        assert_eq!(rows[0]["a"], "1,\"2\"");
        assert_eq!(rows[0]["b"], Value::Null);
        assert_eq!(rows[0]["c"], 60_523.86);
        assert_eq!(rows[0]["d"], 12.0);
    }

    #[test]
    fn visible_log_lines_are_saved_to_the_named_file() {
        let mut screen = Harness::after("5 /");
        screen.type_text("lost");
        screen.press("enter & x");
        screen.shows(&["logs.csv"]);
        screen.press("ctrl-u");
        screen.type_text("lost.csv");
        let asked = screen.effects_of("enter");
        let [Effect::Save { path, text, what }] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!((path.to_str(), what.as_str()), (Some("lost.csv"), "1 row"));
        assert!(text.starts_with("time,level,source") && text.contains("lost the head"), "{text}");
        let (path, what) = (path.clone(), what.clone());
        let why = Failure::new("save to lost.csv", "the disk is full", "name another file");
        screen.take(Event::Saved { path: path.clone(), what: what.clone(), result: Err(why) });
        screen.shows(&["Save the current view", "the disk is full", "lost.csv"]);
        screen.press("enter");
        screen.take(Event::Saved { path, what, result: Ok(()) });
        screen.shows(&["saved to lost.csv"]);
    }
}
