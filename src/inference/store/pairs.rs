//! Values and regrets of pairs, as the inference file keeps them: names, then numbers as their bytes,
//! little end first.

use model::topic::Address;

use super::StoreError;
use crate::math::{
    pair_values::PairValues,
    regret::{PairwiseRegrets, Regrets},
};

/// The first byte, by which a later form can be told from this one.
const FORM: u8 = 1;

/// The bytes of `pairs`; none of none.
pub(super) fn write(pairs: &PairValues) -> Option<Vec<u8>> {
    if pairs.is_empty() {
        return None;
    }
    let mut bytes = vec![FORM];
    put_pairs(&mut bytes, pairs);
    Some(bytes)
}

/// The bytes of all regrets of pairs in `regrets`.
pub(super) fn write_regrets(regrets: &Regrets) -> Vec<u8> {
    let Regrets { one_out_inferer, one_out_forecaster, one_in_forecaster, .. } = regrets;
    let mut bytes = vec![FORM];
    for PairwiseRegrets { inferer, forecaster } in
        [one_out_inferer, one_out_forecaster, one_in_forecaster]
    {
        put_pairs(&mut bytes, inferer);
        put_pairs(&mut bytes, forecaster);
    }
    bytes
}

fn put_pairs(bytes: &mut Vec<u8>, pairs: &PairValues) {
    for names in [pairs.rows(), pairs.columns()] {
        put_count(bytes, names.len());
        for name in names {
            put_name(bytes, name);
        }
    }
    put_count(bytes, pairs.width());
    bytes.extend(pairs.numbers().iter().flat_map(|number| number.to_le_bytes()));
}

pub(super) fn put_count(bytes: &mut Vec<u8>, n: usize) {
    // Columns, rows and letters are counted in thousands.
    bytes.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
}

pub(super) fn put_name(bytes: &mut Vec<u8>, name: &Address) {
    put_count(bytes, name.as_str().len());
    bytes.extend(name.as_str().as_bytes());
}

/// The pairs that `bytes` hold: none where an epoch has none, or keeps them no more.
pub(super) fn read(bytes: Option<&[u8]>) -> Result<PairValues, StoreError> {
    let Some(bytes) = bytes else { return Ok(PairValues::default()) };
    let mut reader = Reader { bytes };
    let pairs = reader.form().and_then(|()| reader.pairs());
    pairs
        .filter(|_| reader.bytes.is_empty())
        .ok_or_else(|| StoreError::Word { text: "an epoch's values of pairs".to_owned() })
}

/// Puts the regrets of pairs that `bytes` hold into `regrets`.
pub(super) fn read_regrets(bytes: &[u8], regrets: &mut Regrets) -> Result<(), StoreError> {
    let mut reader = Reader { bytes };
    let mut read = || {
        reader.form()?;
        regrets.one_out_inferer = reader.pairwise()?;
        regrets.one_out_forecaster = reader.pairwise()?;
        regrets.one_in_forecaster = reader.pairwise()?;
        reader.bytes.is_empty().then_some(())
    };
    read().ok_or_else(|| StoreError::Word { text: "a topic's regrets".to_owned() })
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

    fn form(&mut self) -> Option<()> {
        matches!(self.take(1)?, [FORM]).then_some(())
    }

    fn pairs(&mut self) -> Option<PairValues> {
        let (rows, columns): (Vec<Address>, Vec<Address>) = (self.names()?, self.names()?);
        let width = self.count()?;
        let n_numbers = rows.len().checked_mul(columns.len())?.checked_mul(width)?;
        if n_numbers == 0 {
            return Some(PairValues::default());
        }
        PairValues::new(rows, columns, width, self.numbers(n_numbers)?)
    }

    fn pairwise(&mut self) -> Option<PairwiseRegrets> {
        Some(PairwiseRegrets { inferer: self.pairs()?, forecaster: self.pairs()? })
    }

    pub(super) fn take(&mut self, n_bytes: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.bytes.split_at_checked(n_bytes)?;
        self.bytes = left;
        Some(taken)
    }

    pub(super) fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take(4)?.try_into().ok()?)).ok()
    }

    /// The next `n` numbers.
    pub(super) fn numbers(&mut self, n: usize) -> Option<Vec<f64>> {
        let (numbers, rest) = self.take(n.checked_mul(8)?)?.as_chunks::<8>();
        rest.is_empty().then(|| numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }
}
