//! Records of Apache Parquet, decoded with the `parquet` crate in batches for each wanted column.
//!
//! All encodings are supported, and all codecs except LZO. A column that datasets do not support (a
//! list, a struct, bytes, an interval) is reported by its name. Other columns are read normally.

mod column;
mod kind;
mod source;
mod thrift;

use std::collections::HashSet;
use std::sync::Arc;

use ::parquet::column::reader::get_column_reader;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::serialized_reader::SerializedPageReader;

use self::column::ColumnBatch;
use self::kind::Kind;
pub use self::source::ParquetSource;
use self::source::{CheckedPages, catch};
use super::cell::Cell;
use super::{FileError, Place, Take};

/// Records of a file, starting at any row.
#[derive(derive_more::Debug)]
#[debug("ParquetRecords at row {row}")]
pub struct ParquetRecords {
    source: Arc<ParquetSource>,
    metadata: ParquetMetaData,
    fields: Vec<Field>,
    /// Index of the next row group.
    next_group: usize,
    n_left_in_group: usize,
    row: u64,
}

/// Receives rows column by column.
pub trait ColumnSink {
    /// Begins a column. Its first cell belongs to row `first_row` of the file.
    fn begin_column(&mut self, name: &str, first_row: usize);

    /// Receives the numbers of the next rows of the column. Returns false to receive them as cells
    /// instead.
    fn push_floats(&mut self, numbers: &[f64]) -> bool;

    /// Receives the cell of the next row of the column.
    fn push_cell(&mut self, cell: Cell<'_>);
}

/// A wanted top-level column of the file's schema.
struct Field {
    /// Index among all top-level columns.
    place: usize,
    name: String,
    content: Content,
}

enum Content {
    /// A supported column. `leaf` is its index among all stored columns, and `kind` the meaning of its
    /// values.
    Values { leaf: usize, kind: Kind, batch: Option<Box<ColumnBatch>> },
    /// An unsupported column, with the reason.
    Unfit(String),
}

impl ParquetRecords {
    /// Opens the rows after the first `n_skipped`, with the `wanted` columns.
    ///
    /// # Errors
    /// [`FileError`] if it is not a Parquet file, or if columns are missing or have duplicate names.
    pub fn open(
        source: ParquetSource,
        n_skipped: u64,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, FileError> {
        let metadata = source.read_metadata().map_err(FileError::Invalid)?;
        let fields = fields(&metadata, wanted)?;
        let source = Arc::new(source);
        let mut records =
            Self { source, metadata, fields, next_group: 0, n_left_in_group: 0, row: 0 };
        while let Some(group) = records.metadata.row_groups().get(records.next_group)
            && records.row + u64::try_from(group.num_rows()).unwrap_or(0) <= n_skipped
        {
            records.row += u64::try_from(group.num_rows()).unwrap_or(0);
            records.next_group += 1;
        }
        while records.row < n_skipped {
            if records.next_record(&mut |_, _, _| {})?.is_none() {
                break;
            }
        }
        Ok(records)
    }

    /// Returns the number of rows, as declared by the file.
    pub fn n_rows(&self) -> u64 {
        let n_rows = |group: &RowGroupMetaData| u64::try_from(group.num_rows()).unwrap_or(0);
        self.metadata.row_groups().iter().map(n_rows).sum()
    }

    /// Returns the number of rows of the next row group, or `None` at the end.
    pub fn next_group_rows(&self) -> Option<usize> {
        let group = self.metadata.row_groups().get(self.next_group)?;
        Some(usize::try_from(group.num_rows()).unwrap_or(0))
    }

    /// Passes the cells of the next row group to `sink`, one column after another.
    ///
    /// # Errors
    /// [`FileError`] if a column cannot be decoded.
    pub fn next_group(&mut self, sink: &mut impl ColumnSink) -> Result<(), FileError> {
        let Some(group) = self.metadata.row_groups().get(self.next_group) else { return Ok(()) };
        let n_rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let first_row = usize::try_from(self.row).unwrap_or(usize::MAX);
        for field in &mut self.fields {
            field.begin(&self.source, group);
            sink.begin_column(&field.name, first_row);
            let mut n_left = n_rows;
            while n_left > 0 {
                let n_taken = field.content.push_floats(&field.name, sink)?;
                if n_taken == 0 {
                    sink.push_cell(field.content.next_cell(&field.name)?);
                }
                n_left = n_left.saturating_sub(n_taken.max(1));
            }
        }
        self.next_group += 1;
        self.row += n_rows as u64;
        Ok(())
    }

    /// Returns true if reading stopped because the decompressed pages exceed the limit for a body.
    pub fn is_exceeded(&self) -> bool {
        self.source.is_exceeded()
    }

    /// Estimates how much of a file of `size_bytes` has been read.
    pub(super) fn progress(&self, size_bytes: u64) -> u64 {
        let share = u128::from(size_bytes) * u128::from(self.row);
        u64::try_from(share / u128::from(self.n_rows().max(1))).unwrap_or(size_bytes)
    }

    /// Passes the fields of the next row to `take`. Returns `None` at the end. Individual rows are never
    /// invalid.
    ///
    /// # Errors
    /// [`FileError`] if a column cannot be decoded.
    pub fn next_record(&mut self, take: Take<'_>) -> Result<Option<Place>, FileError> {
        while self.n_left_in_group == 0 {
            let Some(group) = self.metadata.row_groups().get(self.next_group) else {
                return Ok(None);
            };
            for field in &mut self.fields {
                field.begin(&self.source, group);
            }
            self.next_group += 1;
            self.n_left_in_group = usize::try_from(group.num_rows()).unwrap_or(0);
        }
        self.n_left_in_group -= 1;
        self.row += 1;
        for Field { place, name, content } in &mut self.fields {
            take(*place, name, content.next_cell(name)?);
        }
        Ok(Some(Place { line: self.row, ..Place::default() }))
    }
}

impl Content {
    /// If a batch of numbers begins with the next row, passes the batch to `sink`. Returns how many
    /// numbers were passed.
    fn push_floats(&mut self, name: &str, sink: &mut impl ColumnSink) -> Result<usize, FileError> {
        let Self::Values { batch: Some(batch), .. } = self else { return Ok(0) };
        let numbers = batch.next_floats();
        let numbers =
            numbers.map_err(|what| FileError::Invalid(format!("column {name}: {what}")))?;
        let n_taken = if sink.push_floats(numbers) { numbers.len() } else { 0 };
        batch.skip(n_taken);
        Ok(n_taken)
    }

