//! Reads rows from a Parquet file of the archive. Fetches only the pages that contain the rows.
//!
//! A checksum covers every byte. The record in the store has a checksum of the footer, and the footer
//! has a checksum of each block before it. A replaced or damaged file is never mistaken for the recorded
//! file.

use std::collections::HashMap;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use crc32fast::hash;
use data_encoding::BASE64;
use model::block::{Block, Series};
use model::timestamp::Timestamp;
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FooterTail, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::objects::{ObjectError, Objects, Result};
use super::write::{
    BATCH_VALUES, BLOCK_BYTES, CHECKSUMS, CREATED_FIELD, DATASET, FIRST_FIELD, ID_FIELD, PAGE_ROWS,
    TIMESTAMP_FIELD,
};
use crate::span::Span;
use crate::store::archived::{ArchivedFile, ArchivedMonth};

/// Maximum size of the footer of a file that has no record. A larger footer is not read.
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
    /// Index of the first row of each row group, followed by the number of all rows.
    group_starts: Vec<u64>,
}

/// Reader of an archived file.
#[derive(Debug, Clone)]
pub(super) struct FileReader<'a> {
    pub(super) objects: &'a Objects,
    pub(super) file: ArchivedFile,
    pub(super) footer: Arc<FileFooter>,
}

/// Parts of a file that were fetched, each with its offset.
#[derive(Debug)]
struct Parts {
    parts: Vec<(u64, Bytes)>,
    n_bytes: u64,
}

impl Length for Parts {
    fn len(&self) -> u64 {
        self.n_bytes
    }
}

