//! Archived rows of a dataset, read month by month and merged with stored ones.

use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

use model::block::{Block, Rows};
use model::dataset::{DatasetId, Dtype};
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use super::Archive;
use super::file::FileReader;
use super::objects::ObjectError;
use super::write::PAGE_ROWS;
use crate::catalog::DatasetRef;
use crate::span::{Order, Span, just_after, just_before};
use crate::store::archived::ArchivedMonth;
use crate::store::{Count, PAGE_TEXT_BYTES_MAX, PageOfRows, PageRead, Result, StoreError, series};

/// Attempts of a read if its files are replaced in the meantime. A replacement takes a moment, once a
/// day.
pub(super) const TRIES: usize = 6;

/// Maximum number of buckets of a month that are read one by one. More are read with all rows
/// between them.
const SINGLE_BUCKETS_MAX: usize = 16;

/// A month that is being read.
pub(super) struct OpenMonth<'a> {
    pub(super) reader: FileReader<'a>,
    /// Indices of the rows of a span that were not deleted since the file was written.
    pub(super) kept: Vec<Range<u64>>,
}

/// A part of a span: a month of the archive, or time without one.
struct Segment<'a> {
    span: Span,
    month: Option<&'a ArchivedMonth>,
}

/// Returns the stamps of the files in effect.
pub(super) fn stamps(months: &[ArchivedMonth]) -> Vec<i64> {
    months.iter().map(|month| month.file.stamp).collect()
}

impl Archive {
    /// Runs `read` on the archived months that touch a span. Repeats it if they change in the
    /// meantime.
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

    /// Removes the cached footers of files that may have been replaced.
    pub(super) fn forget_footers(&self, months: &[ArchivedMonth]) {
        for file in months.iter().flat_map(|month| once(&month.file).chain(&month.next)) {
            self.footers.remove(&file.sha256);
        }
    }

    /// Returns a block without rows, for the dataset.
    pub(super) fn empty(&self, dataset: DatasetId) -> Result<Block> {
        let sight = self.store.sight(None, &DatasetRef::Id(dataset))?;
        let columns = sight.ok_or(StoreError::NoDataset { dataset })?.columns;
        let dtypes: Vec<Dtype> = columns.iter().map(|column| column.dtype).collect();
        Ok(Block::new(&dtypes))
    }

    /// Opens a month to read its rows of a span.
    pub(super) fn open_month(
        &self,
        dataset: DatasetId,
        month: &ArchivedMonth,
        span: Span,
    ) -> Result<OpenMonth<'_>> {
        let fail = fails(dataset, month);
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
        // While a file is being replaced, only its footer shows which one it is.
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
            if let Rows::Raw(rows) = found.rows {
                page.extend_from(&rows, 0..rows.len());
            }
        }
        let revision = match revision {
            Some(revision) => revision,
            None => self.revision(dataset)?,
        };
        Ok(PageOfRows { count: is_counted.then_some(count), rows: Rows::Raw(page), revision })
    }

    /// Returns the revision of a dataset.
    pub(super) fn revision(&self, dataset: DatasetId) -> Result<u64> {
        let sight = self.store.sight(None, &DatasetRef::Id(dataset))?;
        Ok(sight.ok_or(StoreError::NoDataset { dataset })?.revision)
    }

    /// Reads a page of the rows of a month.
    fn month_page(
        &self,
        dataset: DatasetId,
        read: &PageRead,
        month: &ArchivedMonth,
    ) -> Result<PageOfRows> {
        let fail = fails(dataset, month);
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
            } else if stored.is_empty() {
                open.skip(read.order, read.skip);
            } else if read.skip > 0 {
                let first = open.nth_time(&stored, read.order, read.skip).map_err(&fail)?;
                match read.order {
                    Order::Ascending => span.first = first,
                    Order::Descending => span.last = first,
                }
                open = self.open_month(dataset, month, span)?;
            }
        }
        let part = PageRead { span, skip: 0, count: Count::Nothing, ..*read };
        let (mut page, mut rest) = self.merge_month(dataset, month, &part, &open)?;
        while let Some(span) = rest
            && let Rows::Raw(rows) = &mut page.rows
            && rows.text_bytes() <= PAGE_TEXT_BYTES_MAX
        {
            let part = PageRead { span, limit: read.limit - rows.len(), ..part };
            open = self.open_month(dataset, month, span)?;
            let (more, next) = self.merge_month(dataset, month, &part, &open)?;
            if let Rows::Raw(more) = more.rows {
                rows.extend_from(&more, 0..more.len());
            }
            page.revision = page.revision.min(more.revision);
            rest = next;
        }
        Ok(PageOfRows { count, ..page })
    }

    /// Reads rows of a month in the order of `read`. If long texts end them early, also returns the
    /// span of the remaining rows.
    fn merge_month(
        &self,
        dataset: DatasetId,
        month: &ArchivedMonth,
        read: &PageRead,
        open: &OpenMonth<'_>,
    ) -> Result<(PageOfRows, Option<Span>)> {
        let PageRead { span, order, limit, .. } = *read;
        let PageOfRows { rows, revision, .. } = self.store.page(dataset, read)?;
        let Rows::Raw(mut over) = rows else { return Err(StoreError::Closed) };
        if order == Order::Descending {
            over.reverse();
        }
        let is_all_over = over.len() >= limit || over.text_bytes() <= PAGE_TEXT_BYTES_MAX;
        let under = open.read(order, limit, &over.empty_like());
        let (under, is_all_under) = under.map_err(fails(dataset, month))?;
        let merged = under.merge(&over);
        // Beyond the end of an incomplete part, the other one cannot be used.
        let cut = [(&over, is_all_over), (&under, is_all_under)];
        let cut = cut.into_iter().filter(|(_, is_all)| !is_all);
        let (rows, rest) = match order {
            Order::Ascending => {
                let end = cut.filter_map(|(rows, _)| rows.times.last().copied()).min();
                let until = end.map_or(merged.len(), |end| merged.first_after(end));
                (0..until.min(limit), end.map(|end| Span { first: just_after(end), ..span }))
            }
            Order::Descending => {
                let start = cut.filter_map(|(rows, _)| rows.times.first().copied()).max();
                let from = start.map_or(0, |start| merged.first_not_before(start));
                let rest = start.map(|start| Span { last: just_before(start), ..span });
                (from.max(merged.len().saturating_sub(limit))..merged.len(), rest)
            }
        };
        let rest = rest.filter(|_| rows.len() < limit);
        let mut merged = if rows.len() < merged.len() { merged.part(rows) } else { merged };
        if order == Order::Descending {
            merged.reverse();
        }
        Ok((PageOfRows { count: None, rows: Rows::Raw(merged), revision }, rest))
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

    /// Reads the archived rows of the buckets of five minutes that start at `starts`, which are in
    /// order.
    pub(super) fn rows_of_buckets(
        &self,
        dataset: DatasetId,
        months: &[ArchivedMonth],
        starts: &[Timestamp],
    ) -> Result<Block> {
        let mut found = self.empty(dataset)?;
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
                for rows in open.kept.clone() {
                    let rows = open.reader.rows(rows, &found).map_err(fails(dataset, month))?;
                    found.extend_from(&rows, 0..rows.len());
                }
            }
        }
        Ok(found)
    }

    /// Returns the timestamp of the latest remaining archived row, with `cut` deleted.
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
                return Ok(times.map_err(fails(dataset, &month))?.pop());
            }
        }
        Ok(None)
    }
}

