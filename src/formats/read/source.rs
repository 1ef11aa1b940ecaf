//! Source of the text of a file, plain or compressed, from the beginning or an offset. Counts the bytes
//! read.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use encoding_rs_io::DecodeReaderBytesBuilder;

use super::compression::{Compression, read_begin};

/// Byte order mark, with which some programs begin a text.
pub(super) const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Number of bytes read from disk at a time, enough to amortize the calls.
const BUFFER_BYTES: usize = 256 * 1024;

/// Byte order marks of UTF-16.
const UTF16_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];

/// Path of standard input.
const STDIN: &str = "-";

/// Position of a record in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    /// Number of bytes of text before the record.
    pub(super) offset_bytes: u64,
    /// Number of lines before the record.
    pub(super) line: u64,
}

/// Number of bytes read. Clones share the counter.
pub(super) type Counter = Arc<AtomicU64>;

/// An opened file, or standard input.
pub(super) struct Input {
    /// `None` for standard input.
    file: Option<File>,
    compression: Option<Compression>,
    size_bytes: Option<u64>,
    counter: Counter,
}

impl Input {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let counter = Counter::default();
        if path.as_os_str() == STDIN {
            return Ok(Self { file: None, compression: None, size_bytes: None, counter });
        }
        let mut file = File::open(path)?;
        let size_bytes = Some(file.metadata()?.len());
        let compression = Compression::of_file(&mut file)?;
        Ok(Self { file: Some(file), compression, size_bytes, counter })
    }

    pub(super) fn counter(&self) -> Counter {
        Arc::clone(&self.counter)
    }

    /// Returns the size on disk, if the input is a file.
    pub(super) const fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// Duplicates the handle. Only one of the two handles may be read at a time, since they share a
    /// position.
    pub(super) fn again(&self) -> io::Result<Self> {
        let file = self.file.as_ref().map(File::try_clone).transpose()?;
        Ok(Self { file, counter: self.counter(), ..*self })
    }

    /// Returns the file, which must not be compressed.
    pub(super) fn into_file(self) -> io::Result<File> {
        match (self.file, self.compression) {
            (Some(file), None) => Ok(file),
            (Some(_), Some(_)) => Err(io::Error::other(
                "compressed Parquet file is not supported; Parquet is compressed internally",
            )),
            (None, _) => {
                Err(io::Error::other("Parquet cannot be read from a stream, only from a file"))
            }
        }
    }

    /// Returns the text from `offset_bytes` on, as UTF-8. UTF-16 with a byte order mark is converted.
    /// Sets the counter to the bytes before it.
    pub(super) fn text(self, offset_bytes: u64) -> io::Result<Box<dyn Read + Send>> {
        let Self { file, compression, counter, .. } = self;
        let Some(mut file) = file else {
            return stream_text(Counted { file: io::stdin(), counter });
        };
        let is_plain = compression.is_none() && !begins_with_utf16_mark(&mut file)?;
        let begin = if is_plain { offset_bytes } else { 0 };
        file.seek(SeekFrom::Start(begin))?;
        counter.store(begin, Ordering::Relaxed);
        let counted = Counted { file: file.try_clone()?, counter };
        let text = BufReader::with_capacity(BUFFER_BYTES, counted);
        match compression {
            _ if is_plain => Ok(Box::new(text)),
            Some(compression) => decode(compression.text(Some(&mut file), text)?, offset_bytes),
            None => decode(Box::new(text), offset_bytes),
        }
    }
}

/// Returns the text of a stream, decompressed and as UTF-8.
fn stream_text(stream: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut stream = BufReader::new(stream);
    let begin = read_begin(&mut stream)?;
    let compression = Compression::of_begin(&begin);
    let stream = Cursor::new(begin).chain(stream);
    decode(
        match compression {
            Some(compression) => compression.text(None, stream)?,
            None => Box::new(stream),
        },
        0,
    )
}

/// Returns true if a file begins with a byte order mark of UTF-16. Changes the position of the file.
fn begins_with_utf16_mark(file: &mut File) -> io::Result<bool> {
    let mut begin = Vec::new();
    file.rewind()?;
    file.take(UTF16_MARKS[0].len() as u64).read_to_end(&mut begin)?;
    Ok(UTF16_MARKS.iter().any(|mark| begin == mark))
}

/// Converts a text that begins with a byte order mark of UTF-16, and skips the first `offset_bytes` of
/// the result.
fn decode(text: Box<dyn Read + Send>, offset_bytes: u64) -> io::Result<Box<dyn Read + Send>> {
    let mut text = DecodeReaderBytesBuilder::new().utf8_passthru(true).build(text);
    io::copy(&mut text.by_ref().take(offset_bytes), &mut io::sink())?;
    Ok(Box::new(text))
}

struct Counted<R> {
    file: R,
    counter: Counter,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = self.file.read(buffer)?;
        self.counter.fetch_add(n_read as u64, Ordering::Relaxed);
        Ok(n_read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression as Level;
    use flate2::write::GzEncoder;

    use super::*;

    #[track_caller]
    fn check(stream: &[u8], want: Result<&str, &str>) {
        let mut got = String::new();
        let read = stream_text(Cursor::new(stream.to_vec()));
        let read = read.and_then(|mut text| text.read_to_string(&mut got));
        let got = read.map(|_| got).map_err(|error| error.to_string());
        assert_eq!(got.as_deref().map_err(String::as_str), want);
    }

    #[test]
    fn stream_is_decompressed() {
        let text = "t,x\n2026-03-01,1\n";
        let mut gzip = GzEncoder::new(Vec::new(), Level::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        check(&gzip.finish().unwrap(), Ok(text));
        check(&zstd::encode_all(text.as_bytes(), 1).unwrap(), Ok(text));
        check(text.as_bytes(), Ok(text));
        check(b"t\n", Ok("t\n"));
        check(b"", Ok(""));
        let zip = "zip archive cannot be read from a stream, only from a file";
        check(b"PK\x03\x04", Err(zip));
    }
}
