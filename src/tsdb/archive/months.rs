//! Archived rows of a dataset, read month by month and merged with stored rows.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use model::block::{Block, Rows};
use model::dataset::{DatasetId, Dtype};
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::Archive;
use super::file::FileReader;
use super::month::Month;
use super::objects::ObjectError;
use super::write::PAGE_ROWS;
use crate::span::{Order, Span, just_after, just_before};
use crate::store::archived::ArchivedMonth;
use crate::store::{
    Cause, Count, PAGE_TEXT_BYTES_MAX, PageOfRows, PageRead, Result, StoreError, series,
};

/// Maximum number of attempts to read files. An attempt fails if a file is replaced meanwhile, which
/// happens about once a day and takes less than a second.
pub(super) const TRIES: usize = 6;

/// Maximum number of buckets of a month that are read one by one. For more buckets, all rows from the
/// first to the last bucket are read.
const SINGLE_BUCKETS_MAX: usize = 16;

/// A month with its open file, from which rows are read.
pub(super) struct OpenMonth<'a> {
    pub(super) reader: FileReader<'a>,
    /// Indices of the rows that are in the span to be read and were not deleted since the file was
    /// written.
    pub(super) kept: Vec<Range<u64>>,
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
            let done = read(&months);
            match done {
                Err(error) if is_damaged(&error) => {
                    self.forget_footers(&months);
                    failure = error;
                }
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

    /// Removes the cached footers of files that might have been replaced.
    pub(super) fn forget_footers(&self, months: &[ArchivedMonth]) {
        for file in months.iter().flat_map(|month| once(&month.file).chain(&month.next)) {
            self.footers.remove(&file.sha256);
        }
    }

    /// Returns a block with the columns of the dataset and no rows.
    pub(super) fn empty(&self, dataset: DatasetId) -> Result<Block> {
        let columns = self.store.find(dataset)?.columns;
        let dtypes: Vec<Dtype> = columns.iter().map(|column| column.dtype).collect();
        Ok(Block::new(&dtypes))
    }

    /// Opens a month to read the part of its rows within a span.
    pub(super) fn open_month(
        &self,
        dataset: DatasetId,
        month: &ArchivedMonth,
        span: Span,
    ) -> Result<OpenMonth<'_>> {
        let fail = fails(dataset, month.file.month);
        let reader = self.open_file(month).map_err(&fail)?;
        let mut kept = vec![positions(&reader, span).map_err(&fail)?];
        for cut in &month.cuts {
            let gone = positions(&reader, *cut).map_err(&fail)?;
            let split = |rows: Range<u64>| {
                [rows.start..rows.end.min(gone.start), rows.start.max(gone.end)..rows.end]
            };
            kept = kept.into_iter().flat_map(split).filter(|rows| !rows.is_empty()).collect();
        }
        kept.retain(|rows| !rows.is_empty());
        Ok(OpenMonth { reader, kept })
    }

    fn open_file(&self, month: &ArchivedMonth) -> Result<FileReader<'_>, ObjectError> {
        // While a file is being replaced, the cached footer can belong to either version, so the footer
        // is read again.
        let known = self.footers.get(&month.file.sha256).filter(|_| month.next.is_empty());
        if let Some(footer) = known {
            return Ok(FileReader { objects: &self.objects, file: month.file.clone(), footer });
        }
        let reader = FileReader::open(&self.objects, month)?;
        let footer = Arc::clone(&reader.footer);
        self.footers.put(reader.file.sha256, footer, reader.footer.n_bytes());
        Ok(reader)
    }

    /// Reads a page of stored and archived rows.
    pub(super) fn merged_page(
        &self,
        dataset: DatasetId,
        read: &PageRead,
        months: &[ArchivedMonth],
    ) -> Result<PageOfRows> {
        let mut page = self.empty(dataset)?;
        let is_counted = read.count == Count::All;
        let (mut skip, mut count) = (read.skip, 0_u64);
        let mut revision: Option<u64> = None;
        let mut segments = segments(read.span, months);
        if read.order == Order::Descending {
            segments.reverse();
        }
        for segment in segments {
            let left = read.limit.saturating_sub(page.len());
            let is_full = left == 0 || page.text_bytes() > PAGE_TEXT_BYTES_MAX;
            if is_full && !is_counted {
                break;
            }
            let limit = if is_full { 0 } else { left };
            let wanted = if is_counted || skip > 0 { Count::All } else { Count::Nothing };
            let part = PageRead { span: segment.span, skip, limit, count: wanted, ..*read };
            let found = match segment.month {
                None => self.store.page(dataset, &part)?,
                Some(month) => self.month_page(dataset, &part, month)?,
            };
            revision = Some(revision.map_or(found.revision, |known| known.min(found.revision)));
            let n = found.count.unwrap_or_default();
            count = count.saturating_add(n);
            skip = skip.saturating_sub(n);
            match found.rows {
                Rows::Raw(rows) if page.is_empty() => page = rows,
                Rows::Raw(rows) => page.extend_from(&rows, 0..rows.len()),
                Rows::Buckets(_) => {}
            }
        }
        let revision = match revision {
            Some(revision) => revision,
            None => self.store.find(dataset)?.revision,
        };
        Ok(PageOfRows { count: is_counted.then_some(count), rows: Rows::Raw(page), revision })
    }

    /// Reads a page of the archived and stored rows of a month.
    fn month_page(
        &self,
        dataset: DatasetId,
        read: &PageRead,
        month: &ArchivedMonth,
    ) -> Result<PageOfRows> {
        let fail = fails(dataset, month.file.month);
        if read.limit == 0
            && let Some(page) = self.count_recorded(dataset, read, month)?
        {
            return Ok(page);
        }
        let mut open = self.open_month(dataset, month, read.span)?;
        let (mut span, mut count) = (read.span, None);
        if read.count == Count::All {
            let stored = self.stored_times(dataset, span)?;
            let n_both = open.count_contained(&stored).map_err(&fail)?;
            let n = open.n_rows() + stored.len() as u64 - n_both;
            count = Some(n);
            if read.skip >= n {
                span.last = just_before(span.first);
                open.kept.clear();
            } else if read.skip > 0 {
                if read.order == Order::Ascending {
                    span.first = open.nth_time(&stored, read.skip).map_err(&fail)?;
                } else {
                    span.last = open.nth_time(&stored, n - 1 - read.skip).map_err(&fail)?;
                }
                open = self.open_month(dataset, month, span)?;
            }
        }
        let rest = PageRead { span, skip: 0, count: Count::Nothing, ..*read };
        let (rows, revision) = self.merge_month(dataset, month, open, rest)?;
        Ok(PageOfRows { count, rows: Rows::Raw(rows), revision })
    }

    /// Returns the number of rows of a month without opening its file, so that an unreadable month does
    /// not affect a page of later rows. Returns `None` if the record does not contain the number.
    fn count_recorded(
        &self,
        dataset: DatasetId,
        read: &PageRead,
        month: &ArchivedMonth,
    ) -> Result<Option<PageOfRows>> {
        let PageRead { span, order, .. } = *read;
        if span.overlap(month.file.rows) != month.file.rows || !month.cuts.is_empty() {
            return Ok(None);
        }
        let page = self.store.page(dataset, &PageRead::raw(span, order, 1))?;
        let has_rows = !page.rows.is_empty();
        Ok((!has_rows).then_some(PageOfRows { count: Some(month.file.n_rows), ..page }))
    }

    /// Reads the rows of a month that `rest` requests. Each step reads one page of the file and merges it
    /// with the stored rows up to the last row of the page. Also returns the lowest revision at which a
    /// step read the store.
    fn merge_month(
        &self,
        dataset: DatasetId,
        month: &ArchivedMonth,
        mut open: OpenMonth<'_>,
        mut rest: PageRead,
    ) -> Result<(Block, u64)> {
        let limit = rest.limit;
        let is_ascending = rest.order == Order::Ascending;
        let empty = self.empty(dataset)?;
        let (mut page, mut revision) = (empty.clone(), u64::MAX);
        loop {
            let archived = open.take(rest.order, rest.limit);
            let under =
                open.reader.rows(archived, &empty).map_err(fails(dataset, month.file.month))?;
            let mut part = rest;
            if !open.kept.is_empty() {
                // The file has more rows, so this part ends with the last row that was read of it. The
                // next part has the rows in the store that follow this part.
                match (is_ascending, under.times.first(), under.times.last()) {
                    (true, _, Some(last)) => part.span.last = *last,
                    (false, Some(first), _) => part.span.first = *first,
                    _ => {}
                }
            }
            let found = self.store.page(dataset, &part)?;
            revision = revision.min(found.revision);
            let Rows::Raw(mut over) = found.rows else { return Err(StoreError::Closed) };
            if !is_ascending {
                over.reverse();
            }
            let mut rows = if over.is_empty() { under } else { under.merge(&over) };
            // More stored rows can follow the last row that was read, so archived rows beyond that row
            // cannot be returned yet.
            let is_cut = over.len() >= part.limit || over.text_bytes() > PAGE_TEXT_BYTES_MAX;
            match (is_ascending, over.times.first(), over.times.last()) {
                (true, _, Some(last)) if is_cut => rows.truncate(rows.first_after(*last)),
                (false, Some(first), _) if is_cut => {
                    rows = rows.part(rows.first_not_before(*first)..rows.len());
                }
                _ => {}
            }
            if !is_ascending {
                rows.reverse();
            }
            page.extend_from(&rows, 0..rows.len().min(rest.limit));
            let is_last = part.span == rest.span;
            if is_ascending {
                rest.span.first = just_after(part.span.last);
            } else {
                rest.span.last = just_before(part.span.first);
            }
            rest.limit = limit.saturating_sub(page.len());
            let is_full = rest.limit == 0 || page.text_bytes() > PAGE_TEXT_BYTES_MAX;
            if is_full || is_cut || is_last {
                return Ok((page, revision));
            }
        }
    }

    /// Reads the timestamps of the stored rows of a span.
    pub(super) fn stored_times(&self, dataset: DatasetId, span: Span) -> Result<Vec<Timestamp>> {
        let mut times = Vec::new();
        if span.first <= span.last {
            self.store.scan(dataset, Resolution::Raw, span, &mut |batch| {
                if let Rows::Raw(rows) = batch.rows()? {
                    times.extend(rows.times);
                }
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
        }
        Ok(times)
    }

    /// Reads the archived rows of the buckets of five minutes that start at `starts`, which are sorted.
    pub(super) fn rows_of_buckets(
        &self,
        dataset: DatasetId,
        months: &[ArchivedMonth],
        starts: &[Timestamp],
    ) -> Result<Block> {
        let empty = self.empty(dataset)?;
        let mut found = empty.clone();
        let bucket = |start: Timestamp| series::span(Resolution::FiveMinutes, start);
        for month in months {
            let whole = month.file.month.span();
            let here: Vec<Timestamp> = starts
                .iter()
                .copied()
                .filter(|start| whole.first <= *start && *start <= whole.last)
                .collect();
            let (Some(first), Some(last)) = (here.first(), here.last()) else { continue };
            let spans: Vec<Span> = if here.len() <= SINGLE_BUCKETS_MAX {
                here.iter().copied().map(bucket).collect()
            } else {
                vec![Span { first: *first, last: bucket(*last).last }]
            };
            for span in spans {
                let open = self.open_month(dataset, month, span)?;
                for rows in open.pieces(&empty) {
                    let rows = rows.map_err(fails(dataset, month.file.month))?;
                    for (row_idx, time) in rows.times.iter().enumerate() {
                        let start = Resolution::FiveMinutes.bucket_start(*time);
                        if here.binary_search(&start).is_ok() {
                            found.extend_from(&rows, row_idx..row_idx + 1);
                        }
                    }
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
        for month in months.iter().rev() {
            let mut month = month.clone();
            month.cuts.push(cut);
            let last = month.file.rows.last;
            if !month.cuts.iter().any(|cut| cut.first <= last && last <= cut.last) {
                return Ok(Some(last));
            }
            let open = self.open_month(dataset, &month, month.file.month.span())?;
            if let Some(rows) = open.kept.last() {
                let times = open.reader.times(rows.end - 1..rows.end);
                return Ok(times.map_err(fails(dataset, month.file.month))?.pop());
            }
        }
        Ok(None)
    }
}

impl OpenMonth<'_> {
    /// Reads the rows in pieces of limited size, into blocks with the columns of `empty`.
    pub(super) fn pieces<'b>(
        &'b self,
        empty: &'b Block,
    ) -> impl Iterator<Item = Result<Block, ObjectError>> + 'b {
        self.kept.iter().flat_map(|rows| self.reader.pieces(rows.clone(), empty))
    }

    pub(super) fn n_rows(&self) -> u64 {
        self.kept.iter().map(|rows| rows.end - rows.start).sum()
    }

    /// Returns how many of `times`, which are sorted, are timestamps of archived rows that remain.
    pub(super) fn count_contained(&self, times: &[Timestamp]) -> Result<u64, ObjectError> {
        let (mut left, mut n) = (times, 0);
        for (rows, span) in self.reader.pages() {
            let here = left.partition_point(|time| *time <= span.last);
            let (here, later) = left.split_at(here);
            left = later;
            if here.is_empty() {
                continue;
            }
            let archived = self.reader.times(rows.clone())?;
            for time in here {
                let Ok(found) = archived.binary_search(time) else { continue };
                let row = rows.start + found as u64;
                n += u64::from(self.kept.iter().any(|kept| kept.contains(&row)));
            }
        }
        Ok(n)
    }

    /// Takes rows from the first row range in `order`: at most `limit` rows, and at most the rows of a
    /// page. The other rows of the range remain for the next call.
    fn take(&mut self, order: Order, limit: usize) -> Range<u64> {
        let is_ascending = order == Order::Ascending;
        let next = if is_ascending { self.kept.first_mut() } else { self.kept.last_mut() };
        let Some(rows) = next else { return 0..0 };
        let n = (limit.min(PAGE_ROWS) as u64).min(rows.end - rows.start);
        let taken = if is_ascending {
            rows.start += n;
            rows.start - n..rows.start
        } else {
            rows.end -= n;
            rows.end..rows.end + n
        };
        self.kept.retain(|rows| !rows.is_empty());
        taken
    }

    /// Returns the timestamp of the row that follows the first `n_rows` archived and stored rows.
    fn nth_time(&self, stored: &[Timestamp], n_rows: u64) -> Result<Timestamp, ObjectError> {
        let mut times = stored.to_vec();
        let mut n_left = n_rows;
        for rows in self.kept.clone() {
            let n = rows.end - rows.start;
            if !stored.is_empty() {
                times.extend(self.reader.times(rows)?);
            } else if n_left < n {
                let row = rows.start + n_left;
                return Ok(self.reader.times(row..row + 1)?.pop().unwrap_or_default());
            }
            n_left = n_left.saturating_sub(n);
        }
        times.sort_unstable();
        times.dedup();
        let found = usize::try_from(n_rows).ok().and_then(|idx| times.get(idx));
        Ok(found.copied().unwrap_or_default())
    }
}

/// Returns the indices of the rows in a file that lie within a span.
fn positions(reader: &FileReader<'_>, span: Span) -> Result<Range<u64>, ObjectError> {
    let rows = reader.file.rows;
    let start = if span.first <= rows.first { 0 } else { reader.position(span.first)? };
    let end = if span.last >= rows.last {
        reader.n_rows()
    } else {
        reader.position(just_after(span.last))?
    };
    Ok(start..end.max(start))
}

/// Splits a span into the archived months and the gaps between them.
pub(super) fn segments(span: Span, months: &[ArchivedMonth]) -> Vec<Segment<'_>> {
    let (mut segments, mut from) = (Vec::new(), span.first.micros());
    for month in months {
        let here = month.file.month.span().overlap(span);
        if here.is_empty() {
            continue;
        }
        if from < here.first.micros() {
            let gap = Span { first: Timestamp::from_micros(from), last: just_before(here.first) };
            segments.push(Segment { span: gap, month: None });
        }
        segments.push(Segment { span: here, month: Some(month) });
        from = here.last.micros() + 1;
    }
    if from <= span.last.micros() {
        let gap = Span { first: Timestamp::from_micros(from), last: span.last };
        segments.push(Segment { span: gap, month: None });
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
