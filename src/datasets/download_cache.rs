//! Disk cache of compressed pieces of downloads.
//!
//! A scratch file next to the store is a ring buffer of limited length, in which new pieces overwrite
//! the oldest pieces. The index of the pieces is only in memory, so the file is unlinked as soon as it
//! is open and never needs repair. A body's gzip trailer is computed from the checksums of its pieces,
//! so that clients detect a damaged piece. If the disk fails, the cache is disabled and downloads
//! continue without it. `cargo bench -p datasets --bench http -- gzip` shows the gain.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use formats::content_coding::{Coding, Packed};
use parking_lot::Mutex;
use tracing::warn;
use tsdb::store::row_batch::ChunkId;

use crate::etag::ETag;

/// Maximum number of pieces in the index, which then occupies a few megabytes. This many pieces of
/// average size occupy 5 GB of the file.
const PIECES_MAX: usize = 65_536;

/// Key of a piece: everything that determines its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PieceKey {
    /// Id of the chunk that contains the rows.
    pub(crate) rows: ChunkId,
    /// Hash of everything besides the rows and the coding that determines the bytes.
    pub(crate) form: ETag,
    pub(crate) coding: Coding,
}

/// Cache of compressed pieces, which is disabled by default.
#[derive(Debug, Default)]
pub(crate) struct DownloadCache {
    /// Scratch file; `None` if the cache is disabled.
    file: Option<File>,
    bytes_max: u64,
    ring: Mutex<Ring>,
    /// Held while a piece is written, and other pieces are not cached then. Otherwise, a slow write could
    /// overwrite a newer piece at the same place of the file.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Position of the next piece: the number of bytes written so far, including the bytes that were
    /// skipped at the end of the file each time that writing continued at its beginning.
    head: u64,
    extents: HashMap<PieceKey, Extent>,
    /// Position and key of each piece, oldest first.
    order: VecDeque<(u64, PieceKey)>,
    is_broken: bool,
}

/// Location of a piece. Its position `at` counts like `head`. The offset in the file is the position
/// modulo the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    at: u64,
    length: usize,
    sum: u32,
    plain_bytes: u64,
}

impl DownloadCache {
    /// Opens a cache of at most `bytes_max` bytes in a file at `path`, which is unlinked immediately. 0
    /// disables the cache. Blocks briefly.
    ///
    /// # Errors
    /// An I/O error if the file cannot be created.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        if bytes_max == 0 {
            return Ok(Self::default());
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        fs::remove_file(path)?;
        Ok(Self { file: Some(file), bytes_max, ..Self::default() })
    }

    /// Returns a piece if it is cached. Blocks.
    pub(crate) fn get(&self, key: PieceKey) -> Option<Packed> {
        let file = self.file.as_ref()?;
        let extent = *self.ring.lock().extents.get(&key)?;
        let mut bytes = vec![0; extent.length];
        let read = file.read_exact_at(&mut bytes, extent.at % self.bytes_max);
        // Looks the piece up again, since another piece might have overwritten it during the read.
        let is_there = self.ring.lock().extents.get(&key) == Some(&extent);
        let Extent { sum, plain_bytes, .. } = extent;
        (read.is_ok() && is_there).then_some(Packed { bytes, sum, plain_bytes })
    }

    /// Caches a piece, unless it is too large or the cache is disabled. Blocks.
    pub(crate) fn put(&self, key: PieceKey, piece: &Packed) {
        let Some(file) = &self.file else { return };
        let Ok(length) = u64::try_from(piece.bytes.len()) else { return };
        let bytes_max = self.bytes_max;
        if length == 0 || length > bytes_max / 4 {
            return;
        }
        let Some(_writing) = self.writing.try_lock() else { return };
        let at = {
            let mut ring = self.ring.lock();
            if ring.is_broken {
                return;
            }
            // A piece must be contiguous. If it does not fit before the end of the file, it is written
            // to the beginning.
            let left = bytes_max - ring.head % bytes_max;
            let at = if left < length { ring.head + left } else { ring.head };
            ring.head = at + length;
            let end = ring.head.saturating_sub(bytes_max);
            ring.remove_before(end);
            at
        };
        let written = file.write_all_at(&piece.bytes, at % bytes_max);
        let mut ring = self.ring.lock();
        match written {
            Ok(()) => {
                let (sum, plain_bytes) = (piece.sum, piece.plain_bytes);
                let extent = Extent { at, length: piece.bytes.len(), sum, plain_bytes };
                ring.extents.insert(key, extent);
                ring.order.push_back((at, key));
                while ring.order.len() > PIECES_MAX {
                    ring.remove_oldest();
                }
            }
            Err(error) => {
                warn!(%error, "the download cache failed; downloads are compressed each time");
                *ring = Ring { is_broken: true, ..Ring::default() };
                // Frees the space of the cache, in case the disk is full.
                drop(file.set_len(0));
            }
        }
    }
}

impl Ring {
    /// Removes all pieces from the index that start before the position `end`.
    fn remove_before(&mut self, end: u64) {
        while self.order.front().is_some_and(|(at, _)| *at < end) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else { return };
        if self.extents.get(&key).is_some_and(|extent| extent.at == at) {
            self.extents.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
