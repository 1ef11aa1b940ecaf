//! Builds columns from rows, which arrive row by row in text formats and column by column in Parquet.
//!
//! The values of all formats are checked and converted here. Rejections are collected for the caller:
//! the number of rejected rows, and the first reasons in the order of the rows.

use std::collections::{HashMap, HashSet};
use std::mem;

use formats::read::cell::{Cell, INEXACT_REASON, is_inexact, parse_boolean};
use formats::read::json::VALUES;
use formats::read::number_text::whole_number;
use formats::read::parquet::ColumnSink;
use model::block::{Block, Series};
use model::dataset::{Column, Dtype, TIMESTAMP};
use model::row::{
    EARLIEST, ROW_TEXT_BYTES_MAX, ROW_TEXT_REASON, TOO_LATE, TOO_LATE_REASON, VALUE_BYTES_MAX,
    Value, kind,
};
use model::timestamp::{Timestamp, is_finer_than_stored};
use tsdb::catalog::COLUMNS_MAX;
use tsdb::store::AppendMode;
use wire::datasets::{RowRefusal, RowRefusals};

use crate::append::{REFUSALS_MAX, ROWS_MAX, TOO_MANY, sort_rows};
use crate::error::{CELLS_MAX, OperationError, Result};

/// Reason for rejecting two rows with timestamps that are equal only after truncation to microseconds.
const SAME_MICROSECOND: &str = "is in the same microsecond as that of another row";

/// Maximum number of characters of a column's name in a rejection. Valid names are shorter.
const SHOWN_NAME_CHARS: usize = 200;

/// A column of the block that is being built.
#[derive(Debug)]
struct ColumnSlot {
    name: String,
    dtype: Dtype,
    /// Number of rows for which the column already has an entry: a value, or `None` if it is missing.
    n_filled: usize,
    /// Index of the column that followed this column in the previous row. Rows usually have their
    /// columns in the same order.
    next: usize,
}

/// Column to which the next cells of a Parquet file belong.
#[derive(Debug)]
enum CurrentColumn {
    Timestamp,
    Slot(usize),
    /// A new column, which is created from its first value.
    New(String),
    /// A column that the dataset does not have, with cells that are therefore rejected.
    Unknown(String),
}

/// Builds a block from rows, cell by cell.
#[derive(Debug)]
pub(super) struct ColumnBuilder {
    slots: Vec<ColumnSlot>,
    slots_by_name: HashMap<String, usize>,
    /// True if unknown columns are created instead of rejected.
    makes_columns: bool,
    /// Type of columns that are created from whole numbers.
    integer_dtype: Dtype,
    block: Block,
    /// Number of rows that have begun, including rejected rows.
    n_rows: usize,
    /// Index of the row being filled.
    row_idx: usize,
    at: Option<Timestamp>,
    /// Maximum number of cells: rows times columns.
    cells_max: usize,
    /// Number of bytes that are left for texts. Only Parquet has this limit.
    left_bytes: usize,
    /// Number of bytes of text in each row. Empty if no row has texts.
    text_bytes: Vec<usize>,
    is_sorted: bool,
    /// Indices of rows with timestamps that were truncated to microseconds.
    cut_rows: Vec<usize>,
    /// Index of the column of the previous field of the current row.
    last: Option<usize>,
    /// Index of the first column of the previous row, with which the next row probably begins.
    first: usize,
    current: CurrentColumn,
    refused_rows: HashSet<usize>,
    refusals: Vec<RowRefusal>,
    /// Number of rejections in the current column. Beyond [`REFUSALS_MAX`], rejections are only counted,
    /// since the response cannot list them.
    n_column_refusals: usize,
}

impl ColumnBuilder {
    /// Creates a builder for rows of a dataset with these columns.
    pub(super) fn new(columns: &[Column]) -> Self {
        let slot = |(idx, column): (usize, &Column)| ColumnSlot {
            name: column.name.clone(),
            dtype: column.dtype,
            n_filled: 0,
            next: idx + 1,
        };
        let dtypes: Vec<Dtype> = columns.iter().map(|column| column.dtype).collect();
        let named = columns.iter().enumerate().filter(|(_, column)| !column.is_deleted());
        Self {
            slots: columns.iter().enumerate().map(slot).collect(),
            slots_by_name: named.map(|(idx, column)| (column.name.clone(), idx)).collect(),
            makes_columns: columns.is_empty(),
            integer_dtype: Dtype::Float,
            block: Block::new(&dtypes),
            n_rows: 0,
            row_idx: 0,
            at: None,
            cells_max: CELLS_MAX,
            left_bytes: usize::MAX,
            text_bytes: Vec::new(),
            is_sorted: true,
            cut_rows: Vec::new(),
            last: None,
            first: 0,
            current: CurrentColumn::Timestamp,
            refused_rows: HashSet::new(),
            refusals: Vec::new(),
            n_column_refusals: 0,
        }
    }

