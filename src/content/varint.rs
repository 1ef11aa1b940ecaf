//! Numbers of variable length, seven bits a byte, the lowest first.

/// How many bytes 64 bits need.
const BYTES_MAX: usize = 10;

/// Reads a number at the beginning of `bytes`, and returns what follows it, too; none if there is no
/// whole number of 64 bits.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (at, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        let shift = 7 * u32::try_from(at).ok()?;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << shift;
        if shifted >> shift != bits {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(at + 1..)?));
        }
    }
    None
}

/// Reads a length and so many bytes, and returns them and what follows.
pub(super) fn read_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = read(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// Writes a number at the end of `out`.
pub(super) fn write(mut number: u64, out: &mut Vec<u8>) {
    loop {
        let bits = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        out.push(if number == 0 { bits } else { bits | 0x80 });
        if number == 0 {
            return;
        }
    }
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
