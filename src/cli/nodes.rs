//! `triptych nodes`: the nodes of a cluster, as the head knows them.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::time::{MissedTickBehavior, interval};
use wire::functions::{NodeBody, NodesResponse};

use crate::cli::{function::HeadFlags, output};

/// Names of the columns: texts, then numbers from `SLOTS` to `FUNCTIONS`.
const COLUMNS: [&str; 10] =
    ["PEER", "ROLE", "GROUPS", "LINK", "SLOTS", "RUNS", "AGREE", "PING", "FUNCTIONS", "LAST SEEN"];

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
    if is_json {
        return output::print_body(&NodesResponse { nodes });
    }
    output::print(&text(&nodes))
}

/// A head of column names and a line for each node: names on the left, numbers on the right.
fn text(nodes: &[NodeBody]) -> String {
    let rows: Vec<Vec<String>> = nodes.iter().map(|node| row(node).to_vec()).collect();
    output::table(&COLUMNS, &rows, &[4, 5, 6, 7, 8])
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
        node.peer_id.clone(),
        node.role.clone().unwrap_or_else(none),
        groups,
        if node.connected { "up" } else { "down" }.to_owned(),
        slots,
        node.runs.to_string(),
        node.agreement_percent.map_or_else(none, |percent| format!("{percent:.0}%")),
        node.latency_ms.map_or_else(none, |ms| format!("{ms:.1}ms")),
        node.functions.len().to_string(),
        node.last_seen.clone().unwrap_or_else(none),
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
12D3KooWW     worker  gpu     down   8/10    41    97%  0.4ms          0  -";
        assert_eq!(text(&[head, worker]), want);
    }
    #[test]
    fn names_that_others_chose_stay_in_their_cell() {
        let subgroups = vec!["gpu\nfake\u{1b}[2J\u{202e}".to_owned()];
        let text = text(&[NodeBody { subgroups, ..NodeBody::default() }]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r"gpu\nfake\u{1b}[2J\u{202e}"), "{text}");
    }
}