    /// Configures the builder for a format that distinguishes integers from floats, so that new columns
    /// of whole numbers are integer columns. Limits texts to `left_bytes` in total, since a dictionary
    /// can hold one long text for many rows.
    pub(super) fn with_types(self, left_bytes: usize) -> Self {
        Self { integer_dtype: Dtype::Integer, left_bytes, ..self }
    }

    /// Limits the rows times columns, since a missing value occupies as much memory as a number.
    pub(super) fn with_cells_max(self, cells_max: usize) -> Self {
        Self { cells_max, ..self }
    }

    /// Returns true if the limit of cells is exceeded. Values are then ignored.
    fn is_full(&self) -> bool {
        self.n_rows.saturating_mul(self.slots.len()) > self.cells_max
    }

    /// # Errors
    /// [`OperationError::TooManyCells`].
    fn check_cells(&self) -> Result<()> {
        if self.is_full() { Err(OperationError::TooManyCells) } else { Ok(()) }
    }

    /// Returns true if the total size of the texts exceeds the limit.
    pub(super) const fn is_exceeded(&self) -> bool {
        self.left_bytes == 0
    }

    /// Returns true if a column of this name exists or can be created.
    pub(super) fn accepts(&self, name: &str) -> bool {
        self.makes_columns || self.slots_by_name.contains_key(name)
    }

    /// Begins a row.
    ///
    /// # Errors
    /// [`OperationError::TooMany`], [`OperationError::TooManyCells`].
    pub(super) fn begin_row(&mut self) -> Result<()> {
        if self.n_rows >= ROWS_MAX {
            return Err(TOO_MANY);
        }
        (self.row_idx, self.at, self.last) = (self.n_rows, None, None);
        self.n_rows += 1;
        self.check_cells()
    }

    /// Adds a field to the current row: its timestamp, or the value of a column.
    pub(super) fn push_field(&mut self, name: &str, cell: Cell<'_>) {
        if name == TIMESTAMP {
            match parse_timestamp(cell) {
                Ok(Some(_)) if self.at.is_some() => self.refuse(Some(name), "appears twice"),
                Ok(Some(at)) => {
                    self.note_cut(cell);
                    self.at = Some(at);
                }
                Ok(None) => {}
                Err(reason) => self.refuse(Some(name), reason),
            }
            return;
        }
        if is_absent(cell) && self.makes_columns {
            return;
        }
        let Some(slot_idx) = self.find_column(name, cell) else { return };
        if self.slots.get(slot_idx).is_some_and(|slot| slot.n_filled > self.row_idx) {
            return self.refuse(Some(name), "appears twice");
        }
        self.push_value(slot_idx, cell);
    }

    /// Finishes a row.
    pub(super) fn end_row(&mut self) {
        self.check_text_bytes(self.row_idx);
        match self.at {
            Some(at) => self.push_timestamp(at),
            None if self.refused_rows.contains(&self.row_idx) => {}
            None => self.refuse(Some(TIMESTAMP), "is missing"),
        }
    }

    /// Begins a group of `n_rows` rows that arrive column by column.
    ///
    /// # Errors
    /// [`OperationError::TooMany`], [`OperationError::TooManyCells`].
    pub(super) fn begin_group(&mut self, n_rows: usize) -> Result<()> {
        if n_rows > ROWS_MAX - self.n_rows {
            return Err(TOO_MANY);
        }
        self.n_rows += n_rows;
        self.check_cells()
    }

    /// Finishes a group of rows that arrived column by column.
    pub(super) fn end_group(&mut self) {
        self.n_column_refusals = 0;
        for row_idx in self.block.times.len()..self.n_rows {
            self.row_idx = row_idx;
            self.push_missing_timestamp();
        }
        for row_idx in 0..self.text_bytes.len() {
            self.check_text_bytes(row_idx);
        }
        self.text_bytes.clear();
    }

