//! Appending rows: checking them against the columns, storing them, telling those who follow.

use std::collections::BTreeMap;

use accounts::KeyId;
use bytes::Bytes;
use model::{
    dataset::{Column, DatasetId, Dtype},
    row::{Row, Value},
    timestamp::Timestamp,
};

use crate::{
    Datasets, aside,
    block::Block,
    catalog::check_columns,
    follow::push_data_event,
    hub::{FRAME_ROWS, Frame},
    query::DatasetRef,
    render::Writer,
    store::{Appended, OnCommit, StoreError},
};

/// Rows of one append at most: they are one transaction, and are held in memory.
pub(crate) const ROWS_MAX: usize = 100_000;

/// Refused rows that an answer lists at most.
const REFUSALS_MAX: usize = 20;

/// The earliest moment of a row: the first that is written with a year of four digits.
const EARLIEST: Timestamp = Timestamp::from_seconds(-62_167_219_200);

/// The longest text of a row, in bytes.
const VALUE_BYTES_MAX: usize = 10_000;

/// A row with its values by the name of their column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedRow {
    pub(crate) timestamp: Timestamp,
    pub(crate) values: BTreeMap<String, Value>,
}

/// Why one row was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its place in the append, from 0.
    pub(crate) row_idx: usize,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// Why an append was refused or failed. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum AppendError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The key may read the dataset and no more.
    #[error("only the owner of the dataset may do that")]
    NotOwner,
    /// There are more rows than one append takes.
    #[error("at most {ROWS_MAX} rows can be inserted at once")]
    TooMany,
    /// Some rows do not fit.
    #[error("rows do not fit the dataset")]
    Rows(Vec<Refusal>),
    /// The columns that the first rows of a dataset name are unfit.
    #[error("{what}")]
    Columns {
        /// What is wrong.
        what: String,
    },
    /// A row is older than what the dataset still keeps.
    #[error("rows before {kept_from} are no longer kept")]
    LetGo {
        /// The earliest moment it keeps.
        kept_from: Timestamp,
    },
    /// The store failed.
    #[error("append rows")]
    Store(#[from] StoreError),
}

impl Datasets {
    /// Appends rows to a dataset that `key` owns. A row at an existing moment replaces it.
    ///
    /// The first rows of a dataset without columns make them: numbers are floats. On return the
    /// rows and their buckets are durable, and those who follow the dataset have them. Dropping the
    /// future does not undo an append under way.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing is stored.
    pub(crate) async fn append(
        &self,
        key: KeyId,
        dataset: DatasetId,
        rows: Vec<NamedRow>,
    ) -> Result<Appended, AppendError> {
        let which = DatasetRef::Id(dataset);
        let found = self.blocking(move |store| {
            let grant = store.grant(key, &which)?;
            Ok(grant.map(|grant| (grant, store.columns(dataset))))
        });
        let (grant, columns) = found.await?.ok_or(AppendError::NotFound)?;
        if !grant.is_owner {
            return Err(AppendError::NotOwner);
        }
        if rows.len() > ROWS_MAX {
            return Err(AppendError::TooMany);
        }
        let (mut columns, mut rows) = (columns?, rows);
        if columns.is_empty() {
            let named;
            (named, rows) =
                aside(move || first_columns(dataset, &rows).map(|named| (named, rows))).await??;
            self.store.add_columns(dataset, named, self.clock.now()).await?;
            columns = self.blocking(move |store| store.columns(dataset)).await?;
        }
        self.append_aside(dataset, columns, placed, rows).await
    }

    /// Appends rows whose values are in the order of `columns`, as [`Self::append`] does, without
    /// asking who does it.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing is stored.
    pub(crate) async fn append_placed(
        &self,
        dataset: DatasetId,
        columns: &[Column],
        rows: Vec<Row>,
    ) -> Result<Appended, AppendError> {
        self.append_aside(dataset, columns.to_vec(), |_, rows| Ok(rows), rows).await
    }

    /// Appends what `place` makes of `rows`. Up to [`ROWS_MAX`] rows are put in order, which takes
    /// too long for a thread that serves others.
    async fn append_aside<R: Send + 'static>(
        &self,
        dataset: DatasetId,
        columns: Vec<Column>,
        place: impl FnOnce(&[Column], R) -> Result<Vec<Row>, Vec<Refusal>> + Send + 'static,
        rows: R,
    ) -> Result<Appended, AppendError> {
        let (hub, mut writer) = (self.hub.clone(), Writer::new(dataset, &columns));
        let block = aside(move || block_of(&columns, place(&columns, rows)?)).await?;
        let block = block.map_err(AppendError::Rows)?;
        let on_commit: OnCommit = Box::new(move |appended, rows| {
            hub.publish(dataset, || frames(&mut writer, rows, appended.revision));
        });
        match self.store.append(dataset, block, self.clock.now(), on_commit).await {
            Err(StoreError::LetGo { kept_from }) => Err(AppendError::LetGo { kept_from }),
            appended => Ok(appended?),
        }
    }
}

