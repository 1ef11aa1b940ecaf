//! Blocks: consecutive rows of a dataset, grouped by column.
//!
//! Rows are in the order of their timestamps unless stated otherwise. The store defines how blocks are
//! encoded.

use std::ops::Range;

use crate::dataset::{Column, Dtype};
use crate::row::{Bucket, Row, Value};
use crate::timestamp::Timestamp;

/// Approximate number of bytes that the allocator adds to a text.
const TEXT_BYTES: usize = 16;

/// Values of a column, one entry per row. `None` if the row has no value.
#[derive(Debug, Clone, PartialEq)]
pub enum Series {
    /// Values of a float column.
    Float(Vec<Option<f64>>),
    /// Values of an integer column.
    Integer(Vec<Option<i64>>),
    /// Values of a string column.
    String(Vec<Option<Box<str>>>),
    /// Values of a boolean column.
    Boolean(Vec<Option<bool>>),
}

/// Consecutive rows of a dataset. All lists, including those in `columns`, have one entry per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Timestamps of the rows.
    pub times: Vec<Timestamp>,
    /// Row numbers, unique in the dataset. Rows of later commits have higher numbers.
    pub ids: Vec<i64>,
    /// Times at which the rows were stored.
    pub created: Vec<Timestamp>,
    /// Values of each column of the dataset, in the order of its columns.
    pub columns: Vec<Series>,
}

/// Rows or buckets.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// Rows as they were ingested.
    Raw(Block),
    /// Buckets, all of the same resolution.
    Buckets(Vec<Bucket>),
}

impl Rows {
    /// Returns the number of rows or buckets.
    pub const fn len(&self) -> usize {
        match self {
            Self::Raw(block) => block.len(),
            Self::Buckets(buckets) => buckets.len(),
        }
    }

    /// Returns true if there are no rows or buckets.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the timestamp of a row or bucket.
    pub fn timestamp(&self, row_idx: usize) -> Option<Timestamp> {
        match self {
            Self::Raw(block) => block.times.get(row_idx).copied(),
            Self::Buckets(buckets) => buckets.get(row_idx).map(|bucket| bucket.timestamp),
        }
    }

    /// Removes and returns the first `n` rows or buckets, or all if there are fewer.
    #[must_use]
    pub fn take(&mut self, n: usize) -> Self {
        match self {
            Self::Raw(block) => Self::Raw(block.take(n)),
            Self::Buckets(buckets) => {
                Self::Buckets(buckets.drain(..n.min(buckets.len())).collect())
            }
        }
    }
}

impl From<&[Bucket]> for Block {
    /// Converts the prices, volumes and counts of buckets to columns. A price that is NaN is missing.
    fn from(buckets: &[Bucket]) -> Self {
        let prices = |price: fn(&Bucket) -> f64| {
            let prices = buckets.iter().map(|bucket| Some(price(bucket)));
            Series::Float(prices.map(|price| price.filter(|price| !price.is_nan())).collect())
        };
        let count = |bucket: &Bucket| Some(i64::try_from(bucket.count).unwrap_or(i64::MAX));
        Self {
            times: buckets.iter().map(|bucket| bucket.timestamp).collect(),
            ids: Vec::new(),
            created: Vec::new(),
            columns: vec![
                prices(|bucket| bucket.open),
                prices(|bucket| bucket.high),
                prices(|bucket| bucket.low),
                prices(|bucket| bucket.close),
                Series::Float(buckets.iter().map(|bucket| Some(bucket.volume)).collect()),
                Series::Integer(buckets.iter().map(count).collect()),
            ],
        }
    }
}

/// Applies an operation to the values of a series, whatever their type.
macro_rules! each {
    ($series:expr, $values:ident => $call:expr) => {
        match $series {
            Self::Float($values) => $call,
            Self::Integer($values) => $call,
            Self::String($values) => $call,
            Self::Boolean($values) => $call,
        }
    };
}

