//! The store as the benchmark uses it, with rows of seven numbers.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use model::block::{Block, Rows, Series};
use model::dataset::{DatasetId, Dtype};
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use tsdb::catalog::{DatasetRef, NewDataset};
use tsdb::span::{Order, Span};
use tsdb::store::postgres::PostgresStore;
use tsdb::store::sqlite::SqliteStore;
use tsdb::store::{Append, AppendMode, Count, PageRead, Store, StoreError};

use test_bench::Outcome;

/// Columns of a bar, as in the HTTP API.
const COLUMNS: [&str; 7] =
    ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"];

/// A row: its minute since 1970, and a number for each column.
pub(crate) type Bar = (i64, [f64; 7]);

/// A store.
#[derive(Debug)]
pub(crate) struct Figures {
    store: Box<dyn Store>,
}

/// A page of rows to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// Rows after the row at this minute.
    After(i64),
    /// The latest rows.
    Newest,
    /// Rows after this number of rows, with the count of all rows.
    Offset(u64),
}

impl Figures {
    /// Opens the embedded store.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { store: Box::new(SqliteStore::open(path)?) })
    }

    /// Opens the store in a database.
    ///
    /// # Errors
    /// [`StoreError`], or the address is invalid.
    pub(crate) fn open_database(url: &str) -> Outcome<Self> {
        Ok(Self { store: Box::new(PostgresStore::open(&url.parse()?)?) })
    }

    /// Creates a dataset, or returns the existing dataset.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) async fn create(&self, name: &str) -> Result<DatasetId, StoreError> {
        let new = NewDataset {
            name: name.to_owned(),
            description: String::new(),
            metadata: std::collections::BTreeMap::new(),
            columns: COLUMNS.map(|column| (column.to_owned(), Dtype::Float)).to_vec(),
            tags: Vec::new(),
            owner: None,
        };
        let which = DatasetRef::Name(name.to_owned());
        if let Some(found) = self.store.sight(None, &which)? {
            return Ok(found.dataset.id);
        }
        let made = self.store.create(vec![new], Timestamp::from_seconds(0)).await?;
        made.first().map(|made| made.id).ok_or(StoreError::Closed)
    }

    /// Appends bars in the order of their minutes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) async fn append(&self, dataset: DatasetId, bars: &[Bar]) -> Result<(), StoreError> {
        let mut block = Block::new(&[Dtype::Float; 7]);
        block.times = bars.iter().map(|(minute, _)| at(*minute)).collect();
        for (idx, series) in block.columns.iter_mut().enumerate() {
            let values = bars.iter().map(|(_, values)| values.get(idx).copied());
            *series = Series::Float(values.collect());
        }
        // Sets a creation time that is close to the last timestamp, as in a live feed.
        let now = block.times.last().copied().unwrap_or_default();
        let append = Append {
            mode: AppendMode::Replace,
            rows: block,
            now,
            batches: Vec::new(),
            beneath: None,
        };
        self.store.append(dataset, append, Arc::new(|_, _| ())).await?;
        Ok(())
    }

    /// Reads a page. Returns the number of rows on the page and, for [`Page::Offset`], the number of all
    /// rows.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn page(
        &self,
        dataset: DatasetId,
        page: Page,
        limit: usize,
    ) -> Result<(usize, u64), StoreError> {
        let (first, order, skip, count) = match page {
            Page::After(minute) => (
                Timestamp::from_micros(at(minute).micros() + 1),
                Order::Ascending,
                0,
                Count::Nothing,
            ),
            Page::Newest => (Timestamp::MIN, Order::Descending, 0, Count::Nothing),
            Page::Offset(skip) => (Timestamp::MIN, Order::Ascending, skip, Count::All),
        };
        let span = Span { first, last: Timestamp::MAX };
        let read = PageRead { resolution: Resolution::Raw, span, order, skip, limit, count };
        let read = self.store.page(dataset, &read)?;
        let n_rows = match read.rows {
            Rows::Raw(block) => block.len(),
            Rows::Buckets(buckets) => buckets.len(),
        };
        Ok((n_rows, read.count.unwrap_or_default()))
    }

    /// Reads all rows. Returns the number of rows and the sum of their values.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn scan(&self, dataset: DatasetId) -> Result<(usize, f64), StoreError> {
        let (mut n_rows, mut sum) = (0, 0.0);
        let span = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        self.store.scan(dataset, Resolution::Raw, span, &mut |batch| {
            if let Rows::Raw(block) = batch.rows()? {
                n_rows += block.len();
                for series in &block.columns {
                    if let Series::Float(values) = series {
                        sum += values.iter().flatten().sum::<f64>();
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((n_rows, sum))
    }

    /// Reads all daily buckets and returns the number of buckets.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn days(&self, dataset: DatasetId) -> Result<usize, StoreError> {
        let span = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        let read = PageRead {
            resolution: Resolution::Day,
            span,
            order: Order::Ascending,
            skip: 0,
            limit: usize::MAX,
            count: Count::Nothing,
        };
        Ok(self.store.page(dataset, &read)?.rows.len())
    }

    /// Packs all rows that are old enough.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        self.store.settle().await
    }
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_seconds(minute.saturating_mul(60))
}
