//! Values of pairs of actors: a list of numbers for each pair. One array contains the lists of all
//! pairs.
//!
//! A thousand inferers and fifty forecasters are 50 000 pairs. Objects with names and decimal texts for
//! them would need 16 MB in memory, on disk and in a response. An array of numbers needs 400 kB.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};
use std::sync::Arc;

use model::topic::Address;

use wire::inference::Bundle;

/// Table with a list of numbers for each pair of a row and a column. Rows and columns are actors.
#[derive(Debug, Clone, Default)]
pub struct PairValues {
    rows: Vec<Address>,
    columns: Vec<Address>,
    /// Length of each list, at least 1.
    width: usize,
    /// Numbers by row, column and index in the list. The list of a missing pair is NaN.
    numbers: Vec<f64>,
}

/// Bundle whose values of pairs are numbers instead of texts. They are in `without_inferer`, and the
/// field `one_out_inferer_forecaster_values` of `bundle` is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct FullBundle {
    /// All other values.
    pub bundle: Bundle,
    /// Values that a forecaster (row) implies with an inferer (column) left out, one number per label.
    pub without_inferer: Arc<PairValues>,
}

impl FullBundle {
    /// Returns the names of the labels in order.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.bundle.combined_value.iter().map(|value| value.label_name.as_str())
    }
}

impl Deref for FullBundle {
    type Target = Bundle;

    fn deref(&self) -> &Bundle {
        &self.bundle
    }
}

impl PartialEq for PairValues {
    fn eq(&self, other: &Self) -> bool {
        let bits = |pairs: &Self| pairs.numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
        (&self.rows, &self.columns, self.width) == (&other.rows, &other.columns, other.width)
            && bits(self) == bits(other)
    }
}

impl PairValues {
    /// Creates the values of `rows` × `columns`. Returns `None` unless `numbers` has `width` numbers for
    /// each pair.
    pub fn new(
        rows: Vec<Address>,
        columns: Vec<Address>,
        width: usize,
        numbers: Vec<f64>,
    ) -> Option<Self> {
        let n_pairs = rows.len().checked_mul(columns.len())?;
        let is_valid = width > 0 && n_pairs.checked_mul(width)? == numbers.len();
        is_valid.then_some(Self { rows, columns, width, numbers })
    }