impl Series {
    /// Creates an empty series for a column of type `dtype`.
    #[must_use]
    pub const fn new(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float => Self::Float(Vec::new()),
            Dtype::Integer => Self::Integer(Vec::new()),
            Dtype::String => Self::String(Vec::new()),
            Dtype::Boolean => Self::Boolean(Vec::new()),
        }
    }

    /// Returns the type of the column.
    pub const fn dtype(&self) -> Dtype {
        match self {
            Self::Float(_) => Dtype::Float,
            Self::Integer(_) => Dtype::Integer,
            Self::String(_) => Dtype::String,
            Self::Boolean(_) => Dtype::Boolean,
        }
    }

    /// Returns the value of row `row_idx` as a float. `None` if the row has no value, or the column is
    /// neither a float nor an integer column.
    pub fn number(&self, row_idx: usize) -> Option<f64> {
        match self {
            Self::Float(values) => *values.get(row_idx)?,
            Self::Integer(values) => (*values.get(row_idx)?).map(Value::Integer)?.as_f64(),
            Self::String(_) | Self::Boolean(_) => None,
        }
    }

    /// Returns the texts of a string column.
    pub fn texts(&self) -> Option<&[Option<Box<str>>]> {
        match self {
            Self::String(texts) => Some(texts),
            Self::Float(_) | Self::Integer(_) | Self::Boolean(_) => None,
        }
    }

    /// Appends `value`. Integers in a float column are converted. Returns `None` if the value has the
    /// wrong type.
    pub fn push(&mut self, value: Value) -> Option<()> {
        match (self, value) {
            (Self::Float(values), value @ (Value::Float(_) | Value::Integer(_))) => {
                values.push(value.as_f64());
            }
            (Self::Integer(values), Value::Integer(number)) => values.push(Some(number)),
            (Self::String(values), Value::String(text)) => values.push(Some(text.into())),
            (Self::Boolean(values), Value::Boolean(truth)) => values.push(Some(truth)),
            _ => return None,
        }
        Some(())
    }

    /// Appends `n` missing values.
    pub fn push_missing(&mut self, n: usize) {
        each!(self, values => values.extend(std::iter::repeat_n(None, n)));
    }

    fn get(&self, row_idx: usize) -> Option<Value> {
        match self {
            Self::Float(values) => values.get(row_idx)?.map(Value::Float),
            Self::Integer(values) => values.get(row_idx)?.map(Value::Integer),
            Self::String(values) => {
                values.get(row_idx)?.as_deref().map(|t| Value::String(t.into()))
            }
            Self::Boolean(values) => values.get(row_idx)?.map(Value::Boolean),
        }
    }

    fn n_bytes(&self) -> usize {
        let texts = self.texts().into_iter().flatten().flatten();
        let texts: usize = texts.map(|text| text.len() + TEXT_BYTES).sum();
        each!(self, values => size_of_val(values.as_slice())) + texts
    }

    fn reserve(&mut self, n: usize) {
        each!(self, values => values.reserve(n));
    }

    fn extend_from(&mut self, other: &Self, rows: Range<usize>) {
        let n = rows.len();
        match (&mut *self, other) {
            (Self::Float(to), Self::Float(from)) => extend(to, from, rows),
            (Self::Integer(to), Self::Integer(from)) => extend(to, from, rows),
            (Self::String(to), Self::String(from)) => extend(to, from, rows),
            (Self::Boolean(to), Self::Boolean(from)) => extend(to, from, rows),
            // Unreachable, since the type of a dataset's column never changes.
            _ => self.push_missing(n),
        }
    }

    /// Copies the value of row `from_idx` in `from` to row `row_idx`, unless row `row_idx` has a value.
    fn fill(&mut self, row_idx: usize, from: &Self, from_idx: usize) {
        match (self, from) {
            (Self::Float(to), Self::Float(from)) => fill(to, row_idx, from, from_idx),
            (Self::Integer(to), Self::Integer(from)) => fill(to, row_idx, from, from_idx),
            (Self::String(to), Self::String(from)) => fill(to, row_idx, from, from_idx),
            (Self::Boolean(to), Self::Boolean(from)) => fill(to, row_idx, from, from_idx),
            // Unreachable, since the type of a dataset's column never changes.
            _ => {}
        }
    }

    fn truncate(&mut self, n: usize) {
        each!(self, values => values.truncate(n));
    }

    fn reverse(&mut self) {
        each!(self, values => values.reverse());
    }
}

