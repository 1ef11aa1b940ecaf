//! `triptych datasets import`: the rows of files, sent to datasets.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use client::datasets::insert::InsertMode;
use formats::read::{
    Format,
    number_text::Decimal,
    time_text::{Ambiguous, TimeFormat, TimeTexts, Zone},
    timestamps::TimeUnit,
};
use model::dataset::Dtype;
use stack::data_dir::project_dirs;
use transfer::import::{ColumnOptions, Import, ImportOptions};

use super::{catalog::AboutFlags, connection::DatasetServiceFlags, progress::Drawn};
use crate::cli::output::{print_json, tell};
use crate::cli::parse::parse_pair;

/// The flags of `datasets import`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ImportCommand {
    /// Files, or folders of them; `-` is standard input, whose columns --time-column and --type name
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The dataset's number or name; `{symbol}` stands for the part of a path that is `symbol=…`,
    /// `{stem}` for the file's name without ending [default: the part of the path, else the stem]
    #[arg(long, value_name = "DATASET")]
    dataset: Option<String>,
    /// csv, ndjson or parquet [default: by the file's ending]
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    format: Option<Format>,
    /// What separates the fields of CSV [default: whichever the header has most of]
    #[arg(long, value_name = "CHARACTER")]
    delimiter: Option<char>,
    /// The first line of CSV is data: columns are `column_1` and so on [default: seen by the lines
    /// below it]
    #[arg(long, conflicts_with = "header")]
    no_header: bool,
    /// The first line of CSV has the names, though they look like numbers
    #[arg(long)]
    header: bool,
    /// Lines of CSV before the header, or before the data [default: comments, and lines that have a
    /// text in the first field alone]
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    skip_lines: u64,
    #[command(flatten)]
    columns: ColumnFlags,
    /// Change the columns that a row has a value in, and leave the others of the stored row of its
    /// timestamp as they are; otherwise a row replaces the stored one
    #[arg(long)]
    merge: bool,
    /// Leave out rows that do not fit, and report them; otherwise the first one stops the import
    #[arg(long)]
    skip_bad: bool,
    /// Rows sent at a time
    #[arg(long, default_value_t = 5_000, value_name = "N")]
    batch: usize,
    /// Batches that may be under way at once, where their rows follow one another
    #[arg(long, default_value_t = 2, value_name = "N")]
    in_flight: usize,
    /// Read the files and report what would be done, without sending anything
    #[arg(long)]
    dry_run: bool,
    /// Print a JSON object for each file: its time column, and rows read, stored, replaced, skipped and
    /// cut, with examples
    #[arg(long)]
    json: bool,
    /// Begin at the beginning, also where an earlier import was stopped
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    about: AboutFlags,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// How the fields of a file become columns.
#[derive(Debug, Clone, Args)]
struct ColumnFlags {
    /// The field with the timestamp [default: the best by its name, its values and their order; two
    /// good ones are rejected]
    #[arg(long = "time-column", alias = "time", value_name = "FIELD")]
    time: Option<String>,
    /// What a number there counts since 1970: s, ms, us or ns; or date, for 20260101; month, for
    /// 202601; year; or excel, for days of a spreadsheet [default: by the size of each]
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
    /// Number of the first hour of a day, 0 or 1, where a field has hours next to a date [default:
    /// seen by a 0 or a 24]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i8).range(0..=1))]
    first_hour: Option<i8>,
    /// How timestamps are written, as strptime has it: '%d/%m/%Y %H:%M'; where date and time are two
    /// fields, a space is between them [default: RFC 3339 and what is nearly that]
    #[arg(long, value_name = "FORMAT")]
    time_format: Option<TimeFormat>,
    /// The zone of timestamps without an offset: +02:00, or a name such as `America/New_York`
    #[arg(long, value_name = "ZONE", default_value = "UTC", allow_hyphen_values = true)]
    time_zone: Zone,
    /// Meaning of a time that the clock of the zone shows twice, in autumn: earlier, later or reject
    /// [default: by the order of the rows, if the file has the hour twice; else reject]
    #[arg(long, value_name = "MEANING")]
    ambiguous: Option<Ambiguous>,
    /// Make this field that column
    #[arg(long = "map", value_name = "FIELD=COLUMN", value_parser = parse_pair)]
    names: Vec<(String, String)>,
    /// The type of a column: float, integer, string or boolean
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = parse_column_type)]
    types: Vec<(String, Dtype)>,
    /// The decimal mark of numbers in texts: . as in 1,234.5, or , as in 1.234,5 [default: seen]
    #[arg(long, value_name = "MARK")]
    decimal: Option<Decimal>,
    /// A text that is no value, such as inf or ? [always: empty, null, NaN, NA, N/A, #N/A and None;
    /// of numbers a dash, too]
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    nulls: Vec<String>,
    /// Leave this field out
    #[arg(long, value_name = "FIELD")]
    leave_out: Vec<String>,
}

/// Imports.
///
/// # Errors
/// If a file is not to be read, a row does not fit, or the service refuses. What was stored is kept,
/// and the same command goes on after it.
pub(super) async fn run(command: ImportCommand) -> anyhow::Result<()> {
    if command.delimiter.is_some_and(|delimiter| !delimiter.is_ascii()) {
        bail!("use the delimiter: it is one character of ASCII");
    }
    let service = command.connection.connect().await?;
    let options = ImportOptions {
        paths: command.files,
        dataset: command.dataset,
        format: command.format,
        delimiter: command.delimiter.and_then(|delimiter| u8::try_from(delimiter).ok()),
        has_header: (command.header || command.no_header).then_some(command.header),
        skip_lines: command.skip_lines,
        columns: command.columns.into(),
        mode: if command.merge { InsertMode::Merge } else { InsertMode::Replace },
        skips_bad: command.skip_bad,
        batch_rows: command.batch,
        n_in_flight: command.in_flight,
        is_dry_run: command.dry_run,
        is_again: command.again,
        template: command.about.body("", Vec::new()),
        checkpoints: project_dirs().ok().map(|it| it.data_local_dir().join("imports")),
    };
    let reporter = Drawn::alone();
    let mut import = Import::open(&options, &service, &reporter)?;
    while let Some(imported) = import.next_file().await? {
        tell(&imported.report.text(&imported.file));
        if command.json {
            print_json(&imported.report.json(&imported.file, imported.dataset).to_string())?;
        }
    }
    import.finish()
}

impl From<ColumnFlags> for ColumnOptions {
    fn from(flags: ColumnFlags) -> Self {
        let ColumnFlags { time, time_unit, first_hour, time_format, time_zone, ambiguous, .. } =
            flags;
        let ambiguous = ambiguous.unwrap_or_default();
        let time_texts = TimeTexts { format: time_format, zone: time_zone, ambiguous };
        let ColumnFlags { names, types, decimal, nulls, leave_out, .. } = flags;
        Self { time, time_unit, first_hour, time_texts, names, types, decimal, nulls, leave_out }
    }
}

fn parse_format(text: &str) -> Result<Format, String> {
    let path = PathBuf::from(format!("x.{text}"));
    Format::of_name(&path).ok_or_else(|| "a format is csv, ndjson or parquet".to_owned())
}

fn parse_column_type(text: &str) -> Result<(String, Dtype), String> {
    let (name, dtype) = parse_pair(text)?;
    Ok((name, dtype.parse().map_err(|error| format!("{error}"))?))
}