    /// Creates pairs with one number each from `by_row`. The columns of the result are sorted.
    pub fn from_rows<'r>(
        by_row: impl IntoIterator<Item = (&'r Address, &'r BTreeMap<Address, f64>)>,
    ) -> Self {
        let by_row: BTreeMap<&Address, &BTreeMap<Address, f64>> = by_row.into_iter().collect();
        let columns: BTreeSet<&Address> = by_row.values().flat_map(|row| row.keys()).collect();
        let numbers = by_row
            .values()
            .flat_map(|row| columns.iter().map(|name| row.get(*name).copied().unwrap_or(f64::NAN)));
        Self {
            numbers: numbers.collect(),
            width: 1,
            rows: by_row.keys().map(|name| (*name).clone()).collect(),
            columns: columns.into_iter().cloned().collect(),
        }
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the actors of the rows.
    pub fn rows(&self) -> &[Address] {
        &self.rows
    }

    /// Returns the actors of the columns.
    pub fn columns(&self) -> &[Address] {
        &self.columns
    }

    /// Returns the length of each list.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// Returns all numbers by row, column and index in the list.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// Returns the columns that have a list in the row at `row_idx`, each with its list, in order.
    pub fn row(&self, row_idx: usize) -> impl Iterator<Item = (&Address, &[f64])> {
        let n_numbers = self.columns.len() * self.width;
        let start = row_idx.saturating_mul(n_numbers);
        let row = self.numbers.get(start..start.saturating_add(n_numbers)).unwrap_or_default();
        let lists = self.columns.iter().zip(row.chunks(self.width.max(1)));
        lists.filter(|(_, list)| list.first().is_some_and(|number| !number.is_nan()))
    }

    /// Returns the numbers in the row of `name`, by column and index in the list. Rows must be sorted.
    pub fn row_of(&self, name: &Address) -> Option<&[f64]> {
        self.numbers.get(self.range_of(name)?)
    }

    /// Returns the number of each row in `column`, or NaN for a missing pair. The width must be 1, and
    /// columns must be sorted.
    pub fn column_of(&self, column: &Address) -> Vec<f64> {
        match self.columns.binary_search(column) {
            Ok(idx) => self.numbers.iter().skip(idx).step_by(self.columns.len()).copied().collect(),
            Err(_) => vec![f64::NAN; self.rows.len()],
        }
    }

    /// Returns the number of a pair, or `None` if it is missing. The width must be 1, and rows and
    /// columns must be sorted.
    pub fn get(&self, row: &Address, column: &Address) -> Option<f64> {
        let idx = self.columns.binary_search(column).ok()?;
        self.row_of(row)?.get(idx).copied().filter(|number| !number.is_nan())
    }

    /// Returns the numbers in the row of `name`, by column and index in the list. Rows must be sorted.
    pub(crate) fn row_of_mut(&mut self, name: &Address) -> Option<&mut [f64]> {
        let range = self.range_of(name)?;
        self.numbers.get_mut(range)
    }

    /// Adds the missing actors of `rows` and `columns`. Rows and columns stay sorted, and the new pairs
    /// are missing. The width must be 1.
    pub(crate) fn include(&mut self, rows: &[&Address], columns: &[&Address]) {
        let union = |names: &[Address], more: &[&Address]| -> Vec<Address> {
            let all = names.iter().chain(more.iter().copied());
            all.collect::<BTreeSet<_>>().into_iter().cloned().collect()
        };
        let has = |names: &[Address], more: &[&Address]| {
            more.iter().all(|name| names.binary_search(name).is_ok())
        };
        if !has(&self.rows, rows) || !has(&self.columns, columns) {
            *self = self.resize(union(&self.rows, rows), union(&self.columns, columns));
        }
    }

    /// Removes the rows and columns for which the predicates return false. The width must be 1.
    pub fn retain(
        &mut self,
        is_row_kept: impl Fn(&Address) -> bool,
        is_column_kept: impl Fn(&Address) -> bool,
    ) {
        let rows: Vec<Address> =
            self.rows.iter().filter(|name| is_row_kept(name)).cloned().collect();
        let columns: Vec<Address> =
            self.columns.iter().filter(|name| is_column_kept(name)).cloned().collect();
        if (rows.len(), columns.len()) != (self.rows.len(), self.columns.len()) {
            *self = self.resize(rows, columns);
        }
    }

    /// Converts each list to one number. Missing pairs stay missing.
    ///
    /// # Errors
    /// The first error of `convert`.
    pub fn try_map<E>(&self, convert: impl Fn(&[f64]) -> Result<f64, E>) -> Result<Self, E> {
        let lists = self.numbers.chunks(self.width.max(1));
        let number = |list: &[f64]| match list.first() {
            Some(first) if !first.is_nan() => convert(list),
            _ => Ok(f64::NAN),
        };
        Ok(Self {
            numbers: lists.map(number).collect::<Result<_, E>>()?,
            width: 1,
            rows: self.rows.clone(),
            columns: self.columns.clone(),
        })
    }

    fn range_of(&self, row: &Address) -> Option<Range<usize>> {
        let n_numbers = self.columns.len() * self.width;
        let start = self.rows.binary_search(row).ok()? * n_numbers;
        Some(start..start + n_numbers)
    }

    /// Returns a copy with these rows and columns, which must be sorted. New pairs are missing. The
    /// width must be 1.
    fn resize(&self, rows: Vec<Address>, columns: Vec<Address>) -> Self {
        let places: Vec<Option<usize>> =
            columns.iter().map(|name| self.columns.binary_search(name).ok()).collect();
        let mut numbers = Vec::with_capacity(rows.len() * columns.len());
        for name in &rows {
            let row = self.row_of(name).unwrap_or_default();
            let number = |place: &Option<usize>| place.and_then(|idx| row.get(idx)).copied();
            numbers.extend(places.iter().map(|place| number(place).unwrap_or(f64::NAN)));
        }
        Self { rows, columns, width: 1, numbers }
    }
}
