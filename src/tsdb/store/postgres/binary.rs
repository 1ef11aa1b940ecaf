//! Encodes rows as parameters of statements, and decodes the results of statements into rows and buckets.
//!
//! Arrays are stored without leading nulls, with the index of the first value as lower bound. sqlx
//! cannot encode such arrays.

use model::block::{Block, Series};
use model::dataset::{DatasetId, Dtype};
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{
    PgArgumentBuffer, PgBindIterExt as _, PgHasArrayType, PgRow, PgTypeInfo, PgValueFormat,
};
use sqlx::{Encode, PgConnection, Postgres, Row as _, Type, ValueRef as _};

use super::Result;
use super::head::dtype;
use super::time::Time;

/// Length that stands for a null.
const NULL: [u8; 4] = (-1_i32).to_be_bytes();

/// Maximum number of rows that a statement inserts.
const STATEMENT_ROWS: usize = 8192;

/// Object id of the type `bigint` in PostgreSQL.
const INT8: u32 = 20;

/// Object id of the type `timestamptz` in PostgreSQL.
const TIMESTAMPTZ: u32 = 1184;

/// The three arrays that together contain the values of a row.
const ARRAYS: [Array; 3] = [Array::Numbers, Array::Integers, Array::Texts];

/// Columns of the table `rows r` that [`RowReader`] reads.
pub(super) const ROW_COLUMNS: &str = "r.ts, r.id, r.created_at, r.numbers, r.integers, r.texts";

/// Columns of [`ROW_COLUMNS`] with nulls for texts, which folding does not use.
pub(super) const NUMBER_COLUMNS: &str =
    "r.ts, r.id, r.created_at, r.numbers, r.integers, NULL::text[]";

/// One of the arrays in a stored row. It has the values of all columns of certain types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Array {
    Numbers,
    Integers,
    Texts,
}

impl Array {
    /// Returns the array that contains columns of type `dtype`.
    pub(in crate::store) const fn of(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Float | Dtype::Boolean => Self::Numbers,
            Dtype::Integer => Self::Integers,
            Dtype::String => Self::Texts,
        }
    }

    /// Returns the object id in PostgreSQL of the element type.
    const fn element(self) -> u32 {
        match self {
            Self::Numbers => 701,
            Self::Integers => INT8,
            Self::Texts => 25,
        }
    }

    /// Returns the object id in PostgreSQL of the type of the array.
    const fn oid(self) -> u32 {
        match self {
            Self::Numbers => 1022,
            Self::Integers => 1016,
            Self::Texts => 1009,
        }
    }

    /// Returns the positions of the columns that the array contains.
    fn places(self, columns: &[Series]) -> Vec<usize> {
        let has = |(_, series): &(usize, &Series)| Self::of(series.dtype()) == self;
        columns.iter().enumerate().filter(has).map(|(place, _)| place).collect()
    }
}

/// Value of one column of a row, as an element of an array.
enum Element<'a> {
    Eight([u8; 8]),
    Text(&'a str),
}

impl<'a> Element<'a> {
    fn of(series: &'a Series, row_idx: usize) -> Option<Self> {
        Some(match series {
            Series::Float(values) => Self::Eight((*values.get(row_idx)?)?.to_be_bytes()),
            Series::Boolean(values) => {
                Self::Eight(f64::from(u8::from((*values.get(row_idx)?)?)).to_be_bytes())
            }
            Series::Integer(values) => Self::Eight((*values.get(row_idx)?)?.to_be_bytes()),
            Series::String(values) => Self::Text(values.get(row_idx)?.as_deref()?),
        })
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Eight(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

/// A row as a parameter of the composite type of the table `rows`.
struct StoredRow<'a> {
    dataset: DatasetId,
    rows: &'a Block,
    row_idx: usize,
    /// The columns that each of [`ARRAYS`] contains.
    arrays: &'a [Vec<&'a Series>; 3],
}

impl Type<Postgres> for StoredRow<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("datasets.rows")
    }
}

impl PgHasArrayType for StoredRow<'_> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::array_of("datasets.rows")
    }
}

