//! Reads rows from a Parquet file of the archive, one row group at a time.
//!
//! A checksum covers every byte. The record in the store has a checksum of the footer, and the footer
//! has a checksum of each block before it. A replaced or damaged file is never mistaken for the recorded
//! file.

use std::collections::HashMap;
use std::iter::once;
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::hash;
use data_encoding::BASE64;
use model::block::{Block, Series};
use model::timestamp::Timestamp;
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;

use super::objects::{ObjectError, Objects, Result};
use super::write::{
    BLOCK_BYTES, CHECKSUMS, CREATED_FIELD, DATASET, FIRST_FIELD, ID_FIELD, TIMESTAMP_FIELD,
};
use crate::span::Span;
use crate::store::archived::{ArchivedFile, ArchivedMonth};

/// Number of bytes at the end of a file without a record in which its footer is looked for.
const FOOTER_BYTES_MAX: u64 = 64 << 20;

/// Footer of a file.
#[derive(Debug)]
pub(super) struct FileFooter {
    metadata: ParquetMetaData,
    /// CRC-32 of each block before the footer.
    checksums: Vec<u32>,
    /// Number of bytes before the footer.
    data_bytes: u64,
    /// Index of each column in the file, keyed by the column's field number.
    leaves: HashMap<i32, usize>,
    pub(super) groups: Vec<RowGroup>,
}

/// A row group of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowGroup {
    pub(super) idx: usize,
    pub(super) n_rows: u64,
    /// Timestamps of the first and the last row.
    pub(super) times: Span,
}

/// Reader of an archived file.
#[derive(Debug, Clone)]
pub(super) struct FileReader<'a> {
    pub(super) objects: &'a Objects,
    pub(super) file: ArchivedFile,
    pub(super) footer: Arc<FileFooter>,
}

/// The part of a file that contains a row group.
#[derive(Debug)]
struct GroupBytes {
    /// Offset of the part in the file.
    start: u64,
    bytes: Bytes,
}

impl Length for GroupBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for GroupBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let length = usize::try_from(self.len().saturating_sub(start)).unwrap_or_default();
        Ok(bytes::Buf::reader(self.get_bytes(start, length)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let from = start.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        let within = from.map(|from| from..from.saturating_add(length));
        let within = within.filter(|within| within.end <= self.bytes.len());
        let outside = || ParquetError::EOF(format!("byte {start} is outside of the row group"));
        Ok(self.bytes.slice(within.ok_or_else(outside)?))
    }
}

impl FileFooter {
    /// Reads the footer of the file.
    pub(super) fn read(objects: &Objects, file: &ArchivedFile) -> Result<Self> {
        let key = &file.key;
        let data_bytes = file.n_bytes.saturating_sub(file.tail_bytes);
        let tail = objects.read_range(key, data_bytes..file.n_bytes)?;
        if hash(&tail) != file.tail_crc {
            return Err(ObjectError::damaged(key, "its footer has another checksum"));
        }
        Self::parse(file, &tail, data_bytes)
            .map_err(|error| ObjectError::damaged(key, error.to_string()))
    }

    fn parse(file: &ArchivedFile, tail: &Bytes, data_bytes: u64) -> ParquetResult<Self> {
        let mut reader = ParquetMetaDataReader::new();
        reader.try_parse_sized(tail, file.n_bytes)?;
        let metadata = reader.finish()?;
        let columns = metadata.file_metadata().schema_descr().columns().iter().enumerate();
        let fields = columns.map(|(leaf, column)| (column.self_type().get_basic_info(), leaf));
        let fields = fields.filter(|(info, _)| info.has_id());
        let leaves: HashMap<i32, usize> = fields.map(|(info, leaf)| (info.id(), leaf)).collect();
        let checksums = find_value(&metadata, CHECKSUMS).unwrap_or_default();
        let checksums = BASE64
            .decode(checksums.as_bytes())
            .map_err(|error| ParquetError::General(error.to_string()))?;
        let checksums = checksums.as_chunks().0.iter().map(|crc| u32::from_le_bytes(*crc));
        let groups = metadata.row_groups().iter().enumerate().map(|(idx, group)| {
            let times = leaves.get(&TIMESTAMP_FIELD).and_then(|leaf| times_of(group, *leaf));
            let missing = || ParquetError::General("statistics are missing".to_owned());
            let n_rows = u64::try_from(group.num_rows()).unwrap_or_default();
            Ok(RowGroup { idx, n_rows, times: times.ok_or_else(missing)? })
        });
        let groups = groups.collect::<ParquetResult<_>>()?;
        Ok(Self { checksums: checksums.collect(), data_bytes, leaves, groups, metadata })
    }

