//! `triptych datasets follow`: prints new rows as lines of JSON or text.

use anyhow::Context as _;
use clap::Args;
use client::datasets::{Datasets, NamedRow};
use client::stream::StreamEvent;
use client::stream::resume::{self, BatchKind, ResumeFrom, RowEvent};
use model::dataset::DatasetId;
use model::escape::escape_line;
use model::page::{Limit, ROWS_MAX};
use model::timestamp::Timestamp;
use serde_json::json;
use task::group::Group;
use tokio::sync::mpsc;
use wire::datasets::{EVENT_CORRECTION, EVENT_DATA, EVENT_DELETION};

use super::connection::{ColumnsFlag, DatasetFlags};
use super::rows::json_of;
use crate::cli::output::{StreamStatus, print, print_json, tell};
use crate::cli::parse::parse_start;
use crate::cli::stop;

/// Maximum number of batches of rows that wait to be printed. Once that many wait, the stream is not
/// read, so the service pauses.
const EVENTS_CAPACITY: usize = 8;

/// The flags of `datasets follow`.
#[derive(Debug, Args)]
pub(crate) struct FollowCommand {
    /// Start with this many of the latest rows
    #[arg(long, default_value_t = 10, value_name = "N", conflicts_with = "since")]
    last: usize,
    /// Start with the rows from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    since: Option<Timestamp>,
    /// Also print deletions, and mark rows that replaced stored rows
    #[arg(long)]
    changes: bool,
    #[command(flatten)]
    columns: ColumnsFlag,
    /// Print each row as a line of JSON. With --changes, each line is an object with an `event`:
    /// `data` or `correction` with the `row`, or `deletion` with the `start` and `end` of the
    /// deleted range. A null `start` means that all rows up to `end` were deleted
    #[arg(long)]
    json: bool,
    /// Exit after this many rows
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Follows a dataset.
///
/// # Errors
/// If there is no such dataset, or it was deleted.
pub(super) async fn run(command: FollowCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let ColumnsFlag { columns } = command.columns;
    let (is_json, has_changes) = (command.json, command.changes);
    let mut printer = Printer { n_left: command.limit, is_json, has_changes, columns };
    let newest = match command.since {
        Some(since) => Some(since - std::time::Duration::from_micros(1)),
        None => print_latest(&service, dataset.id, command.last, &mut printer).await?,
    };
    if printer.n_left == Some(0) {
        return Ok(());
    }
    let (sender, mut events) = mpsc::channel(EVENTS_CAPACITY);
    let group = Group::default();
    let columns = printer.columns.clone();
    let resume_from = ResumeFrom { newest, columns, changes: has_changes, ..ResumeFrom::default() };
    group.spawn("follow a dataset", resume::follow(service, dataset.id, resume_from, sender));
    stop::run_until_stopped(&group, print_events(&mut events, &mut printer)).await
}

/// Prints the latest `n_rows` rows, oldest first. Returns the timestamp of the latest row, after which
/// following starts.
async fn print_latest(
    service: &Datasets,
    dataset: DatasetId,
    n_rows: usize,
    printer: &mut Printer,
) -> anyhow::Result<Option<Timestamp>> {
    // At least one row is read, even if none is printed, since its timestamp is returned.
    let limit = Limit::clamp(n_rows.min(ROWS_MAX));
    let rows = service.newest_of(dataset, &printer.columns, limit).await;
    let mut rows = rows.context("cannot read the latest rows")?;
    let newest = rows.first().map(|row| row.timestamp);
    rows.truncate(n_rows);
    rows.reverse();
    printer.print(&rows, BatchKind::Rows)?;
    // If the dataset is empty, following starts before all possible timestamps.
    Ok(newest.or(Some(Timestamp::MIN)))
}

async fn print_events(
    events: &mut mpsc::Receiver<RowEvent>,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut status = StreamStatus::default();
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::Item(batch) => {
                printer.print(&batch.rows, batch.kind)?;
                if printer.n_left == Some(0) {
                    return Ok(());
                }
            }
            StreamEvent::Connected => status.connected(),
            StreamEvent::Lost { why, .. } if matches!(why.status(), Some(401 | 403 | 404)) => {
                return Err(why).context("cannot follow the dataset");
            }
            StreamEvent::Lost { why, .. } => status.lost(&why),
            StreamEvent::Reset => {
                tell(
                    "the service lost the position of the stream: rows with earlier timestamps may be missing",
                );
            }
            StreamEvent::Heartbeat | StreamEvent::NotServed => {}
        }
    }
    Ok(())
}