impl ChunkReader for Parts {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let part = self.parts.iter().rev().find(|(from, _)| *from <= start);
        let at = part.and_then(|(from, bytes)| {
            let at = usize::try_from(start - from).ok().filter(|at| *at <= bytes.len())?;
            Some(bytes.slice(at..))
        });
        let missing = || ParquetError::EOF(format!("no data was read at byte {start}"));
        Ok(bytes::Buf::reader(at.ok_or_else(missing)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = bytes::buf::Reader::into_inner(self.get_read(start)?);
        if bytes.len() < length {
            return Err(ParquetError::EOF(format!("too little data was read at byte {start}")));
        }
        Ok(bytes.slice(..length))
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
        Self::parse(file, &tail).map_err(|error| ObjectError::damaged(key, error.to_string()))
    }

    fn parse(file: &ArchivedFile, tail: &Bytes) -> ParquetResult<Self> {
        let mut reader =
            ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
        reader.try_parse_sized(tail, file.n_bytes)?;
        let metadata = reader.finish()?;
        let schema = metadata.file_metadata().schema_descr();
        let mut leaves = HashMap::new();
        for (leaf, column) in schema.columns().iter().enumerate() {
            let info = column.self_type().get_basic_info();
            if info.has_id() {
                leaves.insert(info.id(), leaf);
            }
        }
        let checksums = find_value(&metadata, CHECKSUMS).unwrap_or_default();
        let checksums = BASE64
            .decode(checksums.as_bytes())
            .map_err(|error| ParquetError::General(error.to_string()))?;
        let checksums = checksums.as_chunks().0.iter().map(|crc| u32::from_le_bytes(*crc));
        let mut group_starts = vec![0];
        for group in metadata.row_groups() {
            let n_rows = u64::try_from(group.num_rows()).unwrap_or_default();
            group_starts.push(group_starts.last().copied().unwrap_or_default() + n_rows);
        }
        Ok(Self {
            checksums: checksums.collect(),
            data_bytes: file.n_bytes.saturating_sub(file.tail_bytes),
            leaves,
            group_starts,
            metadata,
        })
    }

    /// Returns the approximate size of the footer in memory.
    pub(super) fn n_bytes(&self) -> usize {
        self.metadata.memory_size() + self.checksums.len() * size_of::<u32>()
    }

    fn n_rows(&self) -> u64 {
        self.group_starts.last().copied().unwrap_or_default()
    }
}

/// Returns the identity of the dataset in a file that has no record. Returns `None` if the file does not
/// belong to an archive.
pub(super) fn read_owner(objects: &Objects, key: &str, n_bytes: u64) -> Result<Option<String>> {
    let end = objects.read_range(key, n_bytes.saturating_sub(FOOTER_SIZE as u64)..n_bytes)?;
    let Ok(end) = FooterTail::try_from(end.as_ref()) else { return Ok(None) };
    let data_bytes = n_bytes.saturating_sub((end.metadata_length() + FOOTER_SIZE) as u64);
    if n_bytes - data_bytes > FOOTER_BYTES_MAX {
        return Ok(None);
    }
    let footer = objects.read_range(key, data_bytes..n_bytes - FOOTER_SIZE as u64)?;
    let Ok(metadata) = ParquetMetaDataReader::decode_metadata(&footer) else { return Ok(None) };
    Ok(find_value(&metadata, DATASET).map(str::to_owned))
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
    for block in reader.pieces(0..reader.n_rows(), empty) {
        let block = block?;
        for time in &block.times {
            is_sorted &= ends.is_none_or(|ends| ends.last < *time);
            ends = Some(Span { first: ends.map_or(*time, |ends| ends.first), last: *time });
        }
        n_rows += block.len() as u64;
        last_row = block.ids.iter().copied().fold(last_row, i64::max);
    }
    let ArchivedFile { key, rows, .. } = &reader.file;
    if !is_sorted {
        return Err(ObjectError::damaged(key, "its rows are out of order"));
    }
    if (n_rows, ends, last_row) != (reader.file.n_rows, Some(*rows), reader.file.last_row) {
        return Err(ObjectError::damaged(key, "its rows differ from its record"));
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

    /// Returns the number of rows in the file.
    pub(super) fn n_rows(&self) -> u64 {
        self.footer.n_rows()
    }

    /// Reads rows into a block with the columns of `empty`.
    pub(super) fn rows(&self, rows: Range<u64>, empty: &Block) -> Result<Block> {
        let mut block = empty.empty_like();
        for (group, rows) in self.groups(rows) {
            let parts = Arc::new(self.fetch(group, &rows, None)?);
            let read =
                |error: ParquetError| ObjectError::damaged(&self.file.key, error.to_string());
            self.read_group(&parts, group, &rows, &mut block).map_err(read)?;
        }
        Ok(block)
    }

    /// Reads rows like [`Self::rows`], in pieces of limited size.
    pub(super) fn pieces<'b>(
        &'b self,
        rows: Range<u64>,
        empty: &'b Block,
    ) -> impl Iterator<Item = Result<Block>> + 'b {
        let n_rows = BATCH_VALUES / empty.columns.len().max(1);
        let n_rows = n_rows.clamp(PAGE_ROWS, 16 * PAGE_ROWS);
        let starts = rows.clone().step_by(n_rows);
        starts.map(move |from| self.rows(from..rows.end.min(from + n_rows as u64), empty))
    }

    /// Reads the timestamps of the rows with these indices.
    pub(super) fn times(&self, rows: Range<u64>) -> Result<Vec<Timestamp>> {
        let mut times = Vec::new();
        for (group, rows) in self.groups(rows) {
            let leaf = self.leaf(TIMESTAMP_FIELD)?;
            let parts = Arc::new(self.fetch(group, &rows, Some(leaf))?);
            let numbers = self.required(&parts, group, leaf, &rows);
            let numbers =
                numbers.map_err(|error| ObjectError::damaged(&self.file.key, error.to_string()))?;
            times.extend(numbers.into_iter().map(Timestamp::from_micros));
        }
        Ok(times)
    }

    /// Returns the number of rows with timestamps before `timestamp`.
    pub(super) fn position(&self, timestamp: Timestamp) -> Result<u64> {
        let page = self.pages().find(|(_, span)| span.last >= timestamp);
        let Some((rows, _)) = page else { return Ok(self.n_rows()) };
        let times = self.times(rows.clone())?;
        Ok(rows.start + times.partition_point(|time| *time < timestamp) as u64)
    }

