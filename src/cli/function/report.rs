//! Formats responses as plain text for people, screen readers and logs, without colors and boxes.

use model::count::counted;
use model::escape::{escape_line, escape_lines};
use wire::functions::{ExecuteResponse, ResultGroupBody};

/// Formats a response without a trailing line feed: its outcome, then the results, the most
/// frequent first.
///
/// The output of functions is escaped and indented, so that it cannot be mistaken for text of this
/// program.
pub(super) fn text(response: &ExecuteResponse) -> String {
    let mut lines = Vec::new();
    if !response.request_id.is_empty() {
        let n_peers = response.cluster.peers.len();
        let (code, id) = (escape_line(&response.code), escape_line(&response.request_id));
        lines.push(format!("code {code}, request {id}, {}", counted(n_peers, "node")));
    }
    let n_groups = response.results.len();
    let n_results = response.results.iter().map(|group| group.peers.len()).sum();
    for (index, group) in response.results.iter().enumerate() {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(headline(index + 1, n_groups, group, n_results));
        lines.extend(group.peers.iter().map(|peer| format!("node {}", escape_line(peer))));
        let result = &group.result;
        output(&mut lines, "standard output", &result.stdout, &result.stdout_sha256);
        output(&mut lines, "standard error", &result.stderr, &result.stderr_sha256);
    }
    lines.join("\n")
}

/// Returns the reason why a response is not a success. Heads of b7s send a code but no message, so the
/// code is explained instead.
pub(super) fn reason(code: &str, message: &str) -> String {
    let meaning = match code {
        "202" => "it is in progress",
        "204" => "no node responded in time",
        "206" => "too few nodes responded in time",
        "400" => "the request is invalid",
        "404" => "a node does not have the function",
        "408" => "not enough nodes reported in time",
        "499" => "it was canceled",
        "503" => "the head is unavailable",
        _ => "it failed",
    };
    let code = escape_line(code);
    if message.is_empty() {
        format!("code {code}, {meaning}")
    } else {
        format!("code {code}, {}", escape_line(message))
    }
}

fn headline(number: usize, n_groups: usize, group: &ResultGroupBody, n_all: usize) -> String {
    let exit_code = group.result.exit_code;
    if group.peers.is_empty() {
        return format!("result {number} of {n_groups}: on this machine, exit code {exit_code}");
    }
    let (n_here, percent) = (group.peers.len(), group.frequency);
    format!(
        "result {number} of {n_groups}: {n_here} of {} ({percent:.1} %), exit code {exit_code}",
        counted(n_all, "node")
    )
}

/// Formats a standard stream. `sha256` is the hash of its bytes if they are not UTF-8.
fn output(lines: &mut Vec<String>, name: &str, content: &str, sha256: &str) {
    if content.is_empty() {
        return lines.push(format!("{name}: none"));
    }
    lines.push(match sha256 {
        "" => format!("{name}:"),
        _ => format!("{name}, bytes with SHA-256 {}:", escape_line(sha256)),
    });
    lines.extend(escape_lines(content).lines().map(|part| format!("  {part}")));
}
