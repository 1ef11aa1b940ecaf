//! Replay: the history of a dataset or a file once more, as if it were live.

mod pace;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use client::datasets::{
    Datasets, NamedRow, RowsQuery,
    insert::{FlatLines, InsertBody, InsertMode},
};
use formats::read::{
    FileError, Format, Place, PlacedRow, ReadOptions, Rows as FileRows,
    column_mapping::{ColumnMapping, MappedColumn},
    sniff::sniff,
    time_text::TimeTexts,
};
use model::{
    dataset::{DatasetId, Dtype},
    escape::escape_line,
    page::{Limit, ROWS_MAX},
    resolution::Resolution,
    row::Row,
    timestamp::Timestamp,
};
use task::{clock::Clock, group::Group};
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep_until},
};
use wire::datasets::{CreateColumn, CreateDataset};

use self::pace::Pace;
pub use self::pace::{RowTimes, Speed};
use crate::{
    event::{Reporter, Work},
    find::{find_dataset, look_up_dataset},
    retry::retry_transient,
};

/// Rows sent at once, where several are due.
const BATCH_ROWS_MAX: usize = 5_000;

/// Batches read ahead.
const BATCHES_AHEAD: usize = 2;

/// What is replayed, and how.
#[derive(Debug)]
pub struct ReplayOptions {
    /// A dataset's number or name, or a file.
    pub source: String,
    /// How much faster than it happened.
    pub speed: Speed,
    /// The timestamps that rows get.
    pub times: RowTimes,
    /// The rows of history; `None` is no bound.
    pub span: ReplaySpan,
}

/// Where rows are sent.
#[derive(Debug, Clone, Copy)]
pub enum ReplayTarget<'a> {
    /// To this, as lines of JSON.
    Lines(fn(&str) -> anyhow::Result<()>),
    /// To the dataset of this number or name, which is created if need be.
    Dataset(&'a str),
}

/// The rows of history to replay; `None` is no bound.
#[derive(Debug, Clone, Copy)]
pub struct ReplaySpan {
    /// The first timestamp.
    pub start: Option<Timestamp>,
    /// The last timestamp.
    pub end: Option<Timestamp>,
}

impl ReplaySpan {
    fn contains(self, timestamp: Timestamp) -> bool {
        self.start.is_none_or(|start| timestamp >= start)
            && self.end.is_none_or(|end| timestamp <= end)
    }
}

/// The columns of rows, in the order of their values.
type Columns = Vec<(String, Dtype)>;

/// Rows in their order, or why there are no more.
type Batch = anyhow::Result<Vec<Row>>;

/// Replays; `connect` connects to the service where one is needed.
///
/// # Errors
/// If there is no such dataset or file, or rows are not taken.
pub async fn run(
    options: ReplayOptions,
    to: ReplayTarget<'_>,
    connect: impl AsyncFnOnce() -> anyhow::Result<Datasets>,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let group = Group::default();
    let (sender, mut batches) = mpsc::channel(BATCHES_AHEAD);
    let ReplayOptions { source, speed, times, span } = options;
    let path = PathBuf::from(&source);
    let (columns, service) = if path.is_file() {
        let columns = read_file(&group, path, sender).await?;
        let service = match to {
            ReplayTarget::Dataset(_) => Some(connect().await?),
            ReplayTarget::Lines(_) => None,
        };
        (columns, service)
    } else {
        let service = connect().await?;
        (read_dataset(&group, &service, &source, span, sender).await?, Some(service))
    };
    let mut sink = Sink::open(service, to, &columns, reporter).await?;
    let mut pace = Pace::new(speed, times, Clock::system().now());
    let shown = escape_line(&source);
    let mut work = reporter.begin(format!("replaying {shown}"), 0);
    let replayed = replay(&mut batches, span, &mut pace, &mut sink, work.as_mut()).await;
    group.shutdown().await;
    let n_rows = replayed?;
    if matches!(to, ReplayTarget::Dataset(_)) {
        work.finish(n_rows, &format!("replayed {shown}"));
    }
    Ok(())
}

/// Sends each row when it is due; returns how many there were.
async fn replay(
    batches: &mut mpsc::Receiver<Batch>,
    span: ReplaySpan,
    pace: &mut Pace,
    sink: &mut Sink,
    progress: &mut dyn Work,
) -> anyhow::Result<u64> {
    let mut n_rows = 0;
    let mut due = Vec::new();
    while let Some(batch) = batches.recv().await {
        for mut row in batch? {
            if !span.contains(row.timestamp) {
                continue;
            }
            let (at, timestamp) = pace.next(row.timestamp);
            if at.is_some_and(|at| at > Instant::now()) || due.len() >= BATCH_ROWS_MAX {
                n_rows += sink.send(&mut due).await?;
                progress.update(n_rows, None);
            }
            if let Some(at) = at {
                sleep_until(at).await;
            }
            row.timestamp = timestamp;
            due.push(row);
        }
    }
    n_rows += sink.send(&mut due).await?;
    Ok(n_rows)
}

