//! `triptych datasets import`: imports rows of files into datasets.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use client::datasets::insert::InsertMode;
use formats::read::Format;
use formats::read::number_text::Decimal;
use formats::read::time_text::{Ambiguous, TimeFormat, TimeTexts, Zone};
use formats::read::timestamps::TimeUnit;
use model::dataset::Dtype;
use stack::data_dir::project_dirs;
use transfer::import::{ColumnOptions, Import, ImportOptions, Imported};

use super::catalog::AboutFlags;
use super::connection::DatasetServiceFlags;
use super::progress::ProgressReporter;
use crate::cli::output::{print_json, tell};
use crate::cli::parse::parse_pair;

/// The flags of `datasets import`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ImportCommand {
    /// Files, or directories of files; `-` is standard input, which requires --time-column and a
    /// --type for each column
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Number or name of the dataset. In a name, `{symbol}` stands for the VALUE of a part
    /// `symbol=VALUE` of the path, and `{stem}` for the file's name without its ending [default:
    /// the VALUE of such a part, else the stem]
    #[arg(long, value_name = "DATASET")]
    dataset: Option<String>,
    /// Divide the rows into datasets, one for each value of this field, which does not become a
    /// column. With `--split-by symbol --dataset prices`, rows with the symbol AAPL go to
    /// `prices_AAPL`, and with `--dataset us_{symbol}` to `us_AAPL`
    #[arg(long, value_name = "FIELD")]
    split_by: Option<String>,
    /// csv, ndjson (also for a JSON array) or parquet [default: by the file's ending]
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    format: Option<Format>,
    /// Separator of CSV fields [default: the most frequent candidate in the header]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<char>,
    /// The first line of CSV, or the first array in a JSON array, is data, and the columns are
    /// called `column_1`, `column_2` and so on [default: detected from the values]
    #[arg(long, conflicts_with = "header")]
    no_header: bool,
    /// The first line of CSV, or the first array in a JSON array, is the header, even if its names
    /// look like numbers
    #[arg(long)]
    header: bool,
    /// Number of lines of CSV to skip before the header, or before the data. Comments are always
    /// skipped [default: lines in which only the first field has a text]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    skip_lines: u64,
    #[command(flatten)]
    columns: ColumnFlags,
    /// Change only the columns in which a row has a value, and keep the other values of the stored
    /// row with its timestamp. Without this flag, a row replaces the stored row
    #[arg(long)]
    merge: bool,
    /// Skip invalid rows and report them. Without this flag, the first invalid row stops the import
    #[arg(long)]
    skip_bad: bool,
    /// Rows per request
    #[arg(long, default_value = "5000", value_name = "N")]
    batch: NonZeroUsize,
    /// Maximum number of concurrent requests. A request waits until its rows are later than all
    /// rows of the requests in progress
    #[arg(long, default_value = "2", value_name = "N")]
    in_flight: NonZeroUsize,
    /// Read the files and report what would be imported, without sending anything
    #[arg(long)]
    dry_run: bool,
    /// Print a JSON object for each file, or for each dataset of --split-by: its time column, numbers
    /// of rows read, stored, replaced, skipped and truncated, with examples
    #[arg(long)]
    json: bool,
    /// Start from the beginning, even if an earlier import was interrupted
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    about: AboutFlags,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Mapping of the fields of a file to columns.
#[derive(Debug, Clone, Args)]
struct ColumnFlags {
    /// Field with the timestamp. If its parts, such as date and time, are several fields, one of
    /// them [default: the best match by name, values and order; the import fails if two match
    /// equally well]
    #[arg(long = "time-column", alias = "time", value_name = "FIELD")]
    time: Option<String>,
    /// Unit of a numeric timestamp: s, ms, us or ns since 1970; date, as in 20260101; month, as in
    /// 202601; year; or excel, days as in spreadsheets [default: by magnitude]
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
    /// Number of the first hour of a day, 0 or 1, if a date and its hour are separate fields
    /// [default: 0 if an hour is 0, 1 if an hour is 24]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i8).range(0..=1))]
    first_hour: Option<i8>,
    /// Format of timestamps, as for strptime: '%d/%m/%Y %H:%M'. If date and time are two fields, a
    /// space is between them [default: RFC 3339 and similar formats]
    #[arg(long, value_name = "FORMAT")]
    time_format: Option<TimeFormat>,
    /// Time zone of timestamps without an offset: +02:00, or a name such as `America/New_York`
    #[arg(long, value_name = "ZONE", default_value = "UTC", allow_hyphen_values = true)]
    time_zone: Zone,
    /// Meaning of a local time that occurs twice since the clock is set back: earlier, later or
    /// reject [default: by the order of the rows if they contain the hour twice, else reject]
    #[arg(long, value_name = "MEANING")]
    ambiguous: Option<Ambiguous>,
    /// Column for this field. Buckets are computed from the columns open, high, low, close and volume
    /// [default: the name of the field, in lowercase for these columns; `volume` for VOL in bars]
    #[arg(long = "map", value_name = "FIELD=COLUMN", value_parser = parse_pair)]
    names: Vec<(String, String)>,
    /// Type of a column: float, integer, string or boolean
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = parse_column_type)]
    types: Vec<(String, Dtype)>,
    /// Decimal mark of numbers in texts: `.` as in 1,234.5, or `,` as in 1.234,5 [default:
    /// detected]
    #[arg(long, value_name = "MARK")]
    decimal: Option<Decimal>,
    /// Text or number that represents a missing value of a column, such as `?`, `inf` or `-999`, in
    /// addition to an empty text, null, NaN, NA, N/A, #N/A and None, and a dash among numbers. In CSV
    /// the text must be equal
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    nulls: Vec<String>,
    /// Skip this field
    #[arg(long, value_name = "FIELD")]
    leave_out: Vec<String>,
}

