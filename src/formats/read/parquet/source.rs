//! Bytes of a Parquet file, with checks of each page before it is decoded.
//!
//! The `parquet` crate trusts the file: it allocates as much memory as a page declares and panics on
//! some kinds of damage. Therefore the declared sizes are checked here first, and a panic is reported as
//! damage.

use std::fs::File;
use std::io::{BufRead as _, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::parquet::basic::{Compression, Encoding};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;

use super::damage;
use super::thrift::{is_sound_footer, page_bytes, varint};

/// Maximum length of a page. Writers create pages of about a megabyte.
const PAGE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Maximum length of the footer of a body. It suffices for 1 024 columns in a dozen row groups. Decoding
/// needs up to thirty times as much memory.
const FOOTER_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of a file.
#[derive(Debug)]
pub struct ParquetSource {
    bytes: Storage,
    /// Remaining total size to which pages may decompress. `None` for a local file, which has no limit.
    left_bytes: Option<AtomicU64>,
    /// True if the limit was exceeded.
    is_exceeded: AtomicBool,
}

#[derive(Debug)]
enum Storage {
    Disk(File),
    Memory(Bytes),
}

/// Calls the crate. Errors and panics count as damage.
///
/// # Errors
/// Human-readable description of the damage.
pub(super) fn catch<T>(call: impl FnOnce() -> ParquetResult<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::General(what) | ParquetError::EOF(what))) => Err(what),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(damage()),
    }
}

impl ParquetSource {
    /// Creates the source of a local file. The total size of its pages is not limited.
    pub const fn of_file(file: File) -> Self {
        let is_exceeded = AtomicBool::new(false);
        Self { bytes: Storage::Disk(file), left_bytes: None, is_exceeded }
    }

    /// Creates the source of a received body. Its decompressed pages are limited to `bytes_max`.
    pub const fn of_body(body: Bytes, bytes_max: u64) -> Self {
        let left_bytes = Some(AtomicU64::new(bytes_max));
        Self { bytes: Storage::Memory(body), left_bytes, is_exceeded: AtomicBool::new(false) }
    }

    /// Reads the metadata at the end of the file.
    ///
    /// # Errors
    /// If it is not a Parquet file, is encrypted, or is damaged.
    pub(super) fn read_metadata(&self) -> Result<ParquetMetaData, String> {
        let footer = self.footer();
        let n_bytes = footer.as_ref().map_or(0, Bytes::len);
        if self.left_bytes.is_some() && n_bytes > FOOTER_BYTES_MAX {
            let mib_max = FOOTER_BYTES_MAX >> 20;
            return Err(format!("footer exceeds {mib_max} MiB; write fewer columns or groups"));
        }
        if footer.is_some_and(|footer| !is_sound_footer(&footer)) {
            return Err(damage());
        }
        let reader = ParquetMetaDataReader::new();
        catch(|| match &self.bytes {
            Storage::Disk(file) => reader.parse_and_finish(file),
            Storage::Memory(bytes) => reader.parse_and_finish(bytes),
        })
    }

    /// Returns the encoded metadata at the end of the file. Its length and four letters follow it. `None`
    /// if the file is too short or its metadata is encrypted.
    fn footer(&self) -> Option<Bytes> {
        let begin = Length::len(self).checked_sub(8)?;
        let end = self.get_bytes(begin, 8).ok()?;
        let n_bytes = u32::from_le_bytes(*end.strip_suffix(b"PAR1")?.first_chunk()?);
        self.get_bytes(begin.checked_sub(u64::from(n_bytes))?, n_bytes as usize).ok()
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Checks that the codec of a column is supported. For received bodies, also checks that the output
    /// of the codec is limited to the declared length of a page. The crate does not limit the output of
    /// all codecs.
    ///
    /// # Errors
    /// Description of the codec and the alternatives.
    pub(super) fn check_codec(&self, codec: Compression) -> Result<(), String> {
        let name = match codec {
            Compression::LZO => "LZO",
            Compression::GZIP(_) if self.left_bytes.is_some() => "gzip",
            Compression::BROTLI(_) if self.left_bytes.is_some() => "brotli",
            Compression::LZ4 if self.left_bytes.is_some() => "LZ4 of Hadoop",
            _ => return Ok(()),
        };
        Err(format!("compressed with {name}; write it with snappy, zstd or none"))
    }

    /// Counts the page that begins with `head` against the limit. The page's header may continue after
    /// `head` if `is_cut` is true.
    fn count_page(&self, head: &[u8], is_cut: bool) -> ParquetResult<()> {
        let page_bytes = page_bytes(head, is_cut).ok_or_else(|| ParquetError::General(damage()))?;
        let has_room = self.left_bytes.as_ref().is_none_or(|left| {
            let take = |left: u64| left.checked_sub(page_bytes);
            left.try_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        });
        if has_room && page_bytes <= PAGE_BYTES_MAX {
            return Ok(());
        }
        self.is_exceeded.store(true, Ordering::Relaxed);
        Err(ParquetError::General(format!("a page of {page_bytes} bytes is too large")))
    }
}

impl Length for ParquetSource {
    fn len(&self) -> u64 {
        match &self.bytes {
            Storage::Disk(file) => Length::len(file),
            Storage::Memory(bytes) => Length::len(bytes),
        }
    }
}

impl ChunkReader for ParquetSource {
    type T = Box<dyn Read>;

