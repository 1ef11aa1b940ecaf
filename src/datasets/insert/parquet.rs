//! Rows as Parquet: a column `timestamp`, and the dataset's columns by their names.
//!
//! Timestamps in no time zone are in UTC. A file is decoded no further than the body may be long once
//! it is decompressed.

use bytes::Bytes;
use formats::read::parquet::{ParquetRecords, ParquetSource};

use super::column_builder::ColumnBuilder;
use crate::{
    append::{ROWS_MAX, TOO_MANY},
    error::{OperationError, Result},
};

/// What a Parquet file begins with.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// Takes the rows of a file, whose pages and texts are at most `bytes_max` together.
pub(super) fn read_columns(
    builder: &mut ColumnBuilder,
    body: Bytes,
    bytes_max: usize,
) -> Result<()> {
    let unreadable =
        |what: String| OperationError::Unreadable { what: format!("as Parquet: {what}") };
    let source = ParquetSource::of_body(body, bytes_max as u64);
    let opened = ParquetRecords::open(source, 0, &|_| true);
    let mut records = opened.map_err(|error| unreadable(error.to_string()))?;
    if records.n_rows() > ROWS_MAX as u64 {
        return Err(TOO_MANY);
    }
    while let Some(n_rows) = records.next_group_rows() {
        builder.begin_group(n_rows)?;
        match records.next_group(builder) {
            Err(_) if records.is_exceeded() => return Err(OperationError::TooLarge),
            Err(error) => return Err(unreadable(error.to_string())),
            Ok(()) if builder.is_exceeded() => return Err(OperationError::TooLarge),
            Ok(()) => builder.end_group(),
        }
    }
    Ok(())
}
