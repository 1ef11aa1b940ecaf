//! The store traits, implemented for a store with an archive.

use std::sync::Arc;

use futures::executor::block_on;
use futures::future::{BoxFuture, FutureExt as _};
use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::months::{TRIES, stamps};
use super::{Archive, ArchivedStore, random};
use crate::rollup::starts_of;
use crate::span::{Order, Span, just_before};
use crate::store::archived::{ArchivedDeletion, ArchivedMonth, Beneath};
use crate::store::row_batch::{VisitBatch, add_newer, lowest_rows};
use crate::store::series::bucket_end;
use crate::store::{
    Append, Appended, Catalog, Count, OnCommit, OnRemoval, PageOfRows, PageRead, Removed, Result,
    RowDeletion, Since, Store, StoreError,
};

/// Maximum number of archived rows that are searched for rows above a requested row number. A reader
/// that is further behind should download the dataset.
const SINCE_ROWS_MAX: u64 = 512 * 1024;

/// Maximum number of stored rows that one commit deletes. PostgreSQL deletes a million rows in some
/// seconds, and cancels a statement after 20 s.
const DELETE_ROWS: u64 = if cfg!(test) { 500 } else { 250_000 };

/// Resolution of the buckets that are computed from rows.
const FINEST: Resolution = Resolution::FiveMinutes;

/// Returns the span of the buckets of five minutes that overlap a span.
fn widened(span: Span) -> Span {
    let last = just_before(bucket_end(FINEST, span.last));
    Span { first: FINEST.bucket_start(span.first), last }
}

impl Archive {
    /// Reads the archived rows in the buckets that an append of `rows` changes.
    fn beneath(&self, dataset: DatasetId, rows: &Block) -> Result<Beneath> {
        let (first, last) = (rows.times.first().copied(), rows.times.last().copied());
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let span = widened(Span { first, last });
        self.retry(dataset, span, |months| {
            let rows = self.rows_of_buckets(
                dataset,
                months,
                &starts_of(FINEST, rows.times.iter().copied()),
            )?;
            Ok(Beneath { span, stamps: stamps(months), rows })
        })
    }

    /// Deletes the rows in a span, in parts with at most [`DELETE_ROWS`] stored rows.
    fn delete_rows(
        &self,
        dataset: DatasetId,
        mut span: Span,
        now: Timestamp,
        on_commit: &OnRemoval,
    ) -> Result<Removed> {
        let mut n_rows = 0_u64;
        loop {
            let read = PageRead { skip: DELETE_ROWS, ..PageRead::raw(span, Order::Ascending, 1) };
            let rest = self.store.page(dataset, &read)?.rows.timestamp(0);
            let part = Span { last: rest.map_or(span.last, just_before), ..span };
            let removed = repeat(|| {
                let archived = self.deletion(dataset, part)?;
                let deletion = RowDeletion { span: part, now, archived };
                block_on(self.store.delete_rows(dataset, deletion, Arc::clone(on_commit)))
            })?;
            n_rows = n_rows.saturating_add(removed.n_rows);
            let Some(first) = rest else { return Ok(Removed { n_rows, ..removed }) };
            span.first = first;
        }
    }

    /// Prepares the deletion of the rows in a span. Returns `None` if the dataset has no archived rows.
    fn deletion(&self, dataset: DatasetId, span: Span) -> Result<Option<ArchivedDeletion>> {
        self.retry(dataset, Span::ALL, |all| {
            if all.is_empty() || span.first > span.last {
                return Ok(None);
            }
            let (empty, revision) = self.empty(dataset)?;
            let (mut n_rows, mut counts) = (0, Vec::new());
            for month in all {
                let here = month.file.month.span().overlap(span);
                if here.is_empty() {
                    continue;
                }
                let stored = self.stored_times(dataset, here)?;
                counts.push((here, stored.len() as u64));
                n_rows += self.open_month(dataset, month, &empty)?.count_others(here, &stored)?;
            }
            let starts = starts_of(FINEST, [span.first, span.last]);
            let found = self.rows_of_buckets(dataset, all, &starts)?;
            let mut rows = found.part(0..found.first_not_before(span.first));
            rows.extend_from(&found, found.first_after(span.last)..found.len());
            let newest_archived = self.newest_archived(dataset, all, span)?;
            let beneath = Beneath { span: Span::ALL, stamps: stamps(all), rows };
            let (stored, stamp) = (counts, random());
            Ok(Some(ArchivedDeletion { newest_archived, beneath, n_rows, revision, stored, stamp }))
        })
    }