    /// Returns the approximate size of the footer in memory.
    pub(super) fn n_bytes(&self) -> usize {
        let lists = size_of_val(&*self.checksums) + size_of_val(&*self.groups);
        self.metadata.memory_size() + lists
    }
}

/// Returns the timestamps of the first and the last row of a row group, from the statistics of its
/// timestamp column.
fn times_of(group: &RowGroupMetaData, leaf: usize) -> Option<Span> {
    let Statistics::Int64(times) = group.column(leaf).statistics()? else { return None };
    let time = |micros: Option<&i64>| micros.copied().map(Timestamp::from_micros);
    Some(Span { first: time(times.min_opt())?, last: time(times.max_opt())? })
}

/// Returns the identity of the dataset in a file that has no record. Returns `None` if the file does not
/// belong to an archive.
pub(super) fn read_owner(objects: &Objects, key: &str, n_bytes: u64) -> Result<Option<String>> {
    let tail = objects.read_range(key, n_bytes.saturating_sub(FOOTER_BYTES_MAX)..n_bytes)?;
    let mut reader = ParquetMetaDataReader::new();
    let parsed = reader.try_parse_sized(&tail, n_bytes).and_then(|()| reader.finish());
    Ok(parsed.ok().and_then(|metadata| find_value(&metadata, DATASET).map(str::to_owned)))
}

fn find_value<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let values = metadata.file_metadata().key_value_metadata()?;
    values.iter().find(|value| value.key == key)?.value.as_deref()
}

/// Reads the whole file of a month and compares it with its record. Returns the number of its rows.
pub(crate) fn check_month(objects: &Objects, month: &ArchivedMonth, empty: &Block) -> Result<u64> {
    let reader = FileReader::open(objects, month)?;
    let (mut n_rows, mut ends, mut last_row) = (0, None::<Span>, i64::MIN);
    let mut is_sorted = true;
    for group in &reader.footer.groups {
        let block = reader.read_group(group.idx, empty)?;
        for time in &block.times {
            is_sorted &= ends.is_none_or(|ends| ends.last < *time);
            ends = Some(Span { first: ends.map_or(*time, |ends| ends.first), last: *time });
        }
        n_rows += block.len() as u64;
        last_row = block.ids.iter().copied().fold(last_row, i64::max);
    }
    if !is_sorted {
        return Err(reader.damaged("its rows are out of order"));
    }
    let ArchivedFile { n_rows: n_recorded, rows, last_row: recorded, .. } = reader.file;
    if (n_rows, ends, last_row) != (n_recorded, Some(rows), recorded) {
        return Err(reader.damaged("its rows differ from its record"));
    }
    Ok(n_rows)
}

