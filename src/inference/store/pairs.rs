//! Binary format of past epochs and of the values and regrets of pairs: names, then numbers as
//! little-endian bytes.

use std::sync::Arc;

use model::topic::Address;

use super::{Result, StoreError};
use crate::math::pair_values::PairValues;
use crate::math::regret::{PairwiseRegrets, Regrets};
use crate::network::forecast::{Past, PastEpoch};

/// Version of the format, which is the first byte.
const FORM: u8 = 1;

/// Encodes `pairs`. Returns `None` if they are empty.
pub(super) fn write(pairs: &PairValues) -> Option<Vec<u8>> {
    if pairs.is_empty() {
        return None;
    }
    let mut bytes = vec![FORM];
    put_pairs(&mut bytes, pairs);
    Some(bytes)
}

/// Encodes the regrets of pairs in `regrets`.
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

fn put_count(bytes: &mut Vec<u8>, n: usize) {
    // Numbers of names and letters are far below the maximum.
    bytes.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_name(bytes: &mut Vec<u8>, name: &Address) {
    put_count(bytes, name.as_str().len());
    bytes.extend(name.as_str().as_bytes());
}

/// Decodes pairs, which are empty for an epoch without pairs, or after they were deleted.
pub(super) fn read(bytes: Option<&[u8]>) -> Result<PairValues> {
    let Some(bytes) = bytes else { return Ok(PairValues::default()) };
    let mut reader = PairReader { bytes };
    let pairs = reader.form().and_then(|()| reader.pairs());
    pairs
        .filter(|_| reader.bytes.is_empty())
        .ok_or_else(|| StoreError::Record("an epoch's values of pairs".to_owned()))
}

/// Decodes the regrets of pairs into `regrets`.
pub(super) fn read_regrets(bytes: &[u8], regrets: &mut Regrets) -> Result<()> {
    let mut reader = PairReader { bytes };
    let mut read = || {
        reader.form()?;
        regrets.one_out_inferer = reader.pairwise()?;
        regrets.one_out_forecaster = reader.pairwise()?;
        regrets.one_in_forecaster = reader.pairwise()?;
        reader.bytes.is_empty().then_some(())
    };
    read().ok_or_else(|| StoreError::Record("a topic's regrets".to_owned()))
}

/// Remaining bytes.
struct PairReader<'b> {
    bytes: &'b [u8],
}

impl<'b> PairReader<'b> {
    fn names(&mut self) -> Option<Vec<Address>> {
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

    fn take(&mut self, n_bytes: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.bytes.split_at_checked(n_bytes)?;
        self.bytes = left;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take(4)?.try_into().ok()?)).ok()
    }

    /// Reads the next `n` numbers.
    fn numbers(&mut self, n: usize) -> Option<Vec<f64>> {
        let (numbers, rest) = self.take(n.checked_mul(8)?)?.as_chunks::<8>();
        rest.is_empty().then(|| numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }
}

/// Marker of an epoch with the same inferers as the previous one.
const SAME_NAMES: u8 = 0;

/// Marker of an epoch that starts with its inferers.
const NEW_NAMES: u8 = 1;

/// Encodes `past`.
pub(super) fn write_past(past: &Past) -> Vec<u8> {
    let mut bytes = vec![FORM];
    put_count(&mut bytes, past.epochs().len());
    let mut before: Option<&Arc<[Address]>> = None;
    for epoch in past.epochs() {
        if before.is_some_and(|before| *before == epoch.names) {
            bytes.push(SAME_NAMES);
        } else {
            bytes.push(NEW_NAMES);
            put_count(&mut bytes, epoch.names.len());
            for name in epoch.names.iter() {
                put_name(&mut bytes, name);
            }
        }
        before = Some(&epoch.names);
        put_count(&mut bytes, epoch.n_labels());
        let numbers = epoch.losses.iter().chain(&epoch.offsets);
        bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
    }
    bytes
}

/// Decodes past epochs.
pub(super) fn read_past(bytes: &[u8]) -> Result<Past> {
    let unfit = || StoreError::Record("a topic's past epochs".to_owned());
    let mut reader = PairReader { bytes };
    let epochs = read_epochs(&mut reader).ok_or_else(unfit)?;
    if reader.bytes.is_empty() { Ok(Past::new(epochs)) } else { Err(unfit()) }
}

fn read_epochs(reader: &mut PairReader<'_>) -> Option<Vec<PastEpoch>> {
    let [FORM] = reader.take(1)? else { return None };
    let n_epochs = reader.count()?;
    let mut epochs: Vec<PastEpoch> = Vec::new();
    for _ in 0..n_epochs {
        let names = match reader.take(1)? {
            [SAME_NAMES] => Arc::clone(&epochs.last()?.names),
            [NEW_NAMES] => reader.names()?.into(),
            _ => return None,
        };
        let n_offsets = names.len().checked_mul(reader.count()?)?;
        let losses = reader.numbers(names.len())?;
        epochs.push(PastEpoch { names, losses, offsets: reader.numbers(n_offsets)? });
    }
    Some(epochs)
}
