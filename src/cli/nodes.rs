//! `triptych nodes`: lists and manages the nodes of a cluster, as its head knows them.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use client::functions::Functions as Head;
use model::escape::escape_line;
use model::node::{PeerId, Role};
use model::selector::Selector;
use serde_json::json;
use task::group::Group;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wire::functions::{NodeApproval, NodeBody, NodesResponse};
use wire::nodes::{NodeDetail, NodePatch};

use crate::cli::function::{HeadFlags, NOT_FOUND, with_advice};
use crate::cli::node::allowed_peers::whole_id;
use crate::cli::output::{self, Column, tell, with_progress};
use crate::cli::stop;

/// Maximum time that one request waits for a node to become idle. It is short, so that between requests
/// a node that was uncordoned is noticed.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Maximum time to wait until canceled executions have ended on the nodes.
const CANCELED_WITHIN: Duration = Duration::from_secs(10);

/// Exit code of `drain` if a node was uncordoned or lost meanwhile.
const UNDONE: u8 = 4;

/// Maximum length of a node's list of groups, in characters. Without it, a single node in groups with
/// long names would widen the column in all rows.
const GROUPS_CHARS_MAX: usize = 32;

/// The flags and arguments of `nodes`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NodesCommand {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    list: ListFlags,
}

/// The subcommands of `nodes`.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the nodes, as `triptych nodes` without a subcommand does
    #[command(alias = "ls")]
    List(ListFlags),
    /// Give nodes no new work; executions in progress continue
    Cordon(ChosenNodes),
    /// Give cordoned nodes work again
    Uncordon(ChosenNodes),
    /// Cordon nodes, and wait until they run nothing for this head
    Drain {
        /// Maximum time to wait. Executions that still run after it are not canceled, and the
        /// command fails
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=86_400))]
        timeout: u64,
        /// Maximum time to wait before the executions that still run on the nodes are canceled. An
        /// execution is canceled on all of its nodes, including nodes that are not drained
        #[arg(long, value_name = "SECONDS", conflicts_with = "timeout", value_parser = clap::value_parser!(u64).range(..=86_400))]
        deadline: Option<u64>,
        #[command(flatten)]
        chosen: ChosenNodes,
    },
    /// Let nodes work for a head that requires approval. Nodes can be approved before they connect
    Approve(NamedNodes),
    /// Give nodes no work, even if approval is not required
    Refuse(NamedNodes),
}

/// Flags of the list.
#[derive(Debug, Args)]
struct ListFlags {
    /// Print the list as JSON on one line
    #[arg(long)]
    json: bool,
    /// Print the list again at this interval
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Only nodes with these attributes, as kubectl selects: `zone=a,gpu!=none`, `zone in (a,b)`,
    /// `!old`
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    #[command(flatten)]
    head: HeadFlags,
}

/// Flags that choose nodes by id or by attributes.
#[derive(Debug, Args)]
struct ChosenNodes {
    /// Ids of the nodes
    #[arg(value_name = "PEER_ID", required_unless_present = "selector", value_parser = whole_id)]
    nodes: Vec<PeerId>,
    /// All workers with these attributes: `zone=a,gpu!=none`, `zone in (a,b)`, `!old`
    #[arg(long, value_name = "SELECTOR", conflicts_with = "nodes")]
    selector: Option<Selector>,
    #[command(flatten)]
    change: ChangeFlags,
}

/// Flags that choose nodes by id only. Nodes choose their attributes themselves, so attributes are no
/// reason to trust a node.
#[derive(Debug, Args)]
struct NamedNodes {
    /// Ids of the nodes
    #[arg(value_name = "PEER_ID", required = true, value_parser = whole_id)]
    nodes: Vec<PeerId>,
    #[command(flatten)]
    change: ChangeFlags,
}

/// Flags with the head and the output format of commands that change nodes.
#[derive(Debug, Args)]
struct ChangeFlags {
    /// Print the nodes as JSON on one line, with their running work orders
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    head: HeadFlags,
}

