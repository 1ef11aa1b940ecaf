//! Where chunks are: in their table, or in objects outside of the database.

use std::ops::Range;

use db::postgres::fault::unsigned;
use model::timestamp::Timestamp;
use uuid::Uuid;

use super::Result;
use crate::{
    codec::{self, DecodeError},
    span::Span,
};

/// Where a chunk is and what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its number in its table, or that of its segment.
    pub(super) id: i64,
    pub(super) span: Span,
    pub(super) n: usize,
    pub(super) at: At,
}

/// Where the bytes of a chunk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// In the table of chunks.
    Table,
    /// In an object.
    Object(Extent),
    /// It is all chunks of the segment of this number.
    Segment,
}

impl Place {
    /// What stands for a chunk in an object; `None` of another one.
    pub(super) const fn key(&self) -> Option<ExtentKey> {
        match &self.at {
            At::Object(extent) => Some(extent.key()),
            At::Table | At::Segment => None,
        }
    }

    /// The bytes that are fetched for it: none of a chunk in its table.
    pub(super) const fn n_bytes_fetched(&self) -> i64 {
        match &self.at {
            At::Object(extent) => extent.n_bytes(),
            At::Table | At::Segment => 0,
        }
    }

    /// The place of what has these columns, from `id` to `n`.
    pub(super) fn new(columns: (i64, i64, i64, i64), at: At) -> Result<Self> {
        let (id, first, last, n) = columns;
        let span =
            Span { first: Timestamp::from_micros(first), last: Timestamp::from_micros(last) };
        Ok(Self { id, span, n: unsigned(n)?, at })
    }
}

/// An object, and where a chunk begins in it.
pub(super) type ExtentKey = (Uuid, i64);

/// Where the bytes of a chunk are: its times and right after them its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) object: Uuid,
    /// The highest row number in the chunk.
    pub(super) last_row: i64,
    /// Where the chunk begins in the object.
    pub(super) offset: i64,
    /// The bytes of its times.
    pub(super) n_times: i64,
    /// The bytes of its body.
    pub(super) n_body: i64,
}

impl Extent {
    /// The bytes of the chunk in its object.
    pub(super) fn range(&self) -> Range<u64> {
        let end = self.offset.saturating_add(self.n_bytes());
        self.offset.unsigned_abs()..end.unsigned_abs()
    }

    /// What stands for the chunk: its bytes never change.
    pub(super) const fn key(&self) -> ExtentKey {
        (self.object, self.offset)
    }

    /// How many bytes the chunk has.
    pub(super) const fn n_bytes(&self) -> i64 {
        self.n_times.saturating_add(self.n_body)
    }

    /// The times and the body of a chunk out of its bytes.
    pub(super) fn split<'a>(&self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let n_times = usize::try_from(self.n_times).unwrap_or(usize::MAX);
        bytes.split_at_checked(n_times).unwrap_or((bytes, &[]))
    }

    /// Tests that bytes are those of the chunk.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), DecodeError> {
        let range = self.range();
        if u64::try_from(bytes.len()) != Ok(range.end - range.start) {
            return Err(DecodeError::MISSING);
        }
        let (times, body) = self.split(bytes);
        codec::check(times).and_then(|()| codec::check(body))
    }
}
