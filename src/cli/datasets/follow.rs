//! `triptych datasets follow`: new rows as lines of JSON or text, until nobody wants any more.

use anyhow::Context as _;
use clap::Args;
use client::{
    datasets::{Datasets, NamedRow},
    stream::{
        StreamEvent,
        resume::{self, ResumeFrom, RowEvent},
    },
};
use model::escape::escape_line;
use model::{
    dataset::DatasetId,
    page::{Limit, ROWS_MAX},
    timestamp::Timestamp,
};
use task::group::Group;
use tokio::sync::mpsc;

use super::{connection::DatasetFlags, rows::json_of};
use crate::cli::parse::parse_timestamp;
use crate::cli::{
    output::{print, print_json, tell},
    stop,
};

/// Batches of rows that wait to be printed. Then the service waits, too.
const EVENTS_CAPACITY: usize = 8;

/// The flags of `datasets follow`.
#[derive(Debug, Args)]
pub(crate) struct FollowCommand {
    /// Begin with this many of the newest rows
    #[arg(long, default_value_t = 10, value_name = "N", conflicts_with = "since")]
    last: usize,
    /// Begin with the rows from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    since: Option<Timestamp>,
    /// Print each row as a line of JSON
    #[arg(long)]
    json: bool,
    /// End after this many rows
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Follows.
///
/// # Errors
/// If there is no such dataset, or it is gone.
pub(super) async fn run(command: FollowCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let mut printer = Printer { n_left: command.limit, is_json: command.json };
    let newest = match command.since {
        Some(since) => Some(since - std::time::Duration::from_micros(1)),
        None => begin(&service, dataset.id, command.last, &mut printer).await?,
    };
    if printer.n_left == Some(0) {
        return Ok(());
    }
    let (sender, mut events) = mpsc::channel(EVENTS_CAPACITY);
    let group = Group::default();
    let resume_from = ResumeFrom { newest, ..ResumeFrom::default() };
    group.spawn("follow a dataset", resume::follow(service, dataset.id, resume_from, sender));
    stop::run_until_stopped(&group, printed(&mut events, &mut printer)).await
}

/// Prints the newest `n_rows`, oldest first; returns the timestamp of the newest.
async fn begin(
    service: &Datasets,
    dataset: DatasetId,
    n_rows: usize,
    printer: &mut Printer,
) -> anyhow::Result<Option<Timestamp>> {
    // One row tells where to begin, also where none is wanted.
    let limit = Limit::clamp(n_rows.min(ROWS_MAX));
    let mut rows = service.newest(dataset, limit).await.context("read the newest rows")?;
    let newest = rows.first().map(|row| row.timestamp);
    rows.truncate(n_rows);
    rows.reverse();
    printer.print(&rows)?;
    // Without any, the first one to come is after the beginning of time.
    Ok(newest.or(Some(Timestamp::MIN)))
}

async fn printed(
    events: &mut mpsc::Receiver<RowEvent>,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let mut is_lost = false;
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::Item(batch) => {
                printer.print(&batch.rows)?;
                if printer.n_left == Some(0) {
                    return Ok(());
                }
            }
            StreamEvent::Connected if is_lost => {
                is_lost = false;
                tell("the stream is back");
            }
            StreamEvent::Lost { why, .. } if matches!(why.status(), Some(401 | 403 | 404)) => {
                return Err(why).context("follow the dataset");
            }
            StreamEvent::Lost { why, .. } if !is_lost => {
                is_lost = true;
                tell(&format!("the stream is lost and tried again: {}", why.why()));
            }
            StreamEvent::Reset => {
                tell("the service forgot where the stream was: late rows may be left out");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Prints rows, as many as are wanted.
struct Printer {
    n_left: Option<u64>,
    is_json: bool,
}

impl Printer {
    fn print(&mut self, rows: &[NamedRow]) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        for row in rows {
            if let Some(n_left) = &mut self.n_left {
                if *n_left == 0 {
                    break;
                }
                *n_left -= 1;
            }
            lines.push(if self.is_json { json_of(row) } else { text_of(row) });
        }
        let lines = lines.join("\n");
        match (lines.is_empty(), self.is_json) {
            (true, _) => Ok(()),
            (false, true) => print_json(&lines),
            (false, false) => print(&lines),
        }
    }
}

/// A row as a line for people: `2026-07-30T21:57:00Z  close 67431.22  volume 3.1`.
fn text_of(row: &NamedRow) -> String {
    let values = row.values.iter();
    let values = values.map(|(name, value)| {
        format!("  {} {}", escape_line(name), escape_line(&value.to_string()))
    });
    row.timestamp.to_string() + &values.collect::<String>()
}

#[cfg(test)]
mod tests {
    use model::row::Value;

    use super::*;

    #[test]
    fn a_row_is_a_line_of_names_and_values() {
        let values = [("close", Value::Float(1.5)), ("note", Value::String("a\nb".to_owned()))];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let row = NamedRow { timestamp: Timestamp::from_seconds(0), values };
        assert_eq!(text_of(&row), "1970-01-01T00:00:00Z  close 1.5  note a\\nb");
    }
}
