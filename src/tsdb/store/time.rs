//! Timestamps as the engines store them: as microseconds since 1970 in SQLite and since 2000 in
//! PostgreSQL, which only supports timestamps within its calendar.

use model::timestamp::Timestamp;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlResult, ToSqlOutput, ValueRef};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::span::Span;

/// Microseconds from 1970 to 2000, the epoch of PostgreSQL.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Earliest possible timestamp of a row in PostgreSQL: the second day of its calendar, in 4714 BC. Thus
/// every bucket of such a row also starts within the calendar.
pub(in crate::store) const EARLIEST: Timestamp = Timestamp::from_micros(-210_866_716_800_000_000);

/// Object ids of `timestamptz` and of arrays of it. They never change.
const OIDS: [u32; 2] = [1184, 1185];

/// A timestamp as a parameter or column of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Time(pub(in crate::store) Timestamp);

impl Time {
    /// Returns microseconds since 2000. An earlier timestamp than [`EARLIEST`] is replaced with it.
    pub(in crate::store) fn to_database(self) -> i64 {
        self.0.max(EARLIEST).micros() - EPOCH_MICROS
    }

    /// Converts microseconds since 2000.
    pub(in crate::store) const fn from_database(micros: i64) -> Self {
        Self(Timestamp::from_micros(micros.saturating_add(EPOCH_MICROS)))
    }
}

/// Returns the bounds of a span as parameters. There are no rows before [`EARLIEST`].
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
