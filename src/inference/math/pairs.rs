//! Values of pairs of actors in one block of numbers: one list of values for each row and column.
//!
//! A thousand inferers and fifty forecasters are 50 000 pairs. As objects with names and decimal
//! texts they take 16 MB in memory, on the disk and in an answer; as numbers, 400 kB.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use model::{bundle::Bundle, topic::Address};

use crate::math::regret::Family;

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

    /// Returns one number for each pair of `families`, by row. Columns are in order.
    pub fn of_families(families: &BTreeMap<Address, Family>) -> Self {
        let mut columns: Vec<Address> =
            families.values().flat_map(|family| family.keys().cloned()).collect();
        columns.sort();
        columns.dedup();
        let number = |family: &Family, name| family.get(name).copied().unwrap_or(f64::NAN);
        let numbers = families
            .values()
            .flat_map(|family| columns.iter().map(move |name| number(family, name)))
            .collect();
        Self { rows: families.keys().cloned().collect(), columns, width: 1, numbers }
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

    /// The lists by row and column, each as `convert` makes it.
    ///
    /// # Errors
    /// The first one of `convert`.
    pub fn by_row<T, E>(
        &self,
        convert: impl Fn(&[f64]) -> Result<T, E>,
    ) -> Result<BTreeMap<Address, BTreeMap<Address, T>>, E> {
        let row = |(row_idx, name): (usize, &Address)| {
            let lists = self.row(row_idx);
            let lists = lists.map(|(column, list)| Ok((column.clone(), convert(list)?)));
            Ok((name.clone(), lists.collect::<Result<_, E>>()?))
        };
        self.rows.iter().enumerate().map(row).collect()
    }
}
