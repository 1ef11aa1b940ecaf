//! `triptych function events`: prints the events of a cluster as lines.

use anyhow::bail;
use clap::Args;
use client::executions::{ClusterStreamEvent, follow};
use client::functions::Functions;
use client::stream::StreamEvent;
use model::count::counted;
use model::escape::escape_line;
use task::group::Group;
use tokio::sync::mpsc;
use wire::executions::{ClusterEvent, ClusterEventKind};

use super::backend::{HeadFlags, NOT_FOUND};
use crate::cli::output::{show, tell};
use crate::cli::stop;

/// Maximum number of events that wait to be printed. Once that many wait, no more are read from the
/// stream, and the head disconnects a reader that stays too slow.
const EVENTS_MAX: usize = 256;

/// The flags of `function events`.
#[derive(Debug, Args)]
pub(super) struct EventsCommand {
    /// Only events of this execution, until it ends
    #[arg(value_name = "REQUEST")]
    id: Option<String>,
    /// Print each event as the head sends it, one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    head: HeadFlags,
}

/// Prints the events of a cluster until it is interrupted or the execution is complete.
///
/// # Errors
/// If the head has no such stream, or standard output fails.
pub(super) async fn events(command: EventsCommand) -> anyhow::Result<()> {
    let EventsCommand { id, json, head } = command;
    let head = head.connect()?;
    let group = Group::default();
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    group.spawn("follow", follow(head.clone(), sender));
    stop::run_until_stopped(&group, print_events(&head, id, json, events)).await
}

async fn print_events(
    head: &Functions,
    id: Option<String>,
    is_json: bool,
    mut events: mpsc::Receiver<ClusterStreamEvent>,
) -> anyhow::Result<()> {
    while let Some(event) = events.recv().await {
        let event = match event {
            StreamEvent::Connected => {
                // An execution that ended before the connection has no further events, so waiting for
                // its end would never finish.
                if let Some(id) = &id
                    && has_ended(head, id).await?
                {
                    break;
                }
                continue;
            }
            StreamEvent::Heartbeat | StreamEvent::Reset => continue,
            StreamEvent::NotServed => {
                bail!("the head serves no events");
            }
            StreamEvent::Lost { why, retry_in } => {
                let seconds = retry_in.as_secs_f64();
                tell(&format!("lost the connection ({}); retrying in {seconds:.1} s", why.why()));
                continue;
            }
            StreamEvent::Item(event) => event,
        };
        let is_of = |id: &String| event.kind.request_id() == Some(id.as_str());
        if !id.as_ref().is_none_or(is_of) {
            continue;
        }
        show(is_json, &event, line)?;
        let is_end =
            matches!(event.kind, ClusterEventKind::Done { .. } | ClusterEventKind::Canceled { .. });
        if id.is_some() && is_end {
            break;
        }
    }
    Ok(())
}

async fn has_ended(head: &Functions, id: &str) -> anyhow::Result<bool> {
    match head.execution(id).await {
        Ok(execution) => Ok(execution.code.is_some()),
        Err(error) if error.status() == Some(NOT_FOUND) => {
            bail!("the head has no execution {id}")
        }
        // Other failures, such as a lost connection, are reported by the stream itself.
        Err(_) => Ok(false),
    }
}

/// Formats an event as a line: time, request, event.
fn line(event: &ClusterEvent) -> String {
    let what = match &event.kind {
        ClusterEventKind::RollCall { function_id, topic, number_of_nodes, .. } => {
            format!(
                "roll_call   {} of {topic} for {function_id}",
                counted(*number_of_nodes, "node")
            )
        }
        ClusterEventKind::Reported { peer_id, .. } => format!("reported    {peer_id}"),
        ClusterEventKind::Dispatched { peer_id, function_id, .. } => {
            format!("dispatched  {peer_id} {function_id}")
        }
        ClusterEventKind::Compiling { peer_id, .. } => format!("compiling   {peer_id}"),
        ClusterEventKind::Compiled { peer_id, .. } => format!("compiled    {peer_id}"),
        ClusterEventKind::Result { peer_id, exit_code, elapsed_ms, .. } => {
            format!("result      {peer_id} exit {exit_code} after {elapsed_ms:.0} ms")
        }
        ClusterEventKind::Failed { peer_id, reason, replaced, .. } => {
            let then = if *replaced { ", replaced by another worker" } else { "" };
            format!("failed      {peer_id} {reason}{then}")
        }
        ClusterEventKind::Done { code, message, elapsed_ms, .. } => {
            format!("done        code {code} after {elapsed_ms:.0} ms {message}")
        }
        ClusterEventKind::Canceled { .. } => "canceled".to_owned(),
        ClusterEventKind::PeerJoined { peer_id } => format!("peer_joined {peer_id}"),
        ClusterEventKind::PeerLeft { peer_id } => format!("peer_left   {peer_id}"),
        ClusterEventKind::Connected => "connected".to_owned(),
        ClusterEventKind::Heartbeat => "heartbeat".to_owned(),
    };
    let request = event.kind.request_id().unwrap_or("-");
    escape_line(&format!("{}  {request}  {}", event.time, what.trim_end())).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: ClusterEventKind, want: &str) {
        let time = "2026-07-30T21:57:00Z".to_owned();
        assert_eq!(line(&ClusterEvent { time, kind }), format!("2026-07-30T21:57:00Z  {want}"));
    }

    #[test]
    fn event_line_begins_with_the_request_id() {
        let (request_id, peer_id) = ("r1".to_owned(), "12D3".to_owned());
        let (exit_code, elapsed_ms) = (3, 12.4);
        let result = ClusterEventKind::Result { request_id, peer_id, exit_code, elapsed_ms };
        check(result, "r1  result      12D3 exit 3 after 12 ms");
        let left = ClusterEventKind::PeerLeft { peer_id: "12D3".to_owned() };
        check(left, "-  peer_left   12D3");
    }
}
