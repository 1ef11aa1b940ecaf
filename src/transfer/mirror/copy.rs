//! One dataset being copied: its place at the target, its columns, and the rows there are.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use client::datasets::{
    Datasets, NamedRow, Rows, RowsQuery,
    insert::{InsertBody, InsertMode},
};
use formats::read::column_mapping::ColumnMapping;
use futures::{StreamExt as _, stream};
use model::{
    dataset::{Dataset, DatasetId, Dtype},
    escape::escape_line,
    page::Limit,
    resolution::Resolution,
    row::{Bucket, Row},
    timestamp::Timestamp,
};
use wire::datasets::{CreateColumn, CreateDataset};

use super::{
    Mirror,
    checkpoint::CopyCheckpoint,
    fetch::{Fetched, STEP, fetch},
};
use crate::{event::Work, replay::order_values, retry::retry_transient};

/// The span of a download, as the public service's own clients have it.
const CHUNK: Duration = Duration::from_hours(14 * 24);

/// A day, by which what was copied before is compared.
const DAY: Duration = Duration::from_hours(24);

/// How far apart two sums of the same numbers may be, as a share of them: what the order of a
/// million additions may come to, and less than any row's part in a day.
const ALIKE: f64 = 1e-9;

/// Rows of one insert.
const INSERT_ROWS: usize = 5_000;

/// Before any row of a service: the first day of the calendar.
const CALENDAR_BEGINS: Timestamp = Timestamp::from_seconds(-62_135_596_800);

/// A dataset being copied.
pub(super) struct Copy {
    pub(super) mirror: Arc<Mirror>,
    /// As it is at the source.
    pub(super) dataset: Dataset,
    pub(super) target: DatasetId,
    columns: Vec<(String, Dtype)>,
    pub(super) checkpoint: CopyCheckpoint,
}

/// What a copy has already.
pub(super) struct CopiedRows {
    /// The timestamp of its newest row.
    newest: Timestamp,
    /// How its rows are read, so that they compare with those of the source.
    plan: ColumnMapping,
}

impl Copy {
    /// Finds the copy of `dataset`, or creates it, with all its columns.
    ///
    /// # Errors
    /// If the target refuses, or has another dataset in its place.
    pub(super) async fn open(mirror: Arc<Mirror>, dataset: Dataset) -> anyhow::Result<Self> {
        let columns = read_columns(&mirror.source, dataset.id).await?;
        let name = format!("{}{}", mirror.options.prefix, dataset.name);
        let (target, is_new) = if let Some(target) = find_owned(&mirror.target, &name).await? {
            let is_same =
                target.description == dataset.description && target.metadata == dataset.metadata;
            if !is_same {
                let describing = || format!("describe dataset {name} like its original");
                let described =
                    retry_transient(|| mirror.target.describe(&dataset, target.id)).await;
                described.with_context(describing)?;
            }
            (target.id, false)
        } else {
            let body = CreateDataset {
                name: name.clone(),
                description: dataset.description.clone(),
                metadata: dataset.metadata.clone(),
                columns: columns
                    .iter()
                    .map(|(name, dtype)| CreateColumn::new(name, *dtype))
                    .collect(),
                tags: mirror.options.give_tags.clone(),
            };
            let created = retry_transient(|| mirror.target.create(&body)).await;
            (created.with_context(|| format!("create dataset {name}"))?.id, true)
        };
        // What was copied to an earlier dataset of this number is not in the new one.
        let mut checkpoint =
            if is_new { CopyCheckpoint::default() } else { mirror.folder.read(dataset.id, target) };
        if mirror.options.start < checkpoint.start {
            // Rows are wanted that an earlier mirror passed over.
            checkpoint = CopyCheckpoint { done_until: None, is_whole: false, ..checkpoint };
        }
        checkpoint.start = mirror.options.start;
        let copy = Self { mirror, dataset, target, columns, checkpoint };
        copy.add_columns().await?;
        Ok(copy)
    }

    /// Its name, for people.
    pub(super) fn name(&self) -> String {
        escape_line(&self.dataset.name).into()
    }

