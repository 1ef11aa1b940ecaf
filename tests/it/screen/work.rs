//! Work on the screen: a local module is run, workers are started and stopped, and the head fails during
//! a run.

use std::fs;
use std::time::Duration;

use vt100::Screen;

use super::{PAINT_WITHIN, SHOWN_WITHIN, nodes, wait_nodes};
use crate::support::TUI;
use crate::support::command::demo;
use crate::support::process::{self, Signal};
use crate::support::pty::{Session, WIDE, text};

/// Maximum time until a node has started.
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// A module that runs until its time limit.
const ENDLESS: &str = r#"(module (memory (export "memory") 1)
    (func (export "_start") (loop (br 0))))"#;

/// Opens the form and enters `path` as its function.
fn open_form(session: &Session, path: &str) {
    session.press("e");
    session.wait_text("POST /api/v1/functions/execute", SHOWN_WITHIN);
    session.press("ctrl-u");
    session.type_text(path);
}

/// Returns the row of the screen that contains all of `words`.
fn row(screen: &Screen, words: &[&str]) -> Option<String> {
    let text = text(screen);
    text.lines().find(|line| words.iter().all(|word| line.contains(word))).map(str::to_owned)
}

/// Returns the process id of the session's head.
fn head_pid(session: &Session) -> u32 {
    let is_head = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == b"head")
    };
    process::descendants(session.pid).into_iter().find(is_head).unwrap()
}

#[test]
fn started_worker_runs_a_local_module_and_can_be_stopped() {
    let session = Session::start(TUI, &[], WIDE);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    wait_nodes(&session);
    let before = process::descendants(session.pid);

    session.press("a");
    session.wait_text("Start a worker", SHOWN_WITHIN);
    session.wait_for("the head's address is filled in", SHOWN_WITHIN, |screen| {
        row(screen, &["boot node", "/ip4/127.0.0.1/tcp/"])
    });
    session.press("enter");
    session.wait_for("five nodes are listed", STARTS_WITHIN, |screen| {
        (nodes(screen).len() == 5).then_some(())
    });
    let added: Vec<u32> = process::descendants(session.pid).difference(&before).copied().collect();
    assert_eq!(added.len(), 1, "one new process");

    open_form(&session, &demo("whoami.wasm"));
    session.press("tab");
    session.wait_for("the module is uploaded", SHOWN_WITHIN, |screen| {
        row(screen, &["function  whoami ", "✓"])
    });
    session.press("tab tab ctrl-u 4 ctrl-r");
    session.wait_text("Per peer", SHOWN_WITHIN);
    session.wait_text("4 peers took part, 4 distinct results", SHOWN_WITHIN);
    for worker in ["worker-1", "worker-2", "worker-3", "worker-4"] {
        session.wait_for(&format!("the result of {worker}"), SHOWN_WITHIN, |screen| {
            row(screen, &[worker, "exit 0", "group"])
        });
    }

    session.press("1 G");
    session.press("tab tab tab down down down down D");
    session.wait_text("Stop worker-4", SHOWN_WITHIN);
    session.press("y");
    session.wait_for("worker-4 is stopped", SHOWN_WITHIN, |screen| {
        row(screen, &["worker-4", " stopped"])
    });
    process::wait_gone(added);

    session.press("R");
    // The notice about the worker's first start may still be visible.
    session.wait_for("worker-4 runs again", STARTS_WITHIN, |screen| {
        row(screen, &["● worker-4", " running"])
    });
    let pids = process::descendants(session.pid);
    session.press("q");
    session.wait_text("1 node that you started would stop", SHOWN_WITHIN);
    session.press("y");
    assert!(session.wait_exit(SHOWN_WITHIN).success(), "exit code 0");
    session.assert_restored();
    process::wait_gone(pids);
}

#[test]
fn killed_head_is_restarted_and_the_screen_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endless.wasm");
    fs::write(&path, wat::parse_str(ENDLESS).unwrap()).unwrap();
    let session = Session::start(TUI, &[], WIDE);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    wait_nodes(&session);

    open_form(&session, &path.display().to_string());
    session.press("ctrl-r");
    session.wait_for("a worker that runs it", SHOWN_WITHIN, |screen| {
        row(screen, &["worker-", "running", " s "])
    });
    process::signal(head_pid(&session), Signal::Kill);
    session.wait_text("failed to read the result of run 1", SHOWN_WITHIN);
    session.wait_for("peers with unknown results", SHOWN_WITHIN, |screen| {
        row(screen, &["worker-", "not known"])
    });
    // A newer notice may have replaced this notice on the screen, but the list contains both.
    session.press("!");
    session.wait_text("failed to keep head running", SHOWN_WITHIN);
    session.press("esc");
    session.wait_for("the list is closed", SHOWN_WITHIN, |screen| {
        (!text(screen).contains("failed to keep head running")).then_some(())
    });

    session.press("1");
    session.wait_for("the head runs again", STARTS_WITHIN, |screen| {
        row(screen, &["● head", " running"])
    });
    session.wait_for("four nodes are listed again", STARTS_WITHIN, |screen| {
        let is_fresh =
            !["· stale", "· down", "not responding"].iter().any(|it| text(screen).contains(it));
        (is_fresh && nodes(screen).len() == 4).then_some(())
    });
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
}
