//! Renders whole files of rows in each of the formats of a download.
//!
//! The memory does not depend on the length of the file: text is written row by row, columns in batches.

use std::borrow::Cow;

use model::block::{Block, Rows, Series};
use model::dataset::{Column, DatasetId, Dtype};
use model::timestamp::Timestamp;

use super::{Field, Output, Writer, arrow, parquet};

/// Size of buffered rows, in bytes, from which they are written as a batch of fewer rows than usual.
const BATCH_BYTES: usize = 64 * 1024 * 1024;

/// A file of rows being written.
#[derive(Debug)]
pub struct Document {
    form: Form,
}

/// Content of a file of buckets.
#[derive(Debug, Clone, Copy, Default)]
pub struct BucketFile {
    /// True if some buckets may have no prices.
    pub has_nulls: bool,
    /// Start of the current, incomplete bucket. `None` if the file has no column for completeness.
    pub current: Option<Timestamp>,
}

#[derive(Debug)]
enum Form {
    Text(Box<Text>),
    Arrow(Batched<arrow::Stream>),
    Parquet(Batched<parquet::File>),
}

impl Document {
    /// Creates a file of rows of `dataset` with `columns`, or of its `buckets` with
    /// [`bucket_columns`](super::bucket_columns). Columns with an empty name are not written.
    pub fn new(
        output: Output,
        dataset: DatasetId,
        columns: &[Column],
        buckets: Option<BucketFile>,
    ) -> Self {
        let fields = fields(columns, buckets.is_none_or(|buckets| buckets.has_nulls));
        let current = buckets.and_then(|buckets| buckets.current);
        let form = match output {
            Output::Json | Output::Ndjson | Output::Csv => {
                let names = fields.into_iter().map(|field| field.name).collect();
                let writer = Writer::of_names(dataset, names);
                Form::Text(Box::new(Text { writer, output, current, has_rows: false }))
            }
            Output::Arrow => {
                let file = arrow::Stream::new(visible_fields(&fields));
                Form::Arrow(Batched::new(fields, current, file))
            }
            Output::Parquet => {
                let file = parquet::File::new(visible_fields(&fields));
                Form::Parquet(Batched::new(fields, current, file))
            }
        };
        Self { form }
    }

    /// Writes the beginning of the file, before the first row.
    pub fn begin(&mut self, to: &mut Vec<u8>) {
        match &mut self.form {
            Form::Text(text) => match text.output {
                Output::Json => to.push(b'['),
                Output::Csv => text.writer.csv_header(to),
                _ => {}
            },
            Form::Arrow(batched) => batched.file.begin(to),
            Form::Parquet(batched) => batched.file.begin(to),
        }
    }

    /// Writes rows, or buffers them until there are enough for a batch.
    pub fn rows(&mut self, to: &mut Vec<u8>, rows: &Rows) {
        match &mut self.form {
            Form::Text(text) => {
                if !rows.is_empty() {
                    to.extend_from_slice(text.joint());
                    text.bare(to, rows);
                }
            }
            Form::Arrow(batched) => {
                batched.rows(rows, arrow::BATCH_ROWS, |_, block| arrow::Stream::batch(to, block));
            }
            Form::Parquet(batched) => {
                batched.rows(rows, parquet::GROUP_ROWS, |file, block| file.group(to, block));
            }
        }
    }

    /// Writes buffered rows and the end of the file.
    pub fn end(&mut self, to: &mut Vec<u8>) {
        match &mut self.form {
            Form::Text(text) if text.output == Output::Json => to.push(b']'),
            Form::Text(_) => {}
            Form::Arrow(batched) => {
                batched.rest(|_, block| arrow::Stream::batch(to, block));
                arrow::Stream::end(to);
            }
            Form::Parquet(batched) => {
                batched.rest(|file, block| file.group(to, block));
                batched.file.end(to);
            }
        }
    }