    /// Rejects the current row for `reason`. `column` is the column that the reason concerns, if any.
    pub(super) fn refuse(&mut self, column: Option<&str>, reason: &str) {
        self.refused_rows.insert(self.row_idx);
        self.n_column_refusals += 1;
        if self.n_column_refusals <= REFUSALS_MAX {
            let shown = |name: &str| name.chars().take(SHOWN_NAME_CHARS).collect();
            let (row, column) = (self.row_idx, column.map(shown));
            self.refusals.push(RowRefusal { row, column, reason: reason.to_owned() });
        }
        if self.refusals.len() >= COLUMNS_MAX * REFUSALS_MAX {
            self.keep_first_refusals();
        }
    }

    /// Records the current row if its timestamp was truncated to microseconds.
    fn note_cut(&mut self, cell: Cell<'_>) {
        let is_cut = match cell {
            Cell::Time(time) => time.is_cut,
            Cell::Text(text) | Cell::Bare(text) => is_finer_than_stored(text),
            _ => false,
        };
        if is_cut {
            self.cut_rows.push(self.row_idx);
        }
    }

    /// Rejects each row with a truncated timestamp that is equal to the timestamp of another row, which
    /// it would replace.
    fn check_cut_rows(&mut self) {
        let cut_rows = mem::take(&mut self.cut_rows);
        if cut_rows.is_empty() {
            return;
        }
        let mut times = self.block.times.clone();
        times.sort_unstable();
        for row_idx in cut_rows {
            let Some(at) = self.block.times.get(row_idx) else { continue };
            let n_equal = times.partition_point(|other| other <= at)
                - times.partition_point(|other| other < at);
            if n_equal > 1 {
                self.row_idx = row_idx;
                self.refuse(Some(TIMESTAMP), SAME_MICROSECOND);
            }
        }
    }

    fn keep_first_refusals(&mut self) {
        self.refusals.sort_by_key(|refusal| refusal.row);
        self.refusals.truncate(REFUSALS_MAX);
    }

    fn push_timestamp(&mut self, at: Timestamp) {
        self.is_sorted &= self.block.times.last().is_none_or(|last| *last < at);
        self.block.times.push(at);
    }

    /// Adds a placeholder for a missing timestamp of a row that arrives column by column, so that the
    /// following timestamps belong to the right rows. The row is rejected, so the placeholder is never
    /// stored.
    fn push_missing_timestamp(&mut self) {
        if !self.refused_rows.contains(&self.row_idx) {
            self.refuse(Some(TIMESTAMP), "is missing");
        }
        self.block.times.push(Timestamp::default());
    }

    /// Adds a value to its column, after missing values for previous rows without the column.
    fn push_value(&mut self, slot_idx: usize, cell: Cell<'_>) {
        if self.is_full() {
            return;
        }
        let Some((slot, series)) =
            self.slots.get_mut(slot_idx).zip(self.block.columns.get_mut(slot_idx))
        else {
            return;
        };
        if slot.n_filled < self.row_idx {
            series.push_missing(self.row_idx - slot.n_filled);
        }
        slot.n_filled = self.row_idx + 1;
        let is_fit = match (&mut *series, cell) {
            // Fast path for the most frequent kind of value.
            (Series::Float(values), Cell::Float(number)) if number.is_finite() => {
                values.push(Some(number));
                return;
            }
            (_, cell) if is_absent(cell) => {
                series.push_missing(1);
                return;
            }
            (series, cell) => {
                convert(series.dtype(), cell).and_then(|value| series.push(value)).is_some()
            }
        };
        let dtype = slot.dtype;
        if !is_fit {
            series.push_missing(1);
            let name = slot.name.clone();
            match cell {
                Cell::Unfit(reason) => self.refuse(Some(&name), reason),
                Cell::Float(number) if dtype == Dtype::Integer && is_inexact(number) => {
                    self.refuse(Some(&name), INEXACT_REASON);
                }
                _ => self.refuse(Some(&name), &format!("must be {}", kind(dtype))),
            }
        }
        if dtype == Dtype::String {
            self.count_text_bytes(cell.text_bytes());
        }
    }

    fn count_text_bytes(&mut self, n_bytes: usize) {
        if self.text_bytes.len() <= self.row_idx {
            self.text_bytes.resize(self.row_idx + 1, 0);
        }
        if let Some(all) = self.text_bytes.get_mut(self.row_idx) {
            *all = all.saturating_add(n_bytes);
        }
    }

