//! Unpacks archives (tar.gz) in memory. Paths that lead out of the archive's directory are rejected.

use std::cell::Cell;
use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType};

use super::FUNCTION_BYTES_MAX;
use super::dag::FILES_MAX;
use super::error::{ContentError, shorten};
use super::pack::Entry;

/// Maximum size of an unpacked archive. This is enough for the largest function with 4 KiB of headers
/// per file.
const UNPACKED_BYTES_MAX: u64 = (FUNCTION_BYTES_MAX + 4096 * FILES_MAX) as u64;

/// Maximum size of the headers of an entry, which the library holds in memory. A header can contain a path
/// of any length.
const HEADERS_BYTES_MAX: u64 = 64 * 1024;

/// Reads a limited number of bytes, then fails.
struct Limited<'a, R> {
    from: R,
    read_left: &'a Cell<u64>,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read_left.get() == 0 {
            return Err(io::Error::other("headers of an entry are too long"));
        }
        let n_bytes = self.from.by_ref().take(self.read_left.get()).read(buffer)?;
        self.read_left.set(self.read_left.get().saturating_sub(n_bytes as u64));
        Ok(n_bytes)
    }
}

/// Unpacks an archive whose files have at most `bytes_max` bytes in total. Rejects entries other than
/// files and directories, and absolute paths.
pub(super) fn unpack(archive: &[u8], bytes_max: usize) -> Result<Entry, ContentError> {
    let unpacked = MultiGzDecoder::new(archive).take(UNPACKED_BYTES_MAX);
    let read_left = Cell::new(HEADERS_BYTES_MAX);
    let mut archive = Archive::new(Limited { from: unpacked, read_left: &read_left });
    let mut root = Entry::folder();
    let mut bytes_left = bytes_max;
    for (n_entries, entry) in archive.entries()?.enumerate() {
        if n_entries == FILES_MAX {
            return Err(ContentError::TooMuch { what: "files and folders", max: FILES_MAX });
        }
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path = entry.path_bytes().into_owned();
        let path = path.as_slice();
        let parts = || parts(path);
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let mut bytes = Vec::new();
                let most = bytes_left as u64 + 1;
                read_left.set(UNPACKED_BYTES_MAX);
                entry.by_ref().take(most).read_to_end(&mut bytes)?;
                let too_large = ContentError::TooLarge { max: bytes_max };
                bytes_left = bytes_left.checked_sub(bytes.len()).ok_or(too_large)?;
                root.place(&parts()?, Entry::File(bytes.into()))?;
            }
            EntryType::Directory => root.place(&parts()?, Entry::folder())?,
            EntryType::XGlobalHeader => {}
            _ => {
                let what = "an entry of an archive that is neither file nor folder";
                return Err(ContentError::Unsupported { what });
            }
        }
        read_left.set(HEADERS_BYTES_MAX);
    }
    Ok(root)
}

/// Returns the components of a path, which can start with `./`.
fn parts(path: &[u8]) -> Result<Vec<&str>, ContentError> {
    let wrong = || ContentError::Path { path: shorten(&String::from_utf8_lossy(path)) };
    let path = str::from_utf8(path).map_err(|_| wrong())?;
    if path.starts_with('/') {
        return Err(wrong());
    }
    Ok(path.split('/').filter(|part| !matches!(*part, "" | ".")).collect())
}

#[cfg(test)]
pub(super) mod tests;
