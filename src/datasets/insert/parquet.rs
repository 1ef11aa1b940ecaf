//! Rows as Parquet: a column `timestamp`, and the dataset's columns by their names.
//!
//! Timestamps in no time zone are in UTC. A file is decoded no further than the body may be long once
//! it is decompressed.

use bytes::Bytes;
use formats::read::parquet::{ParquetRecords, ParquetSource};
use model::dataset::TIMESTAMP;

use super::intake::Intake;
use crate::append::{AppendError, ROWS_MAX};

/// What a Parquet file begins with.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// Takes the rows of a file, whose pages and texts are at most `bytes_max` together.
pub(super) fn records(
    intake: &mut Intake,
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
    // A dictionary may hold a long text once for many rows.
    let mut left_bytes = bytes_max;
    for _ in 0..records.n_rows() {
        intake.begin()?;
        let read = records.next_record(&mut |_, name, cell| {
            left_bytes = left_bytes.saturating_sub(cell.text_bytes());
            if left_bytes == 0 {
            } else if name == TIMESTAMP {
                intake.typed_timestamp(cell);
            } else {
                intake.typed_value(name, cell);
            }
        });
        match read {
            Err(_) if records.is_exceeded() => return Err(AppendError::TooLarge),
            Err(error) => return Err(unreadable(error.to_string())),
            Ok(_) if left_bytes == 0 => return Err(AppendError::TooLarge),
            Ok(_) => intake.end(),
        }
    }
    Ok(())
}
