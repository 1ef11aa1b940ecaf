//! Shows a text in the user's pager.

use std::{env, process::Stdio};

use model::escape::escape_line;
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::state::loadable::Failure;

/// The pager if `PAGER` is not set.
const PAGER: &str = "less";

/// Exit codes of a shell whose program is missing or cannot be executed.
const NOT_STARTED: [i32; 2] = [126, 127];

/// Shows `text` in the program that `PAGER` names, and returns when that has ended.
///
/// # Errors
/// If it does not start.
pub(super) async fn show(text: &str) -> Result<(), Failure> {
    let pager = env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let pager = pager.unwrap_or_else(|| PAGER.to_owned());
    let failed = |why: String| {
        Failure::new(
            format!("page through the output with `{pager}`"),
            why,
            "set PAGER to a program that reads standard input",
        )
    };
    // A pager may pass control sequences on, and the text may be a guest's.
    let mut lines: Vec<String> =
        text.lines().map(|line| escape_line(&line.replace('\t', "        ")).into()).collect();
    lines.push(String::new());
    let mut child = Command::new("sh")
        .args(["-c", &pager])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that is quit early closes its standard input.
        stdin.write_all(lines.join("\n").as_bytes()).await.ok();
    }
    let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
    match status.code() {
        Some(code) if NOT_STARTED.contains(&code) => Err(failed(format!("exit {code}"))),
        _ => Ok(()),
    }
}
