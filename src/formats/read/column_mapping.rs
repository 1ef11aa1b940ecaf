//! Mapping of the fields of a file to the timestamp and columns.

use std::collections::HashMap;
use std::sync::Arc;

use model::dataset::Dtype;
use model::row::{Row, Value};
use model::timestamp::Timestamp;

use super::cell::{Cell, TypedTime, WrittenZone, exact_integer};
use super::loaded::LoadedRecords;
use super::number_text::Decimal;
use super::selection::Selection;
use super::sniff::time_column::{TimeFields, TimePart};
use super::time_text::{ReadTime, TWICE, TimeTexts};
use super::timestamps::{TimeUnit, timestamp};

/// Target of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The row's timestamp.
    Time,
    /// A part of the row's timestamp, which is in several fields.
    TimePart(TimePart),
    /// The value of the column with this index.
    Column(usize),
    /// The field that selects the rows.
    Selected,
    /// The values are ignored.
    LeftOut,
    /// The mapping does not include the field. A row that has a value in this field is invalid.
    Unknown,
}

/// A column to be filled from a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedColumn {
    /// Name of the column.
    pub name: String,
    /// Type of the values.
    pub dtype: Dtype,
    /// True if the user chose the type. A float column then rounds whole numbers that floats cannot
    /// represent exactly, and a string column accepts whole numbers. Otherwise such rows are rejected.
    pub is_chosen: bool,
}

impl MappedColumn {
    /// Creates a column whose type was detected.
    #[must_use]
    pub fn exact(name: impl Into<String>, dtype: Dtype) -> Self {
        Self { name: name.into(), dtype, is_chosen: false }
    }
}

/// Mapping of the fields of a file to their targets.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnMapping {
    by_field: HashMap<String, Target>,
    columns: Vec<MappedColumn>,
    time_unit: Option<TimeUnit>,
    time_texts: TimeTexts,
    /// Parts of the timestamp, if it is in several fields.
    time_parts: Vec<TimePart>,
    /// Number of the first hour of a day, if the time of day is the number of an hour.
    first_hour: Option<i8>,
    decimal: Decimal,
    /// Texts and numbers that represent missing values.
    nulls: Vec<Null>,
    /// Rows that are read, or `None` for all.
    selection: Option<Selection>,
    /// Records of the selection that were read earlier. `None` to read them from the file.
    loaded: Option<Arc<LoadedRecords>>,
}

/// A text that represents a missing value, and its value if it is a number.
#[derive(Debug, Clone, PartialEq)]
struct Null {
    text: String,
    number: Option<f64>,
    whole: Option<i128>,
}

impl Null {
    fn new(text: String) -> Self {
        let number = text.parse().ok();
        let whole = text.parse().ok();
        let whole = whole.or_else(|| number.and_then(exact_integer).map(i128::from));
        Self { text, number, whole }
    }

    fn matches(&self, cell: Cell<'_>) -> bool {
        match cell {
            Cell::Bare(text) | Cell::Text(text) => self.text == text,
            Cell::Integer(number) => self.whole == Some(number.into()),
            Cell::Large(number) => self.whole == Some(number),
            Cell::Float(number) => self.number == Some(number),
            _ => false,
        }
    }
}

/// A row being assembled.
#[derive(Default)]
pub(super) struct Building {
    timestamp: Option<Timestamp>,
    /// The other possible timestamp, if the clock shows the time twice.
    later: Option<Timestamp>,
    /// True if the timestamp has a higher precision than microseconds.
    is_cut: bool,
    /// Texts of the parts of the timestamp, if they are separate fields.
    parts: Vec<(TimePart, String)>,
    values: Vec<Option<Value>>,
    wrong: Option<String>,
    /// True if the row has the value of the mapping's selection. `None` until the field of the selection
    /// is read.
    is_selected: Option<bool>,
}

/// An assembled row.
pub(super) struct Built {
    pub(super) row: Row,
    /// True if its timestamp had a higher precision than microseconds.
    pub(super) is_cut: bool,
    /// The other possible timestamp, if the clock shows the time twice.
    pub(super) later: Option<Timestamp>,
}

impl ColumnMapping {
    /// Creates a mapping with the timestamp in field `time`. Timestamps that are numbers are in
    /// `time_unit`, or in a unit that is detected from their size.
    #[must_use]
    pub fn new(time: &str, time_unit: Option<TimeUnit>) -> Self {
        let by_field = HashMap::from([(time.to_owned(), Target::Time)]);
        Self { by_field, time_unit, ..Self::default() }
    }

