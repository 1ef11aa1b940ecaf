//! Copy of one dataset: first by bulk downloads, then by the stream of the source.
//!
//! Rows are downloaded in ascending order and stored as they arrive, so that a failed or interrupted
//! download continues after the latest stored row. The position in the stream is recorded before the
//! download, so that the stream delivers every row that is inserted during the download.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use client::datasets::NamedRow;
use client::datasets::download::DownloadQuery;
use client::datasets::elements::{Elements, ElementsError};
use client::datasets::insert::{InsertBody, InsertMode};
use client::error::ClientError;
use client::stream::StreamEvent;
use client::stream::resume::{self, BatchKind, Repeats, ResumeFrom, RowBatch, RowEvent};
use formats::read::column_mapping::ColumnMapping;
use model::count::counted_short;
use model::dataset::{Dataset, DatasetId, Dtype, VALUE_COLUMN};
use model::escape::escape_line;
use model::resolution::Resolution;
use model::row::{BucketExtras, Row};
use model::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use task::backoff::Backoff;
use task::group::Group;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use wire::datasets::{CreateColumn, CreateDataset};

use super::Mirror;
use crate::checkpoint;
use crate::event::Work;
use crate::find::{find_owned, newest_timestamp, next_timestamp, read_columns, read_range};
use crate::retry::{is_transient, retry_transient};

/// Maximum time range of a download, the same as in clients of the upstream dataset service.
const SPAN_MAX: Duration = Duration::from_hours(14 * 24);

/// Minimum time range of a download. A range that is rejected is halved down to this minimum.
const SPAN_MIN: Duration = Duration::from_mins(1);

/// Number of consecutive failures after which the time range is halved, the same as in clients of the
/// upstream dataset service.
const TRIES_MAX: u32 = 3;

/// Number of consecutive failures after which the copy of a dataset fails.
const FAILURES_MAX: u32 = 24;

/// Minimum and maximum wait before a failed download is repeated.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Number of rows that one request inserts into the copy.
const INSERT_ROWS: usize = 5_000;

/// Smallest difference between two timestamps.
const STEP: Duration = Duration::from_micros(1);

/// Maximum number of batches that wait to be stored. A full queue slows down the source.
const EVENTS_CAPACITY: usize = 8;

/// Time limit for the first row on the stream of a dataset that has rows.
const BEGINS_WITHIN: Duration = Duration::from_mins(1);

/// Copies the rows of a dataset at the source to a dataset at the target.
pub(super) struct Copy {
    mirror: Arc<Mirror>,
    /// Dataset at the source, from which rows are copied.
    dataset: Dataset,
    target: DatasetId,
    columns: Vec<(String, Dtype)>,
    checkpoint: CopyCheckpoint,
    /// True if the stream includes deletions. False once an older source has rejected the parameter.
    has_changes: bool,
}

/// Progress of a copy, stored in its own file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct CopyCheckpoint {
    /// Id of the copy at the target. The checkpoint does not apply to a copy with another id.
    target: i64,
    /// Timestamp in microseconds at which the copy begins. `None` if all rows are copied.
    start: Option<i64>,
    /// Timestamp in microseconds up to which an unfinished download has stored its rows.
    through: Option<i64>,
    /// True once a download has copied all rows that the dataset had.
    is_whole: bool,
    /// Id of the last event on the source's stream with rows that are already stored.
    last_event_id: Option<String>,
}

/// Reason why the stream of a dataset ended.
#[derive(Debug, PartialEq, Eq)]
enum StreamEnd {
    Closed,
    /// The source does not know the position from which the stream was to be resumed.
    Reset,
}

