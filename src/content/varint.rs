//! Numbers of variable length, seven bits a byte, the lowest first.

/// Reads a number at the beginning of `bytes`, and returns what follows it, too; none if there is no
/// whole number of 64 bits in its shortest form.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    unsigned_varint::decode::u64(bytes).ok()
}

/// Reads a length and so many bytes, and returns them and what follows.
pub(super) fn read_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = read(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Writes a number at the end of `out`.
pub(super) fn write(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(unsigned_varint::encode::u64(
        number,
        &mut unsigned_varint::encode::u64_buffer(),
    ));
}

/// Writes the length of `bytes` and them.
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
        fn every_number_is_read_back(number: u64, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            write(number, &mut bytes);
            bytes.extend(&rest);
            prop_assert_eq!(read(&bytes), Some((number, rest.as_slice())));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let read = read_prefixed(&bytes);
            prop_assert!(read.is_none_or(|(inner, rest)| inner.len() + rest.len() < bytes.len()));
        }
    }

    #[test]
    fn an_unterminated_or_longer_than_64_bit_number_is_refused() {
        for bytes in [&[][..], &[0x80], &[0xff; 10], &[0x80; 11]] {
            assert_eq!(read(bytes), None, "{bytes:x?}");
        }
        let greatest = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(read(&greatest), Some((u64::MAX, &[][..])));
    }
}
