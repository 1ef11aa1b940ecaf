//! Variable-length integers: seven bits per byte, lowest first.

/// Parses a number and returns it with the remaining bytes. Returns `None` unless the number has at most
/// 64 bits and its shortest form.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    unsigned_varint::decode::u64(bytes).ok()
}

/// Parses a length and takes as many bytes. Returns the taken and the remaining bytes.
pub(super) fn read_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = read(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Appends a number to `out`.
pub(super) fn write(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(unsigned_varint::encode::u64(
        number,
        &mut unsigned_varint::encode::u64_buffer(),
    ));
}

/// Appends `bytes`, preceded by their length.
pub(super) fn write_prefixed(bytes: &[u8], out: &mut Vec<u8>) {
    write(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn encoded_numbers_round_trip(number: u64, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            bytes.extend(&rest);
            prop_assert_eq!(read(&bytes), Some((number, rest.as_slice())));
        }

        #[test]
        fn decoding_arbitrary_bytes_as_a_number_does_not_panic(bytes: Vec<u8>) {
            let read = read_prefixed(&bytes);
            prop_assert!(read.is_none_or(|(inner, rest)| inner.len() + rest.len() < bytes.len()));
        }
    }

    #[test]
    fn unterminated_and_too_long_numbers_are_rejected() {
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0x80; 11]] {
            assert_eq!(read(bytes), None, "{bytes:x?}");
        }
        let greatest = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(read(&greatest), Some((u64::MAX, &[][..])));
    }
}
