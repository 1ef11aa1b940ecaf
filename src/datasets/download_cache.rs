//! Compressed pieces of downloads, kept so that each is made once.
//!
//! They lie in one scratch file beside the store, a ring of bounded length: a new piece takes the
//! place of the oldest. Where each lies is known in memory alone, so the file is deleted as soon as
//! it is open and needs no repair. Each piece carries its sum into the body it becomes part of, so
//! that a damaged one shows. A disk that fails ends the keeping, not the download.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File, OpenOptions},
    io,
    path::Path,
    sync::Arc,
};

use formats::content_coding::{Coding, Packed};
use parking_lot::Mutex;
use task::positioned::{read_exact_at, write_all_at};
use tracing::warn;
use tsdb::store::row_batch::ChunkId;

use crate::etag::ETag;

/// Pieces known at most: a few megabytes of memory, and enough for 5 GB of usual ones.
const PIECES_MAX: usize = 65_536;

/// Which piece: all that its bytes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PieceKey {
    /// Which run of rows, and which state of it.
    pub(crate) rows: ChunkId,
    /// The format, and the columns.
    pub(crate) form: ETag,
    /// How it is compressed.
    pub(crate) coding: Coding,
}

/// The pieces that are kept. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct DownloadCache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// None where nothing is kept.
    file: Option<File>,
    bytes_max: u64,
    ring: Mutex<Ring>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Bytes ever written, those left free at the end of a round included.
    head: u64,
    places: HashMap<PieceKey, Place>,
    /// The oldest first.
    order: VecDeque<(u64, PieceKey)>,
    is_broken: bool,
}

/// Where a piece lies: `at` counts like [`Ring::head`], and its place in the file is the rest of a
/// division by the file's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    at: u64,
    length: usize,
    sum: u32,
    plain_bytes: u64,
}

impl DownloadCache {
    /// Keeps nothing.
    pub(crate) fn none() -> Self {
        Self { shared: Arc::new(Shared { file: None, bytes_max: 0, ring: Mutex::default() }) }
    }

    /// Keeps at most `bytes_max` bytes in a file at `path`, of which nothing is left at the end.
    /// Blocks shortly.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub(crate) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        if bytes_max == 0 {
            return Ok(Self::none());
        }
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        fs::remove_file(path)?;
        let shared = Shared { file: Some(file), bytes_max, ring: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The piece, if it is kept. Blocks.
    pub(crate) fn get(&self, key: PieceKey) -> Option<Packed> {
        let file = self.shared.file.as_ref()?;
        let place = *self.shared.ring.lock().places.get(&key)?;
        let mut bytes = vec![0; place.length];
        let read = read_exact_at(file, &mut bytes, place.at % self.shared.bytes_max);
        // Meanwhile another piece may have taken its place.
        let is_there = self.shared.ring.lock().places.get(&key) == Some(&place);
        let Place { sum, plain_bytes, .. } = place;
        (read.is_ok() && is_there).then_some(Packed { bytes, sum, plain_bytes })
    }

    /// Keeps a piece, if it can. Blocks.
    pub(crate) fn put(&self, key: PieceKey, piece: &Packed) {
        let Some(file) = &self.shared.file else { return };
        let Ok(length) = u64::try_from(piece.bytes.len()) else { return };
        let bytes_max = self.shared.bytes_max;
        if length == 0 || length > bytes_max / 4 {
            return;
        }
        let at = {
            let mut ring = self.shared.ring.lock();
            if ring.is_broken {
                return;
            }
            // A piece lies in one stretch.
            let left = bytes_max - ring.head % bytes_max;
            let at = if left < length { ring.head + left } else { ring.head };
            ring.head = at + length;
            let end = ring.head.saturating_sub(bytes_max);
            ring.forget_before(end);
            at
        };
        let written = write_all_at(file, &piece.bytes, at % bytes_max);
        let mut ring = self.shared.ring.lock();
        match written {
            Ok(()) if at >= ring.head.saturating_sub(bytes_max) => {
                let (sum, plain_bytes) = (piece.sum, piece.plain_bytes);
                let place = Place { at, length: piece.bytes.len(), sum, plain_bytes };
                ring.places.insert(key, place);
                ring.order.push_back((at, key));
                while ring.order.len() > PIECES_MAX {
                    ring.forget_oldest();
                }
            }
            // Others have written so much meanwhile that it is overwritten.
            Ok(()) => {}
            Err(error) => {
                warn!(%error, "no more compressed pieces of downloads are kept");
                *ring = Ring { is_broken: true, ..Ring::default() };
                // The room it takes may be what is missing.
                drop(file.set_len(0));
            }
        }
    }
}

impl Ring {
    /// Forgets what was written before `end`.
    fn forget_before(&mut self, end: u64) {
        while self.order.front().is_some_and(|(at, _)| *at < end) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else { return };
        if self.places.get(&key).is_some_and(|place| place.at == at) {
            self.places.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests;