impl<'a> FileReader<'a> {
    /// Opens the file of a month that is in the archive now: the file in effect, or an announced file
    /// that has already replaced it.
    pub(super) fn open(objects: &'a Objects, month: &ArchivedMonth) -> Result<Self> {
        let mut failure = None;
        for file in once(&month.file).chain(&month.next) {
            match FileFooter::read(objects, file) {
                Ok(footer) => {
                    return Ok(Self { objects, file: file.clone(), footer: footer.into() });
                }
                Err(error @ ObjectError::Damaged { .. }) => {
                    failure.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure.unwrap_or_else(|| ObjectError::Missing { key: month.file.key.clone() }))
    }

    fn damaged(&self, what: impl Into<String>) -> ObjectError {
        ObjectError::damaged(&self.file.key, what)
    }

    /// Reads the rows of a row group into a block with the columns of `empty`.
    pub(super) fn read_group(&self, idx: usize, empty: &Block) -> Result<Block> {
        let Some(group) = self.footer.metadata.row_groups().get(idx) else {
            return Err(self.damaged("a row group is missing"));
        };
        let bytes = Arc::new(self.fetch(group)?);
        self.decode(group, &bytes, empty).map_err(|error| self.damaged(error.to_string()))
    }

    /// Reads and checks the blocks that contain a row group.
    fn fetch(&self, group: &RowGroupMetaData) -> Result<GroupBytes> {
        let ranges = group.columns().iter().map(ColumnChunkMetaData::byte_range);
        let start = ranges.clone().map(|(start, _)| start).min().unwrap_or_default();
        let end = ranges.map(|(start, n_bytes)| start + n_bytes).max().unwrap_or_default();
        let first = start / BLOCK_BYTES;
        let start = first * BLOCK_BYTES;
        let end = end.next_multiple_of(BLOCK_BYTES).min(self.footer.data_bytes);
        let bytes = self.objects.read_range(&self.file.key, start..end)?;
        let n_earlier = usize::try_from(first).unwrap_or(usize::MAX);
        let mut checksums = self.footer.checksums.iter().skip(n_earlier);
        let block_bytes = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        if bytes.chunks(block_bytes).any(|block| checksums.next() != Some(&hash(block))) {
            return Err(self.damaged("a block has another checksum"));
        }
        Ok(GroupBytes { start, bytes })
    }

    fn decode(
        &self,
        group: &RowGroupMetaData,
        bytes: &Arc<GroupBytes>,
        empty: &Block,
    ) -> ParquetResult<Block> {
        let mut block = empty.empty_like();
        let leaf = |field: i32| self.footer.leaves.get(&field).copied();
        let numbers = |field| {
            let missing = || ParquetError::General("a column is missing".to_owned());
            let (numbers, _) =
                read_values::<Int64Type>(bytes, group, leaf(field).ok_or_else(missing)?)?;
            Ok::<_, ParquetError>(numbers)
        };
        let times = |field| {
            Ok::<_, ParquetError>(numbers(field)?.into_iter().map(Timestamp::from_micros).collect())
        };
        block.times = times(TIMESTAMP_FIELD)?;
        block.ids = numbers(ID_FIELD)?;
        block.created = times(CREATED_FIELD)?;
        for (series, field) in block.columns.iter_mut().zip(FIRST_FIELD..) {
            let Some(leaf) = leaf(field) else {
                series.push_missing(block.times.len());
                continue;
            };
            match series {
                Series::Float(to) => *to = read_column::<DoubleType>(bytes, group, leaf)?,
                Series::Integer(to) => *to = read_column::<Int64Type>(bytes, group, leaf)?,
                Series::Boolean(to) => *to = read_column::<BoolType>(bytes, group, leaf)?,
                Series::String(to) => {
                    to.reserve_exact(block.times.len());
                    for text in read_column::<ByteArrayType>(bytes, group, leaf)? {
                        let text = text.as_ref().map(|text| text.as_utf8()).transpose()?;
                        to.push(text.map(Into::into));
                    }
                }
            }
        }
        Ok(block)
    }
}

/// Reads the values of a column of a row group, in which values can be missing.
fn read_column<T: DataType>(
    bytes: &Arc<GroupBytes>,
    group: &RowGroupMetaData,
    leaf: usize,
) -> ParquetResult<Vec<Option<T::T>>> {
    let (values, levels) = read_values::<T>(bytes, group, leaf)?;
    if group.column(leaf).column_descr().max_def_level() == 0 {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
}

/// Reads the existing values of a column of a row group, and the definition level of each row.
fn read_values<T: DataType>(
    bytes: &Arc<GroupBytes>,
    group: &RowGroupMetaData,
    leaf: usize,
) -> ParquetResult<(Vec<T::T>, Vec<i16>)> {
    let column = group.column(leaf);
    let n_rows = usize::try_from(group.num_rows()).unwrap_or_default();
    let pages = SerializedPageReader::new(Arc::clone(bytes), column, n_rows, None)?;
    let reader = get_column_reader(column.column_descr_ptr(), Box::new(pages));
    let mut reader: ColumnReaderImpl<T> = get_typed_column_reader(reader);
    let (mut levels, mut values) = (Vec::new(), Vec::with_capacity(n_rows));
    let (n_read, ..) = reader.read_records(n_rows, Some(&mut levels), None, &mut values)?;
    if n_read != n_rows {
        return Err(ParquetError::EOF("a column is too short".to_owned()));
    }
    Ok((values, levels))
}
