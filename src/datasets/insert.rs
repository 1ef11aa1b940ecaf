//! Inserts rows from request bodies of JSON, NDJSON, CSV or Parquet, which are parsed directly into
//! columns.
//!
//! A batch is stored as a whole or not at all. A client can send a batch again, for example because the
//! response was lost, since each row then replaces itself. With an idempotency key, the second request
//! makes no commit and gets the response of the first.
//!
//! Accepted values by the type of the column:
//! - float: any number that is finite with 64 bits
//! - integer: a whole number of 64 bits. JSON numbers with a fraction of zeros or an exponent must be
//!   below 2^53, since the parser may have rounded others
//! - string: a text of at most 10 000 bytes
//! - boolean: true or false
//!
//! A null or an empty CSV field is a missing value. A row with an unknown column is rejected. As an
//! exception, the first rows of a dataset without columns create columns, in the order in which they
//! occur in the body. Columns of numbers become floats, unless Parquet declares them as integers.

mod column_builder;
mod csv;
mod json;

use std::io::Read;
use std::str::Utf8Error;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use formats::content_coding::Coding;
use formats::read::FileError;
use formats::read::parquet::{ParquetRecords, ParquetSource};
use model::block::Block;
use model::dataset::{Column, DatasetId, Dtype};
use model::idempotency::IdempotencyKey;
use model::key::KeyId;
use sha2::{Digest as _, Sha256};
use tsdb::catalog::{DatasetChange, DatasetRef};
use tsdb::store::batch::{BatchId, Digest};
use tsdb::store::{AppendMode, Appended, Sight, Store};
use web::extract::plain;
use wire::datasets::BulkInsertText;

use self::column_builder::ColumnBuilder;
use crate::append::{ROWS_MAX, TOO_MANY};
use crate::catalog::check_columns;
use crate::error::{CELLS_MAX, Invalid, OperationError, Result};
use crate::query::params::{NO_DATASET, TWO_DATASETS};
use crate::{Datasets, run_blocking};

/// First bytes of a Parquet file.
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// Number of bytes of a body for which a cell of its rows can be kept in memory. A number in a text has
/// at least as many bytes with its separator.
const CELL_BYTES: usize = 2;

/// Number of cells that every body can have. With it, most short bodies need no second attempt.
const CELLS_MIN: usize = 4096;

/// Maximum number of attempts to insert a batch while another request is inserting it.
const REPEATS_MAX: usize = 4;

/// Format of the rows in the body of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// An object with the id of the dataset and a list of rows.
    Json,
    /// A JSON object per line, each with one row.
    Ndjson,
    /// A header with the names of the columns, followed by one row per line.
    Csv,
    /// Typed columns. Recognized by the first bytes of the body, regardless of the content type.
    Parquet,
}

/// Body of an insert that is not parsed yet, and the parameters of the request.
#[derive(Debug, Clone)]
pub(crate) struct InsertBatch {
    /// Dataset that the query names. A JSON body can name a different one, which takes precedence.
    pub(crate) dataset: Option<DatasetRef>,
    /// Effect of a row on the stored row with the same timestamp.
    pub(crate) mode: AppendMode,
    pub(crate) format: Format,
    pub(crate) coding: Coding,
    pub(crate) body: Bytes,
    /// Maximum length in bytes of the decompressed body, which also limits the cells of its rows.
    pub(crate) bytes_max: usize,
    /// Idempotency key, if the caller sent one.
    pub(crate) key: Option<IdempotencyKey>,
}

impl InsertBatch {
    /// Returns a hash of the batch, which reveals a different batch with the same key. Blocks.
    fn digest(&self) -> Digest {
        let Self { dataset, mode, format, coding, body, .. } = self;
        let meaning = format!("{dataset:?} {mode:?} {format:?} {coding:?}\n");
        Sha256::new().chain_update(meaning).chain_update(body).finalize().into()
    }
}

/// Rows of an insert as a block, and the dataset and its columns.
struct ParsedBatch {
    dataset: DatasetId,
    /// Columns of the dataset.
    columns: Vec<Column>,
    block: Block,
    /// Columns that the rows create, in a dataset without columns.
    new_columns: Vec<(String, Dtype)>,
}