    /// Returns the row range of each page of the timestamp column, with its first and last timestamp.
    pub(super) fn pages(&self) -> impl Iterator<Item = (Range<u64>, Span)> + '_ {
        let leaf = self.footer.leaves.get(&TIMESTAMP_FIELD).copied().unwrap_or_default();
        let starts = self.footer.group_starts.windows(2).enumerate();
        starts.flat_map(move |(group, ends)| {
            let (start, end) = (ends.first().copied(), ends.last().copied());
            let (start, end) = (start.unwrap_or_default(), end.unwrap_or_default());
            let index = self.footer.metadata.page_index_for_row_group(group);
            let firsts: Vec<u64> = index
                .page_locations(leaf)
                .into_iter()
                .flatten()
                .map(|page| start + u64::try_from(page.first_row_index).unwrap_or_default())
                .collect();
            let spans: Vec<Span> = match index.column_index(leaf) {
                Some(ColumnIndexMetaData::INT64(index)) => {
                    let ends = index.min_values().iter().zip(index.max_values());
                    let time = |micros: &i64| Timestamp::from_micros(*micros);
                    ends.map(|(min, max)| Span { first: time(min), last: time(max) }).collect()
                }
                _ => Vec::new(),
            };
            let ends: Vec<u64> = firsts.iter().skip(1).copied().chain([end]).collect();
            firsts.into_iter().zip(ends).map(|(first, end)| first..end).zip(spans)
        })
    }

    /// Returns the row groups that contain `rows`, each with the range of these rows relative to the
    /// start of the group.
    fn groups(&self, rows: Range<u64>) -> impl Iterator<Item = (usize, Range<u64>)> + '_ {
        let starts = self.footer.group_starts.windows(2).enumerate();
        starts.filter_map(move |(group, ends)| {
            let (start, end) = (*ends.first()?, *ends.last()?);
            let within = rows.start.max(start)..rows.end.min(end);
            (!within.is_empty()).then(|| (group, within.start - start..within.end - start))
        })
    }

    fn leaf(&self, field: i32) -> Result<usize> {
        let leaf = self.footer.leaves.get(&field).copied();
        leaf.ok_or_else(|| ObjectError::damaged(&self.file.key, "a column is missing"))
    }

    /// Reads and checks the pages that contain some rows of a row group, for the column `leaf` or for
    /// all columns.
    fn fetch(&self, group: usize, rows: &Range<u64>, leaf: Option<usize>) -> Result<Parts> {
        let metadata = &self.footer.metadata;
        let index = metadata.page_index_for_row_group(group);
        let leaves = match leaf {
            Some(leaf) => leaf..leaf + 1,
            None => 0..metadata.row_group(group).num_columns(),
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for leaf in leaves {
            let column = metadata.row_group(group).column(leaf);
            let Some(pages) = index.page_locations(leaf) else {
                return Err(ObjectError::damaged(&self.file.key, "a page index is missing"));
            };
            let number = |number: i64| u64::try_from(number).unwrap_or_default();
            let start = column.byte_range().0;
            if let Some(first) = pages.first().map(|page| number(page.offset))
                && start < first
            {
                ranges.push(start..first);
            }
            let ends = pages.iter().skip(1).map(|page| number(page.first_row_index));
            for (page, end) in pages.iter().zip(ends.chain([u64::MAX])) {
                if number(page.first_row_index) < rows.end && rows.start < end {
                    let offset = number(page.offset);
                    let n_bytes = number(page.compressed_page_size.into());
                    ranges.push(offset..offset + n_bytes);
                }
            }
        }
        let blocks = whole_blocks(ranges, self.footer.data_bytes);
        let read = self.objects.read_ranges(&self.file.key, &blocks)?;
        for (range, bytes) in blocks.iter().zip(&read) {
            let first = usize::try_from(range.start / BLOCK_BYTES).unwrap_or(usize::MAX);
            let block_bytes = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
            for (block_idx, block) in bytes.chunks(block_bytes).enumerate() {
                let wanted = self.footer.checksums.get(first.saturating_add(block_idx));
                if wanted.is_none_or(|wanted| hash(block) != *wanted) {
                    return Err(ObjectError::damaged(
                        &self.file.key,
                        "a block has another checksum",
                    ));
                }
            }
        }
        let parts = blocks.into_iter().map(|range| range.start).zip(read).collect();
        Ok(Parts { parts, n_bytes: self.file.n_bytes })
    }

    fn read_group(
        &self,
        parts: &Arc<Parts>,
        group: usize,
        rows: &Range<u64>,
        block: &mut Block,
    ) -> ParquetResult<()> {
        let leaf = |field: i32| self.footer.leaves.get(&field).copied();
        let missing = || ParquetError::General("a column is missing".to_owned());
        let read = |field| self.required(parts, group, leaf(field).ok_or_else(missing)?, rows);
        let times = read(TIMESTAMP_FIELD)?;
        let n_rows = times.len();
        block.times.extend(times.into_iter().map(Timestamp::from_micros));
        block.ids.extend(read(ID_FIELD)?);
        block.created.extend(read(CREATED_FIELD)?.into_iter().map(Timestamp::from_micros));
        for (series, field) in block.columns.iter_mut().zip(FIRST_FIELD..) {
            let Some(leaf) = leaf(field) else {
                series.push_missing(n_rows);
                continue;
            };
            match series {
                Series::Float(to) => {
                    let found = self.optional::<DoubleType>(parts, group, leaf, rows)?;
                    to.extend(found);
                }
                Series::Integer(to) => {
                    to.extend(self.optional::<Int64Type>(parts, group, leaf, rows)?);
                }
                Series::Boolean(to) => {
                    to.extend(self.optional::<BoolType>(parts, group, leaf, rows)?);
                }
                Series::String(to) => {
                    for text in self.optional::<ByteArrayType>(parts, group, leaf, rows)? {
                        let text = text.as_ref().map(|text| text.as_utf8()).transpose()?;
                        to.push(text.map(Into::into));
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads the values of a column that has no missing values.
    fn required(
        &self,
        parts: &Arc<Parts>,
        group: usize,
        leaf: usize,
        rows: &Range<u64>,
    ) -> ParquetResult<Vec<i64>> {
        let found = self.optional::<Int64Type>(parts, group, leaf, rows)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the values of a column, in which values can be missing.
    fn optional<T: DataType>(
        &self,
        parts: &Arc<Parts>,
        group: usize,
        leaf: usize,
        rows: &Range<u64>,
    ) -> ParquetResult<Vec<Option<T::T>>> {
        let metadata = &self.footer.metadata;
        let row_group = metadata.row_group(group);
        let column = row_group.column(leaf);
        let pages = metadata.page_index_for_row_group(group).page_locations(leaf).cloned();
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let n_rows = usize::try_from(row_group.num_rows()).unwrap_or_default();
        let pages = SerializedPageReader::new(Arc::clone(parts), column, n_rows, pages)?;
        let reader = get_column_reader(column.column_descr_ptr(), Box::new(pages));
        let mut reader: ColumnReaderImpl<T> = get_typed_column_reader(reader);
        reader.skip_records(count(rows.start))?;
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let n_wanted = count(rows.end - rows.start);
        let (n_read, ..) = reader.read_records(n_wanted, Some(&mut levels), None, &mut values)?;
        if n_read != n_wanted {
            return Err(ParquetError::EOF("a column is too short".to_owned()));
        }
        if column.column_descr().max_def_level() == 0 {
            return Ok(values.into_iter().map(Some).collect());
        }
        let mut values = values.into_iter();
        Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
    }
}

/// Extends ranges to whole blocks and joins adjacent ranges.
fn whole_blocks(mut ranges: Vec<Range<u64>>, end: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut blocks: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
        let until = range.end.next_multiple_of(BLOCK_BYTES).min(end);
        match blocks.last_mut().filter(|last| start <= last.end) {
            Some(last) => last.end = last.end.max(until),
            None => blocks.push(start..until),
        }
    }
    blocks
}
