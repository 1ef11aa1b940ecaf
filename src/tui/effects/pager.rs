//! A text in the pager of whoever sits at the terminal.

use std::{env, process::Stdio};

use model::escape::escape_line;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::state::loadable::Failure;

/// The pager where `PAGER` names none.
const PAGER: &str = "less";

/// What a shell says of a program that is not there, or cannot be started.
const NOT_STARTED: [i32; 2] = [126, 127];

/// Shows `text` in the program that `PAGER` names, and returns when that has ended.
///
/// # Errors
/// If it does not start, or does not know how to.
pub(super) async fn show(text: &str) -> Result<(), Failure> {
    let pager = env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let pager = pager.unwrap_or_else(|| PAGER.to_owned());
    let failed = |why: String| Failure {
        what: format!("page through the output with `{pager}`"),
        why,
        next: "set PAGER to a program that reads standard input".to_owned(),
        ..Failure::default()
    };
    // A pager may hand on what a terminal acts on; the guest who wrote it is a stranger.
    let mut lines: Vec<String> =
        text.lines().map(|line| escape_line(&line.replace('\t', "        ")).into()).collect();
    lines.push(String::new());
    let mut child = Command::new("sh")
        .args(["-c", &pager])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that is left before its end closes its side.
        stdin.write_all(lines.join("\n").as_bytes()).await.ok();
    }
    let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
    match status.code() {
        Some(code) if NOT_STARTED.contains(&code) => Err(failed(format!("exit {code}"))),
        _ => Ok(()),
    }
}
