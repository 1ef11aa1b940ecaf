//! Rows as Parquet: a column `timestamp`, and the dataset's columns by their names.
//!
//! Timestamps in no time zone are in UTC. A file is decoded no further than the body may be long once
//! it is decompressed.

use bytes::Bytes;
use formats::read::{
    cell::Cell,
    parquet::{ColumnSink, ParquetRecords, ParquetSource},
};

use super::column_builder::ColumnBuilder;
use crate::append::{AppendError, ROWS_MAX};

/// What a Parquet file begins with.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// Hands cells to a builder as long as their texts are not too long together: a dictionary may hold a
/// long text once for many rows.
struct BoundedTexts<'a> {
    builder: &'a mut ColumnBuilder,
    left_bytes: usize,
}

impl ColumnSink for BoundedTexts<'_> {
    fn begin_column(&mut self, name: &str, first_row: usize) {
        self.builder.begin_column(name, first_row);
    }

    fn push_cell(&mut self, cell: Cell<'_>) {
        self.left_bytes = self.left_bytes.saturating_sub(cell.text_bytes());
        if self.left_bytes > 0 {
            self.builder.push_cell(cell);
        }
    }
}

/// Takes the rows of a file, whose pages and texts are at most `bytes_max` together.
pub(super) fn read_columns(
    builder: &mut ColumnBuilder,
    body: Bytes,
    bytes_max: usize,
) -> Result<(), AppendError> {
    let unreadable = |what: String| AppendError::Unreadable { what: format!("as Parquet: {what}") };
    let source = ParquetSource::of_body(body, bytes_max as u64);
    let opened = ParquetRecords::open(source, 0, &|_| true);
    let mut records = opened.map_err(|error| unreadable(error.to_string()))?;
    if records.n_rows() > ROWS_MAX as u64 {
        return Err(AppendError::TooMany);
    }
    let mut sink = BoundedTexts { builder, left_bytes: bytes_max };
    while let Some(n_rows) = records.next_group_rows() {
        sink.builder.begin_group(n_rows)?;
        match records.next_group(&mut sink) {
            Err(_) if records.is_exceeded() => return Err(AppendError::TooLarge),
            Err(error) => return Err(unreadable(error.to_string())),
            Ok(()) if sink.left_bytes == 0 => return Err(AppendError::TooLarge),
            Ok(()) => sink.builder.end_group(),
        }
    }
    Ok(())
}