impl Copy {
    /// Finds or creates the copy of `dataset`, and adds missing columns to it.
    ///
    /// # Errors
    /// An error if the target refuses, or if a dataset of another key has the name of the copy.
    pub(super) async fn open(mirror: Arc<Mirror>, dataset: Dataset) -> anyhow::Result<Self> {
        let columns = read_columns(&mirror.source, dataset.id).await?;
        let name = format!("{}{}", mirror.options.prefix, dataset.name);
        let service = &mirror.target;
        let target = if let Some(target) = find_owned(service, &name).await? {
            let mut fields = dataset.metadata.iter();
            let is_same = fields.all(|(name, value)| target.metadata.get(name) == Some(value));
            if target.description != dataset.description || !is_same {
                let described = retry_transient(|| service.describe(&dataset, target.id)).await;
                described.with_context(|| {
                    format!("cannot update the description and metadata of {name}")
                })?;
            }
            target.id
        } else {
            let column = |(name, dtype): &(String, Dtype)| CreateColumn::new(name, *dtype);
            let mut metadata = dataset.metadata.clone();
            // Otherwise the target could choose another column than the source.
            metadata.entry(VALUE_COLUMN.to_owned()).or_default();
            let body = CreateDataset {
                name: name.clone(),
                description: dataset.description.clone(),
                metadata,
                columns: columns.iter().map(column).collect(),
                tags: mirror.options.give_tags.clone(),
            };
            let created = retry_transient(|| service.create(&body)).await;
            created.with_context(|| format!("cannot create dataset {name}"))?.id
        };
        let start = mirror.options.start.map(Timestamp::micros);
        let mut checkpoint: CopyCheckpoint = checkpoint::read(&mirror.checkpoint_path(dataset.id));
        // Starts over if the copy is new, or if an earlier start is requested. The copy lacks rows in
        // both cases.
        if checkpoint.target != target.get() || start < checkpoint.start {
            checkpoint = CopyCheckpoint { target: target.get(), ..CopyCheckpoint::default() };
        }
        if start != checkpoint.start {
            checkpoint.start = start;
            checkpoint.through = None;
        }
        let copy = Self { mirror, dataset, target, columns, checkpoint, has_changes: true };
        copy.add_columns().await?;
        Ok(copy)
    }

    /// Returns the name of the dataset for messages.
    pub(super) fn name(&self) -> String {
        escape_line(&self.dataset.name).into()
    }

    fn note(&self, text: &str) {
        self.mirror.reporter.note(text);
    }

    /// Reads the columns of the source, and adds those that the copy lacks.
    async fn update_columns(&mut self) -> anyhow::Result<()> {
        self.columns = read_columns(&self.mirror.source, self.dataset.id).await?;
        self.add_columns().await
    }

    /// Adds columns that the copy lacks.
    async fn add_columns(&self) -> anyhow::Result<()> {
        let target = &self.mirror.target;
        let existing = read_columns(target, self.target).await?;
        for (name, dtype) in &self.columns {
            match existing.iter().find(|(existing, _)| existing == name) {
                Some((_, existing)) if existing == dtype => {}
                Some((_, existing)) => {
                    bail!("column {name} is {dtype} in the source, but {existing} in the copy")
                }
                None => {
                    let added = retry_transient(|| target.add_column(self.target, name, *dtype));
                    added.await.with_context(|| format!("cannot add column {name} to the copy"))?;
                }
            }
        }
        Ok(())
    }

    /// Downloads all current rows that are missing in the copy, unless the stream will deliver them.
    ///
    /// # Errors
    /// An error if rows cannot be fetched or stored. Rows that were already stored remain.
    pub(super) async fn download_and_note(&mut self, group: &Group) -> anyhow::Result<()> {
        if let Some(n_rows) = self.download(group).await? {
            let (name, rows) = (self.name(), counted_short(n_rows, "row"));
            self.note(&format!("{name} is copied: {rows} received"));
        }
        Ok(())
    }

