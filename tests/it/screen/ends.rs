//! The ways in which the screen exits. Every exit restores the terminal and leaves no process behind.

use std::collections::BTreeSet;

use super::{N_PROCESSES, PAINT_WITHIN, READY_WITHIN, SHOWN_WITHIN, wait_nodes};
use crate::support::process::{self, Signal};
use crate::support::pty::{Place, Session, WIDE};
use crate::support::{TRIPTYCH, TUI, wait};

#[test]
fn killed_screen_leaves_no_process() {
    let session = Session::start(TUI, &[], WIDE);
    wait_nodes(&session);
    let pids = process::descendants(session.pid);
    assert!(pids.len() >= N_PROCESSES, "the stack runs: {pids:?}");
    process::signal(session.pid, Signal::Kill);
    process::wait_gone(pids);
}

#[test]
fn attached_screen_starts_no_process_and_leaves_the_stack_running() {
    let first = Session::start(TUI, &[], WIDE);
    wait_nodes(&first);
    let place = Place { home: first.home(), ..Place::default() };
    let second = Session::start_in(&place, TUI, &[]);
    second.wait_text("Another process runs the local stack.", READY_WITHIN);
    assert_eq!(short_ids(&second), short_ids(&first));
    assert_eq!(process::descendants(second.pid), BTreeSet::new());
    second.press("q");
    second.wait_exit(SHOWN_WITHIN);
    second.assert_restored();
    let again = Session::start_in(&place, TUI, &["--forget"]);
    again.wait_text("Another process runs the local stack.", READY_WITHIN);
    assert_eq!(short_ids(&again), short_ids(&first));
}

/// Returns the last characters of the four peer ids. The table shortens ids at the beginning.
fn short_ids(session: &Session) -> BTreeSet<String> {
    let nodes = wait_nodes(session).into_iter();
    nodes.map(|(peer, _)| peer.split('…').next_back().unwrap().to_owned()).collect()
}

#[test]
fn sigterm_during_start_leaves_no_process_and_restores_the_terminal() {
    let session = Session::start(TRIPTYCH, &[], WIDE);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    let pids = wait::until("the first processes run", PAINT_WITHIN, || {
        let pids = process::descendants(session.pid);
        if pids.is_empty() { Err("none") } else { Ok(pids) }
    });
    process::signal(session.pid, Signal::Terminate);
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
    process::wait_gone(pids);
}