    /// Reads a page of raw rows, stored and archived.
    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let page = self.store.page(dataset, read)?;
        let mut touched = read.span;
        // If stored rows fill the page, archived rows after its last row are not part of it.
        if read.count == Count::Nothing
            && read.skip == 0
            && page.rows.len() == read.limit
            && let Some(end) = page.rows.timestamp(read.limit.saturating_sub(1))
        {
            touched = touched.split(read.order, end).0;
        }
        if self.store.archived(dataset, touched)?.is_empty() {
            return Ok(page);
        }
        self.retry(dataset, read.span, |months| self.merged_page(dataset, read, months))
    }

    /// Reads the stored and archived rows with row numbers above `after`.
    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        self.retry(dataset, Span::ALL, |months| {
            let Some(mut since) = self.store.since(dataset, after, limit)? else { return Ok(None) };
            let months: Vec<&ArchivedMonth> =
                months.iter().filter(|month| month.file.last_row > after).collect();
            if months.iter().map(|month| month.file.n_rows).sum::<u64>() > SINCE_ROWS_MAX {
                return Ok(None);
            }
            let (mut found, empty) = (since.rows.clone(), since.rows.empty_like());
            for month in months {
                let span = month.file.month.span();
                let open = self.open_month(dataset, month, &empty)?;
                let replaced = self.stored_times(dataset, span)?;
                for rows in open.blocks(span) {
                    add_newer(&mut found, &rows?, after, &replaced, limit);
                }
            }
            if found.len() > since.rows.len() {
                since.is_all &= found.len() <= limit;
                since.rows = lowest_rows(&found, limit);
            }
            Ok(Some(since))
        })
    }
}

impl ArchivedStore {
    /// Runs `work` on a blocking thread of the archive's runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Archive) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let archive = Arc::clone(&self.archive);
        let done = self.archive.objects.run_blocking(move || work(&archive));
        done.await.ok_or(StoreError::Closed)?
    }
}

/// Repeats a write whose preparation read archived rows that were changed before the commit.
fn repeat<T>(mut write: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match write() {
            Err(StoreError::ArchiveChanged { .. }) => {}
            done => return done,
        }
    }
    write()
}

impl Store for ArchivedStore {
    fn catalog(&self) -> &(dyn Catalog + 'static) {
        &*self.archive.store
    }

    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>> {
        async move {
            let store = &self.archive.store;
            let appended = store.append(dataset, append.clone(), Arc::clone(&on_commit)).await;
            if !matches!(appended, Err(StoreError::ArchiveChanged { .. })) {
                return appended;
            }
            let write = move |archive: &Archive| {
                let beneath = Some(archive.beneath(dataset, &append.rows)?);
                let append = Append { beneath, ..append.clone() };
                block_on(archive.store.append(dataset, append, Arc::clone(&on_commit)))
            };
            self.blocking(move |archive| repeat(|| write(archive))).await
        }
        .boxed()
    }

    fn delete_rows(
        &self,
        dataset: DatasetId,
        RowDeletion { span, now, .. }: RowDeletion,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>> {
        // The thread continues if the caller is cancelled.
        self.blocking(move |archive| archive.delete_rows(dataset, span, now, &on_commit)).boxed()
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        match read.resolution {
            Resolution::Raw => self.archive.page(dataset, read),
            _ => self.archive.store.page(dataset, read),
        }
    }

    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        self.archive.since(dataset, after, limit)
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        match resolution {
            Resolution::Raw => self.archive.scan(dataset, span, visit),
            _ => self.archive.store.scan(dataset, resolution, span, visit),
        }
    }
}
