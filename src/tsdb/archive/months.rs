//! Archived rows of a dataset, read month by month and merged with stored rows.

use std::iter::once;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use model::block::{Block, Rows};
use model::dataset::{DatasetId, Dtype};
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::file::{FileReader, RowGroup};
use super::month::Month;
use super::objects::ObjectError;
use super::{Archive, ROWS_BYTES_MAX};
use crate::span::{Order, Span, just_after, just_before};
use crate::store::archived::ArchivedMonth;
use crate::store::row_batch::{RowBatch, VisitBatch};
use crate::store::{
    Cause, Count, PAGE_TEXT_BYTES_MAX, PageOfRows, PageRead, Result, StoreError, series,
};

/// Maximum number of attempts to read files. An attempt fails if a file is replaced meanwhile, which
/// happens about once a day and takes less than a second.
pub(super) const TRIES: usize = 6;

/// Maximum number of rows in a batch of an archived month.
pub(super) const BATCH_ROWS: usize = if cfg!(test) { 300 } else { 65_536 };

/// Maximum number of values in a batch of more than one row.
const BATCH_VALUES: usize = 1_000_000;

/// A month with its open file, from which rows are read.
pub(super) struct OpenMonth<'a> {
    archive: &'a Archive,
    dataset: DatasetId,
    month: &'a ArchivedMonth,
    reader: FileReader<'a>,
    /// A block without rows, with the columns of the dataset.
    empty: &'a Block,
}

/// A part of a span: an archived month, or the time between archived months.
pub(super) struct Segment<'a> {
    pub(super) span: Span,
    pub(super) month: Option<&'a ArchivedMonth>,
}

/// Returns the stamps of the files that are in effect for `months`.
pub(super) fn stamps(months: &[ArchivedMonth]) -> Vec<i64> {
    months.iter().map(|month| month.file.stamp).collect()
}

impl Archive {
    /// Calls `read` with the archived months that overlap a span. Repeats the call if these months were
    /// changed meanwhile.
    pub(super) fn retry<T>(
        &self,
        dataset: DatasetId,
        span: Span,
        mut read: impl FnMut(&[ArchivedMonth]) -> Result<T>,
    ) -> Result<T> {
        let mut failure = StoreError::ArchiveChanged { dataset };
        for _ in 0..TRIES {
            let months = self.store.archived(dataset, span)?;
            match read(&months) {
                Err(error) if is_damaged(&error) => failure = error,
                Err(error) => return Err(error),
                Ok(done) => {
                    if stamps(&self.store.archived(dataset, span)?) == stamps(&months) {
                        return Ok(done);
                    }
                }
            }
        }
        Err(failure)
    }

    /// Returns a block with the columns of the dataset and no rows, and the revision of the dataset.
    pub(super) fn empty(&self, dataset: DatasetId) -> Result<(Block, u64)> {
        let sight = self.store.find(dataset)?;
        let dtypes: Vec<Dtype> = sight.columns.iter().map(|column| column.dtype).collect();
        Ok((Block::new(&dtypes), sight.revision))
    }