fn fill<T: Clone>(to: &mut [Option<T>], row_idx: usize, from: &[Option<T>], from_idx: usize) {
    if let (Some(to @ None), Some(Some(value))) = (to.get_mut(row_idx), from.get(from_idx)) {
        *to = Some(value.clone());
    }
}

fn extend<T: Clone>(to: &mut Vec<T>, from: &[T], rows: Range<usize>) {
    to.extend_from_slice(from.get(rows).unwrap_or_default());
}

impl Block {
    /// Creates an empty block with columns of these types.
    #[must_use]
    pub fn new(dtypes: &[Dtype]) -> Self {
        Self {
            times: Vec::new(),
            ids: Vec::new(),
            created: Vec::new(),
            columns: dtypes.iter().copied().map(Series::new).collect(),
        }
    }

    /// Creates an empty block with the same columns as this block.
    #[must_use]
    pub fn empty_like(&self) -> Self {
        Self::new(&self.dtypes())
    }

    fn dtypes(&self) -> Vec<Dtype> {
        self.columns.iter().map(Series::dtype).collect()
    }

    /// Appends the columns of the dataset that this block lacks, without values. `dtypes` are the types
    /// of all columns.
    pub fn widen(&mut self, dtypes: &[Dtype]) {
        for dtype in dtypes.iter().skip(self.columns.len()) {
            let mut missing = Series::new(*dtype);
            missing.push_missing(self.len());
            self.columns.push(missing);
        }
    }

    /// Returns the number of rows.
    pub const fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns true if the block has no rows.
    pub const fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Reserves capacity for `n` more rows.
    fn reserve(&mut self, n: usize) {
        self.times.reserve(n);
        self.ids.reserve(n);
        self.created.reserve(n);
        self.columns.iter_mut().for_each(|series| series.reserve(n));
    }

    /// Returns the size of the rows in memory, in bytes.
    pub fn n_bytes(&self) -> usize {
        let fixed =
            size_of_val(&*self.times) + size_of_val(&*self.ids) + size_of_val(&*self.created);
        fixed + self.columns.iter().map(Series::n_bytes).sum::<usize>()
    }

    /// Returns the total size of the texts, in bytes.
    pub fn text_bytes(&self) -> usize {
        let texts = self.columns.iter().filter_map(Series::texts).flatten();
        texts.flatten().map(|text| text.len()).sum()
    }

    /// Appends the rows `rows` of `other`, a block of the same dataset.
    pub fn extend_from(&mut self, other: &Self, rows: Range<usize>) {
        extend(&mut self.times, &other.times, rows.clone());
        extend(&mut self.ids, &other.ids, rows.clone());
        extend(&mut self.created, &other.created, rows.clone());
        for (column_idx, to) in self.columns.iter_mut().enumerate() {
            match other.columns.get(column_idx) {
                Some(from) => to.extend_from(from, rows.clone()),
                None => to.push_missing(rows.len()),
            }
        }
    }

    /// Returns a copy of the rows in a range.
    #[must_use]
    pub fn part(&self, rows: Range<usize>) -> Self {
        let mut part = self.empty_like();
        part.extend_from(self, rows);
        part
    }

    /// Removes all but the first `n` rows.
    pub fn truncate(&mut self, n: usize) {
        self.times.truncate(n);
        self.ids.truncate(n);
        self.created.truncate(n);
        self.columns.iter_mut().for_each(|series| series.truncate(n));
    }

