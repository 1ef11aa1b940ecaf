//! Replay: sends the past rows of a dataset or a file as if they were live.

mod pace;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use client::datasets::insert::{FlatLines, InsertBody, InsertMode};
use client::datasets::{Datasets, NamedRow, RowsQuery};
use formats::read::column_mapping::{ColumnMapping, MappedColumn};
use formats::read::sniff::sniff;
use formats::read::time_text::TimeTexts;
use formats::read::{Format, Place, ReadOptions, Rows as FileRows};
use model::dataset::{DatasetId, Dtype};
use model::escape::escape_line;
use model::page::{Limit, ROWS_MAX};
use model::resolution::Resolution;
use model::row::Row;
use model::timestamp::Timestamp;
use task::clock::Clock;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use wire::datasets::{CreateColumn, CreateDataset};

use self::pace::Pace;
pub use self::pace::{RowTimes, Speed};
use crate::event::Reporter;
use crate::find::{find_dataset, look_up_dataset};
use crate::retry::retry_transient;

/// Maximum number of rows of a request.
const BATCH_ROWS_MAX: usize = 5_000;

/// Options of a replay.
#[derive(Debug)]
pub struct ReplayOptions {
    /// Id or name of a dataset, or a file.
    pub source: String,
    /// Speed, as a multiple of real time.
    pub speed: Speed,
    /// Timestamps of the rows.
    pub times: RowTimes,
    /// Range of the rows.
    pub span: ReplaySpan,
}

/// Destination of the rows.
#[derive(Debug, Clone, Copy)]
pub enum ReplayTarget<'a> {
    /// A function that prints lines of JSON.
    Lines(fn(&str) -> anyhow::Result<()>),
    /// The dataset of this id or name, which is created if it is missing.
    Dataset(&'a str),
}

/// Range of rows to replay. `None` is unbounded.
#[derive(Debug, Clone, Copy)]
pub struct ReplaySpan {
    /// First timestamp.
    pub start: Option<Timestamp>,
    /// Last timestamp.
    pub end: Option<Timestamp>,
}

impl ReplaySpan {
    fn contains(self, timestamp: Timestamp) -> bool {
        self.start.is_none_or(|start| timestamp >= start)
            && self.end.is_none_or(|end| timestamp <= end)
    }
}

/// Names and types of columns, in the order of the values of rows.
type Columns = Vec<(String, Dtype)>;

/// Runs a replay. Calls `connect` if a service is needed.
///
/// # Errors
/// An error if the dataset or file does not exist, or rows are refused.
pub async fn run(
    options: ReplayOptions,
    to: ReplayTarget<'_>,
    connect: impl AsyncFnOnce() -> anyhow::Result<Datasets>,
    reporter: &dyn Reporter,
) -> anyhow::Result<()> {
    let ReplayOptions { source, speed, times, span } = options;
    let path = PathBuf::from(&source);
    let is_file = path.is_file();
    let service = if !is_file || matches!(to, ReplayTarget::Dataset(_)) {
        Some(connect().await?)
    } else {
        None
    };
    let (columns, mut rows) = match &service {
        Some(service) if !is_file => open_dataset(service, &source, span).await?,
        _ => open_file(path).await?,
    };
    let mut sink = Sink::open(service, to, &columns, reporter).await?;
    let mut pace = Pace::new(speed, times, Clock::system().now());
    let shown = escape_line(&source);
    let mut work = reporter.begin(format!("replaying {shown}"), 0);
    let (mut n_rows, mut due) = (0, Vec::new());
    while let Some(batch) = rows.next(&columns).await? {
        for mut row in batch.into_iter().filter(|row| span.contains(row.timestamp)) {
            let (at, timestamp) = pace.next(row.timestamp);
            if at.is_some_and(|at| at > Instant::now()) || due.len() >= BATCH_ROWS_MAX {
                n_rows += sink.send(&mut due).await?;
                work.update(n_rows, None);
            }
            if let Some(at) = at {
                sleep_until(at).await;
            }
            row.timestamp = timestamp;
            due.push(row);
        }
    }
    n_rows += sink.send(&mut due).await?;
    if matches!(to, ReplayTarget::Dataset(_)) {
        work.finish(n_rows, &format!("replayed {shown}"));
    }
    Ok(())
}

/// Source of the rows.
enum Source {
    File {
        shown: String,
        rows: Box<FileRows>,
    },
    /// A dataset, page by page. `None` at its end.
    Dataset(Option<Box<(Datasets, RowsQuery)>>),
}