/// Prints rows, up to a limit.
struct Printer {
    n_left: Option<u64>,
    is_json: bool,
    has_changes: bool,
    /// Names of the columns. Empty for all.
    columns: Vec<String>,
}

impl Printer {
    fn print(&mut self, rows: &[NamedRow], kind: BatchKind) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        if let BatchKind::Deletion { start, end } = kind {
            lines.push(self.format_deletion(start, end));
        }
        for row in rows {
            if let Some(n_left) = &mut self.n_left {
                if *n_left == 0 {
                    break;
                }
                *n_left -= 1;
            }
            lines.push(self.format(row, kind));
        }
        let lines = lines.join("\n");
        match (lines.is_empty(), self.is_json) {
            (true, _) => Ok(()),
            (false, true) => print_json(&lines),
            (false, false) => print(&lines),
        }
    }

    fn format(&self, row: &NamedRow, kind: BatchKind) -> String {
        let is_correction = kind == BatchKind::Corrections;
        match (self.is_json, self.has_changes) {
            (true, false) => json_of(row),
            (true, true) => {
                let event = if is_correction { EVENT_CORRECTION } else { EVENT_DATA };
                format!(r#"{{"event":"{event}","row":{}}}"#, json_of(row))
            }
            (false, _) => text_of(row) + if is_correction { "  (corrected)" } else { "" },
        }
    }

    fn format_deletion(&self, start: Option<Timestamp>, end: Timestamp) -> String {
        if self.is_json {
            let start = start.map(|start| start.to_string());
            json!({"event": EVENT_DELETION, "start": start, "end": end.to_string()}).to_string()
        } else {
            let start = start.map_or_else(|| "the first row".to_owned(), |start| start.to_string());
            format!("deleted  {start} to {end}")
        }
    }
}

/// Formats a row as a line: `2026-07-30T21:57:00Z  close 67431.22  volume 3.1`.
fn text_of(row: &NamedRow) -> String {
    let value = |(name, value): (&String, &model::row::Value)| {
        format!("  {} {}", escape_line(name), escape_line(&value.to_string()))
    };
    row.timestamp.to_string() + &row.values.iter().map(value).collect::<String>()
}

#[cfg(test)]
mod tests {
    use model::row::Value;

    use super::*;

    #[test]
    fn row_is_formatted_as_names_and_values() {
        let values = [("close", Value::Float(1.5)), ("note", Value::String("a\nb".to_owned()))];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let row = NamedRow { timestamp: Timestamp::from_seconds(0), values };
        assert_eq!(text_of(&row), "1970-01-01T00:00:00Z  close 1.5  note a\\nb");
        let (n_left, has_changes, columns) = (None, true, vec![]);
        let mut printer = Printer { n_left, is_json: false, has_changes, columns };
        let corrected = printer.format(&row, BatchKind::Corrections);
        assert_eq!(corrected, text_of(&row) + "  (corrected)");
        let end = Timestamp::from_seconds(60);
        let deleted = printer.format_deletion(None, end);
        assert_eq!(deleted, "deleted  the first row to 1970-01-01T00:01:00Z");
        printer.is_json = true;
        let line = format!(r#"{{"event":"data","row":{}}}"#, json_of(&row));
        assert_eq!(printer.format(&row, BatchKind::Rows), line);
        let deleted = r#"{"end":"1970-01-01T00:01:00Z","event":"deletion","start":null}"#;
        assert_eq!(printer.format_deletion(None, end), deleted);
    }
}
