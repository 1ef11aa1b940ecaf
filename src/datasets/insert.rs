//! Rows that callers send, as JSON, NDJSON, CSV or Parquet: read straight into columns, without anything in
//! between, and checked on the way.
//!
//! A batch is one transaction, all or nothing. One that is sent again, say because its answer got
//! lost, does no harm: each row replaces itself.
//!
//! What a value may be, by the type of its column:
//! - float: any number that is finite as one of 64 bits;
//! - integer: a whole number of 64 bits, also written with a fraction of zeros or an exponent as
//!   long as a float holds it exactly (up to 2^53);
//! - string: a text of at most 10 000 bytes;
//! - boolean: true or false.
//!
//! A null, or an empty field of a CSV, is no value, as if it were left out. A row whose column does
//! not exist is refused; but the first rows of a dataset without columns make them, in the order in
//! which they are named: numbers are floats, unless Parquet says that they are whole.

mod csv;
mod intake;
mod json;
mod parquet;
mod plain;

use bytes::Bytes;
use model::{
    block::Block,
    dataset::{Column, DatasetId, Dtype},
    key::KeyId,
};
use tsdb::{
    catalog::DatasetRef,
    store::{AppendMode, Appended, Sight, Store},
};
use wire::datasets::BulkInsertText;

use self::intake::Intake;
pub(crate) use self::{parquet::MAGIC as PARQUET_MAGIC, plain::Encoding};
use crate::{Datasets, append::AppendError, aside, catalog::check_columns};

/// What rows are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// An object with the dataset's number and a list of rows.
    Json,
    /// A row in each line.
    Ndjson,
    /// A header, and a row in each line after it.
    Csv,
    /// Columns with their types, whatever else the body is said to be: Parquet tells itself.
    Parquet,
}

/// Rows as they were sent.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    /// The dataset, where the body does not say.
    pub(crate) dataset: Option<DatasetRef>,
    /// What its rows do to those that are stored.
    pub(crate) mode: AppendMode,
    /// What the body is.
    pub(crate) format: Format,
    /// How it is compressed.
    pub(crate) encoding: Encoding,
    /// The body.
    pub(crate) body: Bytes,
    /// How long it may be once it is not compressed any more.
    pub(crate) bytes_max: usize,
}

/// A batch that has been read.
struct Reading {
    dataset: DatasetId,
    /// The dataset's columns, those to be made included.
    columns: Vec<Column>,
    block: Block,
    /// What the rows make columns of, in a dataset without any.
    new_columns: Vec<(String, Dtype)>,
}

impl Datasets {
    /// Appends rows to a dataset that `key` owns. A row at an existing moment replaces it, or is merged
    /// with it.
    ///
    /// On return the rows and their buckets are durable, and those who follow the dataset have them.
    /// Dropping the future does not undo an append under way.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing is stored.
    pub(crate) async fn insert(&self, key: KeyId, batch: Batch) -> Result<Appended, AppendError> {
        let mode = batch.mode;
        let reading = self.read_batch(key, batch.clone()).await?;
        if reading.new_columns.is_empty() {
            return self.append_by(mode, reading.dataset, &reading.columns, reading.block).await;
        }
        let Reading { dataset, new_columns, block, .. } = reading;
        self.store.add_columns(dataset, new_columns.clone(), self.clock.now()).await?;
        let columns = self.blocking(move |store| store.columns(dataset)).await?;
        let is_as_read = columns.len() == new_columns.len()
            && columns
                .iter()
                .zip(&new_columns)
                .all(|(column, (name, dtype))| (&column.name, column.dtype) == (name, *dtype));
        if is_as_read {
            return self.append_by(mode, dataset, &columns, block).await;
        }
        // Someone else made columns at the same time: these are what the rows have to fit.
        let reading = self.read_batch(key, batch).await?;
        self.append_by(mode, dataset, &reading.columns, reading.block).await
    }

    /// Reads a batch. The longest takes half a second, which a thread that serves others does not
    /// have.
    async fn read_batch(&self, key: KeyId, batch: Batch) -> Result<Reading, AppendError> {
        let store = std::sync::Arc::clone(&self.store);
        aside(move || read(&*store, key, &batch)).await?
    }
}

fn read(store: &dyn Store, key: KeyId, batch: &Batch) -> Result<Reading, AppendError> {
    let body = plain::plain(batch.encoding, &batch.body, batch.bytes_max)?;
    let is_parquet = batch.format == Format::Parquet || body.starts_with(PARQUET_MAGIC);
    let format = if is_parquet { Format::Parquet } else { batch.format };
    let text = if is_parquet { "" } else { utf8(&body)? };
    let (dataset, rows) = if format == Format::Json {
        json_body(text, batch.dataset.as_ref())?
    } else {
        (batch.dataset.clone(), text)
    };
    let dataset = dataset.ok_or_else(|| AppendError::Unreadable {
        what: "it does not name its dataset".to_owned(),
    })?;
    let Sight { grant, columns, .. } = store.sight(key, &dataset)?.ok_or(AppendError::NotFound)?;
    if !grant.is_owner {
        return Err(AppendError::NotOwner);
    }
    let mut intake = Intake::new(&columns);
    match format {
        Format::Json => json::list(&mut intake, rows)?,
        Format::Ndjson => json::lines(&mut intake, rows)?,
        Format::Csv => csv::records(&mut intake, rows)?,
        Format::Parquet => {
            intake = intake.with_types();
            parquet::records(&mut intake, body, batch.bytes_max)?;
        }
    }
    let (new_columns, block) = intake.finish(batch.mode)?;
    check_columns(&new_columns).map_err(|what| AppendError::Columns { what })?;
    Ok(Reading { dataset: grant.dataset, columns, block, new_columns })
}

fn utf8(body: &[u8]) -> Result<&str, AppendError> {
    std::str::from_utf8(body).map_err(|error| AppendError::Unreadable {
        what: format!("it is no UTF-8 from byte {} on", error.valid_up_to()),
    })
}

/// The dataset that a JSON body names, or else the query, and its list of rows.
fn json_body<'a>(
    text: &'a str,
    dataset: Option<&DatasetRef>,
) -> Result<(Option<DatasetRef>, &'a str), AppendError> {
    // The parser would take a list for the object's members in their order.
    if text.trim_ascii_start().starts_with('[') {
        let what = "as JSON: expected an object".to_owned();
        return Err(AppendError::Unreadable { what });
    }
    let body: BulkInsertText<'_> = serde_json::from_str(text)
        .map_err(|error| AppendError::Unreadable { what: format!("as JSON: {error}") })?;
    let named = match body.dataset {
        Some(number) => {
            let id = DatasetId::new(number).ok_or(AppendError::NotFound)?;
            Some(DatasetRef::Id(id))
        }
        None => dataset.cloned(),
    };
    Ok((named, body.rows.get()))
}

#[cfg(test)]
mod tests;