    fn check_text_bytes(&mut self, row_idx: usize) {
        if self.text_bytes.get(row_idx).is_some_and(|n_bytes| *n_bytes > ROW_TEXT_BYTES_MAX) {
            self.row_idx = row_idx;
            self.refuse(None, ROW_TEXT_REASON);
        }
    }

    /// Returns the index of the column called `name`. Creates the column if this is allowed. Returns
    /// `None` if the row is rejected.
    fn find_column(&mut self, name: &str, cell: Cell<'_>) -> Option<usize> {
        let last = self.last.and_then(|last| self.slots.get(last));
        let guess = last.map_or(self.first, |last| last.next);
        // A deleted column has an empty name, which must not match.
        if self.slots.get(guess).is_some_and(|slot| slot.name == name && !name.is_empty()) {
            self.last = Some(guess);
            return Some(guess);
        }
        let slot_idx = match self.slots_by_name.get(name) {
            Some(slot_idx) => *slot_idx,
            None if self.makes_columns => self.make_column(name, cell)?,
            None => {
                if name == VALUES {
                    self.refuse(None, "values must be an object");
                } else {
                    self.refuse(Some(name), "there is no such column");
                }
                return None;
            }
        };
        // Records the order of columns, since the next row probably has the same order.
        match self.last.and_then(|last| self.slots.get_mut(last)) {
            Some(last) => last.next = slot_idx,
            None => self.first = slot_idx,
        }
        self.last = Some(slot_idx);
        Some(slot_idx)
    }

    /// Creates a column with the type of its first value, `cell`. Returns `None` if the row is rejected.
    fn make_column(&mut self, name: &str, cell: Cell<'_>) -> Option<usize> {
        if self.slots.len() >= COLUMNS_MAX {
            self.refuse(Some(name), &format!("a dataset has at most {COLUMNS_MAX} columns"));
            return None;
        }
        let dtype = match cell {
            Cell::Integer(_) => self.integer_dtype,
            Cell::Float(_) | Cell::Large(_) => Dtype::Float,
            Cell::Boolean(_) => Dtype::Boolean,
            Cell::Bare(text) if parse_finite(text).is_some() => Dtype::Float,
            Cell::Bare(text) if parse_boolean(text).is_some() => Dtype::Boolean,
            Cell::Text(_) | Cell::Bare(_) | Cell::Time(_) => Dtype::String,
            Cell::Unfit(reason) => {
                self.refuse(Some(name), reason);
                return None;
            }
            Cell::Absent => return None,
        };
        let slot_idx = self.slots.len();
        let name = name.to_owned();
        self.slots_by_name.insert(name.clone(), slot_idx);
        self.slots.push(ColumnSlot { name, dtype, n_filled: 0, next: slot_idx + 1 });
        self.block.columns.push(Series::new(dtype));
        self.check_cells().ok()?;
        Some(slot_idx)
    }

    /// Returns the created columns and the rows sorted by unique timestamp. Of several rows with the
    /// same timestamp, the last row is used.
    ///
    /// # Errors
    /// [`OperationError::TooManyCells`], or [`OperationError::Rows`] if any row was rejected.
    pub(super) fn finish(mut self, mode: AppendMode) -> Result<(Vec<(String, Dtype)>, Block)> {
        self.check_cells()?;
        // In text formats, a rejected row has no entry in the timestamps, so they are not aligned with
        // the rows after a rejection.
        if self.refused_rows.is_empty() {
            self.check_cut_rows();
        }
        if !self.refused_rows.is_empty() {
            self.keep_first_refusals();
            let n_rows = self.refused_rows.len();
            return Err(OperationError::Rows(RowRefusals { total: n_rows, rows: self.refusals }));
        }
        let mut block = self.block;
        for (slot, series) in self.slots.iter().zip(&mut block.columns) {
            series.push_missing(self.n_rows - slot.n_filled);
        }
        if !self.is_sorted {
            block = sort_rows(&block, mode);
        }
        let made = if self.makes_columns { self.slots } else { Vec::new() };
        Ok((made.into_iter().map(|slot| (slot.name, slot.dtype)).collect(), block))
    }
}

impl ColumnSink for ColumnBuilder {
    fn begin_column(&mut self, name: &str, first_row: usize) {
        (self.row_idx, self.n_column_refusals) = (first_row, 0);
        self.current = match self.slots_by_name.get(name) {
            _ if name == TIMESTAMP => CurrentColumn::Timestamp,
            Some(slot_idx) => CurrentColumn::Slot(*slot_idx),
            None if self.makes_columns => CurrentColumn::New(name.to_owned()),
            None => CurrentColumn::Unknown(name.to_owned()),
        };
    }