    /// Downloads all current rows that are missing in the copy. Returns the number of rows, or `None` if
    /// the stream will deliver all missing rows.
    async fn download(&mut self, group: &Group) -> anyhow::Result<Option<u64>> {
        let is_live = self.mirror.options.is_live;
        if is_live && self.checkpoint.is_whole && self.checkpoint.last_event_id.is_some() {
            return Ok(None);
        }
        if is_live && self.checkpoint.last_event_id.is_none() {
            let has_rows = newest_timestamp(&self.mirror.source, self.dataset.id).await?.is_some();
            let position = self.find_position(group, has_rows).await;
            self.checkpoint.last_event_id = position.context("cannot open the stream")?;
            if has_rows && self.checkpoint.last_event_id.is_none() {
                self.note(&format!(
                    "events of {} have no ids: late rows during the download may be missing, \
                     --once --start TIME copies them",
                    self.name()
                ));
            }
        }
        // The range is read after the position in the stream. Otherwise rows that are inserted between
        // the two reads would be in neither the range nor the stream.
        let range = read_range(&self.mirror.source, self.dataset.id).await;
        let range = range.context("cannot read the first and the latest row")?;
        let mut n_rows = 0;
        if let Some((oldest, newest)) = range {
            let from = self.first_missing().await?.unwrap_or(oldest).max(oldest);
            let mirror = Arc::clone(&self.mirror);
            let mut work = mirror.reporter.begin(format!("copying {}", self.name()), 0);
            n_rows = self.download_range(from, newest, work.as_mut()).await?;
        }
        self.checkpoint.is_whole = true;
        self.checkpoint.through = None;
        self.write_checkpoint()?;
        Ok(Some(n_rows))
    }

    /// Returns the timestamp at which the download starts, or `None` to start with the first row.
    async fn first_missing(&self) -> anyhow::Result<Option<Timestamp>> {
        let start = self.mirror.options.start;
        if let Some(through) = self.checkpoint.through {
            return Ok(Some(Timestamp::from_micros(through) + STEP));
        }
        // A copy that is not kept up to date does not receive late and corrected rows. If the user
        // specified a start, all rows from the start on are copied again to include these.
        if !self.checkpoint.is_whole || (start.is_some() && !self.mirror.options.is_live) {
            return Ok(start);
        }
        let newest = newest_timestamp(&self.mirror.target, self.target).await?;
        Ok(newest.map(|newest| newest + STEP).max(start))
    }

    /// Downloads and stores the rows from `start` to `newest`. Returns the number of rows.
    async fn download_range(
        &mut self,
        mut start: Timestamp,
        newest: Timestamp,
        work: &mut dyn Work,
    ) -> anyhow::Result<u64> {
        let whole = newest.since(start).as_secs_f64();
        let mut backoff = Backoff::new(RETRY.0, RETRY.1);
        let (mut span, mut n_rows, mut n_failed) = (SPAN_MAX, 0, 0);
        let plan = ColumnMapping::of_service(self.columns.iter().cloned());
        while start <= newest {
            let end = newest.min(start + span - STEP);
            let before = self.checkpoint.through;
            let done = self.download_span(&plan, start, end, &mut n_rows).await;
            if let Some(through) = self.checkpoint.through.filter(|at| Some(*at) != before) {
                start = Timestamp::from_micros(through) + STEP;
                n_failed = 0;
                backoff.reset();
            }
            let left = newest.since(start.min(newest)).as_secs_f64();
            work.update(n_rows, (whole > 0.0).then(|| 1.0 - left / whole));
            let Err(error) = done else {
                let is_empty = self.checkpoint.through == before;
                start = end + STEP;
                if is_empty && start <= newest {
                    // Skips to the next row, since consecutive rows can be years apart.
                    let next =
                        next_timestamp(&self.mirror.source, self.dataset.id, end, newest).await?;
                    start = next.unwrap_or(newest).max(start);
                }
                span = SPAN_MAX.min(span * 2);
                n_failed = 0;
                continue;
            };
            let is_too_wide = match failure(&error) {
                CopyFailure::Later(wait) => {
                    sleep(wait).await;
                    continue;
                }
                CopyFailure::Final => return Err(error),
                CopyFailure::TooWide => true,
                CopyFailure::Transient => {
                    n_failed += 1;
                    if n_failed >= FAILURES_MAX {
                        return Err(error);
                    }
                    sleep(backoff.next_wait()).await;
                    n_failed % TRIES_MAX == 0 && span > SPAN_MIN
                }
            };
            if is_too_wide {
                if span < SPAN_MIN {
                    return Err(error.context("service rejects even a range of one minute"));
                }
                span /= 2;
            }
        }
        Ok(n_rows)
    }

