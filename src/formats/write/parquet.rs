//! Renders rows as a Parquet file with the `parquet` crate: in groups of rows, with statistics and an
//! index of the pages by timestamp. Each column of a group consists of pages that are compressed with
//! zstd.
//!
//! A reader of a time range, or of parts of a file over HTTP, only reads the pages that it needs.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use ::parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use ::parquet::data_type::{DataType, Int64Type};
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::metadata::SortingColumn;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::{ColumnPath, Type};
use model::block::{Block, Series};
use model::dataset::{Dtype, TIMESTAMP};

use super::Field;

/// Number of rows in a group: four megabytes for seven columns. Five million rows are some eighty
/// groups.
pub(super) const GROUP_ROWS: usize = 65_536;

/// Number of rows in a page. A reader decompresses a whole page even for a single row. A group has eight
/// pages.
const PAGE_ROWS: usize = 8_192;

/// A file being written.
#[derive(derive_more::Debug)]
#[debug("File of {fields:?}")]
pub(super) struct File {
    fields: Vec<Field>,
    /// `None` before the beginning and after the end.
    writer: Option<Box<SerializedFileWriter<Vec<u8>>>>,
}

impl File {
    pub(super) const fn new(fields: Vec<Field>) -> Self {
        Self { fields, writer: None }
    }

    pub(super) fn begin(&mut self, to: &mut Vec<u8>) {
        self.writer = Some(Box::new(expect_written(open(&self.fields))));
        self.hand_on(to);
    }

    /// Writes a group of rows.
    pub(super) fn group(&mut self, to: &mut Vec<u8>, block: &Block) {
        if let Some(writer) = &mut self.writer {
            let times: Vec<i64> = block.times.iter().map(|time| time.micros()).collect();
            let nullable = self.fields.iter().map(|field| field.is_nullable);
            expect_written(write_group(writer, &[&times], block.columns.iter().zip(nullable)));
        }
        self.hand_on(to);
    }

    /// Writes the footer, without which the file is incomplete.
    pub(super) fn end(&mut self, to: &mut Vec<u8>) {
        if let Some(writer) = &mut self.writer {
            expect_written(writer.finish());
        }
        self.hand_on(to);
        self.writer = None;
    }

    /// Moves the written bytes to `to`.
    fn hand_on(&mut self, to: &mut Vec<u8>) {
        if let Some(writer) = &mut self.writer {
            expect_written(writer.flush().map_err(Into::into));
            to.append(writer.inner_mut());
        }
    }
}

#[expect(clippy::expect_used, reason = "memory takes every write, and the rows fit their schema")]
fn expect_written<T>(result: ParquetResult<T>) -> T {
    result.expect("rows are written as Parquet")
}

fn open(fields: &[Field]) -> ParquetResult<SerializedFileWriter<Vec<u8>>> {
    let time = Type::primitive_type_builder(TIMESTAMP, Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(Some(LogicalType::timestamp(true, TimeUnit::MICROS)));
    let mut columns = vec![Arc::new(time.build()?)];
    for field in fields {
        let Field { name, dtype, is_nullable } = field;
        columns.push(Arc::new(column_type(name, *dtype, *is_nullable, None)?));
    }
    let schema = Type::group_type_builder("rows").with_fields(columns).build()?;
    let at = ColumnPath::from(vec![TIMESTAMP.to_owned()]);
    let mut properties = properties(PAGE_ROWS)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(at.clone(), EnabledStatistics::Page)
        .set_column_encoding(at, Encoding::DELTA_BINARY_PACKED);
    for field in fields.iter().filter(|field| field.dtype == Dtype::String) {
        let path = ColumnPath::from(vec![field.name.clone()]);
        properties = properties.set_column_dictionary_enabled(path, true);
    }
    SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))
}

/// Returns properties of a file with pages of `page_rows` rows, sorted by the first column.
#[must_use]
pub fn properties(page_rows: usize) -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_created_by(concat!("triptych ", env!("CARGO_PKG_VERSION")).to_owned())
        // Compressing takes less time than sending the uncompressed data.
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_row_count_limit(page_rows)
        .set_write_batch_size(page_rows)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
}

/// Returns the type of a column called `name`. `id` is its field number, if it has one.
///
/// # Errors
/// The error of the `parquet` crate if the type is invalid.
pub fn column_type(
    name: &str,
    dtype: Dtype,
    is_nullable: bool,
    id: Option<i32>,
) -> ParquetResult<Type> {
    let (physical, logical) = match dtype {
        Dtype::Boolean => (Physical::BOOLEAN, None),
        Dtype::Integer => (Physical::INT64, None),
        Dtype::Float => (Physical::DOUBLE, None),
        Dtype::String => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if is_nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_id(id)
        .build()
}

/// Writes a group of rows. `integers` are the first columns, which have no missing values. Each of the
/// other `columns` has true if values can be missing.
///
/// # Errors
/// The error of the `parquet` crate if the file cannot be written.
pub fn write_group<'b, W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    integers: &[&[i64]],
    columns: impl Iterator<Item = (&'b Series, bool)>,
) -> ParquetResult<()> {
    let mut group = writer.next_row_group()?;
    for numbers in integers {
        let Some(mut column) = group.next_column()? else { break };
        column.typed::<Int64Type>().write_batch(numbers, None, None)?;
        column.close()?;
    }
    for (series, is_nullable) in columns {
        let Some(mut column) = group.next_column()? else { break };
        write_series(column.untyped(), series, is_nullable)?;
        column.close()?;
    }
    group.close().map(drop)
}

fn write_series(
    column: &mut ColumnWriter<'_>,
    series: &Series,
    is_nullable: bool,
) -> ParquetResult<()> {
    match (column, series) {
        (ColumnWriter::DoubleColumnWriter(column), Series::Float(values)) => {
            write_values(column, values, is_nullable, |number| *number)
        }
        (ColumnWriter::Int64ColumnWriter(column), Series::Integer(values)) => {
            write_values(column, values, is_nullable, |number| *number)
        }
        (ColumnWriter::BoolColumnWriter(column), Series::Boolean(values)) => {
            write_values(column, values, is_nullable, |truth| *truth)
        }
        (ColumnWriter::ByteArrayColumnWriter(column), Series::String(values)) => {
            write_values(column, values, is_nullable, |text| (&**text).into())
        }
        // The fields of a file are derived from the rows, so the types always match.
        _ => Ok(()),
    }
}

/// Writes the values that exist. If some may be missing, also writes a level for each row.
fn write_values<T: DataType, V>(
    column: &mut ColumnWriterImpl<'_, T>,
    values: &[Option<V>],
    is_nullable: bool,
    convert: impl Fn(&V) -> T::T,
) -> ParquetResult<()> {
    let levels: Option<Vec<i16>> =
        is_nullable.then(|| values.iter().map(|value| i16::from(value.is_some())).collect());
    let values: Vec<T::T> = values.iter().flatten().map(convert).collect();
    column.write_batch(&values, levels.as_deref(), None).map(drop)
}
