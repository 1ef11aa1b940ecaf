//! `FlatBuffers`, written front to back: tables, vectors and texts that point to what follows them.
//!
//! The usual builders write back to front, children first. Here a table is written with its places
//! for offsets empty, and each is filled in when what it points to is written.

/// A member of a table, in the order of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// An omitted field.
    Nothing,
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    /// To be pointed to what is written later.
    Offset,
}

/// A table that was written.
#[derive(Debug)]
pub(super) struct Table {
    /// Where it is.
    pub(super) at: usize,
    offsets: Vec<usize>,
}

impl Table {
    /// The place of its offset number `idx`, counted among the offsets alone.
    pub(super) fn offset(&self, idx: usize) -> usize {
        self.offsets.get(idx).copied().unwrap_or_default()
    }
}

/// A buffer being written. It starts with the offset of its root table.
#[derive(Debug)]
pub(super) struct Flat {
    bytes: Vec<u8>,
}

impl Slot {
    const fn size(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::U8(_) => 1,
            Self::I16(_) => 2,
            Self::I32(_) | Self::Offset => 4,
            Self::I64(_) => 8,
        }
    }

    fn write(self, to: &mut Vec<u8>) {
        match self {
            Self::Nothing => {}
            Self::U8(number) => to.push(number),
            Self::I16(number) => to.extend_from_slice(&number.to_le_bytes()),
            Self::I32(number) => to.extend_from_slice(&number.to_le_bytes()),
            Self::I64(number) => to.extend_from_slice(&number.to_le_bytes()),
            Self::Offset => to.extend_from_slice(&[0; 4]),
        }
    }
}

impl Flat {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 4] }
    }

    /// Makes the table at `at` the root.
    pub(super) fn root(&mut self, at: usize) {
        self.point(0, at);
    }

    /// Writes a table: where its members are, as 16-bit numbers, and then the members.
    pub(super) fn table(&mut self, slots: &[Slot]) -> Table {
        // Members lie in their order, each aligned to its size; the table itself to eight bytes.
        let mut places = Vec::with_capacity(slots.len());
        let mut length = 4_usize;
        for slot in slots {
            let size = slot.size();
            if size == 0 {
                places.push(0);
                continue;
            }
            length = length.next_multiple_of(size);
            places.push(length);
            length += size;
        }
        let index_bytes = 4 + 2 * slots.len();
        self.align(2);
        let at = (self.bytes.len() + index_bytes).next_multiple_of(8);
        self.bytes.resize(at - index_bytes, 0);
        for number in [index_bytes, length].into_iter().chain(places.iter().copied()) {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.push_u32(index_bytes);
        let mut offsets = Vec::new();
        for (slot, place) in slots.iter().zip(places) {
            if place == 0 {
                continue;
            }
            self.bytes.resize(at + place, 0);
            if matches!(slot, Slot::Offset) {
                offsets.push(self.bytes.len());
            }
            slot.write(&mut self.bytes);
        }
        Table { at, offsets }
    }

    /// Writes a text; where it is.
    pub(super) fn text(&mut self, text: &str) -> usize {
        self.align(4);
        let at = self.bytes.len();
        self.push_u32(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        at
    }

    /// Writes a vector of offsets: where it is, and where each of them is.
    pub(super) fn vector_of_offsets(&mut self, n: usize) -> (usize, Vec<usize>) {
        self.align(4);
        let at = self.bytes.len();
        self.push_u32(n);
        let places = (0..n).map(|idx| at + 4 + 4 * idx).collect();
        self.bytes.resize(at + 4 + 4 * n, 0);
        (at, places)
    }

    /// Writes a vector of pairs of numbers; where it is.
    pub(super) fn vector_of_pairs(&mut self, pairs: &[[i64; 2]]) -> usize {
        // The pairs are aligned, not the count in front of them.
        self.align(4);
        if self.bytes.len().is_multiple_of(8) {
            self.bytes.extend_from_slice(&[0; 4]);
        }
        let at = self.bytes.len();
        self.push_u32(pairs.len());
        for number in pairs.iter().flatten() {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
        at
    }

    /// Points the offset at `place` to what is at `target`, further behind.
    pub(super) fn point(&mut self, place: usize, target: usize) {
        let offset = u32::try_from(target.saturating_sub(place)).unwrap_or(u32::MAX);
        if let Some(bytes) = self.bytes.get_mut(place..place + 4) {
            bytes.copy_from_slice(&offset.to_le_bytes());
        }
    }

    /// The whole buffer.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn align(&mut self, size: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(size), 0);
    }

    fn push_u32(&mut self, number: usize) {
        self.bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
}