    /// Downloads and stores the rows from `start` to `end`. Adds the number of rows to `n_rows` and
    /// records the latest timestamp in the checkpoint.
    async fn download_span(
        &mut self,
        plan: &ColumnMapping,
        start: Timestamp,
        end: Timestamp,
        n_rows: &mut u64,
    ) -> anyhow::Result<()> {
        let query = DownloadQuery {
            dataset: self.dataset.id,
            resolution: Resolution::Raw,
            start: Some(start),
            end: Some(end),
            output: "json",
            columns: Vec::new(),
            extras: BucketExtras::default(),
        };
        let mut rows = Vec::new();
        let mut elements = Elements::default();
        let mut download =
            self.mirror.source.download(&query).await.context("cannot fetch rows")?;
        loop {
            let next = download.next().await;
            if let Ok(Some(bytes)) = &next {
                elements.feed(bytes, |object| {
                    let row = plan.row_of_json(object);
                    let row: Row = row.map_err(|reason| anyhow!("invalid row: {reason}"))?;
                    rows.extend(Some(row).filter(|row| (start..=end).contains(&row.timestamp)));
                    anyhow::Ok(())
                })?;
                if rows.len() < INSERT_ROWS {
                    continue;
                }
            }
            // Also stores the rows that were received before a failure, which are complete.
            if let Some(last) = rows.last() {
                let through = last.timestamp.micros();
                self.insert(&rows).await?;
                *n_rows += rows.len() as u64;
                rows.clear();
                self.checkpoint.through = Some(through);
                self.write_checkpoint()?;
            }
            if next.context("cannot fetch rows")?.is_none() {
                return elements.end().context("cannot fetch rows");
            }
        }
    }

    /// Returns the id of an event on the source's stream that precedes all future rows. Returns `None`
    /// if the events have no ids or the dataset has no rows.
    async fn find_position(
        &mut self,
        parent: &Group,
        has_rows: bool,
    ) -> anyhow::Result<Option<String>> {
        let (mut group, mut events) = self.follow(parent, ResumeFrom::default());
        let deadline = Instant::now() + BEGINS_WITHIN;
        let position = loop {
            match timeout_at(deadline, events.recv()).await {
                Ok(Some(StreamEvent::Connected)) if !has_rows => break Ok(None),
                Ok(Some(StreamEvent::Item(batch))) => break Ok(batch.last_event_id),
                Ok(Some(StreamEvent::Lost { why, .. })) if is_final(&why) => break Err(why.into()),
                Ok(Some(StreamEvent::Lost { why, .. })) if self.gives_up_changes(&why) => {
                    group.shutdown().await;
                    (group, events) = self.follow(parent, ResumeFrom::default());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    break Err(anyhow!("received no rows within {} s", BEGINS_WITHIN.as_secs()));
                }
            }
        };
        group.shutdown().await;
        position
    }

    /// Returns true if the source refused the stream because of the parameter for deletions. Then the
    /// stream is to be opened without it.
    fn gives_up_changes(&mut self, why: &ClientError) -> bool {
        if !self.has_changes || !resume::refuses_changes(why) {
            return false;
        }
        self.has_changes = false;
        self.note(&format!(
            "the source does not send the deletions of {}: deleted rows remain in the copy",
            self.name()
        ));
        true
    }