impl Encode<'_, Postgres> for StoredRow<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let missing = || malformed("a block of rows");
        let Block { times, ids, created, .. } = self.rows;
        let time = |times: &[Timestamp]| times.get(self.row_idx).copied().ok_or_else(missing);
        let id = ids.get(self.row_idx).ok_or_else(missing)?;
        put_length(buffer, 7);
        for (oid, value) in [
            (INT8, self.dataset.get()),
            (TIMESTAMPTZ, Time(time(times)?).to_database()),
            (INT8, *id),
            (TIMESTAMPTZ, Time(time(created)?).to_database()),
        ] {
            buffer.extend_from_slice(&oid.to_be_bytes());
            put_field(buffer, &value.to_be_bytes());
        }
        for (array, columns) in ARRAYS.into_iter().zip(self.arrays) {
            buffer.extend_from_slice(&array.oid().to_be_bytes());
            put_array(buffer, array, columns, self.row_idx);
        }
        Ok(IsNull::No)
    }
}

fn put_field(buffer: &mut Vec<u8>, bytes: &[u8]) {
    put_length(buffer, bytes.len());
    buffer.extend_from_slice(bytes);
}

fn put_length(buffer: &mut Vec<u8>, n: usize) {
    buffer.extend_from_slice(&i32::try_from(n).unwrap_or(i32::MAX).to_be_bytes());
}

/// Writes the array for the values of `columns` in a row, from the first to the last column with a
/// value.
fn put_array(buffer: &mut Vec<u8>, array: Array, columns: &[&Series], row_idx: usize) {
    let has_value = |series: &&Series| Element::of(series, row_idx).is_some();
    let first = columns.iter().position(has_value);
    let last = columns.iter().rposition(has_value);
    let Some((first, last)) = first.zip(last) else {
        buffer.extend_from_slice(&NULL);
        return;
    };
    let within = columns.get(first..=last).unwrap_or_default();
    let start = buffer.len();
    put_length(buffer, 0);
    // Header of the array: number of dimensions, and a flag for nulls.
    put_length(buffer, 1);
    put_length(buffer, usize::from(!within.iter().all(has_value)));
    buffer.extend_from_slice(&array.element().to_be_bytes());
    put_length(buffer, within.len());
    put_length(buffer, first + 1);
    for series in within {
        match Element::of(series, row_idx) {
            Some(element) => put_field(buffer, element.bytes()),
            None => buffer.extend_from_slice(&NULL),
        }
    }
    let n_bytes = buffer.len() - start - NULL.len();
    let n_bytes = i32::try_from(n_bytes).unwrap_or(i32::MAX).to_be_bytes();
    if let Some(length) = buffer.get_mut(start..start + NULL.len()) {
        length.copy_from_slice(&n_bytes);
    }
}

/// Inserts rows. No rows may be stored at their timestamps.
///
/// `COPY` is not used: sqlx sends the end of its data separately. Over TCP, the end then waits for the
/// acknowledgment of the data, which the server delays.
pub(super) async fn insert_rows(
    c: &mut PgConnection,
    dataset: DatasetId,
    rows: &Block,
) -> Result<()> {
    let arrays = ARRAYS.map(|array| {
        let places = array.places(&rows.columns).into_iter();
        places.filter_map(|place| rows.columns.get(place)).collect()
    });
    let mut row_idxs = 0..rows.len();
    while !row_idxs.is_empty() {
        let part = row_idxs.by_ref().take(STATEMENT_ROWS);
        let stored = part.map(|row_idx| StoredRow { dataset, rows, row_idx, arrays: &arrays });
        sqlx::query("INSERT INTO datasets.rows SELECT * FROM unnest($1::datasets.rows[])")
            .bind(stored.bind_iter())
            .execute(&mut *c)
            .await?;
    }
    Ok(())
}

/// Decoder for the rows of one dataset.
#[derive(Debug, Clone)]
pub(super) struct RowReader {
    /// A block without rows, with the columns of the dataset.
    pub(super) empty: Block,
    /// Positions of the columns that each array contains.
    places: [Vec<usize>; 3],
}

