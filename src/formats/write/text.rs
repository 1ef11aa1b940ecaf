//! Texts of many short parts.
//!
//! A part is put at a place of a text; what is returned is the place behind it. Copies of lengths
//! that the compiler knows cost a fraction of a call, which is most of what a row would take: so a
//! part may be copied with bytes behind it that are no part of the text. The next part is put over
//! them, and [`end`] takes away what is left of them.

/// How much longer a text is made where it has to be, at least: enough for a row or some, little
/// enough that it is still in the processor's cache when they are put there.
const AHEAD_BYTES: usize = 4096;

/// Bytes of a [`Phrase`] that are copied at once: most keys have fewer.
const PIECE_BYTES: usize = 32;

/// A part that is put into texts often.
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

    /// Puts it at `at`.
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

/// Puts what `set` makes of the bytes from `at` on, and says how long it is.
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

/// The same where the text has to be made longer. It is apart so that it takes no registers of those
/// who put one part after the other.
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

/// Puts `bytes` at `at`.
#[inline]
pub(super) fn put<const N: usize>(to: &mut Vec<u8>, at: usize, bytes: &[u8; N]) -> usize {
    put_in(to, at, |place| {
        *place = *bytes;
        N
    })
}

/// Puts what `write` adds to the end of a text at `at`.
pub(super) fn put_with(to: &mut Vec<u8>, at: usize, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    to.truncate(at);
    write(to);
    to.len()
}

/// Ends the text at `at`.
pub(super) fn end(to: &mut Vec<u8>, at: usize) {
    to.truncate(at);
}
