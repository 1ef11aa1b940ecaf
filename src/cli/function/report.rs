//! Replies as plain text: for people, screen readers and logs. No color, no boxes.

use model::{
    count::counted,
    escape::{escape_line, escape_lines},
};
use wire::functions::{ExecuteResponse, ResultGroupBody};

/// Returns a reply as text without a line feed at its end: what came of it, then the results, the
/// most frequent first.
///
/// What functions wrote stands two columns in, so that it cannot pass for ours, and without what
/// terminals act on.
pub(super) fn text(response: &ExecuteResponse) -> String {
    let mut text = String::new();
    if !response.request_id.is_empty() {
        let n_peers = response.cluster.peers.len();
        let (code, id) = (escape_line(&response.code), escape_line(&response.request_id));
        line(&mut text, &format!("code {code}, request {id}, {}", counted(n_peers, "node")));
    }
    let n_groups = response.results.len();
    let n_answers = response.results.iter().map(|group| group.peers.len()).sum();
    for (index, group) in response.results.iter().enumerate() {
        if !text.is_empty() {
            line(&mut text, "");
        }
        line(&mut text, &headline(index + 1, n_groups, group, n_answers));
        for peer in &group.peers {
            line(&mut text, &format!("node {}", escape_line(peer)));
        }
        written(&mut text, "standard output", &group.result.stdout);
        written(&mut text, "standard error", &group.result.stderr);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

/// Why an answer is no success, in words even where the head gives none, as heads of b7s do.
pub(super) fn reason(code: &str, message: &str) -> String {
    let meaning = match code {
        "202" => "it is under way",
        "204" => "no node answered in time",
        "206" => "too few nodes answered in time",
        "400" => "the request is not valid",
        "404" => "a node does not hold the function",
        "408" => "not enough nodes reported in time",
        "499" => "it was canceled",
        "503" => "the head cannot serve it now",
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

fn written(text: &mut String, name: &str, content: &str) {
    if content.is_empty() {
        return line(text, &format!("{name}: none"));
    }
    line(text, &format!("{name}:"));
    for part in escape_lines(content).lines() {
        line(text, &format!("  {part}"));
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
