//! Timestamps as the engines store them: as microseconds since 1970 in SQLite, and since 2000 in
//! PostgreSQL, which supports only timestamps within its calendar.

use model::timestamp::Timestamp;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::span::Span;

/// Number of microseconds from 1970 to 2000, the epoch of PostgreSQL.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Earliest timestamp of a row that PostgreSQL can store: the second day of its calendar, in 4714 BC.
/// The buckets of such a row also start within the calendar.
pub(in crate::store) const EARLIEST: Timestamp = Timestamp::from_micros(-210_866_716_800_000_000);

/// Object ids in PostgreSQL of `timestamptz` and of its arrays. They never change.
const OIDS: [u32; 2] = [1184, 1185];

/// A timestamp as a parameter or column of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Time(pub(in crate::store) Timestamp);

impl Time {
    /// Returns the microseconds since 2000. A timestamp before [`EARLIEST`] is replaced by [`EARLIEST`].
    pub(in crate::store) fn to_database(self) -> i64 {
        self.0.max(EARLIEST).micros() - EPOCH_MICROS
    }

    /// Creates a timestamp from the microseconds since 2000.
    pub(in crate::store) const fn from_database(micros: i64) -> Self {
        Self(Timestamp::from_micros(micros.saturating_add(EPOCH_MICROS)))
    }
}

/// Returns the bounds of a span as parameters. No row is earlier than [`EARLIEST`], so a smaller bound
/// can be replaced with it.
pub(in crate::store) const fn bounds(span: Span) -> (Time, Time) {
    (Time(span.first), Time(span.last))
}

/// Returns the first timestamps of spans as a list and the last timestamps as another list.
pub(in crate::store) fn lists(spans: &[Span]) -> (Vec<Time>, Vec<Time>) {
    spans.iter().copied().map(bounds).unzip()
}

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.micros().into())
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(Timestamp::from_micros(value.as_i64()?)))
    }
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
