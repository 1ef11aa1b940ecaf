//! What a process uses, as Linux shows it in `/proc`.

use std::{fs, time::Duration};

/// What a process has used so far.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// Time on a processor, of all its threads.
    pub(crate) cpu: Duration,
    /// How often one of its threads went to sleep, and so was woken.
    pub(crate) n_wakes: u64,
}

/// What the process has used so far. Threads that have ended are left out.
pub(crate) fn usage(pid: u32) -> Usage {
    let mut usage = Usage { cpu: Duration::ZERO, n_wakes: 0 };
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().map_while(Result::ok) {
        let folder = task.path();
        // A thread may end between the two looks.
        let Ok(times) = fs::read_to_string(folder.join("schedstat")) else { continue };
        let Ok(status) = fs::read_to_string(folder.join("status")) else { continue };
        let nanos = times.split(' ').next().unwrap().parse().unwrap();
        usage.cpu += Duration::from_nanos(nanos);
        usage.n_wakes += number(&status, "voluntary_ctxt_switches:");
    }
    usage
}

/// Time on a processor of the thread that draws.
pub(crate) fn drawn_for(pid: u32) -> Duration {
    let times = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

/// Mebibytes of memory that the process holds.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = u32::try_from(number(&status, "VmRSS:")).unwrap();
    f64::from(kib) / 1024.0
}

/// The number behind `name` in a file of such lines.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
