//! Writes rows as a Parquet file with checksums.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write};
use std::sync::Arc;

use ::parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{ColumnPath, Type};
use crc32fast::Hasher;
use data_encoding::BASE64;
use formats::write::parquet::{self, column_type, write_group};
use model::block::Block;
use model::dataset::{Column, Dtype, TIMESTAMP};
use model::timestamp::Timestamp;
use sha2::{Digest as _, Sha256};

/// Number of rows of a row group. A month of one-minute rows fits into one group.
pub(super) const GROUP_ROWS: usize = 65_536;

/// Maximum size of the rows of a row group, which is written and read as a whole.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

/// Number of rows of a page. Other readers of the archive decompress a whole page for a single row.
const PAGE_ROWS: usize = 4_096;

/// Number of bytes that a checksum covers, which makes it the minimum size of a read.
pub(super) const BLOCK_BYTES: u64 = 16 * 1024;

/// Metadata key of the checksums of a file.
pub(super) const CHECKSUMS: &str = "triptych.checksums";

/// Metadata key of the dataset's identity, its id and creation time.
pub(super) const DATASET: &str = "triptych.dataset";

/// Field number of the timestamps.
pub(super) const TIMESTAMP_FIELD: i32 = 1;

/// Field number of the row numbers.
pub(super) const ID_FIELD: i32 = 2;

/// Field number of the creation times.
pub(super) const CREATED_FIELD: i32 = 3;

/// Field number of the first column of the dataset. Further columns follow in the order of their
/// positions, which never change, unlike their names.
pub(super) const FIRST_FIELD: i32 = 16;

/// A complete Parquet file, in a temporary file.
#[derive(Debug)]
pub(super) struct WrittenFile {
    pub(super) file: File,
    pub(super) n_bytes: u64,
    pub(super) sha256: [u8; 32],
    pub(super) tail_bytes: u64,
    pub(super) tail_crc: u32,
}

/// Writer of a Parquet file of the archive.
pub(super) struct FileWriter {
    writer: SerializedFileWriter<Summed>,
    /// Positions of the columns that are written, which are all columns that are not deleted.
    places: Vec<usize>,
    /// Maximum number of rows of a row group.
    group_rows: usize,
    pending: Block,
}

/// A file that computes checksums of the bytes written to it.
struct Summed {
    file: BufWriter<File>,
    n_bytes: u64,
    sha256: Sha256,
    block: Hasher,
    /// CRC-32 of each block that is complete.
    blocks: Vec<u32>,
    tail: Option<Hasher>,
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = BLOCK_BYTES - self.n_bytes % BLOCK_BYTES;
        let n = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let part = bytes.get(..n).unwrap_or_default();
        self.file.write_all(part)?;
        self.sha256.update(part);
        self.n_bytes += n as u64;
        if let Some(tail) = &mut self.tail {
            tail.update(part);
        } else {
            self.block.update(part);
            if self.n_bytes.is_multiple_of(BLOCK_BYTES) {
                self.blocks.push(std::mem::take(&mut self.block).finalize());
            }
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl FileWriter {
    /// Creates a file with these columns for the dataset with the identity `dataset`.
    pub(super) fn begin(
        file: File,
        columns: &[Column],
        dataset: String,
        group_rows: usize,
    ) -> Result<Self> {
        let shown = columns.iter().enumerate().filter(|(_, column)| !column.is_deleted());
        let places: Vec<usize> = shown.map(|(place, _)| place).collect();
        let sink = Summed {
            file: BufWriter::new(file),
            n_bytes: 0,
            sha256: Sha256::new(),
            block: Hasher::new(),
            blocks: Vec::new(),
            tail: None,
        };
        let (schema, properties) = (schema(columns)?, properties(columns, dataset));
        let writer = SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties))?;
        let dtypes: Vec<Dtype> = columns.iter().map(|column| column.dtype).collect();
        Ok(Self { writer, places, group_rows, pending: Block::new(&dtypes) })
    }