    /// Creates a mapping with the timestamp in the fields `time`. Timestamps that are texts are parsed
    /// according to `texts`.
    #[must_use]
    pub fn with_time(time: &TimeFields, texts: TimeTexts) -> Self {
        let mut mapping = Self { time_texts: texts, ..Self::new(&time.name, time.unit) };
        mapping.first_hour = time.first_hour;
        let parts = time.others.iter().map(|(part, _)| *part);
        mapping.time_parts = [TimePart::Date].into_iter().chain(parts).collect();
        if mapping.time_parts.len() > 1 {
            for (part, field) in mapping.time_parts.iter().zip(time.names()) {
                mapping.by_field.insert(field.to_owned(), Target::TimePart(*part));
            }
        }
        mapping
    }

    /// Creates the mapping for rows as a service sends them. Their fields have the names of the columns.
    #[must_use]
    pub fn of_service(columns: impl IntoIterator<Item = (String, Dtype)>) -> Self {
        let mut mapping = Self::new("timestamp", None);
        for (name, dtype) in columns {
            mapping.column(&name.clone(), MappedColumn::exact(name, dtype));
        }
        mapping
    }

    /// Sets the decimal mark of numbers, and the texts that represent missing values of columns.
    #[must_use]
    pub fn with_numbers(self, decimal: Decimal, nulls: Vec<String>) -> Self {
        Self { decimal, nulls: nulls.into_iter().map(Null::new).collect(), ..self }
    }

    /// Maps `field` to the next column.
    pub fn column(&mut self, field: &str, column: MappedColumn) {
        self.by_field.insert(field.to_owned(), Target::Column(self.columns.len()));
        self.columns.push(column);
    }

    /// Imports no column from the field `field`.
    pub fn leave_out(&mut self, field: &str) {
        self.by_field.insert(field.to_owned(), Target::LeftOut);
    }

    /// Limits the mapping to the rows of `selection`, whose field is not a column.
    pub fn select(&mut self, selection: Selection) {
        self.by_field.insert(selection.field.clone(), Target::Selected);
        self.selection = Some(selection);
    }

    /// Reads the selected rows from `loaded` instead of the file.
    pub fn load(&mut self, loaded: Arc<LoadedRecords>) {
        self.loaded = Some(loaded);
    }

    pub(super) const fn loaded(&self) -> Option<&Arc<LoadedRecords>> {
        self.loaded.as_ref()
    }

    pub(super) const fn selection(&self) -> Option<&Selection> {
        self.selection.as_ref()
    }

    /// Returns the columns, in the order of the rows' values.
    #[must_use]
    pub fn columns(&self) -> &[MappedColumn] {
        &self.columns
    }

    /// Returns the names of the columns, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// Parses a row object from a service, which is either flat or has the values in a separate object.
    ///
    /// # Errors
    /// Description of the error.
    pub fn row_of_json(&self, object: &[u8]) -> Result<Row, String> {
        let mut building = self.begin();
        super::json::members(object, &mut |name, cell| {
            building.take(self, self.target(name), name, cell);
        })?;
        building.finish(self).map(|built| built.row)
    }

    /// Returns true if the values of `field` are needed.
    #[must_use]
    pub fn is_read(&self, field: &str) -> bool {
        self.target(field) != Target::LeftOut
    }

    pub(super) fn target(&self, field: &str) -> Target {
        self.by_field.get(field).copied().unwrap_or(Target::Unknown)
    }

    pub(super) fn begin(&self) -> Building {
        Building { values: vec![None; self.columns.len()], ..Building::default() }
    }
}

impl Building {
    /// Adds a field. Only the first error is stored.
    pub(super) fn take(
        &mut self,
        mapping: &ColumnMapping,
        target: Target,
        name: &str,
        cell: Cell<'_>,
    ) {
        if target == Target::Selected {
            let selection = mapping.selection.as_ref();
            self.is_selected = Some(selection.is_some_and(|selection| selection.matches(cell)));
        }
        if self.wrong.is_some() || self.is_selected == Some(false) {
            return;
        }
        let is_value = matches!(target, Target::Column(_) | Target::Unknown);
        let is_null = is_value && mapping.nulls.iter().any(|null| null.matches(cell));
        let cell = if is_null { Cell::Absent } else { cell };
        let taken = match target {
            Target::LeftOut | Target::Selected => Ok(()),
            Target::TimePart(part) => {
                let text = match cell {
                    Cell::Float(number) => exact_integer(number).map(|whole| whole.to_string()),
                    cell => cell.plain_text(),
                };
                self.parts.extend(text.map(|text| (part, text)));
                Ok(())
            }
            Target::Time => {
                timestamp(cell, mapping.time_unit, &mapping.time_texts).map(|read| self.set(read))
            }
            Target::Unknown if cell.is_absent() => Ok(()),
            Target::Unknown => {
                Err("the dataset has no such column, and the field is not mapped to another".into())
            }
            Target::Column(idx) => self.take_value(mapping, idx, cell),
        };
        self.wrong = taken.err().map(|reason: String| format!("column {name}: {reason}"));
    }