impl Datasets {
    /// Appends rows to a dataset that `key` owns. A row replaces the stored row with the same timestamp,
    /// or is merged with it. A batch with an idempotency key is stored only once.
    ///
    /// On return, the rows and their buckets are durable, and followers of the dataset have received the
    /// rows. Dropping the future does not undo an append in progress.
    ///
    /// # Errors
    /// [`OperationError`]. No rows are stored in this case, except possibly if the store became
    /// unreachable.
    pub(crate) async fn insert(&self, key: KeyId, batch: InsertBatch) -> Result<Appended> {
        let Some(name) = batch.key.clone() else {
            let parsed = self.parse_batch(key, batch.clone()).await?;
            return self.insert_parsed(key, batch, parsed, None).await;
        };
        let sent = batch.clone();
        let digest = run_blocking(move || sent.digest()).await?;
        let id = BatchId { writer: key, key: name, digest };
        for _ in 0..REPEATS_MAX {
            // Parses the batch and looks it up in the store concurrently, since a database needs a round
            // trip for each. If the batch is already stored, it does not matter whether its rows would
            // still be accepted.
            let (parsed, stored) =
                tokio::join!(self.parse_batch(key, batch.clone()), self.find_batch(&id));
            if let Some(appended) = stored? {
                return Ok(appended);
            }
            match self.insert_parsed(key, batch.clone(), parsed?, Some(id.clone())).await {
                // Another request was inserting the same batch, so the next attempt looks it up again.
                Err(OperationError::InProgress) => {}
                inserted => return inserted,
            }
        }
        Err(OperationError::InProgress)
    }

    /// Returns the outcome of the stored batch `id`, or `None` if it is not stored.
    async fn find_batch(&self, id: &BatchId) -> Result<Option<Appended>> {
        let (writer, key) = (id.writer, id.key.clone());
        let found = self.read_store(move |store| store.find_batch(writer, &key)).await?;
        match found {
            Some(stored) if stored.digest != id.digest => Err(OperationError::OTHER_BATCH),
            found => Ok(found.map(|stored| stored.appended)),
        }
    }

    /// Appends the rows of `batch`, after creating its new columns.
    async fn insert_parsed(
        &self,
        key: KeyId,
        batch: InsertBatch,
        parsed: ParsedBatch,
        id: Option<BatchId>,
    ) -> Result<Appended> {
        let mode = batch.mode;
        if parsed.new_columns.is_empty() {
            return self.append(parsed.dataset, mode, &parsed.columns, parsed.block, id).await;
        }
        let ParsedBatch { dataset, new_columns, block, .. } = parsed;
        let change = DatasetChange::NewColumns(new_columns.clone());
        let columns = self.store.change(dataset, change, self.clock.now()).await?.columns;
        let is_as_read = columns.len() == new_columns.len()
            && columns
                .iter()
                .zip(&new_columns)
                .all(|(column, (name, dtype))| (&column.name, column.dtype) == (name, *dtype));
        if is_as_read {
            return self.append(dataset, mode, &columns, block, id).await;
        }
        // A concurrent insert has created other columns, so the rows must be checked against these.
        let parsed = self.parse_batch(key, batch).await?;
        self.append(dataset, mode, &parsed.columns, parsed.block, id).await
    }

    /// Parses a batch on a blocking thread, since the longest batch takes half a second.
    async fn parse_batch(&self, key: KeyId, batch: InsertBatch) -> Result<ParsedBatch> {
        let store = std::sync::Arc::clone(&self.store);
        run_blocking(move || parse(&*store, key, &batch)).await?
    }
}

fn parse(store: &dyn Store, key: KeyId, batch: &InsertBatch) -> Result<ParsedBatch> {
    let body = decompress(batch.coding, &batch.body, batch.bytes_max)?;
    if body.len() > batch.bytes_max {
        // A CSV header that is too long for any dataset gets a more specific error.
        if batch.format == Format::Csv {
            csv::check_header_length(&body)?;
        }
        return Err(OperationError::TooLarge);
    }
    let is_parquet = batch.format == Format::Parquet || body.starts_with(PARQUET_MAGIC);
    let format = if is_parquet { Format::Parquet } else { batch.format };
    let text = if is_parquet { "" } else { parse_utf8(&body)? };
    let (dataset, rows) = if format == Format::Json {
        parse_json_body(text, batch.dataset.as_ref())?
    } else {
        (batch.dataset.clone(), text)
    };
    let dataset = dataset.ok_or_else(|| Invalid::from(NO_DATASET))?;
    let Sight { dataset, is_owner, columns, .. } =
        store.sight(Some(key), &dataset)?.ok_or(OperationError::NotFound)?;
    if !is_owner {
        return Err(OperationError::NOT_OWNER);
    }
    let cells_max = (batch.bytes_max / CELL_BYTES).clamp(CELLS_MIN, CELLS_MAX);
    let mut builder = ColumnBuilder::new(&columns).with_cells_max(cells_max);
    match format {
        Format::Json => json::read_list(&mut builder, rows)?,
        Format::Ndjson => json::read_lines(&mut builder, rows)?,
        Format::Csv => csv::read_records(&mut builder, rows)?,
        Format::Parquet => {
            builder = builder.with_types(batch.bytes_max);
            read_parquet(&mut builder, body, batch.bytes_max)?;
        }
    }
    let (new_columns, block) = builder.finish(batch.mode)?;
    check_columns(&new_columns)?;
    Ok(ParsedBatch { dataset: dataset.id, columns, block, new_columns })
}

