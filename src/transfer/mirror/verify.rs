//! Compares a copy with its source before it is reported as copied: the number of rows, then the
//! days, and where there are none the number of rows of each chunk.
//!
//! Rows that only the copy has are no difference: rows deleted at the source stay in the copy.

use anyhow::{Context as _, bail};
use client::datasets::{Datasets, RowsQuery};
use model::{
    count::format_count, dataset::DatasetId, page::Limit, resolution::Resolution,
    timestamp::Timestamp,
};

use super::{
    copy::{Copy, chunks},
    fetch::STEP,
};
use crate::{event::Work, retry::retry_transient};

/// Comparisons before a copy is given up that still gets rows at each: its source is being
/// corrected faster than it is read, or does not serve the rows that it counts.
const ROUNDS_MAX: usize = 3;

impl Copy {
    /// Compares all rows up to `newest` with the source, and stores those that the copy lacks;
    /// returns how many it lacked.
    ///
    /// # Errors
    /// If the copy still lacks rows that the source counts after [`ROUNDS_MAX`] rounds.
    pub(super) async fn verify(
        &mut self,
        newest: Timestamp,
        progress: &mut dyn Work,
    ) -> anyhow::Result<u64> {
        let Some(oldest) = self.oldest().await? else { return Ok(0) };
        let first = oldest.max(self.mirror.options.start.unwrap_or(Timestamp::MIN));
        if first > newest {
            return Ok(0);
        }
        let mut n_stored = 0;
        for _ in 0..ROUNDS_MAX {
            let (n_source, n_target) = self.count_rows(first, newest).await?;
            let mut differing = self.find_differences(first, newest).await?;
            if differing == [(first, newest)] && n_source > n_target {
                differing = self.find_short_chunks(first, newest).await?;
            } else if differing == [(first, newest)] && n_source == n_target {
                // There are no days to compare, and the number of rows is the same.
                differing.clear();
            }
            if differing.is_empty() && n_source <= n_target {
                return Ok(n_stored);
            }
            let copied = self.read_copied().await?;
            let mut n_round = 0;
            for (start, end) in differing {
                n_round += self.copy_span(start, end, copied.as_ref(), progress).await?;
            }
            n_stored += n_round;
            if n_round == 0 {
                // All rows that the source serves were compared one by one and are here.
                return self.check_count(first, newest).await.map(|()| n_stored);
            }
        }
        self.check_count(first, newest).await.map(|()| n_stored)
    }

    /// Checks that the copy has at least as many rows as the source.
    async fn check_count(&self, first: Timestamp, newest: Timestamp) -> anyhow::Result<()> {
        let (n_source, n_target) = self.count_rows(first, newest).await?;
        if n_source <= n_target {
            return Ok(());
        }
        let differ = format!(
            "{} counts {} rows from {first} to {newest}, the copy {}",
            self.mirror.source.address(),
            format_count(n_source),
            format_count(n_target),
        );
        if self.mirror.options.is_live {
            // The stream brings what is late.
            let text = format!("{}: {differ}; new and late rows follow", self.name());
            self.mirror.reporter.note(&text);
            return Ok(());
        }
        bail!("{differ}; run the same command again, it copies what is missing")
    }

    /// Returns how many rows the source and the copy have from `first` to `last`, both included.
    async fn count_rows(&self, first: Timestamp, last: Timestamp) -> anyhow::Result<(u64, u64)> {
        let (source, target) = (&self.mirror.source, &self.mirror.target);
        let n_source = count_span(source, self.dataset.id, first, last).await?;
        Ok((n_source, count_span(target, self.target, first, last).await?))
    }

    /// Returns the chunks in which the copy has fewer rows than the source.
    async fn find_short_chunks(
        &self,
        first: Timestamp,
        last: Timestamp,
    ) -> anyhow::Result<Vec<(Timestamp, Timestamp)>> {
        let mut short = Vec::new();
        for (start, end) in chunks(first, last) {
            let (n_source, n_target) = self.count_rows(start, end).await?;
            if n_source > n_target {
                short.push((start, end));
            }
        }
        Ok(short)
    }
}

/// Returns how many rows a dataset has from `first` to `last`, both included.
///
/// Two counts with one bound each: the span between two bounds is capped.
async fn count_span(
    service: &Datasets,
    dataset: DatasetId,
    first: Timestamp,
    last: Timestamp,
) -> anyhow::Result<u64> {
    let from_first = count_from(service, dataset, first).await?;
    let after_last = count_from(service, dataset, last + STEP).await?;
    Ok(from_first.saturating_sub(after_last))
}

async fn count_from(
    service: &Datasets,
    dataset: DatasetId,
    first: Timestamp,
) -> anyhow::Result<u64> {
    let query = RowsQuery {
        start: Some(first),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(1))
    };
    let page = retry_transient(|| service.rows(&query)).await.context("count the rows")?;
    page.count.with_context(|| format!("count the rows: {} does not count", service.address()))
}