    /// Opens the file of a month to read rows into blocks with the columns of `empty`.
    pub(super) fn open_month<'a>(
        &'a self,
        dataset: DatasetId,
        month: &'a ArchivedMonth,
        empty: &'a Block,
    ) -> Result<OpenMonth<'a>> {
        // While a file is being replaced, the cached footer can belong to either version, so the footer
        // is read again.
        let known = self.footers.get(&month.file.sha256).filter(|_| month.next.is_empty());
        let reader = if let Some(footer) = known {
            FileReader { objects: &self.objects, file: month.file.clone(), footer }
        } else {
            let reader = FileReader::open(&self.objects, month);
            let reader = reader.map_err(fails(dataset, month.file.month))?;
            let footer = Arc::clone(&reader.footer);
            self.footers.put(reader.file.sha256, footer, reader.footer.n_bytes());
            reader
        };
        Ok(OpenMonth { archive: self, dataset, month, reader, empty })
    }

    /// Reads a page of stored and archived rows.
    pub(super) fn merged_page(
        &self,
        dataset: DatasetId,
        read: &PageRead,
        months: &[ArchivedMonth],
    ) -> Result<PageOfRows> {
        let (empty, revision) = self.empty(dataset)?;
        let mut page = empty.clone();
        let is_counted = read.count == Count::All;
        let (mut skip, mut count) = (read.skip, 0_u64);
        let mut segments = segments(read.span, months);
        if read.order == Order::Descending {
            segments.reverse();
        }
        for Segment { span, month } in segments {
            let is_full = is_full(&page, read.limit);
            if is_full && !is_counted {
                break;
            }
            let limit = if is_full { 0 } else { read.limit - page.len() };
            let wanted = if is_counted || skip > 0 { Count::All } else { Count::Nothing };
            let part = PageRead { span, skip, limit, count: wanted, ..*read };
            let (n, rows) = match month {
                None => {
                    let PageOfRows { count, rows, .. } = self.store.page(dataset, &part)?;
                    let Rows::Raw(rows) = rows else { return Err(StoreError::Closed) };
                    (count, rows)
                }
                Some(month) => self.month_page(dataset, &part, month, &empty)?,
            };
            let n = n.unwrap_or_default();
            count = count.saturating_add(n);
            skip = skip.saturating_sub(n);
            page.extend_from(&rows, 0..rows.len());
        }
        Ok(PageOfRows { count: is_counted.then_some(count), rows: Rows::Raw(page), revision })
    }

    /// Reads a page of the archived and stored rows of a month, and counts all of them if `read`
    /// requests it.
    fn month_page(
        &self,
        dataset: DatasetId,
        read: &PageRead,
        month: &ArchivedMonth,
        empty: &Block,
    ) -> Result<(Option<u64>, Block)> {
        let mut page = empty.clone();
        let mut count = None;
        if read.count == Count::All {
            let n = self.count_rows(dataset, month, read.span, empty)?;
            count = Some(n);
            if read.limit == 0 || n <= read.skip {
                return Ok((count, page));
            }
        }
        let open = self.open_month(dataset, month, empty)?;
        let (mut rest, mut skip, order) = (read.span, read.skip, read.order);
        while !rest.is_empty() && !is_full(&page, read.limit) {
            let mut groups = open.groups(rest);
            let group = match order {
                Order::Ascending => groups.next(),
                Order::Descending => groups.next_back(),
            };
            let end = group.map(|group| order.last_of(group.times.overlap(rest)));
            let (mut part, mut later) = rest.split(order, end.unwrap_or(order.last_of(rest)));
            if skip > 0 {
                let n = self.count_rows(dataset, month, part, empty)?;
                if n <= skip {
                    (skip, rest) = (skip - n, later);
                    continue;
                }
            }
            let n_wanted = read.limit - page.len();
            let n_most = usize::try_from(skip).unwrap_or(usize::MAX).min(BATCH_ROWS);
            let limit = n_wanted.saturating_add(n_most);
            let found = self.store.page(dataset, &PageRead::raw(part, order, limit))?;
            let Rows::Raw(mut over) = found.rows else { return Err(StoreError::Closed) };
            if over.len() >= limit || over.text_bytes() > PAGE_TEXT_BYTES_MAX {
                // More stored rows can follow these.
                let end = over.times.last().copied();
                (part, later) = rest.split(order, end.unwrap_or(order.last_of(part)));
            }
            if order == Order::Descending {
                over.reverse();
            }
            let n_first = usize::try_from(skip).unwrap_or(usize::MAX).saturating_add(n_wanted);
            let mut rows = match group {
                // If rows after the first ones are missing, the first ones fill the page.
                Some(group) => open.first_rows(group, part, order, n_first)?.merge(&over),
                None => over,
            };
            if order == Order::Descending {
                rows.reverse();
            }
            let n_skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(rows.len());
            skip -= n_skipped as u64;
            page.extend_from(&rows, n_skipped..rows.len().min(n_skipped.saturating_add(n_wanted)));
            rest = later;
        }
        Ok((count, page))
    }

    /// Scans raw rows. If months are archived, rewritten or pruned in the meantime, the scan continues
    /// after the last visited row, so that it neither misses nor repeats rows that move from the store
    /// to a file.
    pub(super) fn scan(
        &self,
        dataset: DatasetId,
        mut rest: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        let n_columns = self.empty(dataset)?.0.columns.len().max(1);
        let limit = (BATCH_VALUES / n_columns).clamp(1, BATCH_ROWS);
        while !rest.is_empty() {
            let months = self.store.archived(dataset, rest)?;
            let segment = segments(rest, &months).into_iter().next();
            let Some(Segment { span: part, month }) = segment else { break };
            let mut is_stopped = false;
            let visited = if month.is_some() {
                let read = PageRead::raw(part, Order::Ascending, limit);
                let read = |months: &[_]| self.merged_page(dataset, &read, months);
                let rows = self.retry(dataset, part, read)?.rows;
                match rows.timestamp(rows.len().saturating_sub(1)) {
                    Some(last) => {
                        is_stopped = visit(RowBatch::of_rows(rows))?.is_break();
                        Some(last)
                    }
                    None => Some(part.last),
                }
            } else {
                let mut visited = None;
                // A batch can lack rows of a month that was archived before the batch was read.
                let mut is_archived = false;
                self.store.scan(dataset, Resolution::Raw, part, &mut |batch| {
                    let last = batch.span.last;
                    let first = visited.map_or(part.first, just_after);
                    is_archived = !self.store.archived(dataset, Span { first, last })?.is_empty();
                    if !is_archived {
                        is_stopped = visit(batch)?.is_break();
                        visited = Some(last);
                    }
                    let is_done = is_archived || is_stopped;
                    Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
                let unvisited = Span { first: visited.map_or(part.first, just_after), ..part };
                let is_whole = !is_archived && self.store.archived(dataset, unvisited)?.is_empty();
                if is_whole { Some(part.last) } else { visited }
            };
            if is_stopped || visited.is_some_and(|visited| visited >= rest.last) {
                break;
            }
            rest.first = visited.map_or(rest.first, just_after);
        }
        Ok(())
    }

    /// Counts the archived and stored rows of a month within a span. Does not open the file if its
    /// record suffices, so that an unreadable month does not affect a page of other rows.
    fn count_rows(
        &self,
        dataset: DatasetId,
        month: &ArchivedMonth,
        span: Span,
        empty: &Block,
    ) -> Result<u64> {
        let stored = self.stored_times(dataset, span)?;
        if stored.is_empty() && month.cuts.is_empty() && span.covers(month.file.rows) {
            return Ok(month.file.n_rows);
        }
        let n_archived = self.open_month(dataset, month, empty)?.count_others(span, &stored)?;
        Ok(n_archived + stored.len() as u64)
    }

    /// Reads the timestamps of the stored rows of a span.
    pub(super) fn stored_times(&self, dataset: DatasetId, span: Span) -> Result<Vec<Timestamp>> {
        let mut times = Vec::new();
        self.store.scan(dataset, Resolution::Raw, span, &mut |batch| {
            if let Rows::Raw(rows) = batch.rows()? {
                times.extend(rows.times);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(times)
    }

    /// Reads the archived rows of the buckets of five minutes that start at `starts`, which are sorted.
    pub(super) fn rows_of_buckets(
        &self,
        dataset: DatasetId,
        months: &[ArchivedMonth],
        starts: &[Timestamp],
    ) -> Result<Block> {
        let (empty, _) = self.empty(dataset)?;
        let mut found = empty.clone();
        let bucket = |start: &Timestamp| series::span(Resolution::FiveMinutes, *start);
        for month in months {
            let whole = month.file.month.span();
            let here = starts.iter().filter(|start| whole.contains(**start));
            let here: Vec<Span> = here.map(bucket).collect();
            let (Some(first), Some(last)) = (here.first(), here.last()) else { continue };
            let span = Span { first: first.first, last: last.last };
            let open = self.open_month(dataset, month, &empty)?;
            for group in open.groups(span) {
                if here.iter().all(|bucket| bucket.overlap(group.times).is_empty()) {
                    continue;
                }
                let rows = open.rows(group, span)?;
                for bucket in &here {
                    found.extend_from(&rows, bucket.indices(&rows.times));
                }
            }
        }
        Ok(found)
    }

    /// Returns the timestamp of the latest archived row that would remain if `cut` were deleted.
    pub(super) fn newest_archived(
        &self,
        dataset: DatasetId,
        months: &[ArchivedMonth],
        cut: Span,
    ) -> Result<Option<Timestamp>> {
        let (empty, _) = self.empty(dataset)?;
        for month in months.iter().rev().filter(|month| !cut.covers(month.file.rows)) {
            let last = month.file.rows.last;
            if !month.cuts.iter().chain([&cut]).any(|cut| cut.contains(last)) {
                return Ok(Some(last));
            }
            let open = self.open_month(dataset, month, &empty)?;
            for group in open.groups(Span::ALL).rev().filter(|group| !cut.covers(group.times)) {
                let times = open.times(group, Span::ALL)?;
                if let Some(last) = times.iter().rfind(|time| !cut.contains(**time)) {
                    return Ok(Some(*last));
                }
            }
        }
        Ok(None)
    }
}

/// Returns true if a page has its rows, or too much text for more rows.
fn is_full(page: &Block, limit: usize) -> bool {
    page.len() >= limit || page.text_bytes() > PAGE_TEXT_BYTES_MAX
}

impl OpenMonth<'_> {
    /// Returns the row groups that overlap a span.
    pub(super) fn groups(&self, span: Span) -> impl DoubleEndedIterator<Item = &RowGroup> {
        let groups = self.reader.footer.groups.iter();
        groups.filter(move |group| !group.times.overlap(span).is_empty())
    }

    /// Returns all rows of a row group, including those that were deleted since the file was written.
    fn group(&self, group: &RowGroup) -> Result<Arc<Block>> {
        let key = (self.reader.file.sha256, group.idx);
        if let Some(rows) = self.archive.groups.get(&key) {
            return Ok(rows);
        }
        let rows = self.reader.read_group(group.idx, self.empty);
        let rows = Arc::new(rows.map_err(fails(self.dataset, self.month.file.month))?);
        // A row group that is larger than the cache leaves space for others.
        let n_bytes = rows.n_bytes().min(ROWS_BYTES_MAX / 2);
        self.archive.groups.put(key, Arc::clone(&rows), n_bytes);
        Ok(rows)
    }

    /// Returns the parts of a range of rows that were not deleted since the file was written.
    fn remaining(&self, rows: &Block, within: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut from = within.start;
        // The cuts are sorted by their start.
        let cuts = self.month.cuts.iter().map(|cut| cut.indices(&rows.times));
        cuts.chain(once(within.end..within.end)).map(move |gone| {
            let kept = from..gone.start.min(within.end).max(from);
            from = from.max(gone.end);
            kept
        })
    }

    /// Returns the rows of a row group that lie within a span and were not deleted since the file was
    /// written.
    pub(super) fn rows(&self, group: &RowGroup, span: Span) -> Result<Block> {
        self.first_rows(group, span, Order::Ascending, usize::MAX)
    }

    /// Returns rows like [`Self::rows`]. If there are more than `limit`, some of those after the first
    /// `limit` in `order` can be missing.
    fn first_rows(
        &self,
        group: &RowGroup,
        span: Span,
        order: Order,
        limit: usize,
    ) -> Result<Block> {
        let rows = self.group(group)?;
        let mut within = span.indices(&rows.times);
        if self.month.cuts.is_empty() {
            let n_later = within.len().saturating_sub(limit);
            match order {
                Order::Ascending => within.end -= n_later,
                Order::Descending => within.start += n_later,
            }
        }
        let mut kept = self.empty.clone();
        self.remaining(&rows, within).for_each(|range| kept.extend_from(&rows, range));
        Ok(kept)
    }

    /// Returns the timestamps of [`Self::rows`].
    fn times(&self, group: &RowGroup, span: Span) -> Result<Vec<Timestamp>> {
        let rows = self.group(group)?;
        let kept = self.remaining(&rows, span.indices(&rows.times));
        Ok(kept.flat_map(|range| rows.times.get(range).unwrap_or_default()).copied().collect())
    }

    /// Returns the rows in a span, in order, in blocks.
    pub(super) fn blocks(&self, span: Span) -> impl Iterator<Item = Result<Block>> {
        self.groups(span).map(move |group| self.rows(group, span))
    }

    /// Counts the rows in a span that have other timestamps than the `stored` rows.
    pub(super) fn count_others(&self, span: Span, stored: &[Timestamp]) -> Result<u64> {
        let mut n_rows = 0;
        for group in self.groups(span) {
            let times = group.times;
            let is_apart = times.indices(stored).is_empty()
                && self.month.cuts.iter().all(|cut| cut.overlap(times).is_empty());
            n_rows += if is_apart && span.covers(times) {
                group.n_rows
            } else {
                let times = self.times(group, span)?;
                times.iter().filter(|time| stored.binary_search(time).is_err()).count() as u64
            };
        }
        Ok(n_rows)
    }
}

/// Splits a span into the archived months and the gaps between them.
pub(super) fn segments(span: Span, months: &[ArchivedMonth]) -> Vec<Segment<'_>> {
    let (mut segments, mut rest) = (Vec::new(), span);
    for month in months {
        let here = month.file.month.span().overlap(span);
        if here.is_empty() {
            continue;
        }
        if rest.first < here.first {
            let gap = Span { last: just_before(here.first), ..rest };
            segments.push(Segment { span: gap, month: None });
        }
        segments.push(Segment { span: here, month: Some(month) });
        rest.first = just_after(here.last);
    }
    if !rest.is_empty() {
        segments.push(Segment { span: rest, month: None });
    }
    segments
}

/// Returns a function that turns the cause of a failure into an error with the dataset and the month.
pub(super) fn fails<E: Into<Cause>>(dataset: DatasetId, month: Month) -> impl Fn(E) -> StoreError {
    move |error| StoreError::Archive { dataset, month, source: error.into() }
}

/// Returns true if a file is damaged or missing. A file that is replaced during a read counts as
/// damaged.
pub(super) fn is_damaged(error: &StoreError) -> bool {
    let StoreError::Archive { source, .. } = error else { return false };
    matches!(source.downcast_ref(), Some(ObjectError::Damaged { .. } | ObjectError::Missing { .. }))
}