impl RowReader {
    pub(super) fn new(dtypes: &[Dtype]) -> Self {
        let empty = Block::new(dtypes);
        let places = ARRAYS.map(|array| array.places(&empty.columns));
        Self { empty, places }
    }

    /// Returns the decoder for columns with the types of these names.
    pub(super) fn named(dtypes: &[String]) -> Result<Self> {
        Ok(Self::new(&dtypes.iter().map(|name| dtype(name)).collect::<Result<Vec<_>>>()?))
    }

    /// Reads a row from a record and appends it to `block`. The columns of the record from `first` on
    /// are [`ROW_COLUMNS`].
    pub(super) fn read_into(&self, row: &PgRow, first: usize, block: &mut Block) -> Result<()> {
        let Time(time) = row.try_get(first)?;
        let Time(created) = row.try_get(first + 2)?;
        block.times.push(time);
        block.ids.push(row.try_get(first + 1)?);
        block.created.push(created);
        for (idx, places) in self.places.iter().enumerate() {
            if places.is_empty() {
                continue;
            }
            let value = row.try_get_raw(first + 3 + idx)?;
            if !value.is_null() && value.format() != PgValueFormat::Binary {
                return Err(malformed("an array").into());
            }
            let bytes = if value.is_null() { &[] } else { value.as_bytes().map_err(decode)? };
            read_array(bytes, places, &mut block.columns)?;
        }
        Ok(())
    }
}

/// Appends one element of an array to each of the columns at `places`.
fn read_array(mut bytes: &[u8], places: &[usize], columns: &mut [Series]) -> Result<()> {
    let bytes = &mut bytes;
    let n_dimensions = if bytes.is_empty() { 0 } else { i32::from_be_bytes(take(bytes)?) };
    let (mut left, mut first) = (0, 1);
    if n_dimensions == 1 {
        let _: [u8; 8] = take(bytes)?;
        left = i32::from_be_bytes(take(bytes)?);
        first = i32::from_be_bytes(take(bytes)?);
    }
    for (slot, place) in (1_i32..).zip(places) {
        let Some(series) = columns.get_mut(*place) else { continue };
        if slot < first || left <= 0 {
            series.push_missing(1);
            continue;
        }
        left -= 1;
        let length = i32::from_be_bytes(take(bytes)?);
        let Ok(length) = usize::try_from(length) else {
            series.push_missing(1);
            continue;
        };
        let (mut element, rest) =
            bytes.split_at_checked(length).ok_or_else(|| malformed("an array"))?;
        *bytes = rest;
        match series {
            Series::Float(values) => values.push(Some(f64::from_be_bytes(take(&mut element)?))),
            Series::Boolean(values) => {
                values.push(Some(f64::from_be_bytes(take(&mut element)?) != 0.0));
            }
            Series::Integer(values) => values.push(Some(i64::from_be_bytes(take(&mut element)?))),
            Series::String(values) => {
                let text = std::str::from_utf8(element).map_err(|error| decode(error.into()))?;
                values.push(Some(text.into()));
            }
        }
    }
    Ok(())
}

/// Removes and returns the first `N` bytes of a slice.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], sqlx::Error> {
    let (taken, rest) = bytes.split_first_chunk().ok_or_else(|| malformed("an array"))?;
    *bytes = rest;
    Ok(*taken)
}

fn malformed(what: &str) -> sqlx::Error {
    decode(format!("{what} is malformed").into())
}

const fn decode(cause: BoxDynError) -> sqlx::Error {
    sqlx::Error::Decode(cause)
}

/// Reads a bucket from a record. The record's columns from `first` on are start, prices, volume and
/// count.
pub(super) fn read_bucket(row: &PgRow, first: usize) -> Result<Bucket> {
    let Time(timestamp) = row.try_get(first)?;
    let number = |idx: usize| row.try_get::<f64, _>(first + idx);
    Ok(Bucket {
        timestamp,
        open: number(1)?,
        high: number(2)?,
        low: number(3)?,
        close: number(4)?,
        volume: number(5)?,
        count: db::postgres::fault::unsigned(row.try_get(first + 6)?)?,
    })
}

#[cfg(test)]
mod tests;