    /// Returns true if the row has the value of the mapping's selection.
    pub(super) fn is_selected(&self) -> bool {
        self.is_selected == Some(true)
    }

    fn set(&mut self, ReadTime { at, is_cut, later }: ReadTime) {
        (self.timestamp, self.later) = (Some(at), later);
        self.is_cut |= is_cut;
    }

    fn take_value(
        &mut self,
        mapping: &ColumnMapping,
        idx: usize,
        cell: Cell<'_>,
    ) -> Result<(), String> {
        let (Some(column), Some(value)) = (mapping.columns.get(idx), self.values.get_mut(idx))
        else {
            return Ok(());
        };
        let cell = match cell {
            Cell::Time(time) if time.zone != WrittenZone::Date => {
                let ReadTime { at, is_cut, later } = mapping.time_texts.resolve(time)?;
                if later.is_some() {
                    return Err(TWICE.to_owned());
                }
                self.is_cut |= is_cut;
                Cell::Time(TypedTime { at, is_cut, zone: WrittenZone::Utc })
            }
            cell => cell,
        };
        let becomes_text = column.is_chosen && column.dtype == Dtype::String;
        let text = match cell {
            Cell::Integer(number) if becomes_text => Some(number.to_string()),
            Cell::Large(number) if becomes_text => Some(number.to_string()),
            _ => None,
        };
        let cell = text.as_deref().map_or(cell, Cell::Text);
        *value = cell.fit(column.dtype, mapping.decimal)?;
        if let Some(Value::Float(number)) = *value
            && !column.is_chosen
            && cell.is_rounded_to(number, mapping.decimal)
        {
            return Err(inexact(cell, &column.name, mapping.decimal));
        }
        Ok(())
    }

    /// Combines the parts of the timestamp.
    fn read_parts(&self, mapping: &ColumnMapping) -> Result<ReadTime, String> {
        let text = |part| {
            let found = self.parts.iter().find(|(other, _)| *other == part);
            found.map(|(_, text)| text.as_str())
        };
        let whole = |part| text(part).map(|text| text.strip_suffix(".0").unwrap_or(text));
        if mapping.time_parts.iter().any(|part| text(*part).is_none()) {
            return Err("date or time of day is missing".to_owned());
        }
        let date = match (whole(TimePart::Month), whole(TimePart::Day)) {
            (Some(month), Some(day)) => {
                let year = whole(TimePart::Date).unwrap_or_default();
                format!("{year}-{month}-{day}")
            }
            _ => text(TimePart::Date).unwrap_or_default().to_owned(),
        };
        let texts = &mapping.time_texts;
        match (text(TimePart::Clock), whole(TimePart::Minute), mapping.first_hour) {
            (None, ..) => texts.read(&date),
            (Some(clock), None, None) => texts.read(&format!("{date} {clock}")),
            (Some(hour), None, Some(first_hour)) => texts.read_hour(&date, hour, first_hour),
            (Some(_), Some(minute), _) => {
                let hour = whole(TimePart::Clock).unwrap_or_default();
                texts.read(&format!("{date} {hour}:{minute:0>2}"))
            }
        }
    }

    pub(super) fn finish(mut self, mapping: &ColumnMapping) -> Result<Built, String> {
        if mapping.time_parts.len() > 1 && self.wrong.is_none() {
            let read = self.read_parts(mapping)?;
            self.set(read);
        }
        match (self.wrong, self.timestamp) {
            (Some(wrong), _) => Err(wrong),
            (None, None) => Err("timestamp is missing".to_owned()),
            (None, Some(timestamp)) => {
                let Self { values, is_cut, later, .. } = self;
                Ok(Built { row: Row { timestamp, values }, is_cut, later })
            }
        }
    }
}

/// Describes a whole number that floats cannot represent exactly, with a hint to choose another column
/// type.
fn inexact(cell: Cell<'_>, column: &str, decimal: Decimal) -> String {
    let dtype = if cell.fit(Dtype::Integer, decimal).is_ok() { "integer" } else { "string" };
    format!("{} is not exact as a float: --type {column}={dtype} keeps it", cell.describe())
}