    /// Opens the stream of the source in a task of the returned group.
    fn follow(&self, group: &Group, from: ResumeFrom) -> (Group, mpsc::Receiver<RowEvent>) {
        let (sender, events) = mpsc::channel(EVENTS_CAPACITY);
        let group = group.child();
        let source = self.mirror.source.clone();
        let from = ResumeFrom { changes: self.has_changes, ..from };
        group.spawn("follow a dataset", resume::follow(source, self.dataset.id, from, sender));
        (group, events)
    }

    /// Stores the rows of the stream until the source permanently refuses the stream, or a row cannot be
    /// stored.
    pub(super) async fn run(mut self, group: Group) {
        if let Err(error) = self.keep_up_to_date(&group).await {
            self.note(&format!("{} is no longer updated: {error:#}", self.name()));
        }
    }

    /// Stores the rows of the stream. If the source no longer knows the position in the stream, late and
    /// corrected rows can be anywhere, so all rows are downloaded again, but only once: a source that
    /// changes faster than it can be downloaded would otherwise be downloaded forever.
    async fn keep_up_to_date(&mut self, group: &Group) -> anyhow::Result<()> {
        let mut is_copied_again = false;
        while self.store_stream(group).await? == StreamEnd::Reset {
            let name = self.name();
            if is_copied_again {
                self.checkpoint.last_event_id = None;
                self.write_checkpoint()?;
                self.note(&format!(
                    "the stream of {name} cannot be resumed: rows after the latest row of the copy \
                     are read again, earlier rows and deletions may be missing"
                ));
                continue;
            }
            is_copied_again = true;
            self.note(&format!(
                "the stream of {name} cannot be resumed: all rows are copied again, rows deleted in \
                 the meantime remain in the copy"
            ));
            if let Err(error) = self.copy_again(group).await {
                self.note(&format!("{name} was not copied again completely: {error:#}"));
            }
        }
        Ok(())
    }

    async fn copy_again(&mut self, group: &Group) -> anyhow::Result<()> {
        self.update_columns().await?;
        let CopyCheckpoint { target, start, .. } = self.checkpoint;
        self.checkpoint = CopyCheckpoint { target, start, ..CopyCheckpoint::default() };
        self.write_checkpoint()?;
        let mirror = Arc::clone(&self.mirror);
        let _permit = mirror.downloads.acquire().await?;
        self.download_and_note(group).await
    }

    /// Stores the rows of the stream until it ends or the source does not know its position.
    async fn store_stream(&mut self, parent: &Group) -> anyhow::Result<StreamEnd> {
        let newest = newest_timestamp(&self.mirror.target, self.target).await?;
        // If no event id is known, the stream first delivers all rows after this timestamp.
        let newest = newest.or(self.mirror.options.start).unwrap_or(Timestamp::MIN);
        let last_event_id = self.checkpoint.last_event_id.clone();
        let (newest, repeats) = (Some(newest), Repeats::Deliver);
        let from = ResumeFrom { newest, last_event_id, repeats, ..ResumeFrom::default() };
        let (mut group, mut events) = self.follow(parent, from.clone());
        let mut is_lost = false;
        let mut end = Ok(StreamEnd::Closed);
        while let Some(event) = events.recv().await {
            if let StreamEvent::Lost { why, .. } = &event
                && self.gives_up_changes(why)
            {
                group.shutdown().await;
                (group, events) = self.follow(parent, from.clone());
                continue;
            }
            // Without a position, the stream has delivered all rows after the latest row of the copy.
            if matches!(event, StreamEvent::Reset) && self.checkpoint.last_event_id.is_some() {
                end = Ok(StreamEnd::Reset);
                break;
            }
            if let Err(error) = self.store_event(event, &mut is_lost).await {
                end = Err(error);
                break;
            }
        }
        group.shutdown().await;
        end
    }

