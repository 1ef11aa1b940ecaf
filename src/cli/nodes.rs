//! `triptych nodes`: the nodes of a cluster, as the head knows them.

use std::{io::Write as _, time::Duration};

use anyhow::Context as _;
use clap::Args;
use tokio::time::{MissedTickBehavior, interval};
use wire::functions::{NodeBody, NodesResponse};

use crate::cli::function::{HeadFlags, plain};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  triptych nodes --head http://127.0.0.1:8080             one line a node
  triptych nodes --head http://127.0.0.1:8080 --json      as GET /api/v1/nodes answers it
  triptych nodes --every 5                                again each 5 seconds, until interrupted";

/// Stands for what is not known.
const NONE: &str = "-";

/// The flags of `nodes`.
#[derive(Debug, Args)]
pub(crate) struct NodesCommand {
    /// Print the list as JSON on one line
    #[arg(long)]
    json: bool,
    /// Print it again each so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    #[command(flatten)]
    head: HeadFlags,
}

/// Prints the nodes.
///
/// # Errors
/// If the head does not tell, or standard output takes nothing.
pub(crate) async fn run(command: NodesCommand) -> anyhow::Result<()> {
    let head = command.head.connect()?;
    let list = || async { head.nodes().await.context("list the nodes") };
    let Some(seconds) = command.every else {
        return print(list().await?, command.json);
    };
    let mut ticks = interval(Duration::from_secs(seconds));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        print(list().await?, command.json)?;
    }
}

fn print(nodes: Vec<NodeBody>, is_json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let text = if is_json {
        serde_json::to_string(&NodesResponse { nodes })? + "\n"
    } else {
        text(&nodes)
    };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("print the nodes")
}

/// A head of column names and a line for each node: names on the left, numbers on the right.
fn text(nodes: &[NodeBody]) -> String {
    let mut rows = vec![
        [
            "PEER",
            "ROLE",
            "GROUPS",
            "LINK",
            "SLOTS",
            "RUNS",
            "AGREE",
            "PING",
            "FUNCTIONS",
            "LAST SEEN",
        ]
        .map(str::to_owned),
    ];
    rows.extend(nodes.iter().map(row));
    let widths: Vec<usize> = (0..rows.first().map_or(0, |row| row.len()))
        .map(|idx| rows.iter().filter_map(|row| row.get(idx)).map(String::len).max().unwrap_or(0))
        .collect();
    let is_number = |idx: usize| (4..9).contains(&idx);
    let line = |row: &[String; 10]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(idx, (cell, width))| {
            if is_number(idx) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn row(node: &NodeBody) -> [String; 10] {
    let none = || NONE.to_owned();
    let groups = if node.subgroups.is_empty() { "*".to_owned() } else { node.subgroups.join("+") };
    let slots = match (node.slots, node.slots_free) {
        (None, _) => none(),
        (Some(n_slots), None) => n_slots.to_string(),
        (Some(n_slots), Some(n_free)) => format!("{n_free}/{n_slots}"),
    };
    [
        plain(&node.peer_id).into(),
        node.role.as_deref().map_or_else(none, |text| plain(text).into()),
        plain(&groups).into(),
        if node.connected { "up" } else { "down" }.to_owned(),
        slots,
        node.runs.to_string(),
        node.agreement_percent.map_or_else(none, |percent| format!("{percent:.0}%")),
        node.latency_ms.map_or_else(none, |ms| format!("{ms:.1}ms")),
        node.functions.len().to_string(),
        node.last_seen.as_deref().map_or_else(none, |text| plain(text).into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_what_is_not_known_is_a_dash() {
        let head = NodeBody {
            peer_id: "12D3KooWHead".to_owned(),
            role: Some("head".to_owned()),
            connected: true,
            ..NodeBody::default()
        };
        let worker = NodeBody {
            peer_id: "12D3KooWW".to_owned(),
            role: Some("worker".to_owned()),
            subgroups: vec!["gpu".to_owned()],
            latency_ms: Some(0.42),
            runs: 41,
            agreement_percent: Some(97.4),
            slots: Some(10),
            slots_free: Some(8),
            ..NodeBody::default()
        };
        let want = "\
PEER          ROLE    GROUPS  LINK  SLOTS  RUNS  AGREE   PING  FUNCTIONS  LAST SEEN
12D3KooWHead  head    *       up        -     0      -      -          0  -
12D3KooWW     worker  gpu     down   8/10    41    97%  0.4ms          0  -
";
        assert_eq!(text(&[head, worker]), want);
    }
}
