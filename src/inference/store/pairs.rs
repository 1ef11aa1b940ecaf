//! Values of pairs, as the inference file keeps them: names, then numbers as their bytes, little end
//! first.

use model::topic::Address;

use super::{
    StoreError,
    grids::{Reader, put_count, put_name},
};
use crate::math::pairs::PairValues;

/// The first byte, by which a later form can be told from this one.
const FORM: u8 = 1;

/// The bytes of `pairs`; none of none.
pub(super) fn write(pairs: &PairValues) -> Option<Vec<u8>> {
    if pairs.is_empty() {
        return None;
    }
    let mut bytes = vec![FORM];
    for names in [pairs.rows(), pairs.columns()] {
        put_count(&mut bytes, names.len());
        for name in names {
            put_name(&mut bytes, name);
        }
    }
    put_count(&mut bytes, pairs.width());
    bytes.extend(pairs.numbers().iter().flat_map(|number| number.to_le_bytes()));
    Some(bytes)
}

/// The pairs that `bytes` hold: none where an epoch has none, or keeps them no more.
pub(super) fn read(bytes: Option<&[u8]>) -> Result<PairValues, StoreError> {
    let Some(bytes) = bytes else { return Ok(PairValues::default()) };
    let unfit = || StoreError::Word { text: "an epoch's values of pairs".to_owned() };
    let mut reader = Reader { bytes };
    let pairs = read_pairs(&mut reader).ok_or_else(unfit)?;
    if reader.bytes.is_empty() { Ok(pairs) } else { Err(unfit()) }
}

fn read_pairs(reader: &mut Reader<'_>) -> Option<PairValues> {
    let [FORM] = reader.take(1)? else { return None };
    let (rows, columns): (Vec<Address>, Vec<Address>) = (reader.names()?, reader.names()?);
    let width = reader.count()?;
    let n_numbers = rows.len().checked_mul(columns.len())?.checked_mul(width)?;
    PairValues::new(rows, columns, width, reader.numbers(n_numbers)?)
}