/// Reads a file on a thread of its own.
async fn read_file(
    group: &Group,
    path: PathBuf,
    sender: mpsc::Sender<Batch>,
) -> anyhow::Result<Columns> {
    let shown = path.display().to_string();
    let Some(format) = Format::of_name(&path) else {
        bail!("see how {shown} is written: its name ends in neither .csv, .ndjson nor .parquet")
    };
    let options = ReadOptions::new(format);
    let surveyed = path.clone();
    let survey = spawn_blocking(move || sniff(&surveyed, options, &TimeTexts::default())).await?;
    let survey = survey.with_context(|| format!("read {shown}"))?;
    let time = survey.time(None, None).with_context(|| format!("read {shown}"))?;
    let decimal = survey.decimal().with_context(|| format!("read {shown}"))?;
    let mut plan =
        ColumnMapping::with_time(&time, TimeTexts::default()).with_numbers(decimal, Vec::new());
    for field in survey.fields.iter().filter(|field| !time.contains(&field.name)) {
        plan.column(&field.name, MappedColumn::exact(&field.name, field.dtype));
    }
    let columns = plan.columns().iter().map(|column| (column.name.clone(), column.dtype)).collect();
    group.spawn("read a file", async move {
        let ended = sender.clone();
        let read = spawn_blocking(move || read_rows(&path, options, plan, &sender)).await;
        let failed = match read {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.context(format!("read {shown}")),
            Err(error) => error.into(),
        };
        // Where nobody listens the replay has ended.
        drop(ended.send(Err(failed)).await);
    });
    Ok(columns)
}

fn read_rows(
    path: &std::path::Path,
    options: ReadOptions,
    plan: ColumnMapping,
    sender: &mpsc::Sender<Batch>,
) -> anyhow::Result<()> {
    let mut rows = FileRows::open(path, options, plan, Place::default())?;
    let mut batch = Vec::new();
    while let Some(row) = rows.next_row().map_err(|error: FileError| anyhow!(error))? {
        match row {
            Ok(PlacedRow { row, .. }) => batch.push(row),
            Err(bad) => bail!("line {}: {}", bad.line, bad.reason),
        }
        if batch.len() >= BATCH_ROWS_MAX
            && sender.blocking_send(Ok(std::mem::take(&mut batch))).is_err()
        {
            return Ok(());
        }
    }
    drop(sender.blocking_send(Ok(batch)));
    Ok(())
}

/// Reads a dataset page by page, as far as somebody takes the rows: a download would not wait.
async fn read_dataset(
    group: &Group,
    service: &Datasets,
    name: &str,
    span: ReplaySpan,
    sender: mpsc::Sender<Batch>,
) -> anyhow::Result<Columns> {
    let dataset = find_dataset(service, name).await?.id;
    let columns = service.columns(dataset).await.context("read the columns")?;
    let columns: Columns = columns.into_iter().map(|column| (column.name, column.dtype)).collect();
    let mut query = RowsQuery {
        end: span.end,
        // A cursor before the first row: the widest span is for queries without one.
        after: Some(span.start.unwrap_or(Timestamp::MIN) - Duration::from_micros(1)),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(ROWS_MAX / 10))
    };
    let (service, names) = (service.clone(), columns.clone());
    group.spawn("read a dataset", async move {
        loop {
            let page = retry_transient(|| service.rows(&query)).await.context("read rows");
            query.after = page.as_ref().ok().and_then(|page| page.next);
            let batch = page.map(|page| {
                let rows = page.rows.into_raw().into_iter();
                rows.map(|row| order_values(row, &names)).collect()
            });
            if sender.send(batch).await.is_err() || query.after.is_none() {
                return;
            }
        }
    });
    Ok(columns)
}

/// Converts a row to one whose values are in the order of `columns`.
pub(crate) fn order_values(mut row: NamedRow, columns: &[(String, Dtype)]) -> Row {
    let values = columns.iter().map(|(name, _)| row.values.remove(name)).collect();
    Row { timestamp: row.timestamp, values }
}

/// Where rows go.
enum Sink {
    Lines(FlatLines, fn(&str) -> anyhow::Result<()>),
    Dataset { service: Datasets, dataset: DatasetId, names: Vec<String> },
}

impl Sink {
    async fn open(
        service: Option<Datasets>,
        to: ReplayTarget<'_>,
        columns: &Columns,
        reporter: &dyn Reporter,
    ) -> anyhow::Result<Self> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
        let to = match to {
            ReplayTarget::Lines(print) => return Ok(Self::Lines(FlatLines::new(&names), print)),
            ReplayTarget::Dataset(to) => to,
        };
        let service = service.context("connect to the dataset service")?;
        let found = look_up_dataset(&service, to).await?;
        let dataset = if let Some(dataset) = found {
            dataset.id
        } else {
            let column = |(name, dtype): &(String, Dtype)| CreateColumn::new(name, *dtype);
            let columns = columns.iter().map(column).collect();
            let body = CreateDataset { name: to.to_owned(), columns, ..CreateDataset::default() };
            let created = service.create(&body).await;
            let id = created.with_context(|| format!("create dataset {to}"))?.id;
            reporter.note(&format!("created dataset {id}, {}", escape_line(to)));
            id
        };
        Ok(Self::Dataset { service, dataset, names })
    }

    /// Sends rows, of which none are left then; returns how many there were.
    async fn send(&mut self, rows: &mut Vec<Row>) -> anyhow::Result<u64> {
        let n_rows = rows.len() as u64;
        if rows.is_empty() {
            return Ok(0);
        }
        match self {
            Self::Lines(lines, print) => {
                let mut text = Vec::new();
                for row in rows.iter() {
                    lines.push(&mut text, row);
                }
                let text = String::from_utf8(text).context("write rows as JSON")?;
                print(text.trim_end_matches('\n'))?;
            }
            Self::Dataset { service, dataset, names } => {
                let body = InsertBody::new(*dataset, names, rows);
                let sent =
                    retry_transient(|| service.insert_body(&body, InsertMode::Replace)).await;
                sent.context("send rows")?;
            }
        }
        rows.clear();
        Ok(n_rows)
    }
}