    /// Returns the cell of the next row in the column called `name`.
    fn next_cell(&mut self, name: &str) -> Result<Cell<'_>, FileError> {
        match self {
            Self::Unfit(reason) => Ok(Cell::Unfit(reason)),
            Self::Values { kind, batch: Some(batch), .. } => {
                let cell = batch.next_cell(*kind);
                cell.map_err(|what| FileError::Invalid(format!("column {name}: {what}")))
            }
            Self::Values { batch: None, .. } => Ok(Cell::Absent),
        }
    }
}

impl Field {
    /// Opens the column's pages in a row group.
    fn begin(&mut self, source: &Arc<ParquetSource>, group: &RowGroupMetaData) {
        let Content::Values { leaf, batch, .. } = &mut self.content else { return };
        let n_rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let column = group.column(*leaf);
        let opened = source.check_codec(column.compression()).and_then(|()| {
            let pages = Arc::clone(source);
            let pages = catch(|| SerializedPageReader::new(pages, column, n_rows, None))?;
            let descriptor = column.column_descr_ptr();
            let has_levels = descriptor.max_def_level() > 0;
            let pages = Box::new(CheckedPages { pages, n_rows, has_levels });
            Ok(Box::new(ColumnBatch::new(get_column_reader(descriptor, pages))))
        });
        match opened {
            Ok(opened) => *batch = Some(opened),
            Err(reason) => self.content = Content::Unfit(reason),
        }
    }
}

/// Describes data that contradict their own metadata.
fn damage() -> String {
    "file is damaged".to_owned()
}

/// Returns the wanted top-level columns of the schema.
fn fields(
    metadata: &ParquetMetaData,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Field>, FileError> {
    let schema = metadata.file_metadata().schema_descr();
    let columns = schema.root_schema().get_fields();
    if columns.is_empty() {
        return Err(FileError::no_header());
    }
    if metadata.row_groups().iter().any(|group| group.num_columns() != schema.num_columns()) {
        return Err(FileError::Invalid(damage()));
    }
    let mut names = HashSet::new();
    let mut fields = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        let name = column.name();
        if !names.insert(name) {
            return Err(FileError::named_twice(name));
        }
        if !wanted(name) {
            continue;
        }
        let leaf =
            (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == place);
        let content = match (Kind::classify(column), leaf) {
            (Ok(kind), Some(leaf)) => Content::Values { leaf, kind, batch: None },
            (Ok(_), None) => return Err(FileError::Invalid(damage())),
            (Err(reason), _) => Content::Unfit(reason),
        };
        fields.push(Field { place, name: name.to_owned(), content });
    }
    Ok(fields)
}
