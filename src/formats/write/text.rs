//! Builds texts from many short parts.
//!
//! A part is written at a position of a text, and the position after it is returned. Copying a number of
//! bytes that the compiler knows is much cheaper than a function call, which would otherwise dominate
//! the time of a row. Therefore a part may be copied with extra bytes after it, which the next part
//! overwrites. Truncating the text after the last part removes the rest.

/// Minimum number of bytes by which a text grows. It is enough for some rows, and so small that the
/// bytes are still in the processor's cache when they are written.
const AHEAD_BYTES: usize = 4096;

/// Number of bytes of a [`Phrase`] that are copied at a time. Most keys are shorter.
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

/// Lets `set` write to the bytes from `at` on. `set` returns the length of the part.
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

/// Slow path, for a text that must grow. It is a separate function so that it does not occupy registers
/// of the callers.
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

/// Truncates a text at `at`, then lets `write` append to it.
pub(super) fn put_with(to: &mut Vec<u8>, at: usize, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    to.truncate(at);
    write(to);
    to.len()
}
