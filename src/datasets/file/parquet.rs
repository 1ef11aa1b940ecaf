//! Records of Apache Parquet without nesting, as pandas and pyarrow write them.
//!
//! Read here are both versions of pages; plain values, dictionaries and runs; no compression,
//! Snappy, gzip and Zstandard. What else a file may have is told by name. One page of each column is
//! uncompressed at a time.

mod codec;
mod page;
mod schema;
mod thrift;

use std::{
    fs::File,
    io::{Read as _, Seek as _, SeekFrom},
};

use self::{
    page::ColumnReader,
    schema::{RowGroup, Schema},
};
use super::{FileError, Place, Record, Stop, Take};

/// What a file begins and ends with.
const MAGIC: [u8; 4] = *b"PAR1";

/// The most bytes of metadata, and of a column in a row group: writers make groups of a million rows
/// or fewer.
const PART_BYTES_MAX: usize = 1024 * 1024 * 1024;

pub(super) struct ParquetRecords {
    file: File,
    schema: Schema,
    /// The group to read next.
    next_group: usize,
    columns: Vec<ColumnReader>,
    n_left_in_group: u64,
    row: u64,
}

impl ParquetRecords {
    /// Opens the rows after the first `n_skipped`.
    pub(super) fn open(mut file: File, n_skipped: u64) -> Result<Self, FileError> {
        let schema = Schema::of(&metadata(&mut file)?)?;
        if schema.columns.is_empty() {
            return Err(FileError::NoHeader);
        }
        let mut records =
            Self { file, schema, next_group: 0, columns: Vec::new(), n_left_in_group: 0, row: 0 };
        while let Some(group) = records.schema.groups.get(records.next_group)
            && records.row + group.n_rows <= n_skipped
        {
            records.row += group.n_rows;
            records.next_group += 1;
        }
        while records.row < n_skipped {
            match records.next(&mut |_, _, _| {}) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Stop::File(error)) => return Err(error),
                Err(Stop::Bad(bad)) => return Err(FileError::form(bad.reason)),
            }
        }
        Ok(records)
    }

    /// About how much of a file of `size_bytes` is read.
    pub(super) fn progress(&self, size_bytes: u64) -> u64 {
        let n_rows: u64 = self.schema.groups.iter().map(|group| group.n_rows).sum();
        let share = u128::from(size_bytes) * u128::from(self.row) / u128::from(n_rows.max(1));
        u64::try_from(share).unwrap_or(size_bytes)
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        while self.n_left_in_group == 0 {
            let Some(group) = self.schema.groups.get(self.next_group).cloned() else {
                return Ok(None);
            };
            self.next_group += 1;
            self.begin(&group)?;
        }
        self.n_left_in_group -= 1;
        self.row += 1;
        let columns = self.columns.iter_mut().zip(&self.schema.columns);
        for (field, (column, schema)) in columns.enumerate() {
            let cell = column
                .next(schema)
                .map_err(|what| FileError::form(format!("column {}: {what}", schema.name)))?;
            take(field, &schema.name, cell);
        }
        Ok(Some(Place { line: self.row, ..Place::default() }))
    }

    fn begin(&mut self, group: &RowGroup) -> Result<(), FileError> {
        self.columns.clear();
        for chunk in &group.chunks {
            let bytes = part(&mut self.file, chunk.offset_bytes, chunk.size_bytes)?;
            self.columns.push(ColumnReader::new(bytes, *chunk));
        }
        self.n_left_in_group = group.n_rows;
        Ok(())
    }
}

/// The metadata at the end of a file, with its length behind it.
fn metadata(file: &mut File) -> Result<Vec<u8>, FileError> {
    /// The length of the metadata, and what a file ends with.
    const TAIL_BYTES: usize = 8;
    let refuse = || FileError::form("it is not a whole Parquet file");
    let size_bytes = file.seek(SeekFrom::End(0))?;
    let tail_at = size_bytes.checked_sub(TAIL_BYTES as u64).ok_or_else(refuse)?;
    let tail = part(file, tail_at, TAIL_BYTES)?;
    let (length, magic) = tail.split_at(tail.len() - MAGIC.len());
    let length = length.try_into().map(u32::from_le_bytes).map_err(|_| refuse())?;
    if magic != MAGIC {
        return Err(refuse());
    }
    let metadata_at = tail_at.checked_sub(length.into()).ok_or_else(refuse)?;
    part(file, metadata_at, length as usize)
}

fn part(file: &mut File, offset_bytes: u64, size_bytes: usize) -> Result<Vec<u8>, FileError> {
    if size_bytes > PART_BYTES_MAX {
        return Err(FileError::form("its columns are too long, or it is damaged"));
    }
    file.seek(SeekFrom::Start(offset_bytes))?;
    let mut bytes = Vec::new();
    file.take(size_bytes as u64).read_to_end(&mut bytes)?;
    if bytes.len() < size_bytes {
        return Err(FileError::form("it is not whole"));
    }
    Ok(bytes)
}
