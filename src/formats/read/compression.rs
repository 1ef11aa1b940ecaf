//! Compressed files, told by how they begin: gzip, Zstandard, bzip2, xz, and zip with one data file.

use std::{
    fs::File,
    io::{self, BufRead, Read, Seek as _, SeekFrom},
    path::Path,
};

use bzip2::bufread::MultiBzDecoder;
use crc32fast::Hasher;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use lzma_rust2::XzReader;
use zip::{CompressionMethod, ZipArchive};

use super::Format;

/// What compressed files begin with.
const MAGIC: [(&[u8], Compression); 5] = [
    (&[0x1f, 0x8b], Compression::Gzip),
    (&[0x28, 0xb5, 0x2f, 0xfd], Compression::Zstd),
    (b"BZh", Compression::Bzip2),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Compression::Xz),
    (b"PK\x03\x04", Compression::Zip),
];

/// Bytes of the longest of them.
const MAGIC_BYTES_MAX: u64 = 6;

/// The most memory of an xz block, in KiB: what `xz -9` needs, several times over.
const XZ_MEMORY_KIB_MAX: u32 = 256 * 1024;

/// Endings of compressed files.
const ENDINGS: [&str; 6] = [".gz", ".zst", ".bz2", ".xz", ".zip", ".zstd"];

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Zip,
}

/// The data of a file in an archive.
struct Entry {
    name: String,
    begin_bytes: u64,
    size_bytes: u64,
    is_deflated: bool,
    checksum: u32,
}

impl Compression {
    /// How a file is compressed; none if it is not. Leaves the file at its beginning.
    pub(super) fn of_file(file: &mut File) -> io::Result<Option<Self>> {
        let mut begin = Vec::new();
        file.by_ref().take(MAGIC_BYTES_MAX).read_to_end(&mut begin)?;
        file.rewind()?;
        Ok(MAGIC.iter().find(|(magic, _)| begin.starts_with(magic)).map(|(_, found)| *found))
    }

    /// What `file` decompresses to. `compressed` reads it, has read nothing yet, and shares its
    /// position.
    pub(super) fn text(
        self,
        file: &mut File,
        compressed: impl BufRead + Send + 'static,
    ) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(compressed)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(compressed)?),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(compressed)),
            Self::Xz => Box::new(XzReader::new_mem_limit(compressed, true, XZ_MEMORY_KIB_MAX)),
            Self::Zip => {
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

/// A file's name without the ending that says how it is compressed.
pub(super) fn strip_ending(name: &str) -> &str {
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

/// The name of the data file in an archive at `path`; none if it is no such archive.
pub(super) fn name_in_archive(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let found = Compression::of_file(&mut file).ok()?;
    (found == Some(Compression::Zip)).then(|| entry(&mut file).ok().map(|entry| entry.name))?
}

/// The one data file of an archive; notes beside it (.txt) do not count.
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
                return Err(other(format!("{name} in the archive is compressed by {method}")));
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
        (None, _) => Err(other("no file in the archive is .csv or .ndjson".to_owned())),
        _ => Err(other(format!("the archive has several files, unpack it: {}", names.join(", ")))),
    }
}

/// Checks at its end that a text is what was compressed.
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
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the archive is damaged"));
        }
        Ok(n_read)
    }
}