/// Lists or changes nodes.
///
/// # Errors
/// If a request fails, or nodes still run work at the time limit of `drain`.
pub(crate) async fn run(command: NodesCommand) -> anyhow::Result<ExitCode> {
    let done = match command.action {
        Some(Action::Drain { timeout, deadline, chosen }) => {
            let within = Duration::from_secs(deadline.unwrap_or(timeout));
            return drain(chosen, within, deadline.is_some()).await.map_err(with_advice);
        }
        None => list(command.list).await,
        Some(Action::List(flags)) => list(flags).await,
        Some(Action::Cordon(chosen)) => change_chosen(chosen, CORDON).await,
        Some(Action::Uncordon(chosen)) => {
            change_chosen(chosen, NodePatch { cordoned: Some(false), ..CORDON }).await
        }
        Some(Action::Approve(named)) => decide(named, NodeApproval::Approved).await,
        Some(Action::Refuse(named)) => decide(named, NodeApproval::Refused).await,
    };
    done.map(|()| ExitCode::SUCCESS).map_err(with_advice)
}

/// Change of a node's settings that cordons the node.
const CORDON: NodePatch = NodePatch { cordoned: Some(true), approval: None };

async fn list(flags: ListFlags) -> anyhow::Result<()> {
    let head = flags.head.connect()?;
    let list = || async {
        let mut nodes = head.nodes().await.context("cannot list nodes")?;
        if let Some(selector) = &flags.selector {
            nodes.retain(|node| is_selected(node, selector));
        }
        anyhow::Ok(nodes)
    };
    let Some(seconds) = flags.every else {
        return print(list().await?, flags.json);
    };
    let mut ticks = interval(Duration::from_secs(seconds));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let work = async {
        loop {
            ticks.tick().await;
            print(list().await?, flags.json)?;
        }
    };
    stop::run_until_stopped(&Group::default(), work).await
}

/// Returns true if the node is a worker that `selector` matches. Heads never match, even a selector
/// such as `!old`, since they have no attributes.
fn is_selected(node: &NodeBody, selector: &Selector) -> bool {
    let is_head = node.role.as_deref().is_some_and(|role| role.parse() == Ok(Role::Head));
    !is_head && selector.matches(&node.attributes)
}

/// Returns the ids of the chosen nodes. Fails if no node matches `selector`.
async fn choose(
    head: &Head,
    nodes: Vec<PeerId>,
    selector: Option<Selector>,
) -> anyhow::Result<Vec<String>> {
    let Some(selector) = selector else {
        return Ok(nodes.iter().map(PeerId::to_string).collect());
    };
    let nodes = head.nodes().await.context("cannot list nodes")?;
    let selected = nodes.into_iter().filter(|node| is_selected(node, &selector));
    let ids: Vec<String> = selected.map(|node| node.peer_id).collect();
    if ids.is_empty() {
        bail!("no worker matches `{selector}`\nhint: triptych nodes lists the attributes of each");
    }
    Ok(ids)
}

async fn change_chosen(chosen: ChosenNodes, patch: NodePatch) -> anyhow::Result<()> {
    let head = chosen.change.head.connect()?;
    let ids = choose(&head, chosen.nodes, chosen.selector).await?;
    print_changed(&change(&head, &ids, patch).await?, chosen.change.json)
}

async fn decide(named: NamedNodes, approval: NodeApproval) -> anyhow::Result<()> {
    let NamedNodes { nodes, change } = named;
    let patch = NodePatch { cordoned: None, approval: Some(approval) };
    change_chosen(ChosenNodes { nodes, selector: None, change }, patch).await
}

async fn change(head: &Head, ids: &[String], patch: NodePatch) -> anyhow::Result<Vec<NodeDetail>> {
    let mut changed = Vec::new();
    for (n_changed, id) in ids.iter().enumerate() {
        let node = head.change_node(id, patch, Duration::ZERO).await;
        let failed = || format!("cannot change node {id} ({n_changed} of {} changed)", ids.len());
        changed.push(node.with_context(failed)?);
    }
    Ok(changed)
}

