//! A dataset that is being copied: its dataset at the target, its columns and its rows.
//!
//! Days that are the same at the source and the target are not copied again, so that a stopped copy
//! resumes without a record of its progress. A copy is verified in the same way.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use client::datasets::insert::{InsertBody, InsertMode};
use client::datasets::{Datasets, NamedRow, Rows, RowsQuery};
use formats::read::column_mapping::ColumnMapping;
use futures::{StreamExt as _, stream};
use model::count::format_count;
use model::dataset::{Dataset, DatasetId, Dtype};
use model::escape::escape_line;
use model::page::Limit;
use model::resolution::Resolution;
use model::row::{Bucket, Row};
use model::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use wire::datasets::{CreateColumn, CreateDataset};

use super::Mirror;
use super::fetch::{STEP, fetch, find_owned, read_columns};
use crate::checkpoint;
use crate::event::Work;
use crate::retry::retry_transient;

/// Time range of a download, the same as in the public service's own clients.
const CHUNK: Duration = Duration::from_hours(14 * 24);

/// Length of the buckets by which a copy is compared.
const DAY: Duration = Duration::from_hours(24);

/// Maximum relative difference of two sums of the same numbers. It allows for a million additions but is
/// less than the share of a row in a day.
const SUM_TOLERANCE: f64 = 1e-9;

/// Number of rows of a request.
const INSERT_ROWS: usize = 5_000;

/// Maximum number of comparisons after which a copy that still receives rows fails: its source is
/// corrected faster than it is read, or does not serve the rows that it counts.
const ROUNDS_MAX: usize = 4;

/// The first day of the calendar, before any row.
const CALENDAR_BEGINS: Timestamp = Timestamp::from_seconds(-62_135_596_800);

/// Time ranges with both ends included.
type Spans = Vec<(Timestamp, Timestamp)>;

/// First comparison of a copy with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    /// By days, which reveals late rows and most corrections.
    Days,
    /// By rows, which reveals all differences.
    Rows,
}

/// A dataset that is being copied.
pub(super) struct Copy {
    pub(super) mirror: Arc<Mirror>,
    /// Dataset of the source.
    pub(super) dataset: Dataset,
    pub(super) target: DatasetId,
    columns: Vec<(String, Dtype)>,
    pub(super) checkpoint: CopyCheckpoint,
}

/// State that a stopped mirror cannot find in the copy itself, in a file for each copy.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CopyCheckpoint {
    /// Id of the dataset at the target. The checkpoint is void for another one.
    target: i64,
    /// Timestamp before which rows were not copied, or `None` for no bound.
    start: Option<String>,
    /// True if the copy was complete once. Then the stream is enough to resume.
    pub(super) is_whole: bool,
    /// Event of the source's stream up to which all rows are stored, including late ones.
    pub(super) last_event_id: Option<String>,
}

/// Rows of the copy.
struct CopiedRows {
    /// Timestamp of the latest one.
    newest: Timestamp,
    /// Mapping that makes them comparable with columns of the source.
    plan: ColumnMapping,
}