    /// The crate only calls this to read the header of a page.
    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        match &self.bytes {
            Storage::Disk(file) => {
                let mut read = file.get_read(start)?;
                self.count_page(read.fill_buf()?, true)?;
                Ok(Box::new(read))
            }
            Storage::Memory(bytes) => {
                let read = bytes.get_read(start)?;
                self.count_page(read.get_ref(), false)?;
                Ok(Box::new(read))
            }
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > Length::len(self)) {
            return Err(ParquetError::EOF("file is truncated".to_owned()));
        }
        match &self.bytes {
            Storage::Disk(file) => file.get_bytes(start, length),
            Storage::Memory(bytes) => bytes.get_bytes(start, length),
        }
    }
}

/// Pages of a column. Each page is checked before it is decoded: the number of values that it declares
/// must be possible for its row group and the length of its data.
pub(super) struct CheckedPages<P> {
    pub(super) pages: P,
    /// Number of rows of the row group.
    pub(super) n_rows: usize,
    /// True if pages begin with levels, which mark the rows that have a value.
    pub(super) has_levels: bool,
}

impl<P> CheckedPages<P> {
    fn is_sound(&self, page: &Page) -> bool {
        let n_values = page.num_values() as usize;
        match page {
            // Each value needs at least one bit.
            Page::DictionaryPage { buf, .. } => n_values <= buf.len().saturating_mul(8),
            Page::DataPage { buf, encoding, .. } => {
                let n_levels = buf.first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
                let begin = if self.has_levels { n_levels as usize + 4 } else { 0 };
                n_values <= self.n_rows && has_sound_lengths(*encoding, buf.get(begin..), n_values)
            }
            Page::DataPageV2 {
                buf, encoding, def_levels_byte_len, rep_levels_byte_len, ..
            } => {
                let begin = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                n_values <= self.n_rows && has_sound_lengths(*encoding, buf.get(begin..), n_values)
            }
        }
    }
}

impl<P: PageReader> Iterator for CheckedPages<P> {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<P: PageReader> PageReader for CheckedPages<P> {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if page.as_ref().is_some_and(|page| !self.is_sound(page)) {
            return Err(ParquetError::General(damage()));
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }
}

/// Returns true if the page has at most `n_values` length-prefixed texts. The crate allocates memory for
/// the declared number of lengths.
fn has_sound_lengths(encoding: Encoding, values: Option<&[u8]>, n_values: usize) -> bool {
    let Some(values) = values else { return false };
    let is_few = |n_lengths: u64| n_lengths <= n_values as u64;
    match encoding {
        _ if values.is_empty() => true,
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {
            delta_packed(values).is_some_and(|(n_lengths, _)| is_few(n_lengths))
        }
        Encoding::DELTA_BYTE_ARRAY => delta_packed(values)
            .filter(|(n_prefixes, _)| is_few(*n_prefixes))
            .and_then(|(_, suffixes)| delta_packed(suffixes))
            .is_some_and(|(n_suffixes, _)| is_few(n_suffixes)),
        _ => true,
    }
}

/// Returns the number of delta-encoded numbers at the beginning of `bytes` and the remaining bytes, or
/// `None` if they are damaged.
fn delta_packed(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut rest = bytes;
    let [n_block, n_parts, n_numbers, _first] =
        [varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?];
    let n_parts = usize::try_from(n_parts).ok()?;
    let n_part =
        usize::try_from(n_block).ok()?.checked_div(n_parts).filter(|n_part| *n_part > 0)?;
    let mut n_left = usize::try_from(n_numbers).ok()?.saturating_sub(1);
    while n_left > 0 {
        varint(&mut rest)?;
        let (widths, after) = rest.split_at_checked(n_parts)?;
        rest = after;
        for width in widths {
            if n_left > 0 {
                rest = rest.get(usize::from(*width).checked_mul(n_part)? / 8..)?;
                n_left = n_left.saturating_sub(n_part);
            }
        }
    }
    Some((n_numbers, rest))
}
