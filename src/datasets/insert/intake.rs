//! Values on their way into columns, whatever they were written as.

use std::{borrow::Cow, collections::HashMap};

use formats::read::cell::Cell;
use model::{
    block::{Block, Series},
    dataset::{Column, Dtype, TIMESTAMP},
    row::{
        EARLIEST, ROW_TEXT_BYTES_MAX, ROW_TEXT_REASON, TOO_LATE, TOO_LATE_REASON, VALUE_BYTES_MAX,
        Value, kind,
    },
    timestamp::Timestamp,
};
use tsdb::{catalog::COLUMNS_MAX, store::AppendMode};

use crate::append::{AppendError, REFUSALS_MAX, ROWS_MAX, Refusal, Refusals};

/// The largest whole number up to which a float holds each one: 2^53.
const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// A value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Written<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// True or false.
    Truth(bool),
    /// Nothing.
    Null,
    /// A field of a CSV, not empty, which may be anything.
    Field(Cow<'a, str>),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Float(f64),
}

/// A column being filled.
#[derive(Debug)]
struct Slot {
    name: String,
    dtype: Dtype,
    /// The rows up to which it has a value or none.
    n_filled: usize,
    /// The column that was named after it last: rows name their columns in the same order.
    next: usize,
}

/// Takes rows, value by value, and says in the end what is wrong with them.
#[derive(Debug)]
pub(super) struct Intake {
    slots: Vec<Slot>,
    places: HashMap<String, usize>,
    /// Whether columns are made of what is named.
    makes_columns: bool,
    /// The type of columns made of whole numbers.
    whole_dtype: Dtype,
    block: Block,
    /// Rows begun, those that were refused included.
    n_rows: usize,
    moment: Option<Timestamp>,
    /// Bytes of the texts of this row.
    text_bytes: usize,
    is_refused: bool,
    is_sorted: bool,
    /// The column that was named last in this row.
    last: Option<usize>,
    /// The column that rows name first, most likely.
    first: usize,
    refusals: Refusals,
}

impl Intake {
    /// Takes rows of a dataset with these columns.
    pub(super) fn new(columns: &[Column]) -> Self {
        let slot = |(idx, column): (usize, &Column)| Slot {
            name: column.name.clone(),
            dtype: column.dtype,
            n_filled: 0,
            next: idx + 1,
        };
        let dtypes: Vec<Dtype> = columns.iter().map(|column| column.dtype).collect();
        let places = columns.iter().enumerate().filter(|(_, column)| !column.is_deleted());
        Self {
            slots: columns.iter().enumerate().map(slot).collect(),
            places: places.map(|(idx, column)| (column.name.clone(), idx)).collect(),
            makes_columns: columns.is_empty(),
            whole_dtype: Dtype::Float,
            block: Block::new(&dtypes),
            n_rows: 0,
            moment: None,
            text_bytes: 0,
            is_refused: false,
            is_sorted: true,
            last: None,
            first: 0,
            refusals: Refusals::default(),
        }
    }

    /// The same for rows of a body that says which numbers are whole: columns of them are.
    pub(super) fn with_types(self) -> Self {
        Self { whole_dtype: Dtype::Integer, ..self }
    }