impl Copy {
    /// Finds the copy of `dataset`, or creates it, with all columns.
    ///
    /// # Errors
    /// An error if the target refuses, or has a dataset of another key in its place.
    pub(super) async fn open(mirror: Arc<Mirror>, dataset: Dataset) -> anyhow::Result<Self> {
        let columns = read_columns(&mirror.source, dataset.id).await?;
        let name = format!("{}{}", mirror.options.prefix, dataset.name);
        let (target, is_new) = if let Some(target) = find_owned(&mirror.target, &name).await? {
            let is_same =
                target.description == dataset.description && target.metadata == dataset.metadata;
            if !is_same {
                let failed = || format!("cannot change the description of dataset {name}");
                let described =
                    retry_transient(|| mirror.target.describe(&dataset, target.id)).await;
                described.with_context(failed)?;
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
            (created.with_context(|| format!("cannot create dataset {name}"))?.id, true)
        };
        let path = mirror.checkpoint_path(dataset.id);
        let checkpoint: CopyCheckpoint =
            if is_new { CopyCheckpoint::default() } else { checkpoint::read(&path) };
        let checkpoint = if checkpoint.target == target.get() {
            checkpoint
        } else {
            CopyCheckpoint { target: target.get(), ..CopyCheckpoint::default() }
        };
        // An earlier mirror may have left out rows that are requested now.
        let start = mirror.options.start;
        let started = checkpoint.start.as_deref().and_then(|text| text.parse().ok());
        let checkpoint = CopyCheckpoint {
            start: start.map(|start| start.to_string()),
            is_whole: checkpoint.is_whole && start >= started,
            ..checkpoint
        };
        let copy = Self { mirror, dataset, target, columns, checkpoint };
        copy.add_columns().await?;
        Ok(copy)
    }

    /// Returns its display name.
    pub(super) fn name(&self) -> String {
        escape_line(&self.dataset.name).into()
    }

    /// Reports a message about it.
    pub(super) fn note(&self, text: &str) {
        self.mirror.reporter.note(text);
    }

    /// Adds missing columns to the target.
    async fn add_columns(&self) -> anyhow::Result<()> {
        let existing = read_columns(&self.mirror.target, self.target).await?;
        for (name, dtype) in &self.columns {
            match existing.iter().find(|(existing, _)| existing == name) {
                Some((_, existing)) if existing == dtype => {}
                Some((_, existing)) => {
                    bail!("column {name} is {dtype} in the source, but {existing} in the copy")
                }
                None => {
                    let failed = || format!("cannot add column {name} to the copy");
                    let target = &self.mirror.target;
                    let added =
                        retry_transient(|| target.add_column(self.target, name, *dtype)).await;
                    added.with_context(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Stores all rows up to the latest one of the source. Returns the number of new rows.
    ///
    /// # Errors
    /// An error if rows cannot be fetched or stored, or the copy still lacks rows. Rows that were stored
    /// remain.
    pub(super) async fn backfill(&mut self, by: Comparison) -> anyhow::Result<u64> {
        let mut n_rows = 0;
        if let (Some(newest), Some(oldest)) = (self.newest().await?, self.oldest().await?) {
            let first = oldest.max(self.start());
            let mirror = Arc::clone(&self.mirror);
            let mut progress = mirror.reporter.begin(format!("copying {}", self.name()), 0);
            if first <= newest {
                let progress = progress.as_mut();
                n_rows = self.copy_missing(first, newest, by, progress).await?;
            }
        }
        self.checkpoint.is_whole = true;
        self.write_checkpoint()?;
        Ok(n_rows)
    }

    /// Returns the timestamp before which rows are not copied.
    fn start(&self) -> Timestamp {
        self.mirror.options.start.unwrap_or(Timestamp::MIN)
    }

    /// Stores the rows from `first` to `newest` that the copy lacks or has with other values.
    /// Returns their number.
    async fn copy_missing(
        &self,
        first: Timestamp,
        newest: Timestamp,
        by: Comparison,
        progress: &mut dyn Work,
    ) -> anyhow::Result<u64> {
        let mut n_rows = 0;
        let mut differing = match by {
            Comparison::Days => self.find_differences(first, newest).await?,
            Comparison::Rows => vec![(first, newest)],
        };
        for _ in 0..ROUNDS_MAX {
            let n_before = n_rows;
            let copied = self.read_copied().await?;
            for (start, end) in differing {
                n_rows += self.copy_span(start, end, copied.as_ref(), progress).await?;
            }
            // Without new rows, everything that the source serves was compared row by row.
            if n_rows == n_before {
                break;
            }
            differing = self.find_differences(first, newest).await?;
        }
        self.check_count(first, newest).await?;
        Ok(n_rows)
    }

    /// Stores the rows of a span that the copy lacks. Returns their number.
    async fn copy_span(
        &self,
        begin: Timestamp,
        newest: Timestamp,
        copied: Option<&CopiedRows>,
        progress: &mut dyn Work,
    ) -> anyhow::Result<u64> {
        let (source, mirror, id) = (&self.mirror.source, &self.mirror, self.dataset.id);
        let plan = ColumnMapping::of_service(self.columns.iter().cloned());
        let fetch_one = async |start, end| {
            let _permit = mirror.downloads.acquire().await?;
            fetch(source, id, &plan, start, end).await
        };
        let fetch_chunk =
            async |(start, end)| anyhow::Ok((fetch_one(start, end).await?, start, end));
        let chunks = stream::iter(chunks(begin, newest)).map(&fetch_chunk);
        let mut chunks = std::pin::pin!(chunks.buffered(mirror.options.n_parallel));
        let mut n_rows = 0;
        while let Some(chunk) = chunks.next().await {
            let (mut fetched, mut start, end) = chunk?;
            loop {
                let until = fetched.until;
                if let Some(copied) = copied.filter(|copied| copied.newest >= start) {
                    fetched.rows = self.retain_missing(copied, fetched.rows, start, until).await?;
                }
                n_rows += fetched.rows.len() as u64;
                self.insert(&fetched.rows).await?;
                progress.update(n_rows, share(begin, newest, until));
                if until >= end {
                    break;
                }
                start = until + STEP;
                fetched = fetch_one(start, end).await?;
            }
        }
        Ok(n_rows)
    }

    /// Returns the spans of days in which the copy differs from the source. A source without buckets of
    /// days, for example with only texts, is compared by the number of rows.
    async fn find_differences(&self, first: Timestamp, until: Timestamp) -> anyhow::Result<Spans> {
        let source = read_days(&self.mirror.source, self.dataset.id, first, until).await?;
        if source.is_empty() {
            let (n_source, n_target) = self.count_rows(first, until).await?;
            return Ok(if n_source > n_target { vec![(first, until)] } else { Vec::new() });
        }
        let target = read_days(&self.mirror.target, self.target, first, until).await?;
        let differing = find_differing_days(&source, &target).into_iter();
        let within = differing.map(|(start, end)| (start.max(first), end.min(until)));
        Ok(within.filter(|(start, end)| start <= end).collect())
    }

    /// Checks that the copy has at least as many rows as the source. Rows that are deleted at the
    /// source remain in the copy.
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
            // The stream delivers late rows.
            self.note(&format!("{}: {differ}; new and late rows follow", self.name()));
            return Ok(());
        }
        bail!("{differ}\nhint: run the same command again, it copies the missing rows")
    }

    /// Returns the number of rows of the source and of the copy from `first` to `last`.
    async fn count_rows(&self, first: Timestamp, last: Timestamp) -> anyhow::Result<(u64, u64)> {
        let n_source = count_span(&self.mirror.source, self.dataset.id, first, last).await?;
        let n_target = count_span(&self.mirror.target, self.target, first, last).await?;
        Ok((n_source, n_target))
    }

    /// Returns the state of the copy, or `None` if it has no rows.
    async fn read_copied(&self) -> anyhow::Result<Option<CopiedRows>> {
        let Some(newest) = self.newest_copied().await? else { return Ok(None) };
        let mut plan = ColumnMapping::of_service(self.columns.iter().cloned());
        for (name, _) in read_columns(&self.mirror.target, self.target).await? {
            if !self.columns.iter().any(|(known, _)| *known == name) {
                plan.leave_out(&name);
            }
        }
        Ok(Some(CopiedRows { newest, plan }))
    }

    /// Returns the part of `rows` that the copy lacks or has with other values. `rows` are all rows from
    /// `start` to `until`.
    async fn retain_missing(
        &self,
        copied: &CopiedRows,
        mut rows: Vec<Row>,
        mut start: Timestamp,
        until: Timestamp,
    ) -> anyhow::Result<Vec<Row>> {
        while !rows.is_empty() && start <= until {
            let fetched = fetch(&self.mirror.target, self.target, &copied.plan, start, until).await;
            let fetched = fetched.context("cannot compare with the rows of the copy")?;
            rows.retain(|row| {
                let at = fetched.rows.binary_search_by_key(&row.timestamp, |row| row.timestamp);
                !at.is_ok_and(|at| fetched.rows.get(at) == Some(row))
            });
            start = fetched.until + STEP;
        }
        Ok(rows)
    }

    /// Stores rows of the stream and records that they are stored.
    ///
    /// # Errors
    /// An error if they are refused.
    pub(super) async fn store_live(
        &mut self,
        mut rows: Vec<NamedRow>,
        last_event_id: Option<String>,
    ) -> anyhow::Result<()> {
        let start = self.start();
        rows.retain(|row| row.timestamp >= start);
        let is_known = |name: &String| self.columns.iter().any(|(known, _)| known == name);
        if !rows.iter().all(|row| row.values.keys().all(is_known)) {
            self.columns = read_columns(&self.mirror.source, self.dataset.id).await?;
            self.add_columns().await?;
        }
        let rows: Vec<_> = rows.into_iter().map(|row| order_values(row, &self.columns)).collect();
        self.insert(&rows).await?;
        if last_event_id.is_some() {
            self.checkpoint.last_event_id = last_event_id;
        }
        self.write_checkpoint()
    }

    async fn insert(&self, rows: &[Row]) -> anyhow::Result<()> {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        for rows in rows.chunks(INSERT_ROWS) {
            let body = InsertBody::new(self.target, &names, rows);
            let target = &self.mirror.target;
            retry_transient(|| target.insert_body(&body, InsertMode::Replace))
                .await
                .context("cannot store rows in the copy")?;
        }
        Ok(())
    }

    /// Writes the checkpoint, after the rows are stored.
    pub(super) fn write_checkpoint(&self) -> anyhow::Result<()> {
        let path: PathBuf = self.mirror.checkpoint_path(self.dataset.id);
        checkpoint::write(&path, &self.checkpoint)
            .with_context(|| format!("cannot write the checkpoint {}", path.display()))
    }

    /// Returns the timestamp of the latest row of the source, even if it is in the future.
    pub(super) async fn newest(&self) -> anyhow::Result<Option<Timestamp>> {
        newest_timestamp(&self.mirror.source, self.dataset.id).await
    }

    /// Returns the timestamp of the latest row of the copy.
    pub(super) async fn newest_copied(&self) -> anyhow::Result<Option<Timestamp>> {
        newest_timestamp(&self.mirror.target, self.target).await
    }

    /// Returns a lower bound of the timestamps of the source.
    async fn oldest(&self) -> anyhow::Result<Option<Timestamp>> {
        let query = RowsQuery {
            start: Some(CALENDAR_BEGINS),
            ..RowsQuery::oldest(self.dataset.id, Resolution::Raw, Limit::clamp(1))
        };
        if let Ok(oldest) = first_of(&self.mirror.source, query).await {
            return Ok(oldest);
        }
        // By document 2, the span of days is not limited.
        let days = RowsQuery { start: None, resolution: Resolution::Day, ..query };
        first_of(&self.mirror.source, days).await
    }
}

/// Converts a row to values in the order of `columns`.
fn order_values(mut row: NamedRow, columns: &[(String, Dtype)]) -> Row {
    let values = columns.iter().map(|(name, _)| row.values.remove(name)).collect();
    Row { timestamp: row.timestamp, values }
}

/// Returns the timestamp of the latest row of a dataset, even if it is in the future, unlike a page
/// without bounds, which stops at the current time.
async fn newest_timestamp(
    service: &Datasets,
    dataset: DatasetId,
) -> anyhow::Result<Option<Timestamp>> {
    let rows = retry_transient(|| service.newest(dataset, Limit::clamp(1))).await;
    Ok(rows.context("cannot read the latest row")?.first().map(|row| row.timestamp))
}

/// Returns the timestamp of the first row of a response.
async fn first_of(service: &Datasets, query: RowsQuery) -> anyhow::Result<Option<Timestamp>> {
    let page =
        retry_transient(|| service.rows(&query)).await.context("cannot read the first row")?;
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
            retry_transient(|| service.rows(&query)).await.context("cannot read the days")?;
        let Rows::Buckets(buckets) = page.rows else { return Ok(days) };
        days.extend(buckets);
        // A cursor that does not advance would cause an endless loop.
        let Some(next) = page.next.filter(|next| query.after < Some(*next)) else {
            return Ok(days);
        };
        query.after = Some(next);
    }
}

/// Returns the number of rows of a dataset from `first` to `last`.
///
/// Counts twice with one bound each, since the span between two bounds is limited.
async fn count_span(
    service: &Datasets,
    dataset: DatasetId,
    first: Timestamp,
    last: Timestamp,
) -> anyhow::Result<u64> {
    let count_from = async |start| {
        let query = RowsQuery {
            start: Some(start),
            ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(1))
        };
        let page = retry_transient(|| service.rows(&query)).await.context("cannot count rows")?;
        page.count.with_context(|| format!("{} does not count rows", service.address()))
    };
    Ok(count_from(first).await?.saturating_sub(count_from(last + STEP).await?))
}

/// Returns the days that differ, with adjacent ones of the source as one span.
fn find_differing_days(source: &[Bucket], target: &[Bucket]) -> Spans {
    let is_same = |day: &Bucket| {
        let found = target.binary_search_by_key(&day.timestamp, |day| day.timestamp);
        found.ok().and_then(|idx| target.get(idx)).is_some_and(|held| is_alike(day, held))
    };
    let runs = source.chunk_by(|one, next| is_same(one) == is_same(next));
    let differing =
        runs.filter_map(|run| Some((run.first().filter(|day| !is_same(day))?, run.last()?)));
    differing.map(|(first, last)| (first.timestamp, last.timestamp + DAY - STEP)).collect()
}

/// Returns true if two days probably have the same rows. Each service adds them up in its own
/// order.
fn is_alike(a: &Bucket, b: &Bucket) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= SUM_TOLERANCE * a.abs().max(b.abs());
    a.count == b.count
        && near(a.open, b.open)
        && near(a.high, b.high)
        && near(a.low, b.low)
        && near(a.close, b.close)
        && near(a.volume, b.volume)
}

/// Returns the spans from `begin` to `newest`, each of at most [`CHUNK`].
fn chunks(begin: Timestamp, newest: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
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

    /// Returns a day of March with a number of rows.
    fn day(day: i64, count: u64) -> Bucket {
        let timestamp = Timestamp::from_seconds(1_772_323_200 + (day - 1) * 86_400);
        Bucket { timestamp, open: 1.0, high: 2.0, low: 0.5, close: 1.5, volume: 0.1, count }
    }

    #[test]
    fn differing_and_missing_days_are_found_as_spans() {
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
