//! `triptych up` for people: addresses and a key first, log lines after.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{started::Started, wait};

/// How long the stack may take to answer on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);

#[test]
fn addresses_and_one_key_come_first_and_log_lines_after() {
    let folder = TempDir::new().unwrap();
    let up = Started::start(&["up", "--data-dir", &folder.path().display().to_string()]);
    let head = up.first_line(READY_WITHIN);
    assert!(head.starts_with("head       http://127.0.0.1:"), "{head}");
    let lines = wait::until("a log line follows", READY_WITHIN, || {
        let lines = up.out();
        if lines.iter().any(|line| line.starts_with('{')) { Ok(lines) } else { Err(lines) }
    });
    let n_shown = lines.iter().take_while(|line| !line.starts_with('{')).count();
    let (shown, logged) = lines.split_at(n_shown);
    for start in ["datasets   http://127.0.0.1:", "inference  http://127.0.0.1:", "API key    UP-"]
    {
        assert!(shown.iter().any(|line| line.starts_with(start)), "{start}: {shown:?}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("UP-")).count(), 1, "the key, once");
    for line in logged {
        let line: Value = serde_json::from_str(line).unwrap();
        for member in ["process", "level", "time", "message"] {
            assert!(line[member].is_string(), "{member}: {line}");
        }
    }
}