    /// Whether a column of this name is there or will be made.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.makes_columns || self.places.contains_key(name)
    }

    /// Begins a row.
    ///
    /// # Errors
    /// [`AppendError::TooMany`].
    pub(super) fn begin(&mut self) -> Result<(), AppendError> {
        if self.n_rows >= ROWS_MAX {
            return Err(AppendError::TooMany);
        }
        self.n_rows += 1;
        (self.moment, self.text_bytes, self.is_refused, self.last) = (None, 0, false, None);
        Ok(())
    }

    /// Takes the row's moment.
    pub(super) fn moment(&mut self, written: &Written<'_>) {
        let (Written::Text(text) | Written::Field(text)) = written else {
            return self.refuse(Some(TIMESTAMP), "must be a text, RFC 3339");
        };
        match text.parse::<Timestamp>() {
            // What is later than a moment can be is not read as one.
            Err(_) if text.starts_with("9999-12-3") => {
                self.refuse(Some(TIMESTAMP), TOO_LATE_REASON);
            }
            Err(_) => self.refuse(Some(TIMESTAMP), "must be RFC 3339"),
            Ok(at) => self.set_timestamp(at),
        }
    }

    fn set_timestamp(&mut self, at: Timestamp) {
        match at {
            _ if at >= TOO_LATE => self.refuse(Some(TIMESTAMP), TOO_LATE_REASON),
            _ if at < EARLIEST => self.refuse(Some(TIMESTAMP), "must not be before the year 0"),
            _ if self.moment.is_some() => self.refuse(Some(TIMESTAMP), "is there twice"),
            _ => self.moment = Some(at),
        }
    }

    /// Takes the row's timestamp.
    pub(super) fn typed_timestamp(&mut self, cell: Cell<'_>) {
        match cell {
            Cell::Absent => {}
            Cell::Time(time) => self.set_timestamp(time.at),
            Cell::Text(text) => self.moment(&Written::Text(Cow::Borrowed(text))),
            Cell::Unfit(reason) => self.refuse(Some(TIMESTAMP), reason),
            _ => self.refuse(Some(TIMESTAMP), "must be a text, RFC 3339"),
        }
    }

    /// Takes a value of the row. One that is not a number (NaN) is no value.
    pub(super) fn typed_value(&mut self, name: &str, cell: Cell<'_>) {
        match cell {
            Cell::Absent => self.value(name, Written::Null),
            Cell::Float(number) if number.is_nan() => self.value(name, Written::Null),
            Cell::Float(number) => self.value(name, Written::Float(number)),
            Cell::Integer(number) => self.value(name, Written::Whole(number)),
            #[expect(clippy::cast_precision_loss, reason = "a column of floats holds no more")]
            Cell::Large(number) => self.value(name, Written::Float(number as f64)),
            Cell::Boolean(truth) => self.value(name, Written::Truth(truth)),
            Cell::Text(text) | Cell::Bare(text) => {
                self.value(name, Written::Text(Cow::Borrowed(text)));
            }
            Cell::Time(time) => self.value(name, Written::Text(Cow::Owned(time.at.to_string()))),
            Cell::Unfit(reason) => self.refuse(Some(name), reason),
        }
    }

    /// Takes a value of the row.
    pub(super) fn value(&mut self, name: &str, written: Written<'_>) {
        if written == Written::Null && self.makes_columns {
            return;
        }
        let Some(place) = self.place(name, &written) else { return };
        let n_before = self.n_rows - 1;
        let Some((slot, series)) = self.slots.get_mut(place).zip(self.block.columns.get_mut(place))
        else {
            return;
        };
        if slot.n_filled > n_before {
            return self.refuse(Some(name), "is there twice");
        }
        // A place that is already too far, for a refused row, stays so: the block is not used then.
        if slot.n_filled < n_before {
            series.push_missing(n_before - slot.n_filled);
        }
        slot.n_filled = n_before + 1;
        let dtype = slot.dtype;
        if let (Dtype::String, Written::Text(text) | Written::Field(text)) = (dtype, &written) {
            self.text_bytes = self.text_bytes.saturating_add(text.len());
        }
        if written == Written::Null {
            series.push_missing(1);
        } else if value(dtype, written).and_then(|value| series.push(value)).is_none() {
            series.push_missing(1);
            self.refuse_with(Some(name), || format!("must be {}", kind(dtype)));
        }
    }

    /// Ends a row.
    pub(super) fn end(&mut self) {
        if self.text_bytes > ROW_TEXT_BYTES_MAX {
            self.refuse(None, ROW_TEXT_REASON);
        }
        match self.moment {
            None if self.is_refused => {}
            None => self.refuse(Some(TIMESTAMP), "is missing"),
            Some(moment) => {
                self.is_sorted &= self.block.times.last().is_none_or(|last| *last < moment);
                self.block.times.push(moment);
            }
        }
    }

    /// Refuses the row.
    pub(super) fn refuse(&mut self, column: Option<&str>, reason: &str) {
        self.refuse_with(column, || reason.to_owned());
    }

    fn refuse_with(&mut self, column: Option<&str>, reason: impl FnOnce() -> String) {
        if !self.is_refused {
            self.refusals.n_rows += 1;
        }
        self.is_refused = true;
        if self.refusals.first.len() < REFUSALS_MAX {
            let (row_idx, column) = (self.n_rows.saturating_sub(1), column.map(str::to_owned));
            self.refusals.first.push(Refusal { row_idx, column, reason: reason() });
        }
    }

    /// The place of the column called `name`, which is made if columns are.
    fn place(&mut self, name: &str, written: &Written<'_>) -> Option<usize> {
        let last = self.last.and_then(|last| self.slots.get(last));
        let guess = last.map_or(self.first, |last| last.next);
        // The slot of a deleted column has no name.
        if self.slots.get(guess).is_some_and(|slot| slot.name == name && !name.is_empty()) {
            self.last = Some(guess);
            return Some(guess);
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => self.make(name, written)?,
        };
        // The next row has the same order, most likely.
        match self.last.and_then(|last| self.slots.get_mut(last)) {
            Some(last) => last.next = place,
            None => self.first = place,
        }
        self.last = Some(place);
        Some(place)
    }

    fn make(&mut self, name: &str, written: &Written<'_>) -> Option<usize> {
        if !self.makes_columns {
            self.refuse(Some(name), "there is no such column");
            return None;
        }
        if self.slots.len() >= COLUMNS_MAX {
            self.refuse_with(Some(name), || format!("a dataset has at most {COLUMNS_MAX} columns"));
            return None;
        }
        let dtype = match written {
            Written::Whole(_) => self.whole_dtype,
            Written::Float(_) => Dtype::Float,
            Written::Truth(_) => Dtype::Boolean,
            Written::Field(text) if finite(text).is_some() => Dtype::Float,
            Written::Field(text) if truth(text).is_some() => Dtype::Boolean,
            Written::Text(_) | Written::Field(_) => Dtype::String,
            Written::Null => return None,
        };
        let place = self.slots.len();
        self.slots.push(Slot { name: name.to_owned(), dtype, n_filled: 0, next: place + 1 });
        self.places.insert(name.to_owned(), place);
        self.block.columns.push(Series::new(dtype));
        Some(place)
    }

    /// The columns that the rows make, and the rows in order; of those at one moment the last.
    ///
    /// # Errors
    /// [`AppendError::Rows`] if any was refused.
    pub(super) fn finish(
        self,
        mode: AppendMode,
    ) -> Result<(Vec<(String, Dtype)>, Block), AppendError> {
        if self.refusals.n_rows > 0 {
            return Err(AppendError::Rows(self.refusals));
        }
        let mut block = self.block;
        for (slot, series) in self.slots.iter().zip(&mut block.columns) {
            series.push_missing(self.n_rows - slot.n_filled);
        }
        if !self.is_sorted {
            block = sorted(&block, mode);
        }
        let made = if self.makes_columns { self.slots } else { Vec::new() };
        Ok((made.into_iter().map(|slot| (slot.name, slot.dtype)).collect(), block))
    }
}

