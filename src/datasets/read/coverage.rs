//! Coverage of a dataset: number of rows per day, and estimated size of a download.

use std::ops::ControlFlow;

use formats::write::Output;
use formats::write::document::Document;
use model::block::Rows;
use model::dataset::{Column, DatasetId};
use model::key::KeyId;
use model::page::Limit;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use tsdb::catalog::DatasetRef;
use tsdb::span::{Order, Span};
use tsdb::store::row_batch::RowBatch;
use tsdb::store::{PageRead, StoreError};
use wire::datasets::{CoverageBody, DayBody};

use crate::error::{OperationError, Result};
use crate::query::Bounds;
use crate::{Datasets, run_blocking};

/// Number of latest rows from which the size of a download is estimated.
const SAMPLE_ROWS: usize = 2000;

/// Query for the coverage of a range of raw rows.
#[derive(Debug, Clone)]
pub(crate) struct CoverageQuery {
    pub(crate) dataset: DatasetRef,
    pub(crate) bounds: Bounds,
    /// Maximum number of days in the response.
    pub(crate) limit: Limit,
    /// Format of the download with the estimated size.
    pub(crate) output: Output,
}

impl Datasets {
    /// Counts the rows of a range, in total and for each of its first days with rows. Also returns the
    /// day at which the next page begins, if there are more days.
    ///
    /// Reads the rows of a batch only if they span several days.
    ///
    /// # Errors
    /// The same as for [`Self::rows`].
    pub(crate) async fn coverage(
        &self,
        key: KeyId,
        query: CoverageQuery,
    ) -> Result<(CoverageBody, Option<Timestamp>)> {
        let span = query.bounds.span(Resolution::Raw)?;
        let permit = self.long_read(key).await;
        let datasets = self.clone();
        run_blocking(move || {
            // Held until the end of the read, even if the caller was cancelled.
            let _permit = permit;
            let store = &*datasets.store;
            let sight = store.sight(Some(key), &query.dataset)?.ok_or(OperationError::NotFound)?;
            let id = sight.dataset.id;
            let first = store.page(id, &PageRead::raw(span, Order::Ascending, 1))?.rows;
            let newest = store.page(id, &PageRead::raw(span, Order::Descending, SAMPLE_ROWS))?.rows;
            let mut days = Days { limit: query.limit.get(), ..Days::default() };
            store.scan(id, Resolution::Raw, span, &mut |batch| days.add(batch))?;
            let [first, last] =
                [first, newest.clone()].map(|rows| rows.timestamp(0).map(|time| time.to_string()));
            let download_bytes =
                estimate_bytes(id, &sight.columns, query.output, &newest, days.n_rows);
            let (rows, next_day) = (days.n_rows, days.next);
            let results = days.counts.into_iter().map(|(day, rows)| DayBody {
                day: day.to_string().split('T').next().unwrap_or_default().to_owned(),
                rows,
            });
            let (dataset_id, days, next) = (id.get(), results.collect(), None);
            let body = CoverageBody { dataset_id, rows, first, last, download_bytes, days, next };
            Ok((body, next_day))
        })
        .await?
    }
}

/// Number of rows of each day that has rows, in ascending order.
#[derive(Debug, Default)]
struct Days {
    counts: Vec<(Timestamp, u64)>,
    /// Maximum number of days to list in `counts`.
    limit: usize,
    /// First day with rows that is not listed, since the limit is reached.
    next: Option<Timestamp>,
    /// Number of all rows, including rows of days beyond the limit.
    n_rows: u64,
}

impl Days {
    fn add(&mut self, batch: RowBatch<'_>) -> Result<ControlFlow<()>, StoreError> {
        let (Span { first, last }, n_rows) = (batch.span, batch.n_rows);
        self.n_rows += u64::try_from(n_rows).unwrap_or(u64::MAX);
        if self.next.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        if Resolution::Day.bucket_start(first) == Resolution::Day.bucket_start(last) {
            self.add_rows(first, n_rows);
        } else if let Rows::Raw(block) = batch.rows()? {
            let is_same_day = |a: &Timestamp, b: &Timestamp| {
                Resolution::Day.bucket_start(*a) == Resolution::Day.bucket_start(*b)
            };
            for times in block.times.chunk_by(is_same_day) {
                if let Some(time) = times.first() {
                    self.add_rows(*time, times.len());
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn add_rows(&mut self, time: Timestamp, n_rows: usize) {
        let day = Resolution::Day.bucket_start(time);
        let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
        if let Some((last, n_here)) = self.counts.last_mut()
            && *last == day
        {
            *n_here += n_rows;
        } else if self.counts.len() < self.limit {
            self.counts.push((day, n_rows));
        } else if self.next.is_none() {
            self.next = Some(day);
        }
    }
}

/// Estimates the uncompressed size of a download of `n_rows` rows from the size of a sample.
fn estimate_bytes(
    dataset: DatasetId,
    columns: &[Column],
    output: Output,
    sample: &Rows,
    n_rows: u64,
) -> u64 {
    let size_of = |rows: Option<&Rows>| {
        let mut bytes = Vec::new();
        let mut document = Document::new(output, dataset, columns, None);
        document.begin(&mut bytes);
        if let Some(rows) = rows {
            document.rows(&mut bytes, rows);
        }
        document.end(&mut bytes);
        u64::try_from(bytes.len()).unwrap_or(u64::MAX)
    };
    let (empty, sampled) = (size_of(None), size_of(Some(sample)));
    let n_sampled = u64::try_from(sample.len()).unwrap_or(u64::MAX).max(1);
    empty + sampled.saturating_sub(empty).saturating_mul(n_rows) / n_sampled
}
