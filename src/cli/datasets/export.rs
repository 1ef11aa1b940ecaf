//! `triptych datasets export`: exports a range of a dataset to a file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use client::datasets::Datasets;
use client::datasets::download::DownloadQuery;
use client::datasets::download_file::DownloadFile;
use client::datasets::row_counter::RowCounter;
use transfer::event::{Reporter as _, Work};

use super::connection::{ColumnsFlag, DatasetFlags, ExtrasFlags, RangeFlags};
use super::progress::{ProgressReporter, share};
use crate::cli::output::write_data;
use crate::cli::parse::STDIO;
use model::escape::escape_line;

/// Shown below the help of `datasets export`.
pub(super) const EXAMPLES: &str = "\
Examples:
  triptych datasets export btcusd -o btcusd.csv
  triptych datasets export btcusd -o day.parquet --start 2026-07-30 --end 2026-07-31
  triptych datasets export btcusd --resolution 1h --columns close,volume -o hours.csv
  triptych datasets export btcusd --resolution 1h --format ndjson | jq .close
  triptych datasets export btcusd --resolution 5m --fill previous -o bars.parquet

A file appears under its name once it is complete. Only then does it replace an existing file.";

/// The flags of `datasets export`.
#[derive(Debug, Args)]
pub(crate) struct ExportCommand {
    /// File to write; `-` is standard output
    #[arg(long, short, default_value = STDIO, value_name = "FILE")]
    output: PathBuf,
    /// csv, json, ndjson, parquet or arrow [default: by the file's ending, csv without one]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    columns: ColumnsFlag,
    #[command(flatten)]
    range: RangeFlags,
    #[command(flatten)]
    extras: ExtrasFlags,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Format of the file, parsed from the name that services use for it or from the ending of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
#[strum(parse_err_ty = String, parse_err_fn = unknown_format)]
pub(super) enum Format {
    Csv,
    Json,
    #[strum(to_string = "ndjson", serialize = "jsonl")]
    Ndjson,
    #[strum(to_string = "parquet", serialize = "pq")]
    Parquet,
    #[strum(to_string = "arrow", serialize = "arrows")]
    Arrow,
}

/// Names of the formats.
const FORMATS: &str = "csv, json, ndjson, parquet or arrow";

fn unknown_format(_: &str) -> String {
    format!("unknown format, expected {FORMATS}")
}

/// Returns the format for the ending of a file name, or CSV for a name without an ending.
fn format_by_name(path: &Path) -> anyhow::Result<Format> {
    let Some(ending) = path.extension() else { return Ok(Format::Csv) };
    let ending = ending.to_string_lossy().to_lowercase();
    if ["arrow", "feather", "ipc"].contains(&&*ending) {
        bail!(
            "exports to {} are not supported: an export is a stream of Arrow, and .{ending} is the \
             ending of Arrow's other format\nhint: choose the ending .arrows or .parquet",
            path.display()
        );
    }
    ending.parse().map_err(|_| {
        anyhow!(
            "no format has the ending .{ending} of {}\nhint: pass --format {FORMATS}",
            path.display()
        )
    })
}

/// Exports rows.
///
/// # Errors
/// If the request fails, or the file cannot be written completely.
pub(super) async fn run(command: ExportCommand) -> anyhow::Result<()> {
    let path = command.output;
    if path.extension().is_some_and(|ending| ending == "gz" || ending == "zst") {
        bail!(
            "exports to {} are not supported, since exports are not compressed\nhint: pipe `-o -` into \
             gzip, or choose another ending",
            path.display()
        );
    }
    let format = command.format.map_or_else(|| format_by_name(&path), Ok)?;
    let (service, dataset) = command.dataset.find().await?;
    let query = DownloadQuery {
        dataset: dataset.id,
        resolution: command.range.resolution,
        start: command.range.start,
        end: command.range.end,
        output: format.into(),
        columns: command.columns.columns,
        extras: command.extras.into(),
    };
    let name = escape_line(&dataset.name);
    let writing = || format!("cannot write {}", path.display());
    let mut to = if path.as_os_str() == STDIO {
        ExportTarget::Stdout
    } else {
        ExportTarget::File(DownloadFile::create(&path).await.with_context(writing)?)
    };
    let mut progress = ProgressReporter::single().begin(format!("exporting {name}"), 0);
    let exported = export(&service, query, format, &mut to, progress.as_mut()).await;
    let n_rows = exported.with_context(|| format!("cannot export dataset {name}"))?;
    if let ExportTarget::File(file) = to {
        file.finish().await.with_context(writing)?;
        progress.finish(n_rows, &format!("exported {name} to {}", path.display()));
    }
    Ok(())
}

/// Writes the download to `to`. Returns the number of rows, or 0 if neither the content nor the
/// response tells it.
async fn export(
    service: &Datasets,
    query: DownloadQuery,
    format: Format,
    to: &mut ExportTarget,
    progress: &mut dyn Work,
) -> anyhow::Result<u64> {
    let mut download = service.download(&query).await?;
    let mut counter = RowCounter::new(format.into());
    while let Some(bytes) = download.next().await? {
        counter.count(&bytes);
        to.write(&bytes).await?;
        let n_rows = counter.n_rows();
        let share = n_rows.zip(download.n_rows()).map(|(n_rows, n_all)| share(n_rows, n_all));
        progress.update(n_rows.unwrap_or(0), share);
    }
    Ok(counter.n_rows().or(download.n_rows()).unwrap_or(0))
}

/// Destination of an export.
enum ExportTarget {
    Stdout,
    File(DownloadFile),
}

impl ExportTarget {
    async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Stdout => write_data(bytes),
            Self::File(file) => file.write(bytes).await.context("cannot write the file"),
        }
    }
}