    async fn store_event(&mut self, event: RowEvent, is_lost: &mut bool) -> anyhow::Result<()> {
        let name = self.name();
        match event {
            StreamEvent::Item(batch) => self.store_batch(batch).await?,
            StreamEvent::Connected if *is_lost => {
                *is_lost = false;
                self.note(&format!("the stream of {name} is back"));
            }
            StreamEvent::Lost { why, .. } if is_final(&why) => return Err(why.into()),
            StreamEvent::Lost { why, .. } if !*is_lost => {
                *is_lost = true;
                let why = why.why();
                self.note(&format!("the stream of {name} is lost and is reopened: {why}"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Stores rows of the stream, or deletes them, and records the progress.
    async fn store_batch(&mut self, batch: RowBatch) -> anyhow::Result<()> {
        let RowBatch { mut rows, last_event_id, kind } = batch;
        let start = self.mirror.options.start;
        // Without a start, the source deleted rows that it no longer keeps. The copy has the same
        // retention in its metadata, and would lose the buckets of the rows if it deleted them here.
        if let BatchKind::Deletion { start: Some(first), end } = kind {
            let first = start.map_or(first, |start| start.max(first));
            if first <= end {
                let target = &self.mirror.target;
                let deleted = retry_transient(|| target.delete_rows(self.target, first, end)).await;
                deleted.context("cannot delete rows of the copy")?;
            }
        }
        rows.retain(|row| Some(row.timestamp) >= start);
        let is_known = |name: &String| self.columns.iter().any(|(known, _)| known == name);
        if !rows.iter().all(|row| row.values.keys().all(is_known)) {
            self.update_columns().await?;
        }
        let order = |mut row: NamedRow| Row {
            timestamp: row.timestamp,
            values: self.columns.iter().map(|(name, _)| row.values.remove(name)).collect(),
        };
        let rows: Vec<Row> = rows.into_iter().map(order).collect();
        for rows in rows.chunks(INSERT_ROWS) {
            self.insert(rows).await?;
        }
        if last_event_id.is_some() {
            self.checkpoint.last_event_id = last_event_id;
            self.write_checkpoint()?;
        }
        Ok(())
    }

    async fn insert(&self, rows: &[Row]) -> anyhow::Result<()> {
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let body = InsertBody::new(self.target, &names, rows);
        let target = &self.mirror.target;
        let inserted = retry_transient(|| target.insert_body(&body, InsertMode::Replace)).await;
        inserted.context("cannot store rows in the copy").map(drop)
    }

    /// Writes the checkpoint. Must only be called after the rows are stored.
    fn write_checkpoint(&self) -> anyhow::Result<()> {
        let path: PathBuf = self.mirror.checkpoint_path(self.dataset.id);
        checkpoint::write(&path, &self.checkpoint)
            .with_context(|| format!("cannot write the checkpoint {}", path.display()))
    }
}

/// Class of a failed download, which determines how to proceed.
enum CopyFailure {
    /// The service asks the client to repeat the request after this time.
    Later(Duration),
    /// The service cannot send a range of this length, so the range must be divided.
    TooWide,
    /// The failure is possibly temporary, so the request is repeated.
    Transient,
    /// The request would fail again, so the copy is given up.
    Final,
}

fn failure(error: &anyhow::Error) -> CopyFailure {
    /// Part of the error message with which a service rejects a time range.
    const TOO_WIDE: &str = "time range exceeds maximum";
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Limited { retry_after, .. }) => {
            CopyFailure::Later(retry_after.unwrap_or(RETRY.1).max(RETRY.0))
        }
        Some(ClientError::Refused { status: 400, message }) if message.contains(TOO_WIDE) => {
            CopyFailure::TooWide
        }
        Some(error) if error.status().is_some() && !is_transient(error) => CopyFailure::Final,
        None if !error.is::<ElementsError>() => CopyFailure::Final,
        _ => CopyFailure::Transient,
    }
}

/// Returns true if the service would reject every attempt to open the stream.
fn is_final(why: &ClientError) -> bool {
    matches!(why.status(), Some(401 | 403 | 404))
}
