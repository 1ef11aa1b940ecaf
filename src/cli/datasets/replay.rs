//! `triptych datasets replay`: history once more, as if it were live.

use clap::Args;
use model::timestamp::Timestamp;
use transfer::replay::{self, ReplayOptions, ReplaySpan, ReplayTarget, RowTimes, Speed};

use super::{connection::DatasetServiceFlags, progress::Drawn};
use crate::cli::output::print_json;
use crate::cli::parse::parse_timestamp;

/// The flags of `datasets replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayCommand {
    /// What to replay: a dataset's number or name, or a file
    source: String,
    /// Send the rows to this dataset, which is created if need be [default: standard output, as
    /// lines of JSON]
    #[arg(long, value_name = "DATASET")]
    to: Option<String>,
    /// How much faster than it happened, such as `60x`; `max` is as fast as it goes
    #[arg(long, default_value = "1x", value_name = "SPEED")]
    speed: Speed,
    /// `now`: a row gets the time at which it is due; `keep`: it keeps its own
    #[arg(long, default_value = "now", value_name = "TIMES")]
    times: RowTimes,
    /// Begin at this time of history
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    start: Option<Timestamp>,
    /// End after this time of history
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    end: Option<Timestamp>,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Replays.
///
/// # Errors
/// If there is no such dataset or file, or rows are not taken.
pub(super) async fn run(command: ReplayCommand) -> anyhow::Result<()> {
    let ReplayCommand { source, to, speed, times, start, end, connection } = command;
    let options = ReplayOptions { source, speed, times, span: ReplaySpan { start, end } };
    let to = to.as_deref().map_or(ReplayTarget::Lines(print_json), ReplayTarget::Dataset);
    replay::run(options, to, async || connection.connect().await, &Drawn::alone()).await
}
