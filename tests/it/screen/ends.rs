//! Every way in which the screen ends: the terminal as it was, and no process behind.

use std::{collections::BTreeSet, time::Duration};

use super::{N_PROCESSES, PAINT_WITHIN, READY_WITHIN, wait_nodes};
use crate::support::{
    TRIPTYCH, TUI,
    process::{self, GONE_WITHIN, Signal},
    pty::{Place, Session, WIDE},
    wait,
};

/// How long the program may take to end once asked, its processes included.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn killed_it_leaves_no_process() {
    let session = Session::start(TUI, &[], WIDE);
    wait_nodes(&session);
    let pids = process::descendants(session.pid);
    assert!(pids.len() >= N_PROCESSES, "the stack runs: {pids:?}");
    process::signal(session.pid, Signal::Kill);
    process::wait_gone(pids, GONE_WITHIN);
}

#[test]
fn attached_screen_starts_no_process_and_leaves_the_stack_running() {
    let first = Session::start(TUI, &[], WIDE);
    wait_nodes(&first);
    let place = Place { home: first.home(), ..Place::default() };
    let second = Session::start_in(&place, TUI, &[]);
    second.wait_text("Another process runs the local stack.", READY_WITHIN);
    assert_eq!(endings(&second), endings(&first));
    assert_eq!(process::descendants(second.pid), BTreeSet::new());
    second.press("q");
    second.wait_exit(ENDS_WITHIN);
    second.assert_restored();
    let again = Session::start_in(&place, TUI, &["--forget"]);
    again.wait_text("Another process runs the local stack.", READY_WITHIN);
    assert_eq!(endings(&again), endings(&first));
}

/// The ends of the peer ids of the four nodes, which are shortened to the width of the table.
fn endings(session: &Session) -> BTreeSet<String> {
    let nodes = wait_nodes(session).into_iter();
    nodes.map(|(peer, _)| peer.split('…').next_back().unwrap().to_owned()).collect()
}

#[test]
fn asked_to_end_while_it_starts_it_leaves_no_process_and_no_mode() {
    let session = Session::start(TRIPTYCH, &[], WIDE);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    let pids = wait::until("the first processes run", PAINT_WITHIN, || {
        let pids = process::descendants(session.pid);
        if pids.is_empty() { Err("none") } else { Ok(pids) }
    });
    process::signal(session.pid, Signal::Terminate);
    session.wait_exit(ENDS_WITHIN);
    session.assert_restored();
    process::wait_gone(pids, GONE_WITHIN);
}