    /// Reports a message about it.
    pub(super) fn note(&self, text: &str) {
        self.mirror.reporter.note(text);
    }

    /// Gives the target the columns that it lacks.
    async fn add_columns(&self) -> anyhow::Result<()> {
        let existing = read_columns(&self.mirror.target, self.target).await?;
        for (name, dtype) in &self.columns {
            match existing.iter().find(|(existing, _)| existing == name) {
                Some((_, existing)) if existing == dtype => {}
                Some((_, existing)) => {
                    bail!("copy column {name}, which is {dtype}: the copy has it as {existing}")
                }
                None => {
                    let adding = || format!("add column {name} to the copy");
                    let target = &self.mirror.target;
                    let added =
                        retry_transient(|| target.add_column(self.target, name, *dtype)).await;
                    added.with_context(adding)?;
                }
            }
        }
        Ok(())
    }

    /// Stores all rows up to the newest that the source has now; returns how many came.
    ///
    /// Without the stream late and corrected rows go unnoticed: then a copy that
    /// was whole once is compared from its beginning, and of one that was not, what was there before
    /// is compared by its days: they tell of all rows that are numbers, and not of each correction,
    /// which the next time finds.
    ///
    /// # Errors
    /// If rows cannot be fetched or stored. What is stored is kept, and gone on from.
    pub(super) async fn backfill(&mut self) -> anyhow::Result<u64> {
        let Some(newest) = self.newest().await? else {
            self.checkpoint.is_whole = true;
            self.write_checkpoint()?;
            return Ok(0);
        };
        let is_compared = self.checkpoint.is_whole && !self.mirror.options.is_live;
        let begin = match self.checkpoint.done_until.filter(|_| !is_compared) {
            Some(done_until) => Some(done_until + STEP),
            None => self.oldest().await?,
        };
        let begin =
            begin.unwrap_or(newest).max(self.mirror.options.start.unwrap_or(Timestamp::MIN));
        let mirror = Arc::clone(&self.mirror);
        let mut progress = mirror.reporter.begin(format!("copying {}", self.name()), 0);
        let progress = progress.as_mut();
        let copied = self.read_copied().await?;
        let earlier = self
            .checkpoint
            .done_until
            .filter(|_| !self.checkpoint.is_whole && !self.mirror.options.is_live);
        let mut n_rows = self.copy_span(begin, newest, copied.as_ref(), progress).await?;
        if let Some(until) = earlier {
            // What was copied before a kill may have got late rows since, unnoticed.
            let first = self.oldest().await?.unwrap_or(until);
            let first = first.max(self.mirror.options.start.unwrap_or(Timestamp::MIN));
            for (start, end) in self.find_differences(first, until).await? {
                n_rows += self.copy_span(start, end, copied.as_ref(), progress).await?;
            }
        }
        n_rows += self.verify(newest, progress).await?;
        self.checkpoint.is_whole = true;
        self.checkpoint.done_until = self.checkpoint.done_until.max(Some(newest));
        self.write_checkpoint()?;
        Ok(n_rows)
    }

    /// Stores the rows of a span that the copy lacks; how many those were.
    pub(super) async fn copy_span(
        &mut self,
        begin: Timestamp,
        newest: Timestamp,
        copied: Option<&CopiedRows>,
        progress: &mut dyn Work,
    ) -> anyhow::Result<u64> {
        let source = self.mirror.source.clone();
        let plan = ColumnMapping::of_service(self.columns.iter().cloned());
        let (id, mirror) = (self.dataset.id, Arc::clone(&self.mirror));
        let fetch_one = async |(start, end): (Timestamp, Timestamp)| {
            let _permit = mirror.downloads.acquire().await?;
            let fetched = fetch(&source, id, &plan, start, end).await?;
            anyhow::Ok((fetched, (start, end)))
        };
        let chunks = stream::iter(chunks(begin, newest)).map(&fetch_one);
        let mut chunks = std::pin::pin!(chunks.buffered(mirror.options.n_parallel));
        let mut n_rows = 0;
        while let Some(chunk) = chunks.next().await {
            let (mut fetched, (mut start, end)) = chunk?;
            loop {
                let until = fetched.until;
                if let Some(copied) = copied.filter(|copied| copied.newest >= start) {
                    fetched.rows = self.retain_missing(copied, fetched.rows, start, until).await?;
                }
                n_rows += fetched.rows.len() as u64;
                self.store(fetched).await?;
                progress.update(n_rows, share(begin, newest, until));
                if until >= end {
                    break;
                }
                start = until + STEP;
                fetched = fetch_one((start, end)).await?.0;
            }
        }
        Ok(n_rows)
    }