/// The value that is written, as one of a column; none if it is none.
fn value(dtype: Dtype, written: Written<'_>) -> Option<Value> {
    Some(match (dtype, written) {
        (Dtype::Float, Written::Field(text)) => Value::Float(finite(&text)?),
        #[expect(clippy::cast_precision_loss, reason = "a column of floats holds no more")]
        (Dtype::Float, Written::Whole(number)) => Value::Float(number as f64),
        (Dtype::Float, Written::Float(number)) => {
            Value::Float(Some(number).filter(|number| number.is_finite())?)
        }
        (Dtype::Integer, Written::Whole(number)) => Value::Integer(number),
        (Dtype::Integer, Written::Float(number)) => Value::Integer(exact(number)?),
        (Dtype::Integer, Written::Field(text)) => Value::Integer(whole(&text)?),
        (Dtype::Boolean, Written::Truth(truth)) => Value::Boolean(truth),
        (Dtype::Boolean, Written::Field(text)) => Value::Boolean(truth(&text)?),
        (Dtype::String, Written::Text(text) | Written::Field(text)) => {
            (text.len() <= VALUE_BYTES_MAX).then(|| Value::String(text.into_owned()))?
        }
        _ => return None,
    })
}

fn finite(text: &str) -> Option<f64> {
    // Infinities and such have names, which are no numbers here.
    let is_number =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

fn whole(text: &str) -> Option<i64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    exact(finite(text)?)
}

/// A float that is whole, if floats hold each whole number around it.
fn exact(number: f64) -> Option<i64> {
    let is_exact = number.fract() == 0.0 && number.abs() <= WHOLE_FLOAT_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and within range")]
    is_exact.then_some(number as i64)
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// The rows in order; of those at one moment the last one that came, with values of those before it
/// where they are merged.
fn sorted(block: &Block, mode: AppendMode) -> Block {
    let mut order: Vec<(Timestamp, usize)> = block.times.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let mut sorted = block.empty_like();
    for rows in order.chunk_by(|(before, _), (next, _)| before == next) {
        let Some(((_, last), earlier)) = rows.split_last() else { continue };
        sorted.extend_from(block, *last..last + 1);
        if mode == AppendMode::Merge {
            let at = sorted.len() - 1;
            earlier.iter().rev().for_each(|(_, row_idx)| sorted.fill_row(at, block, *row_idx));
        }
    }
    sorted
}
