//! Encodes rows and buckets for a binary `COPY`, and decodes the results of statements into rows and
//! buckets.
//!
//! Arrays are stored without leading nulls, with the index of the first value as lower bound. sqlx
//! cannot encode such arrays.

use model::block::{Block, Series};
use model::dataset::{DatasetId, Dtype};
use model::row::Bucket;
use sqlx::postgres::{PgRow, PgValueFormat};
use sqlx::{PgConnection, Row as _, ValueRef as _};

use super::Result;
use super::time::Time;

/// Header of `COPY` data: a signature, no flags and no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// End of `COPY` data.
const TRAILER: [u8; 2] = (-1_i16).to_be_bytes();

/// Length that stands for a null.
const NULL: [u8; 4] = (-1_i32).to_be_bytes();

/// Number of bytes that are sent to the server at a time.
const PIECE_BYTES: usize = 1 << 20;

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
            Self::Integers => 20,
            Self::Texts => 25,
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

/// Buffer of `COPY` data.
struct Copy {
    bytes: Vec<u8>,
}

impl Copy {
    fn field(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    fn length(&mut self, n: usize) {
        self.bytes.extend_from_slice(&i32::try_from(n).unwrap_or(i32::MAX).to_be_bytes());
    }

    fn begin_record(&mut self, n_fields: i16) {
        self.bytes.extend_from_slice(&n_fields.to_be_bytes());
    }

    /// Writes the array for the values of `columns` in a row, from the first to the last column with a
    /// value.
    fn array(&mut self, array: Array, columns: &[&Series], row_idx: usize) {
        let has_value = |series: &&Series| Element::of(series, row_idx).is_some();
        let first = columns.iter().position(has_value);
        let last = columns.iter().rposition(has_value);
        let Some((first, last)) = first.zip(last) else {
            self.bytes.extend_from_slice(&NULL);
            return;
        };
        let within = columns.get(first..=last).unwrap_or_default();
        let start = self.bytes.len();
        self.length(0);
        // Header of the array: number of dimensions, and a flag for nulls.
        self.length(1);
        self.length(usize::from(!within.iter().all(has_value)));
        self.bytes.extend_from_slice(&array.element().to_be_bytes());
        self.length(within.len());
        self.length(first + 1);
        for series in within {
            match Element::of(series, row_idx) {
                Some(element) => self.field(element.bytes()),
                None => self.bytes.extend_from_slice(&NULL),
            }
        }
        let n_bytes = self.bytes.len() - start - NULL.len();
        let n_bytes = i32::try_from(n_bytes).unwrap_or(i32::MAX).to_be_bytes();
        if let Some(length) = self.bytes.get_mut(start..start + NULL.len()) {
            length.copy_from_slice(&n_bytes);
        }
    }

    /// Executes the `COPY` statement. Sends the records that `add` produces until `add` returns false.
    async fn run(
        c: &mut PgConnection,
        statement: &str,
        mut add: impl FnMut(&mut Self) -> bool + Send,
    ) -> Result<()> {
        let mut copy = Self { bytes: HEADER.to_vec() };
        let mut sink = c.copy_in_raw(statement).await?;
        while add(&mut copy) {
            if copy.bytes.len() >= PIECE_BYTES {
                sink.send(copy.bytes.as_slice()).await?;
                copy.bytes.clear();
            }
        }
        copy.bytes.extend_from_slice(&TRAILER);
        sink.send(copy.bytes.as_slice()).await?;
        sink.finish().await?;
        Ok(())
    }
}

/// Inserts rows. No rows may be stored at their timestamps.
pub(super) async fn copy_rows(
    c: &mut PgConnection,
    dataset: DatasetId,
    rows: &Block,
) -> Result<()> {
    let arrays = ARRAYS.map(|array| {
        let places = array.places(&rows.columns);
        let columns: Vec<&Series> =
            places.into_iter().filter_map(|place| rows.columns.get(place)).collect();
        (array, columns)
    });
    let statement = "COPY datasets.rows (dataset, ts, id, created_at, numbers, integers, texts)
         FROM STDIN (FORMAT binary)";
    let mut keys = rows.times.iter().zip(&rows.ids).zip(&rows.created).enumerate();
    let add = move |copy: &mut Copy| {
        let Some((row_idx, ((time, id), created))) = keys.next() else { return false };
        copy.begin_record(7);
        copy.field(&dataset.get().to_be_bytes());
        copy.field(&Time(*time).to_database().to_be_bytes());
        copy.field(&id.to_be_bytes());
        copy.field(&Time(*created).to_database().to_be_bytes());
        for (array, columns) in &arrays {
            copy.array(*array, columns, row_idx);
        }
        true
    };
    Copy::run(c, statement, add).await
}

/// Inserts buckets that are not stored yet, each with the code of its resolution.
pub(super) async fn copy_buckets(
    c: &mut PgConnection,
    dataset: DatasetId,
    buckets: &[(i32, Bucket)],
) -> Result<()> {
    let statement = "COPY datasets.buckets
         (dataset, resolution, ts, open, high, low, close, volume, count)
         FROM STDIN (FORMAT binary)";
    let mut buckets = buckets.iter();
    let add = move |copy: &mut Copy| {
        let Some((resolution, bucket)) = buckets.next() else { return false };
        copy.begin_record(9);
        copy.field(&dataset.get().to_be_bytes());
        copy.field(&resolution.to_be_bytes());
        copy.field(&Time(bucket.timestamp).to_database().to_be_bytes());
        let Bucket { open, high, low, close, volume, .. } = *bucket;
        for number in [open, high, low, close, volume] {
            copy.field(&number.to_be_bytes());
        }
        copy.field(&bucket.count.cast_signed().to_be_bytes());
        true
    };
    Copy::run(c, statement, add).await
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

    /// Returns the decoder for columns with the given types, each given by its initial.
    pub(super) fn of_letters(letters: &str) -> Result<Self> {
        let dtype = |letter| match letter {
            'f' => Ok(Dtype::Float),
            'i' => Ok(Dtype::Integer),
            's' => Ok(Dtype::String),
            'b' => Ok(Dtype::Boolean),
            _ => Err(malformed("a type of a column")),
        };
        Ok(Self::new(&letters.chars().map(dtype).collect::<Result<Vec<_>, _>>()?))
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

const fn decode(cause: sqlx::error::BoxDynError) -> sqlx::Error {
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