/// Imports files.
///
/// # Errors
/// If a file cannot be read, a row is invalid, or a request fails. Rows that were already imported stay
/// stored, and the same command continues after them.
pub(super) async fn run(command: ImportCommand) -> anyhow::Result<()> {
    if command.delimiter.is_some_and(|delimiter| !delimiter.is_ascii()) {
        bail!("invalid delimiter, expected one ASCII character");
    }
    let service = command.connection.connect().await?;
    let options = ImportOptions {
        paths: command.files,
        dataset: command.dataset,
        split_by: command.split_by,
        format: command.format,
        delimiter: command.delimiter.and_then(|delimiter| u8::try_from(delimiter).ok()),
        has_header: (command.header || command.no_header).then_some(command.header),
        skip_lines: command.skip_lines,
        columns: command.columns.into(),
        mode: if command.merge { InsertMode::Merge } else { InsertMode::Replace },
        skips_bad: command.skip_bad,
        batch_rows: command.batch.get(),
        n_in_flight: command.in_flight.get(),
        is_dry_run: command.dry_run,
        is_again: command.again,
        template: command.about.body("", Vec::new()),
        checkpoints: project_dirs().ok().map(|it| it.data_local_dir().join("imports")),
    };
    let reporter = ProgressReporter::single();
    let mut import = Import::open(&options, &service, &reporter)?;
    while let Some(imported) = import.next_file().await? {
        let Imported { file, title, dataset_name, dataset, report } = &imported;
        tell(&report.text(title));
        if command.json {
            print_json(&report.json(file, *dataset, dataset_name).to_string())?;
        }
    }
    import.finish()
}

impl From<ColumnFlags> for ColumnOptions {
    fn from(flags: ColumnFlags) -> Self {
        let ColumnFlags { time, time_unit, first_hour, names, types, decimal, nulls, .. } = flags;
        let (format, zone, leave_out) = (flags.time_format, flags.time_zone, flags.leave_out);
        let ambiguous = flags.ambiguous.unwrap_or_default();
        let time_texts = TimeTexts { format, zone, ambiguous };
        Self { time, time_unit, first_hour, time_texts, names, types, decimal, nulls, leave_out }
    }
}

fn parse_format(text: &str) -> Result<Format, String> {
    let path = PathBuf::from(format!("x.{text}"));
    Format::of_name(&path)
        .ok_or_else(|| "unknown format, expected csv, ndjson or parquet".to_owned())
}

fn parse_column_type(text: &str) -> Result<(String, Dtype), String> {
    let (name, dtype) = parse_pair(text)?;
    Ok((name, dtype.parse().map_err(|error| format!("{error}"))?))
}