    fn push_floats(&mut self, numbers: &[f64]) -> bool {
        let CurrentColumn::Slot(slot_idx) = self.current else { return false };
        if self.is_full() || !numbers.iter().all(|number| number.is_finite()) {
            return false;
        }
        let (slot, series) = (self.slots.get_mut(slot_idx), self.block.columns.get_mut(slot_idx));
        let (Some(slot), Some(Series::Float(values))) = (slot, series) else { return false };
        values.resize(self.row_idx, None);
        values.extend(numbers.iter().copied().map(Some));
        self.row_idx += numbers.len();
        slot.n_filled = self.row_idx;
        true
    }

    fn push_cell(&mut self, cell: Cell<'_>) {
        self.left_bytes = self.left_bytes.saturating_sub(cell.text_bytes());
        if self.left_bytes == 0 {
            return;
        }
        match &self.current {
            CurrentColumn::Slot(slot_idx) => self.push_value(*slot_idx, cell),
            CurrentColumn::Timestamp => match parse_timestamp(cell) {
                Ok(Some(at)) => {
                    self.note_cut(cell);
                    self.push_timestamp(at);
                }
                Ok(None) => self.push_missing_timestamp(),
                Err(reason) => {
                    self.refuse(Some(TIMESTAMP), reason);
                    self.push_missing_timestamp();
                }
            },
            CurrentColumn::New(_) if is_absent(cell) => {}
            CurrentColumn::New(name) => {
                let name = name.clone();
                if let Some(slot_idx) = self.make_column(&name, cell) {
                    self.push_value(slot_idx, cell);
                    self.current = CurrentColumn::Slot(slot_idx);
                }
            }
            CurrentColumn::Unknown(name) => {
                let name = name.clone();
                self.refuse(Some(&name), "there is no such column");
            }
        }
        self.row_idx += 1;
    }
}

/// Returns true if a cell represents a missing value, as NaN does.
fn is_absent(cell: Cell<'_>) -> bool {
    matches!(cell, Cell::Absent) || matches!(cell, Cell::Float(number) if number.is_nan())
}

/// Parses the timestamp of a row. Returns `None` if the cell is empty.
fn parse_timestamp(cell: Cell<'_>) -> Result<Option<Timestamp>, &str> {
    let at = match cell {
        Cell::Absent => return Ok(None),
        Cell::Time(time) => time.at,
        Cell::Text(text) | Cell::Bare(text) => text.parse::<Timestamp>().map_err(|_| {
            // A date after the latest timestamp does not parse either, but gets its own reason.
            let is_late = text.starts_with("9999-12-3");
            if is_late { TOO_LATE_REASON } else { "must be RFC 3339" }
        })?,
        Cell::Unfit(reason) => return Err(reason),
        _ => return Err("must be a text, RFC 3339"),
    };
    match at {
        _ if at >= TOO_LATE => Err(TOO_LATE_REASON),
        _ if at < EARLIEST => Err("must not be before the year 0"),
        at => Ok(Some(at)),
    }
}

/// Converts a cell to a value of type `dtype`. Returns `None` if the cell has no such value.
fn convert(dtype: Dtype, cell: Cell<'_>) -> Option<Value> {
    Some(match (dtype, cell) {
        (Dtype::Float, Cell::Bare(text)) => Value::Float(parse_finite(text)?),
        (Dtype::Float, cell) => Value::Float(cell.float()?),
        (Dtype::Integer, Cell::Bare(text)) => Value::Integer(parse_integer(text)?),
        (Dtype::Integer, cell) => Value::Integer(cell.integer()?),
        (Dtype::Boolean, Cell::Boolean(truth)) => Value::Boolean(truth),
        (Dtype::Boolean, Cell::Bare(text)) => Value::Boolean(parse_boolean(text)?),
        (Dtype::String, Cell::Text(text) | Cell::Bare(text)) => {
            (text.len() <= VALUE_BYTES_MAX).then(|| Value::String(text.to_owned()))?
        }
        (Dtype::String, Cell::Time(time)) => Value::String(time.at.to_string()),
        _ => return None,
    })
}

fn parse_finite(text: &str) -> Option<f64> {
    // Rejects texts such as `inf`, which parse as floats.
    let is_number =
        text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| whole_number(text))
}
