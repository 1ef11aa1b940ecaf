//! Copies to the clipboard through the tool of the display or of tmux.
//!
//! A terminal may ignore the control sequence OSC 52 without a word, as those without support and tmux
//! with its defaults do. So the sequence is left to [`crate::terminal`] for the case that no tool copies:
//! over SSH, where a tool would reach the clipboard of the wrong machine, and without a display.

use std::{env, process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

/// The longest wait for a tool. They hand the text to a process in the background and exit.
const TOOL_WITHIN: Duration = Duration::from_secs(2);

/// A program that copies its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tool {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Variables of the environment, one of which must be set for it to work.
    needs: &'static [&'static str],
    /// True if it copies to the clipboard of this machine only.
    is_local: bool,
}

/// The tools, best first.
const TOOLS: [Tool; 4] = [
    Tool {
        name: "pbcopy",
        arguments: &[],
        // Set in every session of macOS.
        needs: &["__CF_USER_TEXT_ENCODING"],
        is_local: true,
    },
    Tool { name: "wl-copy", arguments: &[], needs: &["WAYLAND_DISPLAY"], is_local: true },
    Tool {
        name: "xclip",
        arguments: &["-selection", "clipboard"],
        needs: &["DISPLAY"],
        is_local: true,
    },
    // With `-w` tmux passes the text on to the clipboard of its own terminal.
    Tool {
        name: "tmux",
        arguments: &["load-buffer", "-w", "-"],
        needs: &["TMUX"],
        is_local: false,
    },
];

/// Copies `text` and returns the name of the tool that did; `None` if none works.
pub(super) async fn copy(text: &str) -> Option<&'static str> {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    for tool in tools(is_set) {
        if timeout(TOOL_WITHIN, run(tool, text)).await == Ok(Some(())) {
            return Some(tool.name);
        }
    }
    None
}

/// Returns the tools that can work, by the variables that are set.
fn tools(is_set: impl Fn(&str) -> bool) -> impl Iterator<Item = Tool> {
    let is_far = is_set("SSH_TTY") || is_set("SSH_CONNECTION");
    TOOLS.into_iter().filter(move |tool| {
        tool.needs.iter().any(|name| is_set(name)) && !(tool.is_local && is_far)
    })
}

/// Gives `text` to `tool`; `None` if it fails.
async fn run(tool: Tool, text: &str) -> Option<()> {
    let mut command = Command::new(tool.name);
    // Its process in the background must not hold our terminal.
    command.args(tool.arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.kill_on_drop(true).spawn().ok()?;
    child.stdin.take()?.write_all(text.as_bytes()).await.ok()?;
    child.wait().await.ok()?.success().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[&str], want: &[&str]) {
        let found: Vec<&str> =
            tools(|name| variables.contains(&name)).map(|tool| tool.name).collect();
        assert_eq!(found, want, "{variables:?}");
    }

    #[test]
    fn tool_suits_the_display() {
        check(&[], &[]);
        check(&["DISPLAY"], &["xclip"]);
        check(&["WAYLAND_DISPLAY", "DISPLAY", "TMUX"], &["wl-copy", "xclip", "tmux"]);
        check(&["__CF_USER_TEXT_ENCODING"], &["pbcopy"]);
        check(&["SSH_TTY", "DISPLAY"], &[]);
        check(&["SSH_CONNECTION", "WAYLAND_DISPLAY", "TMUX"], &["tmux"]);
    }
}