    /// The parts of a span in which the days of the copy are not those of the source; all of it if
    /// the source has no days, as where no column is a number.
    pub(super) async fn find_differences(
        &self,
        first: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<Vec<(Timestamp, Timestamp)>> {
        let source = read_days(&self.mirror.source, self.dataset.id, first, until).await?;
        if source.is_empty() {
            return Ok(vec![(first, until)]);
        }
        let target = read_days(&self.mirror.target, self.target, first, until).await?;
        let differing = find_differing_days(&source, &target);
        let within = differing.into_iter().map(|(start, end)| (start.max(first), end.min(until)));
        Ok(within.filter(|(start, end)| start <= end).collect())
    }

    /// Reads what the copy has; `None` where it has no rows.
    pub(super) async fn read_copied(&self) -> anyhow::Result<Option<CopiedRows>> {
        let (target, id) = (&self.mirror.target, self.target);
        let Some(newest) = newest_timestamp(target, id).await? else { return Ok(None) };
        let mut plan = ColumnMapping::of_service(self.columns.iter().cloned());
        for (name, _) in read_columns(target, id).await? {
            if !self.columns.iter().any(|(known, _)| *known == name) {
                plan.leave_out(&name);
            }
        }
        Ok(Some(CopiedRows { newest, plan }))
    }

    /// Returns those of `rows`, all there are from `start` to `until`, that the copy lacks or has
    /// with other values.
    async fn retain_missing(
        &self,
        copied: &CopiedRows,
        mut rows: Vec<Row>,
        mut start: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<Vec<Row>> {
        while !rows.is_empty() && start <= until {
            let fetched = fetch(&self.mirror.target, self.target, &copied.plan, start, until).await;
            let fetched = fetched.context("compare with the rows of the copy")?;
            let has = |row: &Row| {
                let at = fetched.rows.binary_search_by_key(&row.timestamp, |row| row.timestamp);
                at.is_ok_and(|at| fetched.rows.get(at) == Some(row))
            };
            rows.retain(|row| !has(row));
            start = fetched.until + STEP;
        }
        Ok(rows)
    }

    async fn store(&mut self, fetched: Fetched) -> anyhow::Result<()> {
        let Fetched { rows, until } = fetched;
        self.insert(&rows).await?;
        self.checkpoint.done_until = self.checkpoint.done_until.max(Some(until));
        self.write_checkpoint()
    }

    /// Stores rows of the stream, and keeps that they are.
    ///
    /// # Errors
    /// If they are refused.
    pub(super) async fn store_live(
        &mut self,
        rows: Vec<NamedRow>,
        last_event_id: Option<String>,
    ) -> anyhow::Result<()> {
        let newest = rows.iter().map(|row| row.timestamp).max();
        let start = self.mirror.options.start.unwrap_or(Timestamp::MIN);
        let rows: Vec<_> = rows.into_iter().filter(|row| row.timestamp >= start).collect();
        let is_known = |name: &String| self.columns.iter().any(|(known, _)| known == name);
        if !rows.iter().all(|row| row.values.keys().all(is_known)) {
            self.columns = read_columns(&self.mirror.source, self.dataset.id).await?;
            self.add_columns().await?;
        }
        let rows: Vec<_> = rows.into_iter().map(|row| order_values(row, &self.columns)).collect();
        self.insert(&rows).await?;
        self.checkpoint.done_until = self.checkpoint.done_until.max(newest);
        self.checkpoint.last_event_id =
            last_event_id.or_else(|| self.checkpoint.last_event_id.take());
        self.write_checkpoint()
    }

    async fn insert(&self, rows: &[Row]) -> anyhow::Result<()> {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        for rows in rows.chunks(INSERT_ROWS) {
            let body = InsertBody::new(self.target, &names, rows);
            let target = &self.mirror.target;
            retry_transient(|| target.insert_body(&body, InsertMode::Replace))
                .await
                .context("store rows in the copy")?;
        }
        Ok(())
    }

    pub(super) fn write_checkpoint(&self) -> anyhow::Result<()> {
        self.mirror.folder.write(self.dataset.id, self.target, &self.checkpoint)
    }

    /// Returns the timestamp of the newest row of the source, also if it is in the future.
    pub(super) async fn newest(&self) -> anyhow::Result<Option<Timestamp>> {
        newest_timestamp(&self.mirror.source, self.dataset.id).await
    }

    /// Returns a timestamp that no row of the source is before.
    pub(super) async fn oldest(&self) -> anyhow::Result<Option<Timestamp>> {
        let query = RowsQuery {
            start: Some(CALENDAR_BEGINS),
            ..RowsQuery::oldest(self.dataset.id, Resolution::Raw, Limit::clamp(1))
        };
        if let Ok(oldest) = first_of(&self.mirror.source, query).await {
            return Ok(oldest);
        }
        // Days are served without a limit to their span, by document 2.
        let days = RowsQuery { start: None, resolution: Resolution::Day, ..query };
        first_of(&self.mirror.source, days).await
    }
}

/// Returns the timestamp of a dataset's newest row, also if it is in the future: a page without
/// bounds ends now.
async fn newest_timestamp(
    service: &Datasets,
    dataset: DatasetId,
) -> anyhow::Result<Option<Timestamp>> {
    let rows = retry_transient(|| service.newest(dataset, Limit::clamp(1))).await;
    Ok(rows.context("read the newest row")?.first().map(|row| row.timestamp))
}

/// Returns the timestamp of the first row of an answer.
async fn first_of(service: &Datasets, query: RowsQuery) -> anyhow::Result<Option<Timestamp>> {
    let page =
        retry_transient(|| service.rows(&query)).await.context("look at the rows to copy")?;
    Ok(match page.rows {
        Rows::Raw(rows) => rows.first().map(|row| row.timestamp),
        Rows::Buckets(buckets) => buckets.first().map(|bucket| bucket.timestamp),
    })
}

/// Reads the days from that of `first` to that of `last`.
async fn read_days(
    service: &Datasets,
    dataset: DatasetId,
    first: Timestamp,
    last: Timestamp,
) -> anyhow::Result<Vec<Bucket>> {
    let day = |timestamp| Resolution::Day.bucket_start(timestamp);
    let mut query = RowsQuery {
        start: Some(day(first)),
        end: Some(day(last) + DAY),
        ..RowsQuery::oldest(dataset, Resolution::Day, Limit::clamp(usize::MAX))
    };
    let mut days: Vec<Bucket> = Vec::new();
    loop {
        let page =
            retry_transient(|| service.rows(&query)).await.context("look at the days to copy")?;
        let Rows::Buckets(buckets) = page.rows else { return Ok(days) };
        days.extend(buckets);
        // One that does not go on would be asked for ever.
        let Some(next) = page.next.filter(|next| query.after < Some(*next)) else {
            return Ok(days);
        };
        query.after = Some(next);
    }
}

/// The days that are not the same on both sides, those next to one another as one.
fn find_differing_days(source: &[Bucket], target: &[Bucket]) -> Vec<(Timestamp, Timestamp)> {
    let mut differing: Vec<(Timestamp, Timestamp)> = Vec::new();
    for day in source {
        let found = target.binary_search_by_key(&day.timestamp, |day| day.timestamp);
        if found.ok().and_then(|idx| target.get(idx)).is_some_and(|held| is_alike(day, held)) {
            continue;
        }
        let end = day.timestamp + DAY - STEP;
        match differing.last_mut() {
            Some((_, last)) if *last + STEP == day.timestamp => *last = end,
            _ => differing.push((day.timestamp, end)),
        }
    }
    differing
}

/// Whether two days are of the same rows, as far as days tell: each service adds up as it does.
fn is_alike(a: &Bucket, b: &Bucket) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= ALIKE * a.abs().max(b.abs());
    a.count == b.count
        && near(a.open, b.open)
        && near(a.high, b.high)
        && near(a.low, b.low)
        && near(a.close, b.close)
        && near(a.volume, b.volume)
}

/// Finds the dataset called `name` that the key owns.
async fn find_owned(target: &Datasets, name: &str) -> anyhow::Result<Option<Dataset>> {
    let looking = || format!("look for dataset {name} at {}", target.address());
    let Some(found) = retry_transient(|| target.find_by_name(name)).await.with_context(looking)?
    else {
        return Ok(None);
    };
    let access = retry_transient(|| target.access(found.id, true)).await.with_context(looking)?;
    if access.is_owner {
        return Ok(Some(found));
    }
    bail!("copy to dataset {name}: it is another key's; choose a --prefix")
}

async fn read_columns(service: &Datasets, id: DatasetId) -> anyhow::Result<Vec<(String, Dtype)>> {
    let columns = retry_transient(|| service.columns(id)).await.context("read the columns")?;
    Ok(columns.into_iter().map(|column| (column.name, column.dtype)).collect())
}

/// The spans from `begin` to `newest`, each of at most [`CHUNK`], both ends included.
pub(super) fn chunks(
    begin: Timestamp,
    newest: Timestamp,
) -> impl Iterator<Item = (Timestamp, Timestamp)> {
    let mut next = Some(begin).filter(|begin| *begin <= newest);
    std::iter::from_fn(move || {
        let start = next?;
        let end = (start + CHUNK - STEP).min(newest);
        next = Some(end + STEP).filter(|start| *start <= newest);
        Some((start, end))
    })
}

fn share(begin: Timestamp, newest: Timestamp, until: Timestamp) -> Option<f64> {
    let whole = newest.since(begin).as_secs_f64();
    (whole > 0.0).then(|| (until.since(begin).as_secs_f64() / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day of March with so many rows.
    fn day(day: i64, count: u64) -> Bucket {
        let timestamp = Timestamp::from_seconds(1_772_323_200 + (day - 1) * 86_400);
        Bucket { timestamp, open: 1.0, high: 2.0, low: 0.5, close: 1.5, volume: 0.1, count }
    }

    #[test]
    fn days_that_differ_or_are_missing_are_found_and_taken_together() {
        let source =
            [(1, 5), (2, 5), (3, 5), (5, 5), (6, 5)].map(|(number, count)| day(number, count));
        let mut target =
            [(1, 5), (2, 4), (4, 1), (5, 5), (6, 5)].map(|(number, count)| day(number, count));
        target[3].volume += 1e-16;
        target[4].high = 3.0;
        let apart = find_differing_days(&source, &target);
        let got: Vec<_> = apart.iter().map(|(a, b)| format!("{a} {b}")).collect();
        let want = [
            "2026-03-02T00:00:00Z 2026-03-03T23:59:59.999999Z",
            "2026-03-06T00:00:00Z 2026-03-06T23:59:59.999999Z",
        ];
        assert_eq!(got, want);
    }

    #[track_caller]
    fn check(begin: &str, newest: &str, want: &[(&str, &str)]) {
        let chunks = chunks(begin.parse().unwrap(), newest.parse().unwrap());
        let got: Vec<_> = chunks.map(|(start, end)| (start.to_string(), end.to_string())).collect();
        let want: Vec<_> =
            want.iter().map(|&(start, end)| (start.to_owned(), end.to_owned())).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn chunks_cover_each_timestamp_once() {
        check(
            "2026-01-01T00:00:00Z",
            "2026-01-31T12:00:00Z",
            &[
                ("2026-01-01T00:00:00Z", "2026-01-14T23:59:59.999999Z"),
                ("2026-01-15T00:00:00Z", "2026-01-28T23:59:59.999999Z"),
                ("2026-01-29T00:00:00Z", "2026-01-31T12:00:00Z"),
            ],
        );
        let one = "2026-01-01T00:00:00Z";
        check(one, one, &[(one, one)]);
        check("2026-01-02T00:00:00Z", one, &[]);
    }
}