    /// Adds rows, which must come after all previous rows.
    pub(super) fn add(&mut self, rows: &Block) -> Result<()> {
        let mut from = 0;
        while from < rows.len() {
            let until = rows.len().min(from + self.group_rows - self.pending.len());
            self.pending.extend_from(rows, from..until);
            from = until;
            if self.pending.len() >= self.group_rows || self.pending.n_bytes() >= GROUP_BYTES {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// Writes the rest of the rows and the footer.
    pub(super) fn finish(mut self) -> Result<WrittenFile> {
        if !self.pending.is_empty() {
            self.write_group()?;
        }
        self.writer.flush()?;
        let sink = self.writer.inner_mut();
        let data_bytes = sink.n_bytes;
        if !data_bytes.is_multiple_of(BLOCK_BYTES) {
            sink.blocks.push(std::mem::take(&mut sink.block).finalize());
        }
        sink.tail = Some(Hasher::new());
        let blocks: Vec<u8> = sink.blocks.iter().flat_map(|crc| crc.to_le_bytes()).collect();
        let checksums = KeyValue::new(CHECKSUMS.to_owned(), BASE64.encode(&blocks));
        self.writer.append_key_value_metadata(checksums);
        let sink = self.writer.into_inner()?;
        let mut file = sink.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(WrittenFile {
            file,
            n_bytes: sink.n_bytes,
            sha256: sink.sha256.finalize().into(),
            tail_bytes: sink.n_bytes - data_bytes,
            tail_crc: sink.tail.unwrap_or_default().finalize(),
        })
    }

    fn write_group(&mut self) -> Result<()> {
        let rows = &self.pending;
        let micros = |times: &[Timestamp]| times.iter().map(|time| time.micros()).collect();
        let (times, created): (Vec<i64>, Vec<i64>) = (micros(&rows.times), micros(&rows.created));
        let columns =
            self.places.iter().filter_map(|place| Some((rows.columns.get(*place)?, true)));
        write_group(&mut self.writer, &[&times, &rows.ids, &created], columns)?;
        self.pending = self.pending.empty_like();
        Ok(())
    }
}

/// Returns the name of a column that the archive adds, prefixed with underscores until no column of the
/// dataset has the same name.
fn own_name(name: &str, columns: &[Column]) -> String {
    let mut name = name.to_owned();
    while columns.iter().any(|column| column.name == name) {
        name.insert(0, '_');
    }
    name
}

/// Returns the names of the columns that the archive adds: timestamps, row numbers and creation times.
fn own_names(columns: &[Column]) -> [String; 3] {
    [TIMESTAMP, "id", "created_at"].map(|name| own_name(name, columns))
}

fn schema(columns: &[Column]) -> Result<Type> {
    let mut fields = Vec::new();
    let fields_of_rows = [TIMESTAMP_FIELD, ID_FIELD, CREATED_FIELD];
    for (name, id) in own_names(columns).iter().zip(fields_of_rows) {
        let time = LogicalType::timestamp(true, TimeUnit::MICROS);
        let field = Type::primitive_type_builder(name, Physical::INT64)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type((id != ID_FIELD).then_some(time))
            .with_id(Some(id));
        fields.push(Arc::new(field.build()?));
    }
    for (column, id) in columns.iter().zip(FIRST_FIELD..) {
        if column.is_deleted() {
            continue;
        }
        fields.push(Arc::new(column_type(&column.name, column.dtype, true, Some(id))?));
    }
    Type::group_type_builder("rows").with_fields(fields).build()
}

fn properties(columns: &[Column], dataset: String) -> WriterProperties {
    let mut properties = parquet::properties(PAGE_ROWS)
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_key_value_metadata(Some(vec![KeyValue::new(DATASET.to_owned(), dataset)]));
    for name in own_names(columns) {
        let path = ColumnPath::from(vec![name]);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}