fn parse_utf8(body: &[u8]) -> Result<&str> {
    let wrong = |error: Utf8Error| format!("not valid UTF-8 at byte {}", error.valid_up_to());
    std::str::from_utf8(body).map_err(|error| OperationError::malformed(wrong(error)))
}

/// Returns the dataset and the list of rows of a JSON body. If the body does not name a dataset, returns
/// the dataset of the query. The body may only repeat the dataset of the query.
fn parse_json_body<'a>(
    text: &'a str,
    dataset: Option<&DatasetRef>,
) -> Result<(Option<DatasetRef>, &'a str)> {
    // The parser would also accept a list with the members of the object in order.
    if text.trim_ascii_start().starts_with('[') {
        return Err(OperationError::malformed("invalid JSON: expected an object"));
    }
    let body: BulkInsertText<'_> = serde_json::from_str(text)
        .map_err(|error| OperationError::malformed(format!("invalid JSON: {}", plain(error))))?;
    let named = match (body.dataset, body.dataset_name) {
        (Some(_), Some(_)) => return Err(Invalid::from(TWO_DATASETS).into()),
        (Some(number), None) => {
            let id = DatasetId::new(number).ok_or(OperationError::NotFound)?;
            Some(DatasetRef::Id(id))
        }
        (None, Some(name)) => Some(DatasetRef::Name(name.into_owned())),
        (None, None) => dataset.cloned(),
    };
    if dataset.is_some() && named.as_ref() != dataset {
        let reason = "body and query must name the same dataset, both by its id or by its name";
        return Err(OperationError::malformed(reason));
    }
    Ok((named, body.rows.get()))
}

/// Reads the rows of a Parquet file, which must have a column `timestamp`. All other columns must be
/// columns of the dataset.
///
/// Timestamps without a time zone are in UTC. The decompressed pages and the texts are each limited to
/// `bytes_max` in total.
fn read_parquet(builder: &mut ColumnBuilder, body: Bytes, bytes_max: usize) -> Result<()> {
    let unreadable =
        |error: FileError| OperationError::malformed(format!("invalid Parquet: {error}"));
    let source = ParquetSource::of_body(body, bytes_max as u64);
    let opened = ParquetRecords::open(source, 0, &|_| true);
    let mut records = opened.map_err(unreadable)?;
    if records.n_rows() > ROWS_MAX as u64 {
        return Err(TOO_MANY);
    }
    while let Some(n_rows) = records.next_group_rows() {
        builder.begin_group(n_rows)?;
        match records.next_group(builder) {
            Err(_) if records.is_exceeded() => return Err(OperationError::TooLarge),
            Err(error) => return Err(unreadable(error)),
            Ok(()) if builder.is_exceeded() => return Err(OperationError::TooLarge),
            Ok(()) => builder.end_group(),
        }
    }
    Ok(())
}

/// Decompresses a body, at most one byte beyond `bytes_max`.
fn decompress(coding: Coding, body: &Bytes, bytes_max: usize) -> Result<Bytes> {
    let read = match coding {
        Coding::Identity => return Ok(body.clone()),
        Coding::Gzip => read_all(MultiGzDecoder::new(&**body), bytes_max),
        Coding::Zstd => zstd::stream::read::Decoder::with_buffer(&**body)
            .and_then(|decoder| read_all(decoder, bytes_max)),
    };
    let failed = |error| OperationError::malformed(format!("decompression failed: {error}"));
    let plain = read.map_err(failed)?;
    Ok(plain.into())
}

/// Reads to the end, but at most one byte beyond `bytes_max`, since a few bytes can decompress to
/// terabytes.
fn read_all(reader: impl Read, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut plain = Vec::new();
    reader.take(limit).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests;