impl OpenMonth<'_> {
    pub(super) fn n_rows(&self) -> u64 {
        self.kept.iter().map(|rows| rows.end - rows.start).sum()
    }

    /// Returns the number of `times`, which are in order, at which there is a row.
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

    /// Removes the first `n_rows` in an order.
    fn skip(&mut self, order: Order, mut n_rows: u64) {
        if order == Order::Descending {
            self.kept.reverse();
        }
        for rows in &mut self.kept {
            let n = n_rows.min(rows.end - rows.start);
            n_rows -= n;
            match order {
                Order::Ascending => rows.start += n,
                Order::Descending => rows.end -= n,
            }
        }
        if order == Order::Descending {
            self.kept.reverse();
        }
        self.kept.retain(|rows| !rows.is_empty());
    }

    /// Returns the timestamp of the row after the first `n_rows` archived and stored rows.
    fn nth_time(
        &self,
        stored: &[Timestamp],
        order: Order,
        n_rows: u64,
    ) -> Result<Timestamp, ObjectError> {
        let mut times = stored.to_vec();
        for rows in self.kept.clone() {
            times.extend(self.reader.times(rows)?);
        }
        times.sort_unstable();
        times.dedup();
        let n_rows = usize::try_from(n_rows).unwrap_or(usize::MAX);
        let found = match order {
            Order::Ascending => times.get(n_rows),
            Order::Descending => times.len().checked_sub(n_rows + 1).and_then(|idx| times.get(idx)),
        };
        Ok(found.copied().unwrap_or_default())
    }

    /// Reads the first `limit` rows in an order and returns them in ascending order. The second value is
    /// false if the limit of their text was reached first.
    fn read(
        &self,
        order: Order,
        limit: usize,
        empty: &Block,
    ) -> Result<(Block, bool), ObjectError> {
        let mut kept = self.kept.clone();
        if order == Order::Descending {
            kept.reverse();
        }
        let (mut parts, mut n_left, mut n_bytes) = (Vec::new(), limit as u64, 0);
        let mut is_all = true;
        'ranges: for mut rows in kept {
            while !rows.is_empty() && n_left > 0 {
                if n_bytes > PAGE_TEXT_BYTES_MAX {
                    is_all = false;
                    break 'ranges;
                }
                let n = n_left.min(rows.end - rows.start).min(PAGE_ROWS as u64);
                let here = match order {
                    Order::Ascending => rows.start..rows.start + n,
                    Order::Descending => rows.end - n..rows.end,
                };
                match order {
                    Order::Ascending => rows.start += n,
                    Order::Descending => rows.end -= n,
                }
                let block = self.reader.rows(here, empty)?;
                n_bytes += block.text_bytes();
                n_left -= n;
                parts.push(block);
            }
        }
        if order == Order::Descending {
            parts.reverse();
        }
        let mut found = empty.empty_like();
        for part in parts {
            found.extend_from(&part, 0..part.len());
        }
        Ok((found, is_all))
    }
}

/// Returns the indices of the rows of a span.
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

/// Divides a span by the months in it.
fn segments(span: Span, months: &[ArchivedMonth]) -> Vec<Segment<'_>> {
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

/// Returns the error of a month that could not be read.
pub(super) fn fails(
    dataset: DatasetId,
    month: &ArchivedMonth,
) -> impl Fn(ObjectError) -> StoreError + use<> {
    let month = month.file.month;
    move |error| StoreError::Archive { dataset, month, source: error.into() }
}

/// Returns true if a file is damaged or missing, as after it was replaced while it was read.
pub(super) fn is_damaged(error: &StoreError) -> bool {
    let StoreError::Archive { source, .. } = error else { return false };
    matches!(source.downcast_ref(), Some(ObjectError::Damaged { .. } | ObjectError::Missing { .. }))
}
