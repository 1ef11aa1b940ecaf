//! Timestamps as the database has them, and the bounds of what it can store.

use model::timestamp::Timestamp;
use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef, types::Oid},
};

use crate::span::Span;

/// Microseconds from 1970 to 2000, from which the database counts.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The earliest timestamp of a row: the second day that the database knows, in 4714 BC. Every bucket of
/// such a row starts at a time that it knows, too.
pub(super) const EARLIEST: Timestamp = Timestamp::from_micros(-210_866_716_800_000_000);

/// The object ids of `timestamptz` and of its array, which never change.
const OIDS: [u32; 2] = [1184, 1185];

/// A timestamp as a value of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Timestamp);

impl Time {
    /// Microseconds since 2000, at or after [`EARLIEST`].
    pub(super) fn to_database(self) -> i64 {
        self.0.max(EARLIEST).micros() - EPOCH_MICROS
    }

    /// The timestamp that is so many microseconds after 2000.
    pub(super) const fn from_database(micros: i64) -> Self {
        Self(Timestamp::from_micros(micros.saturating_add(EPOCH_MICROS)))
    }
}

/// The bounds of a span as values of a statement. None before [`EARLIEST`] has a row.
pub(super) const fn bounds(span: Span) -> (Time, Time) {
    (Time(span.first), Time(span.last))
}

/// The starts and ends of spans as lists.
pub(super) fn lists(spans: &[Span]) -> (Vec<Time>, Vec<Time>) {
    spans.iter().copied().map(bounds).unzip()
}

impl Type<Postgres> for Time {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(OIDS[0]))
    }
}

impl PgHasArrayType for Time {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(OIDS[1]))
    }
}

impl Encode<'_, Postgres> for Time {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend(&self.to_database().to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Time {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let bytes: [u8; 8] = value.as_bytes()?.try_into()?;
        Ok(Self::from_database(i64::from_be_bytes(bytes)))
    }
}