impl Source {
    /// Reads the next rows. Returns `None` at the end.
    async fn next(&mut self, columns: &Columns) -> anyhow::Result<Option<Vec<Row>>> {
        match self {
            Self::File { shown, rows } => {
                let batch = read_batch(rows).with_context(|| format!("cannot read {shown}"))?;
                Ok(Some(batch).filter(|batch| !batch.is_empty()))
            }
            Self::Dataset(pages) => {
                let Some(request) = pages else { return Ok(None) };
                let (service, query) = &mut **request;
                let page = retry_transient(|| service.rows(query)).await;
                let page = page.context("cannot read rows")?;
                query.after = page.next;
                if page.next.is_none() {
                    *pages = None;
                }
                let rows = page.rows.into_raw().into_iter();
                Ok(Some(rows.map(|row| order_values(row, columns)).collect()))
            }
        }
    }
}

fn read_batch(rows: &mut FileRows) -> anyhow::Result<Vec<Row>> {
    let mut batch = Vec::new();
    while batch.len() < BATCH_ROWS_MAX {
        match rows.next_row()? {
            Some(Ok(placed)) => batch.push(placed.row),
            Some(Err(bad)) => bail!("line {}: {}", bad.line, bad.reason),
            None => break,
        }
    }
    Ok(batch)
}

async fn open_file(path: PathBuf) -> anyhow::Result<(Columns, Source)> {
    let shown = path.display().to_string();
    let Some(format) = Format::of_name(&path) else {
        bail!("unknown format of {shown}\nhint: its name must end in .csv, .ndjson or .parquet")
    };
    let open = move || {
        let options = ReadOptions::new(format);
        let survey = sniff(&path, options, &TimeTexts::default())?;
        let time = survey.time(None, None)?;
        let mut plan = ColumnMapping::with_time(&time, TimeTexts::default())
            .with_numbers(survey.decimal()?, Vec::new());
        for field in survey.fields.iter().filter(|field| !time.contains(&field.name)) {
            plan.column(&field.name, MappedColumn::exact(&field.name, field.dtype));
        }
        FileRows::open(&path, options, plan, Place::default())
    };
    let rows = spawn_blocking(open).await?.with_context(|| format!("cannot read {shown}"))?;
    let columns = rows.mapping().columns().iter();
    let columns = columns.map(|column| (column.name.clone(), column.dtype)).collect();
    Ok((columns, Source::File { shown, rows: Box::new(rows) }))
}

async fn open_dataset(
    service: &Datasets,
    name: &str,
    span: ReplaySpan,
) -> anyhow::Result<(Columns, Source)> {
    let dataset = find_dataset(service, name).await?.id;
    let columns = service.columns(dataset).await.context("cannot read the columns")?;
    let columns = columns.into_iter().map(|column| (column.name, column.dtype)).collect();
    let query = RowsQuery {
        end: span.end,
        // A cursor before the first row, since the length of a span is only limited without one.
        after: Some(span.start.unwrap_or(Timestamp::MIN) - Duration::from_micros(1)),
        ..RowsQuery::oldest(dataset, Resolution::Raw, Limit::clamp(ROWS_MAX / 10))
    };
    Ok((columns, Source::Dataset(Some(Box::new((service.clone(), query))))))
}

/// Converts a row to values in the order of `columns`.
pub(crate) fn order_values(mut row: NamedRow, columns: &[(String, Dtype)]) -> Row {
    let values = columns.iter().map(|(name, _)| row.values.remove(name)).collect();
    Row { timestamp: row.timestamp, values }
}

/// Opened destination of the rows.
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
        let service = service.context("not connected to a dataset service")?;
        let found = look_up_dataset(&service, to).await?;
        let dataset = if let Some(dataset) = found {
            dataset.id
        } else {
            let column = |(name, dtype): &(String, Dtype)| CreateColumn::new(name, *dtype);
            let columns = columns.iter().map(column).collect();
            let body = CreateDataset { name: to.to_owned(), columns, ..CreateDataset::default() };
            let created = service.create(&body).await;
            let id = created.with_context(|| format!("cannot create dataset {to}"))?.id;
            reporter.note(&format!("created dataset {id}, {}", escape_line(to)));
            id
        };
        Ok(Self::Dataset { service, dataset, names })
    }

    /// Sends and removes all `rows`. Returns their number.
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
                let text = String::from_utf8(text).context("rows are not UTF-8")?;
                print(text.trim_end_matches('\n'))?;
            }
            Self::Dataset { service, dataset, names } => {
                let body = InsertBody::new(*dataset, names, rows);
                let sent =
                    retry_transient(|| service.insert_body(&body, InsertMode::Replace)).await;
                sent.context("cannot send rows")?;
            }
        }
        rows.clear();
        Ok(n_rows)
    }
}
