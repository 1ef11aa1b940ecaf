//! Processes of this machine, read from Linux's `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::running::WITHIN;
use crate::support::wait;

/// A signal to a process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Signal {
    /// SIGTERM, which asks the process to exit.
    Terminate,
    /// SIGINT, as sent by Ctrl-C.
    Interrupt,
    /// SIGTSTP, as sent by Ctrl-Z.
    Stop,
    /// SIGSTOP, which suspends the process as if it hung.
    Halt,
    /// SIGCONT, which resumes the process.
    Continue,
    /// SIGHUP, as sent if the terminal is lost.
    HangUp,
    /// SIGKILL, which stops the process immediately.
    Kill,
}

/// Returns true if the process handles SIGTERM, has exited, or is not listed in `/proc`.
pub(crate) fn handles_termination(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if status.lines().any(|line| line.starts_with("State:\tZ")) {
        return true;
    }
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 << 14 != 0)
}

/// Sends a signal. No effect if the process has exited.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let name = match signal {
        Signal::Terminate => "TERM",
        Signal::Interrupt => "INT",
        Signal::Stop => "TSTP",
        Signal::Halt => "STOP",
        Signal::Continue => "CONT",
        Signal::HangUp => "HUP",
        Signal::Kill => "KILL",
    };
    // Uses the `kill` built into the shell, since the program of this name need not be installed.
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid} 2>&-")]).status();
    assert!(status.is_ok(), "run sh: {status:?}");
}

/// Returns true if the process runs and is not a zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state != "Z" && stat.state != "X")
}

/// Returns the resident memory of a process in bytes.
#[track_caller]
pub(crate) fn memory_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns the number of voluntary context switches of each thread of a process. A thread is identified
/// by its path in `/proc`.
pub(crate) fn wake_ups(pid: u32) -> BTreeMap<PathBuf, u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of_task = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some((task.path(), line.trim().parse().ok()?))
    };
    tasks.filter_map(|task| of_task(task.ok()?)).collect()
}

/// Returns all descendants of `pid`.
pub(crate) fn descendants(pid: u32) -> BTreeSet<u32> {
    let all: Vec<Stat> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect();
    let mut found = BTreeSet::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|stat| stat.parent == parent);
        parents.extend(children.map(|child| child.pid).filter(|child| found.insert(*child)));
    }
    found
}

/// Waits until all `pids` have exited.
#[track_caller]
pub(crate) fn wait_gone(pids: impl IntoIterator<Item = u32>) {
    let pids: Vec<u32> = pids.into_iter().collect();
    wait::until("exit of all processes", WITHIN, || all_gone(&pids));
}

/// Returns an error with the `pids` that still run.
pub(crate) fn all_gone(pids: &[u32]) -> Result<(), Vec<u32>> {
    let left: Vec<_> = pids.iter().copied().filter(|&pid| is_running(pid)).collect();
    if left.is_empty() { Ok(()) } else { Err(left) }
}

struct Stat {
    pid: u32,
    state: String,
    parent: u32,
}

/// Parses `/proc/PID/stat`. The file begins with the id, the name in parentheses (which may contain any
/// character), the state and the parent.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let state = fields.next()?.to_owned();
    let parent = fields.next()?.parse().ok()?;
    Some(Stat { pid, state, parent })
}

#[test]
fn test_process_is_running_until_it_is_killed() {
    let mut child = Command::new("sh").args(["-c", "exec sleep 60"]).spawn().unwrap();
    assert!(descendants(std::process::id()).contains(&child.id()) && is_running(child.id()));
    signal(child.id(), Signal::Kill);
    wait_gone([child.id()]);
    child.wait().unwrap();
}
