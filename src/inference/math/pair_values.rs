//! Values of pairs of actors in one block of numbers: one list of values for each row and column.
//!
//! A thousand inferers and fifty forecasters are 50 000 pairs. As objects with names and decimal
//! texts they take 16 MB in memory, on the disk and in an answer; as numbers, 400 kB.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Deref, Range},
    sync::Arc,
};

use model::topic::Address;

use wire::inference::Bundle;

/// A list of numbers for each pair of a row and a column that has one.
#[derive(Debug, Clone, Default)]
pub struct PairValues {
    rows: Vec<Address>,
    columns: Vec<Address>,
    /// Numbers in each list, at least 1.
    width: usize,
    /// By row, column and place in the list; the whole list is NaN where a pair has none.
    numbers: Vec<f64>,
}

/// A bundle whose values of pairs are numbers: its `one_out_inferer_forecaster_values` are empty, and
/// `without_inferer` stands for them.
#[derive(Debug, Clone, PartialEq)]
pub struct FullBundle {
    /// All other values.
    pub bundle: Bundle,
    /// What each forecaster (row) implies without each inferer (column), one number for each label.
    pub without_inferer: Arc<PairValues>,
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
    /// Returns the values of `rows` × `columns`, or none where `numbers` are not `width` for each
    /// pair.
    pub fn new(
        rows: Vec<Address>,
        columns: Vec<Address>,
        width: usize,
        numbers: Vec<f64>,
    ) -> Option<Self> {
        let n_pairs = rows.len().checked_mul(columns.len())?;
        let is_fit = width > 0 && n_pairs.checked_mul(width)? == numbers.len();
        is_fit.then_some(Self { rows, columns, width, numbers })
    }

    /// Returns one number for each pair of `by_row`. Columns are in order.
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

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows' actors.
    pub fn rows(&self) -> &[Address] {
        &self.rows
    }

    /// The columns' actors.
    pub fn columns(&self) -> &[Address] {
        &self.columns
    }

    /// Numbers in each list.
    pub const fn width(&self) -> usize {
        self.width
    }

    /// All numbers: by row, column and place in the list.
    pub fn numbers(&self) -> &[f64] {
        &self.numbers
    }

    /// The columns that have a list in the row at `row_idx`, each with it, in their order.
    pub fn row(&self, row_idx: usize) -> impl Iterator<Item = (&Address, &[f64])> {
        let n_numbers = self.columns.len() * self.width;
        let start = row_idx.saturating_mul(n_numbers);
        let row = self.numbers.get(start..start.saturating_add(n_numbers)).unwrap_or_default();
        let lists = self.columns.iter().zip(row.chunks(self.width.max(1)));
        lists.filter(|(_, list)| list.first().is_some_and(|number| !number.is_nan()))
    }

    /// The numbers of the row of `name`, for each column in turn. Rows have to be in order.
    pub fn row_of(&self, name: &Address) -> Option<&[f64]> {
        self.numbers.get(self.range_of(name)?)
    }

    /// The numbers of `column`, of width 1, for each row in turn; NaN for pairs without one. Columns
    /// have to be in order.
    pub fn column_of(&self, column: &Address) -> Vec<f64> {
        match self.columns.binary_search(column) {
            Ok(idx) => self.numbers.iter().skip(idx).step_by(self.columns.len()).copied().collect(),
            Err(_) => vec![f64::NAN; self.rows.len()],
        }
    }

    /// The number of a pair, of width 1; `None` where it has none. Rows and columns have to be in
    /// order.
    pub fn get(&self, row: &Address, column: &Address) -> Option<f64> {
        let idx = self.columns.binary_search(column).ok()?;
        self.row_of(row)?.get(idx).copied().filter(|number| !number.is_nan())
    }

    /// The numbers of the row of `name`, to be changed.
    pub(crate) fn row_of_mut(&mut self, name: &Address) -> Option<&mut [f64]> {
        let range = self.range_of(name)?;
        self.numbers.get_mut(range)
    }

    /// Adds those of `rows` and `columns` that are missing, in order, with pairs of width 1 that have
    /// no number.
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

    /// Drops the rows and the columns, of width 1, that are not to be kept.
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

    /// Converts each list to one number.
    ///
    /// # Errors
    /// The first one of `convert`.
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

    /// The same pairs for other rows and columns, all in order.
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

    /// The numbers by row and column, of width 1.
    pub fn by_row(&self) -> BTreeMap<Address, BTreeMap<Address, f64>> {
        let number = |(name, list): (&Address, &[f64])| Some((name.clone(), *list.first()?));
        let row = |(idx, name): (usize, &Address)| {
            (name.clone(), self.row(idx).filter_map(number).collect())
        };
        self.rows.iter().enumerate().map(row).collect()
    }

    /// The lists by row and column.
    pub fn lists(&self) -> BTreeMap<Address, BTreeMap<Address, Vec<f64>>> {
        let list = |(name, list): (&Address, &[f64])| (name.clone(), list.to_vec());
        let row =
            |(idx, name): (usize, &Address)| (name.clone(), self.row(idx).map(list).collect());
        self.rows.iter().enumerate().map(row).collect()
    }
}