/// The columns that the first rows of a dataset make. Rows that do not fit them are refused here,
/// so that they leave no columns behind.
fn first_columns(
    dataset: DatasetId,
    rows: &[NamedRow],
) -> Result<Vec<(String, Dtype)>, AppendError> {
    let named = columns_of(rows);
    check_columns(&named).map_err(|what| AppendError::Columns { what })?;
    let column = |(name, dtype): &(String, Dtype)| Column {
        id: 0,
        dataset_id: dataset,
        name: name.clone(),
        dtype: *dtype,
        created_at: Timestamp::default(),
    };
    let columns: Vec<Column> = named.iter().map(column).collect();
    let fit = placed(&columns, rows.to_vec()).and_then(|rows| block_of(&columns, rows));
    fit.map_err(AppendError::Rows)?;
    Ok(named)
}

/// The columns that rows name, in alphabetical order.
fn columns_of(rows: &[NamedRow]) -> Vec<(String, Dtype)> {
    let mut columns: BTreeMap<&str, Dtype> = BTreeMap::new();
    for (name, value) in rows.iter().flat_map(|row| &row.values) {
        columns.entry(name).or_insert(match value {
            Value::Float(_) | Value::Integer(_) => Dtype::Float,
            Value::String(_) => Dtype::String,
            Value::Boolean(_) => Dtype::Boolean,
        });
    }
    columns.into_iter().map(|(name, dtype)| (name.to_owned(), dtype)).collect()
}

/// Puts the values of rows into the order of the columns.
fn placed(columns: &[Column], rows: Vec<NamedRow>) -> Result<Vec<Row>, Vec<Refusal>> {
    let places: BTreeMap<&str, usize> =
        columns.iter().enumerate().map(|(idx, column)| (column.name.as_str(), idx)).collect();
    let mut refusals = Vec::new();
    let mut placed = Vec::with_capacity(rows.len());
    for (row_idx, row) in rows.into_iter().enumerate() {
        let mut values = vec![None; columns.len()];
        for (name, value) in row.values {
            match places.get(name.as_str()).and_then(|idx| values.get_mut(*idx)) {
                Some(place) => *place = Some(value),
                None => refuse(&mut refusals, row_idx, || format!("there is no column {name}")),
            }
        }
        placed.push(Row { timestamp: row.timestamp, values });
    }
    if refusals.is_empty() { Ok(placed) } else { Err(refusals) }
}

/// Puts rows side by side, in order; of rows at one moment the last one given is kept.
fn block_of(columns: &[Column], rows: Vec<Row>) -> Result<Block, Vec<Refusal>> {
    let mut refusals = Vec::new();
    for (row_idx, row) in rows.iter().enumerate() {
        if let Err(reason) = check_row(columns, row) {
            refuse(&mut refusals, row_idx, || reason);
        }
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let mut rows = rows;
    // The sort is stable: among rows at one moment the order stays that of their coming.
    rows.sort_by_key(|row| row.timestamp);
    let mut block = Block::new(&columns.iter().map(|column| column.dtype).collect::<Vec<_>>());
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        if rows.peek().is_some_and(|next| next.timestamp == row.timestamp) {
            continue;
        }
        block.times.push(row.timestamp);
        for (series, value) in block.columns.iter_mut().zip(row.values) {
            // The types were checked above.
            if value.and_then(|value| series.push(value)).is_none() {
                series.push_missing(1);
            }
        }
    }
    Ok(block)
}

fn check_row(columns: &[Column], row: &Row) -> Result<(), String> {
    if row.timestamp < EARLIEST {
        return Err("timestamp is before the year 0".to_owned());
    }
    if row.values.len() != columns.len() {
        return Err(format!("{} values for {} columns", row.values.len(), columns.len()));
    }
    for (column, value) in columns.iter().zip(&row.values) {
        let fits = match (column.dtype, value) {
            (_, None)
            | (Dtype::Float | Dtype::Integer, Some(Value::Integer(_)))
            | (Dtype::Boolean, Some(Value::Boolean(_))) => true,
            (Dtype::Float, Some(Value::Float(number))) => number.is_finite(),
            (Dtype::String, Some(Value::String(text))) => text.len() <= VALUE_BYTES_MAX,
            _ => false,
        };
        if !fits {
            return Err(format!("{} must be a {}", column.name, column.dtype));
        }
    }
    Ok(())
}

fn refuse(refusals: &mut Vec<Refusal>, row_idx: usize, reason: impl FnOnce() -> String) {
    if refusals.len() < REFUSALS_MAX {
        refusals.push(Refusal { row_idx, reason: reason() });
    }
}

/// Rows as events, in frames of at most [`FRAME_ROWS`].
fn frames(writer: &mut Writer, rows: &Block, revision: u64) -> Vec<Frame> {
    let row_idxs: Vec<usize> = (0..rows.len()).collect();
    let frame = |row_idxs: &[usize]| {
        let mut events = Vec::new();
        for row_idx in row_idxs {
            push_data_event(&mut events, writer, rows, *row_idx);
        }
        Frame { revision, events: Bytes::from(events) }
    };
    row_idxs.chunks(FRAME_ROWS).map(frame).collect()
}

#[cfg(test)]
mod tests;