    /// Counts rows that were rendered separately with [`Self::bare`]. Returns the separator between them
    /// and the preceding rows. Returns `None` if files of this format cannot be assembled from pieces.
    pub fn joint(&mut self) -> Option<&'static [u8]> {
        match &mut self.form {
            Form::Text(text) => Some(text.joint()),
            Form::Arrow(_) | Form::Parquet(_) => None,
        }
    }

    /// Writes rows as in the middle of the file, without a leading separator.
    pub fn bare(&mut self, to: &mut Vec<u8>, rows: &Rows) {
        if let Form::Text(text) = &mut self.form {
            text.bare(to, rows);
        }
    }
}

fn fields(columns: &[Column], is_nullable: bool) -> Vec<Field> {
    let field =
        |column: &Column| Field { name: column.name.clone(), dtype: column.dtype, is_nullable };
    columns.iter().map(field).collect()
}

fn visible_fields(fields: &[Field]) -> Vec<Field> {
    fields.iter().filter(|field| !field.name.is_empty()).cloned().collect()
}

#[derive(Debug)]
struct Text {
    writer: Writer,
    output: Output,
    current: Option<Timestamp>,
    has_rows: bool,
}

impl Text {
    fn joint(&mut self) -> &'static [u8] {
        let is_first = !std::mem::replace(&mut self.has_rows, true);
        if is_first || self.output != Output::Json { b"" } else { b"," }
    }

    fn bare(&mut self, to: &mut Vec<u8>, rows: &Rows) {
        self.writer.file_rows(to, &block_of(rows, self.current), self.output);
    }
}

/// Writer of a columnar format, with the rows that are buffered for the next batch.
#[derive(Debug)]
struct Batched<F> {
    file: F,
    /// A field for each column of the rows.
    fields: Vec<Field>,
    current: Option<Timestamp>,
    waiting: Block,
    /// Size of `waiting` in bytes, or a little more.
    n_bytes: usize,
}

impl<F> Batched<F> {
    fn new(fields: Vec<Field>, current: Option<Timestamp>, file: F) -> Self {
        let dtypes: Vec<Dtype> = fields.iter().map(|field| field.dtype).collect();
        Self { file, fields, current, waiting: Block::new(&dtypes), n_bytes: 0 }
    }

    fn rows(&mut self, rows: &Rows, enough: usize, mut write: impl FnMut(&mut F, &Block)) {
        let block = &*block_of(rows, self.current);
        let mut from = 0;
        while from < block.len() {
            let until = block.len().min(from + enough - self.waiting.len().min(enough - 1));
            self.waiting.extend_from(block, from..until);
            self.n_bytes += block.n_bytes();
            from = until;
            if self.waiting.len() >= enough || self.n_bytes >= BATCH_BYTES {
                self.rest(&mut write);
            }
        }
    }

    fn rest(&mut self, mut write: impl FnMut(&mut F, &Block)) {
        if !self.waiting.is_empty() {
            let empty = self.waiting.empty_like();
            let mut block = std::mem::replace(&mut self.waiting, empty);
            self.n_bytes = 0;
            let mut fields = self.fields.iter();
            block.columns.retain(|_| fields.next().is_some_and(|field| !field.name.is_empty()));
            write(&mut self.file, &block);
        }
    }
}

/// Converts rows to columns. Buckets have columns for prices, volume and count. If `current` is given,
/// another column is true for buckets before it, which are complete.
fn block_of(rows: &Rows, current: Option<Timestamp>) -> Cow<'_, Block> {
    match rows {
        Rows::Raw(block) => Cow::Borrowed(block),
        Rows::Buckets(buckets) => {
            let mut block = Block::from(buckets.as_slice());
            // A sum of volumes can exceed the range of floats. Text formats limit all numbers in this way.
            for series in &mut block.columns {
                let Series::Float(numbers) = series else { continue };
                numbers.iter_mut().flatten().for_each(|it| *it = it.clamp(f64::MIN, f64::MAX));
            }
            if let Some(current) = current {
                let complete = block.times.iter().map(|start| Some(*start < current));
                block.columns.push(Series::Boolean(complete.collect()));
            }
            Cow::Owned(block)
        }
    }
}

#[cfg(test)]
mod tests;
