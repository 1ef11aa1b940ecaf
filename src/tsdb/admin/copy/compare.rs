//! Compares a dataset with its copy, page by page.

use model::block::{Block, Rows};
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use super::{
    COMMIT_ROWS, CopiedDataset, Copy, CopyError, CopyProgress, OnProgress, count, describe, report,
    select,
};
use crate::rollup::stored_bits;
use crate::span::{Order, Span, just_after, just_before};
use crate::store::engine::CatalogEntry;
use crate::store::{PageRead, Store, StoreError};

/// Resolutions that are compared. The remaining resolutions are computed from these.
const COMPARED: [Resolution; 4] =
    [Resolution::Raw, Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

impl Copy<'_> {
    /// Compares the copy with its source, up to the latest row of the copy. Returns the equal copy, or
    /// the name of the first part that differs.
    pub(super) fn compare(
        &self,
        on_progress: OnProgress<'_>,
    ) -> Result<Result<CopiedDataset, &'static str>, CopyError> {
        let id = self.entry.dataset.id;
        let source = self.read_entry(self.from).map_err(CopyError::Read)?;
        let copied = self.read_entry(self.to).map_err(CopyError::Write)?;
        let n_all = count(self.from, id).map_err(CopyError::Read)?;
        let until = copied.newest.max(self.entry.kept_from.map(just_before));
        let until = until.unwrap_or(Timestamp::MIN);
        let (mut n_rows, mut n_buckets) = (0, 0);
        for resolution in COMPARED {
            let mut span = Span { last: until, ..Span::ALL };
            loop {
                let (source_page, page) = self.pages(resolution, span)?;
                let (n, end) = (page.len() as u64, page.timestamp(page.len().saturating_sub(1)));
                match (source_page, page) {
                    (Rows::Raw(source_rows), Rows::Raw(rows)) => {
                        if visible(source_rows, &source) != visible(rows, &copied) {
                            return Ok(Err("rows"));
                        }
                        n_rows += n;
                    }
                    (Rows::Buckets(source_buckets), Rows::Buckets(buckets)) => {
                        let last = resolution.bucket_start(until);
                        let bits = |buckets: Vec<Bucket>| buckets.iter().map(stored_bits).collect();
                        let [mut source_bits, mut bits]: [Vec<_>; 2] =
                            [bits(source_buckets), bits(buckets)];
                        if source_bits != bits && self.is_ahead(until)? {
                            // Later rows of the source change the bucket that contains `until`.
                            source_bits.retain(|(start, ..)| *start != last);
                            bits.retain(|(start, ..)| *start != last);
                        }
                        if source_bits != bits {
                            return Ok(Err("buckets"));
                        }
                        n_buckets += n;
                    }
                    _ => return Ok(Err("resolutions")),
                }
                report(on_progress, CopyProgress::Compared { n_rows, n_all })?;
                let Some(end) = end else { break };
                span.first = just_after(end);
            }
        }
        if describe(&source) != describe(&copied) || source.tags != copied.tags {
            return Ok(Err("name, metadata, columns or tags"));
        }
        Ok(Ok(CopiedDataset { id, name: copied.dataset.name, n_rows, n_buckets }))
    }

    fn read_entry(&self, store: &dyn Store) -> Result<CatalogEntry, StoreError> {
        let dataset = self.entry.dataset.id;
        CatalogEntry::read(store.catalog(), dataset)?.ok_or(StoreError::NoDataset { dataset })
    }

    /// Reads a page of the source and the page of the copy, with equally many rows unless one of them is
    /// empty: a page with long texts is shorter, at a length that depends on the engine.
    fn pages(&self, resolution: Resolution, span: Span) -> Result<(Rows, Rows), CopyError> {
        let id = self.entry.dataset.id;
        let read = PageRead { resolution, ..PageRead::raw(span, Order::Ascending, COMMIT_ROWS) };
        let mut source_page = self.from.page(id, &read).map_err(CopyError::Read)?.rows;
        let mut page = self.to.page(id, &read).map_err(CopyError::Write)?.rows;
        match source_page.len().min(page.len()) {
            0 => Ok((source_page, page)),
            n => Ok((source_page.take(n), page.take(n))),
        }
    }

    /// Returns true if the source has rows after `until`.
    fn is_ahead(&self, until: Timestamp) -> Result<bool, CopyError> {
        let source = self.read_entry(self.from).map_err(CopyError::Read)?;
        Ok(source.newest > Some(until))
    }
}

/// Returns the rows with the columns that are not deleted, without row numbers.
fn visible(rows: Block, entry: &CatalogEntry) -> Block {
    let columns: Vec<_> = entry.visible().collect();
    Block { ids: Vec::new(), ..select(rows, &columns) }
}
