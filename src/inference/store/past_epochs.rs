//! Past epochs that built-in forecasters remember, as the inference file keeps them: numbers as their
//! bytes, little end first. Names are written where they are not those of the epoch before.

use std::sync::Arc;

use model::topic::Address;

use super::{
    StoreError,
    pairs::{Reader, put_count, put_name},
};
use crate::network::forecast::past::{Past, PastEpoch};

/// The first byte, by which a later form can be told from this one.
const FORM: u8 = 1;

/// What precedes an epoch of the same inferers as the one before.
const SAME_NAMES: u8 = 0;

/// What precedes an epoch that begins with its inferers.
const NEW_NAMES: u8 = 1;

/// The bytes of `past`.
pub(super) fn write(past: &Past) -> Vec<u8> {
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

/// The past epochs that `bytes` hold.
pub(super) fn read(bytes: &[u8]) -> Result<Past, StoreError> {
    let unfit = || StoreError::Word { text: "a topic's past epochs".to_owned() };
    let mut reader = Reader { bytes };
    let epochs = read_epochs(&mut reader).ok_or_else(unfit)?;
    if reader.bytes.is_empty() { Ok(Past::new(epochs)) } else { Err(unfit()) }
}

fn read_epochs(reader: &mut Reader<'_>) -> Option<Vec<PastEpoch>> {
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
