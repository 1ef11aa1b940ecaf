//! Lists of numbers of one length, such as the index of a segment.

use super::{
    DecodeError, VERSION,
    bit_packing::{Trend, pack, unpack},
    check_sum, damaged,
    encode::{put_long, put_sum, put_u32},
};

/// Writes lists of one length, of which most numbers grow from each to the next.
pub(crate) fn encode_lists<const N: usize>(lists: &[Vec<i64>; N]) -> Vec<u8> {
    let mut bytes = vec![VERSION, 0, 0, 0, 0];
    put_u32(&mut bytes, lists.first().map_or(0, Vec::len));
    for list in lists {
        put_long(&mut bytes, |to| pack(to, list, Trend::Growing));
    }
    put_sum(&mut bytes);
    bytes
}

/// Reads as many lists as there were written; all are of one length.
///
/// # Errors
/// [`DecodeError`] if the bytes are not so many lists.
pub(crate) fn decode_lists<const N: usize>(bytes: &[u8]) -> Result<[Vec<i64>; N], DecodeError> {
    let mut reader = check_sum(bytes)?;
    let n = reader.length()?;
    let mut lists = [const { Vec::new() }; N];
    for list in &mut lists {
        unpack(list, reader.prefixed()?, n, &(0..n), |number| number)?;
    }
    if reader.bytes.is_empty() { Ok(lists) } else { Err(damaged("it ends too late")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_they_were_written() {
        for n in [0, 1, 2, 64, 1000] {
            let growing: Vec<i64> = (0..n).map(|n| n * n * 1_000_003).collect();
            let spread: Vec<i64> = (0..n).map(|n| (n * 7919) % 1013).collect();
            let lists = [growing, spread];
            let bytes = encode_lists(&lists);
            assert_eq!(decode_lists(&bytes), Ok(lists.clone()));
            assert!(decode_lists::<3>(&bytes).is_err() && decode_lists::<1>(&bytes).is_err());
            for cut in 0..bytes.len() {
                assert!(decode_lists::<2>(&bytes[..cut]).is_err());
            }
        }
    }
}
