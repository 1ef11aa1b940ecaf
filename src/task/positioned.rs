//! Reads and writes of a file at an offset, by several threads at a time.
//!
//! On Windows they move the position of the file, too, which nobody that uses them reads.

use std::{fs::File, io};

/// Fills `bytes` from `offset` on.
///
/// # Errors
/// If the file ends before, or cannot be read.
#[cfg(unix)]
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Writes all of `bytes` from `offset` on.
///
/// # Errors
/// If the file cannot be written.
#[cfg(unix)]
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Fills `bytes` from `offset` on.
///
/// # Errors
/// If the file ends before, or cannot be read.
#[cfg(windows)]
pub fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt as _;
    while !bytes.is_empty() {
        let n_read = file.seek_read(bytes, offset)?;
        if n_read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes = &mut bytes[n_read..];
        offset += n_read as u64;
    }
    Ok(())
}

/// Writes all of `bytes` from `offset` on.
///
/// # Errors
/// If the file cannot be written.
#[cfg(windows)]
pub fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt as _;
    while !bytes.is_empty() {
        let n_written = file.seek_write(bytes, offset)?;
        if n_written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[n_written..];
        offset += n_written as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_where_they_were_written() {
        let file = tempfile::tempfile().unwrap();
        write_all_at(&file, b"world", 6).unwrap();
        write_all_at(&file, b"hello ", 0).unwrap();
        let mut bytes = [0; 7];
        read_exact_at(&file, &mut bytes, 2).unwrap();
        assert_eq!(&bytes, b"llo wor");
        let past_end = read_exact_at(&file, &mut bytes, 8).unwrap_err();
        assert_eq!(past_end.kind(), io::ErrorKind::UnexpectedEof);
    }
}
