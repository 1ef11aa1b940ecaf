//! Grids of regrets, as the inference file keeps them: numbers as their bytes, little end first.
//!
//! Every name is written once, and stands for itself by its place from then on. A row's rest is
//! written pair by pair, or whole where most pairs have one.

use std::collections::BTreeMap;

use model::topic::Address;

use super::StoreError;
use crate::math::regret::{
    Regrets, Versus,
    grid::{Column, Grid, Row},
};

/// The first byte, by which a later form can be told from this one.
const FORM: u8 = 1;

/// What precedes a rest that is written pair by pair.
const SPARSE: u8 = 0;

/// What precedes a rest that is written whole.
const DENSE: u8 = 1;

/// The grids of `regrets`, in the order in which they are written.
fn grids(regrets: &Regrets) -> [&Grid; 6] {
    let Regrets { one_out_inferer, one_out_forecaster, one_in_forecaster, .. } = regrets;
    [
        &one_out_inferer.inferer,
        &one_out_inferer.forecaster,
        &one_out_forecaster.inferer,
        &one_out_forecaster.forecaster,
        &one_in_forecaster.inferer,
        &one_in_forecaster.forecaster,
    ]
}

/// The bytes of all grids of `regrets`.
pub(super) fn write(regrets: &Regrets) -> Vec<u8> {
    let grids = grids(regrets);
    let names = grids.iter().flat_map(|grid| {
        let rows = grid.rows().iter().map(|row| &row.name);
        rows.chain(grid.columns().iter().map(|column| &column.name))
    });
    let mut places: BTreeMap<&Address, usize> = names.map(|name| (name, 0)).collect();
    for (idx, place) in places.values_mut().enumerate() {
        *place = idx;
    }
    let mut bytes = vec![FORM];
    put_count(&mut bytes, places.len());
    for name in places.keys() {
        put_name(&mut bytes, name);
    }
    let place = |name: &Address| places.get(name).copied().unwrap_or_default();
    for grid in grids {
        put_count(&mut bytes, grid.columns().len());
        for Column { name, level } in grid.columns() {
            put_count(&mut bytes, place(name));
            bytes.extend(level.to_le_bytes());
        }
        put_count(&mut bytes, grid.rows().len());
        for Row { name, level, rest } in grid.rows() {
            put_count(&mut bytes, place(name));
            bytes.extend(level.to_le_bytes());
            put_rest(&mut bytes, rest, grid.columns().len());
        }
    }
    bytes
}

fn put_rest(bytes: &mut Vec<u8>, rest: &[(usize, f64)], n_columns: usize) {
    if rest.len() > n_columns / 2 {
        let mut whole = vec![0.0_f64; n_columns];
        for (idx, rest) in rest {
            if let Some(place) = whole.get_mut(*idx) {
                *place = *rest;
            }
        }
        bytes.push(DENSE);
        bytes.extend(whole.iter().flat_map(|rest| rest.to_le_bytes()));
        return;
    }
    bytes.push(SPARSE);
    put_count(bytes, rest.len());
    for (idx, rest) in rest {
        put_count(bytes, *idx);
        bytes.extend(rest.to_le_bytes());
    }
}

pub(super) fn put_count(bytes: &mut Vec<u8>, n: usize) {
    // Columns, rows and letters are counted in thousands.
    bytes.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
}

pub(super) fn put_name(bytes: &mut Vec<u8>, name: &Address) {
    put_count(bytes, name.as_str().len());
    bytes.extend(name.as_str().as_bytes());
}

/// Puts the grids that `bytes` hold into `regrets`.
pub(super) fn read(bytes: &[u8], regrets: &mut Regrets) -> Result<(), StoreError> {
    let unfit = || StoreError::Word { text: "a topic's regrets".to_owned() };
    let mut reader = Reader { bytes };
    let [FORM] = reader.take(1).ok_or_else(unfit)? else { return Err(unfit()) };
    let names = reader.names().ok_or_else(unfit)?;
    let mut versus = || reader.versus(&names).ok_or_else(unfit);
    regrets.one_out_inferer = versus()?;
    regrets.one_out_forecaster = versus()?;
    regrets.one_in_forecaster = versus()?;
    if reader.bytes.is_empty() { Ok(()) } else { Err(unfit()) }
}

/// What is left to read.
pub(super) struct Reader<'b> {
    pub bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn names(&mut self) -> Option<Vec<Address>> {
        let n_names = self.count()?;
        let mut names = Vec::new();
        for _ in 0..n_names {
            let n_bytes = self.count()?;
            names.push(str::from_utf8(self.take(n_bytes)?).ok()?.parse().ok()?);
        }
        Some(names)
    }

    fn versus(&mut self, names: &[Address]) -> Option<Versus> {
        Some(Versus { inferer: self.grid(names)?, forecaster: self.grid(names)? })
    }

    fn grid(&mut self, names: &[Address]) -> Option<Grid> {
        let n_columns = self.count()?;
        let mut columns = Vec::new();
        for _ in 0..n_columns {
            let name = names.get(self.count()?)?.clone();
            columns.push(Column { name, level: self.number()? });
        }
        let n_rows = self.count()?;
        let mut rows = Vec::new();
        for _ in 0..n_rows {
            let name = names.get(self.count()?)?.clone();
            rows.push(Row { name, level: self.number()?, rest: self.rest(n_columns)? });
        }
        Grid::new(rows, columns)
    }

    fn rest(&mut self, n_columns: usize) -> Option<Vec<(usize, f64)>> {
        match self.take(1)? {
            [SPARSE] => {
                let n_pairs = self.count()?;
                (0..n_pairs).map(|_| Some((self.count()?, self.number()?))).collect()
            }
            [DENSE] => {
                let numbers = self.numbers(n_columns)?.into_iter().enumerate();
                Some(numbers.filter(|(_, rest)| *rest != 0.0).collect())
            }
            _ => None,
        }
    }

    pub(super) fn take(&mut self, n_bytes: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.bytes.split_at_checked(n_bytes)?;
        self.bytes = left;
        Some(taken)
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take(4)?.try_into().ok()?)).ok()
    }

    pub(super) fn number(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// The next `n` numbers.
    pub(super) fn numbers(&mut self, n: usize) -> Option<Vec<f64>> {
        let (numbers, rest) = self.take(n.checked_mul(8)?)?.as_chunks::<8>();
        rest.is_empty().then(|| numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }
}
