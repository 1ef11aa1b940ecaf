//! Builds texts from many short parts.
//!
//! A part is written at a position of a text. The position after it is returned. Copying a length that
//! the compiler knows costs a fraction of a call, which would otherwise dominate the time of a row. A
//! part may therefore be copied with extra bytes after it. The next part overwrites these. [`end`]
//! removes the rest.

/// Minimum number of bytes by which a text grows: enough for some rows, but small enough that it is
/// still in the processor's cache when they are written.
const AHEAD_BYTES: usize = 4096;

/// Bytes of a [`Phrase`] that are copied at once. Most keys are shorter.
const PIECE_BYTES: usize = 32;

/// A part that is frequently written to texts.
#[derive(Debug, Clone, Default)]
pub(super) struct Phrase {
    first: [u8; PIECE_BYTES],
    others: Vec<[u8; PIECE_BYTES]>,
    n_bytes: usize,
}

impl Phrase {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut pieces = bytes.chunks(PIECE_BYTES).map(|bytes| {
            let mut piece = [0; PIECE_BYTES];
            piece.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            piece
        });
        let first = pieces.next().unwrap_or_default();
        Self { first, others: pieces.collect(), n_bytes: bytes.len() }
    }

    /// Writes the phrase at `at`.
    #[inline]
    pub(super) fn put(&self, to: &mut Vec<u8>, at: usize) -> usize {
        put(to, at, &self.first);
        if self.n_bytes > PIECE_BYTES {
            let mut at = at;
            for piece in &self.others {
                at += PIECE_BYTES;
                put(to, at, piece);
            }
        }
        at + self.n_bytes
    }
}

/// Writes to the bytes from `at` on. `set` returns the length of the part.
#[inline]
pub(super) fn put_in<const N: usize>(
    to: &mut Vec<u8>,
    at: usize,
    set: impl FnOnce(&mut [u8; N]) -> usize,
) -> usize {
    match to.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        Some(place) => at + set(place),
        None => put_beyond(to, at, set),
    }
}

/// Slow path for a text that must grow. It is separate so that it does not occupy registers of the
/// callers.
#[cold]
#[inline(never)]
fn put_beyond<const N: usize>(
    to: &mut Vec<u8>,
    at: usize,
    set: impl FnOnce(&mut [u8; N]) -> usize,
) -> usize {
    to.resize(at + N + AHEAD_BYTES, 0);
    let place = to.get_mut(at..).and_then(|rest| rest.first_chunk_mut());
    at + place.map_or(0, set)
}

/// Writes `bytes` at `at`.
#[inline]
pub(super) fn put<const N: usize>(to: &mut Vec<u8>, at: usize, bytes: &[u8; N]) -> usize {
    put_in(to, at, |place| {
        *place = *bytes;
        N
    })
}

/// Truncates a text at `at` and appends with `write`.
pub(super) fn put_with(to: &mut Vec<u8>, at: usize, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    to.truncate(at);
    write(to);
    to.len()
}

/// Truncates the text at `at`.
pub(super) fn end(to: &mut Vec<u8>, at: usize) {
    to.truncate(at);
}