    /// Removes and returns the first `n` rows, or all if there are fewer.
    #[must_use]
    pub fn take(&mut self, n: usize) -> Self {
        let n = n.min(self.len());
        let rest = self.part(n..self.len());
        let mut taken = std::mem::replace(self, rest);
        taken.truncate(n);
        taken
    }

    /// Reverses the order of the rows.
    pub fn reverse(&mut self) {
        self.times.reverse();
        self.ids.reverse();
        self.created.reverse();
        self.columns.iter_mut().for_each(Series::reverse);
    }

    /// Returns the index of the first row at or after `timestamp`.
    pub fn first_not_before(&self, timestamp: Timestamp) -> usize {
        self.times.partition_point(|time| *time < timestamp)
    }

    /// Returns the index of the first row after `timestamp`.
    pub fn first_after(&self, timestamp: Timestamp) -> usize {
        self.times.partition_point(|time| *time <= timestamp)
    }

    /// Merges the rows of both blocks in order. If both have a row with the same timestamp, the row of
    /// `over` is used. The result has the columns of the block with more columns.
    #[must_use]
    pub fn merge(&self, over: &Self) -> Self {
        let mut merged = self.empty_like();
        merged.widen(&over.dtypes());
        merged.reserve(self.len() + over.len());
        let (mut under_idx, mut over_idx) = (0, 0);
        while let Some(timestamp) = over.times.get(over_idx) {
            // Consecutive rows of one block are copied at once, so that a few late rows in a long block
            // need only a few copies.
            let under_end = self.first_not_before(*timestamp);
            merged.extend_from(self, under_idx..under_end.max(under_idx));
            under_idx = self.first_after(*timestamp).max(under_idx);
            let until = self.times.get(under_idx);
            let over_end = until.map_or(over.len(), |until| over.first_not_before(*until));
            let over_end = over_end.max(over_idx + 1);
            merged.extend_from(over, over_idx..over_end);
            over_idx = over_end;
        }
        merged.extend_from(self, under_idx..self.len());
        merged
    }

    /// Fills the missing values of each row with the values of the row in `under` that has the same
    /// timestamp. Both blocks belong to the same dataset. Columns that only `under` has are appended to
    /// this block first.
    pub fn fill(&mut self, under: &Self) {
        self.widen(&under.dtypes());
        let mut under_idx = 0;
        for row_idx in 0..self.len() {
            let Some(timestamp) = self.times.get(row_idx).copied() else { return };
            let later = under.times.get(under_idx..).unwrap_or_default();
            under_idx += later.partition_point(|time| *time < timestamp);
            if under.times.get(under_idx) == Some(&timestamp) {
                self.fill_row(row_idx, under, under_idx);
            }
        }
    }

    /// Fills the missing values of row `row_idx` with the values of row `from_idx` in `from`.
    pub fn fill_row(&mut self, row_idx: usize, from: &Self, from_idx: usize) {
        for (series, from) in self.columns.iter_mut().zip(&from.columns) {
            series.fill(row_idx, from, from_idx);
        }
    }

    /// Removes the values of deleted columns. `columns` describes the columns of this block in order.
    pub fn clear_columns(&mut self, columns: &[Column]) {
        let n_rows = self.len();
        for (series, column) in self.columns.iter_mut().zip(columns) {
            if column.is_deleted() {
                *series = Series::new(column.dtype);
                series.push_missing(n_rows);
            }
        }
    }

    /// Returns row `row_idx`, if it exists.
    pub fn row(&self, row_idx: usize) -> Option<Row> {
        let timestamp = *self.times.get(row_idx)?;
        let values = self.columns.iter().map(|series| series.get(row_idx)).collect();
        Some(Row { timestamp, values })
    }

    /// Returns all rows, in order.
    pub fn rows(&self) -> Vec<Row> {
        (0..self.len()).filter_map(|row_idx| self.row(row_idx)).collect()
    }
}
