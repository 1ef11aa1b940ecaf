//! Compressed files, recognized by their first bytes: gzip, Zstandard, bzip2, xz, and zip with one data
//! file.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek as _, SeekFrom};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use crc32fast::Hasher;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use lzma_rust2::XzReader;
use zip::{CompressionMethod, ZipArchive};

use super::Format;

/// First bytes of compressed files.
const MAGIC: [(&[u8], Compression); 5] = [
    (&[0x1f, 0x8b], Compression::Gzip),
    (&[0x28, 0xb5, 0x2f, 0xfd], Compression::Zstd),
    (b"BZh", Compression::Bzip2),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Compression::Xz),
    (b"PK\x03\x04", Compression::Zip),
];

/// Length of the longest entry of `MAGIC`.
const MAGIC_BYTES_MAX: u64 = 6;

/// Memory limit for the decompression of xz in KiB, several times what `xz -9` needs.
const XZ_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// Extensions of compressed files.
const ENDINGS: [&str; 6] = [".gz", ".zst", ".bz2", ".xz", ".zip", ".zstd"];

/// Compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Zip,
}

/// Location of a file in an archive.
struct Entry {
    name: String,
    begin_bytes: u64,
    size_bytes: u64,
    is_deflated: bool,
    checksum: u32,
}

impl Compression {
    /// Detects the compression of a file. Returns `None` if it is not compressed. The file is positioned
    /// at its beginning afterwards.
    pub(super) fn of_file(file: &mut File) -> io::Result<Option<Self>> {
        let begin = read_begin(file)?;
        file.rewind()?;
        Ok(Self::of_begin(&begin))
    }

    /// Detects the compression of a stream by the bytes from [`read_begin`].
    pub(super) fn of_begin(begin: &[u8]) -> Option<Self> {
        MAGIC.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, found)| *found)
    }

    /// Returns the decompressed content of `compressed`. `file` is another handle of the same file,
    /// which shares its position and is at the beginning, or `None` for a stream.
    pub(super) fn text(
        self,
        file: Option<&mut File>,
        compressed: impl BufRead + Send + 'static,
    ) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(compressed)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(compressed)?),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(compressed)),
            Self::Xz => Box::new(XzReader::new_mem_limit(compressed, true, XZ_MEMORY_KIB_MAX)),
            Self::Zip => {
                let stream = "zip archive cannot be read from a stream, only from a file";
                let file = file.ok_or_else(|| io::Error::other(stream))?;
                let entry = entry(file)?;
                file.seek(SeekFrom::Start(entry.begin_bytes))?;
                let compressed = compressed.take(entry.size_bytes);
                let (checksum, hasher) = (entry.checksum, Hasher::new());
                if entry.is_deflated {
                    let text = DeflateDecoder::new(compressed);
                    Box::new(Checked { text, hasher, checksum })
                } else {
                    Box::new(Checked { text: compressed, hasher, checksum })
                }
            }
        })
    }
}

/// Reads the first bytes, which show the compression.
pub(super) fn read_begin(text: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    text.take(MAGIC_BYTES_MAX).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Returns a file's name without the extension of a compression.
pub(super) fn strip_ending(name: &str) -> &str {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// Returns the name of the data file in the zip archive at `path`, or `None` if the file is not an
/// archive or cannot be opened.
///
/// # Errors
/// If the archive has several data files or none, or an unsupported one.
pub(super) fn name_in_archive(path: &Path) -> io::Result<Option<String>> {
    let Ok(mut file) = File::open(path) else { return Ok(None) };
    match Compression::of_file(&mut file) {
        Ok(Some(Compression::Zip)) => entry(&mut file).map(|entry| Some(entry.name)),
        _ => Ok(None),
    }
}

/// Finds the only data file in an archive. Text files (.txt), which usually contain notes, are ignored.
fn entry(file: &mut File) -> io::Result<Entry> {
    let other = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut archive = ZipArchive::new(&mut *file)?;
    let mut entries = Vec::new();
    for idx in 0..archive.len() {
        let entry = archive.by_index_raw(idx)?;
        let name = entry.name()?.into_owned();
        if !entry.is_file()
            || name.starts_with("__MACOSX")
            || Format::of_name(name.as_ref()).is_none()
        {
            continue;
        }
        if entry.encrypted() {
            return Err(other(format!("{name} in the archive is encrypted")));
        }
        let is_deflated = match entry.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::Deflated => true,
            method => {
                return Err(other(format!(
                    "{name} in the archive has unsupported compression {method}"
                )));
            }
        };
        let begin = entry.data_start();
        entries.push(Entry {
            begin_bytes: begin
                .ok_or_else(|| other(format!("{name} has no data in the archive")))?,
            size_bytes: entry.compressed_size(),
            checksum: entry.crc32(),
            is_deflated,
            name,
        });
    }
    if entries.len() > 1 {
        entries.retain(|entry| !entry.name.to_lowercase().ends_with(".txt"));
    }
    let names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    let mut entries = entries.into_iter();
    match (entries.next(), entries.next()) {
        (Some(entry), None) => Ok(entry),
        (None, _) => Err(other("archive has no .csv or .ndjson file".to_owned())),
        _ => Err(other(format!("archive has several files, extract one: {}", names.join(", ")))),
    }
}

/// Reads a text and verifies its checksum at the end.
struct Checked<R> {
    text: R,
    hasher: Hasher,
    checksum: u32,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = self.text.read(buffer)?;
        self.hasher.update(buffer.get(..n_read).unwrap_or_default());
        if n_read == 0 && !buffer.is_empty() && self.hasher.clone().finalize() != self.checksum {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "archive is damaged"));
        }
        Ok(n_read)
    }
}