/// Cordons nodes and waits until they are idle, at most for `within`. If `cancels`, then cancels the
/// executions that still run.
async fn drain(chosen: ChosenNodes, within: Duration, cancels: bool) -> anyhow::Result<ExitCode> {
    let head = chosen.change.head.connect()?;
    let ids = choose(&head, chosen.nodes, chosen.selector).await?;
    let deadline = Instant::now() + within;
    // All nodes are cordoned before the first wait, so that work that one of them no longer gets is not
    // given to another of them.
    let cordoned = change(&head, &ids, CORDON).await?;
    let waiting = match ids.as_slice() {
        [_] => "waiting for the executions of the node".to_owned(),
        ids => format!("waiting for the executions of {} nodes", ids.len()),
    };
    let mut drained = with_progress(&waiting, wait_all_idle(&head, &ids, deadline)).await?;
    if cancels && cancel_running(&head, &drained).await? {
        let deadline = Instant::now() + CANCELED_WITHIN;
        drained = with_progress(&waiting, wait_all_idle(&head, &ids, deadline)).await?;
    }
    print_changed(&drained, chosen.change.json)?;
    let undone: Vec<String> =
        cordoned.iter().zip(&drained).filter_map(|(before, now)| undone_by(before, now)).collect();
    if !undone.is_empty() {
        tell(&format!("the drain was undone: {}", undone.join("; ")));
        return Ok(ExitCode::from(UNDONE));
    }
    let busy = drained.iter().filter(|detail| detail.node.running > 0);
    let busy: Vec<String> = busy.map(still_running).collect();
    if !busy.is_empty() {
        bail!(
            "nodes are not drained after {} s: {}\nhint: they stay cordoned; drain again to wait longer, or with \
             --deadline to cancel the executions",
            within.as_secs(),
            busy.join("; ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the reason if a node was not drained although the wait for it ended: it was uncordoned or
/// lost.
fn undone_by(before: &NodeDetail, now: &NodeDetail) -> Option<String> {
    let id = &now.node.peer_id;
    if !now.node.cordoned {
        return Some(format!("{id} was uncordoned"));
    }
    let is_lost = before.node.connected && before.node.running > 0 && !now.node.connected;
    is_lost.then(|| format!("{id} was lost with its work"))
}

/// Cancels the executions that still run on cordoned nodes. Returns true if there were any.
async fn cancel_running(head: &Head, drained: &[NodeDetail]) -> anyhow::Result<bool> {
    let running = drained.iter().filter(|detail| detail.node.cordoned);
    // An execution can run on several of the nodes.
    let orders: BTreeSet<&str> =
        running.flat_map(|detail| &detail.orders).map(|order| &*order.request_id).collect();
    for id in &orders {
        match head.cancel(id).await {
            Ok(_) => tell(&format!("canceled execution {id}")),
            // The head no longer knows an execution that has completed in the meantime.
            Err(error) if error.status() == Some(NOT_FOUND) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot cancel execution {id}"));
            }
        }
    }
    Ok(!orders.is_empty())
}

async fn wait_all_idle(
    head: &Head,
    ids: &[String],
    deadline: Instant,
) -> anyhow::Result<Vec<NodeDetail>> {
    let mut drained = Vec::new();
    for id in ids {
        drained.push(wait_idle(head, id, deadline).await?);
    }
    Ok(drained)
}

/// Waits until a node runs no work of the head or is no longer cordoned, at most until `deadline`.
async fn wait_idle(head: &Head, id: &str, deadline: Instant) -> anyhow::Result<NodeDetail> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // Rounded up, since a request waits for whole seconds: a fraction rounded down to 0 would cause
        // many requests in the last second.
        let left = Duration::from_secs(left.as_millis().div_ceil(1000).try_into()?);
        let node = head.change_node(id, NodePatch::default(), left.min(WAIT_MAX)).await;
        let node = node.with_context(|| format!("cannot wait for node {id}"))?;
        if node.node.running == 0 || !node.node.cordoned || left <= WAIT_MAX {
            return Ok(node);
        }
    }
}

/// Returns a text with the number of executions that a node runs, and with their ids.
fn still_running(detail: &NodeDetail) -> String {
    let NodeDetail { node, orders } = detail;
    let requests: Vec<&str> = orders.iter().map(|order| &*order.request_id).collect();
    let n_running = node.running;
    format!("{} still runs {n_running} of requests {}", node.peer_id, requests.join(", "))
}

fn print_changed(changed: &[NodeDetail], is_json: bool) -> anyhow::Result<()> {
    output::show(is_json, &json!({ "nodes": changed }), |_| {
        text(&changed.iter().map(|detail| detail.node.clone()).collect::<Vec<_>>())
    })
}

fn print(nodes: Vec<NodeBody>, is_json: bool) -> anyhow::Result<()> {
    output::show(is_json, &NodesResponse { nodes }, |body| text(&body.nodes))
}

/// Formats a table with a row for each node.
fn text(nodes: &[NodeBody]) -> String {
    let none = || "-".to_owned();
    let columns: [Column<'_, NodeBody>; 13] = [
        ("PEER", &|node| node.peer_id.clone()),
        ("ROLE", &|node| node.role.clone().unwrap_or_else(none)),
        ("GROUPS", &|node| groups(&node.subgroups)),
        ("LINK", &|node| if node.connected { "up" } else { "down" }.to_owned()),
        ("STATUS", &|node| node.withheld_by().map_or_else(none, str::to_owned)),
        (">SLOTS", &|node| match (node.slots, node.slots_free) {
            (None, _) => none(),
            (Some(n_slots), None) => n_slots.to_string(),
            (Some(n_slots), Some(n_free)) => format!("{n_free}/{n_slots}"),
        }),
        (">RUNS", &|node| node.runs.to_string()),
        (">AGREE", &|node| node.agreement_percent.map_or_else(none, |it| format!("{it:.0}%"))),
        (">PING", &|node| node.latency_ms.map_or_else(none, |ms| format!("{ms:.1}ms"))),
        (">FUNCTIONS", &|node| node.functions.len().to_string()),
        (">READY", &|node| node.slots.map_or_else(none, |_| node.ready.len().to_string())),
        ("LAST SEEN", &|node| node.last_seen.clone().unwrap_or_else(none)),
        ("ATTRIBUTES", &|node| {
            let pairs = node.attributes.iter().map(|(name, value)| format!("{name}={value}"));
            let pairs: Vec<String> = pairs.collect();
            if pairs.is_empty() { none() } else { pairs.join(",") }
        }),
    ];
    output::table_of(nodes, &columns)
}

/// Formats a list of the names of groups, shortened to [`GROUPS_CHARS_MAX`] characters.
fn groups(names: &[String]) -> String {
    if names.is_empty() {
        return "*".to_owned();
    }
    let names = names.join("+");
    let names = escape_line(&names);
    if names.chars().count() <= GROUPS_CHARS_MAX {
        return names.into_owned();
    }
    names.chars().take(GROUPS_CHARS_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_unknown_values_are_dashes() {
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
            functions: vec!["bafkrei1".to_owned(), "bafkrei2".to_owned()],
            ready: vec!["bafkrei2".to_owned()],
            cordoned: true,
            running: 2,
            attributes: [("gpu", "none"), ("zone", "a")]
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .into(),
            ..NodeBody::default()
        };
        let want = "\
PEER          ROLE    GROUPS  LINK  STATUS    SLOTS  RUNS  AGREE   PING  FUNCTIONS  READY  LAST SEEN  ATTRIBUTES
12D3KooWHead  head    *       up    -             -     0      -      -          0      -  -          -
12D3KooWW     worker  gpu     down  draining   8/10    41    97%  0.4ms          2      1  -          gpu=none,zone=a";
        assert_eq!(text(&[head, worker]), want);
    }

    #[test]
    fn control_characters_in_group_names_are_escaped() {
        let subgroups = vec!["gpu\nfake\u{1b}[2J\u{202e}".to_owned()];
        let text = text(&[NodeBody { subgroups, ..NodeBody::default() }]);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r"gpu\nfake\u{1b}[2J\u{202e}"), "{text}");
    }

    #[test]
    fn long_group_names_do_not_widen_the_table() {
        let check = |subgroups: &[&str], want: &str| {
            let subgroups: Vec<String> = subgroups.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(groups(&subgroups), want);
        };
        check(&["gpu", "eu"], "gpu+eu");
        check(&[&"x".repeat(128)], &format!("{}…", "x".repeat(31)));
        check(&[&"\u{202e}".repeat(128)], r"\u{202e}\u{202e}\u{202e}\u{202e…");
    }

    #[test]
    fn drain_fails_if_the_node_is_uncordoned_or_lost_while_busy() {
        let detail = |cordoned: bool, connected: bool, running: usize| NodeDetail {
            node: NodeBody { cordoned, connected, running, ..NodeBody::default() },
            orders: Vec::new(),
        };
        let before = detail(true, true, 1);
        assert_eq!(undone_by(&before, &detail(true, true, 0)), None);
        assert!(undone_by(&before, &detail(false, true, 0)).unwrap().contains("uncordoned"));
        assert!(undone_by(&before, &detail(true, false, 0)).unwrap().contains("lost"));
        let idle = detail(true, true, 0);
        assert_eq!(undone_by(&idle, &detail(true, false, 0)), None, "it ran nothing");
    }
}
