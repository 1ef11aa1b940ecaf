//! Writes rows as a Parquet file with checksums.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

use ::parquet::basic::{Encoding, LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{ColumnPath, Type};
use crc32fast::hash;
use data_encoding::BASE64;
use formats::write::parquet::{self, column_type, write_group};
use model::block::Block;
use model::dataset::{Column, Dtype, TIMESTAMP};
use model::timestamp::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::store::archived::ArchivedFile;

/// Number of rows of a row group. A month of one-minute rows with up to 20 columns fits into one
/// group.
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

/// Writer of a Parquet file of the archive.
pub(super) struct FileWriter {
    writer: SerializedFileWriter<File>,
    /// Positions of the columns that are written, which are all columns that are not deleted.
    places: Vec<usize>,
    /// Maximum number of rows of a row group.
    group_rows: usize,
    pending: Block,
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
        let (schema, properties) = (schema(columns)?, properties(columns, dataset));
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
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

    /// Writes the rest of the rows and the footer. Returns the file, and `record` with its length and
    /// checksums.
    pub(super) fn finish(mut self, record: ArchivedFile) -> Result<(File, ArchivedFile)> {
        if !self.pending.is_empty() {
            self.write_group()?;
        }
        self.writer.flush()?;
        let data_bytes = self.writer.bytes_written() as u64;
        let data = self.writer.inner_mut();
        data.rewind()?;
        // The checksums are part of the footer, so the data is read again. Then the file is at its end.
        let mut checksums = Vec::new();
        loop {
            let mut block = Vec::new();
            data.take(BLOCK_BYTES).read_to_end(&mut block)?;
            if block.is_empty() {
                break;
            }
            checksums.extend(hash(&block).to_le_bytes());
        }
        let checksums = KeyValue::new(CHECKSUMS.to_owned(), BASE64.encode(&checksums));
        self.writer.append_key_value_metadata(checksums);
        let mut file = self.writer.into_inner()?;
        let (mut tail, mut sha256) = (Vec::new(), Sha256::new());
        file.seek(SeekFrom::Start(data_bytes))?;
        file.read_to_end(&mut tail)?;
        file.rewind()?;
        let n_bytes = io::copy(&mut file, &mut sha256)?;
        file.rewind()?;
        let (tail_bytes, tail_crc) = (tail.len() as u64, hash(&tail));
        let sha256 = sha256.finalize().into();
        Ok((file, ArchivedFile { n_bytes, sha256, tail_bytes, tail_crc, ..record }))
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
