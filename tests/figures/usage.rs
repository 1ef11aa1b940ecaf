//! Usage of a process and its threads, read from Linux's `/proc`.

use std::fs;
use std::time::Duration;

/// Usage of the threads of a process so far.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// Processor time.
    pub(crate) cpu: Duration,
    /// Voluntary context switches, each followed by a wake-up.
    pub(crate) n_wakes: u64,
}

/// Reads the usage of a process without its exited threads.
pub(crate) fn usage(pid: u32) -> Usage {
    let mut usage = Usage { cpu: Duration::ZERO, n_wakes: 0 };
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap().map_while(Result::ok) {
        let folder = task.path();
        // The thread may have exited.
        let Ok(times) = fs::read_to_string(folder.join("schedstat")) else { continue };
        let Ok(status) = fs::read_to_string(folder.join("status")) else { continue };
        let nanos = times.split(' ').next().unwrap().parse().unwrap();
        usage.cpu += Duration::from_nanos(nanos);
        usage.n_wakes += number(&status, "voluntary_ctxt_switches:");
    }
    usage
}

/// Reads the processor time of the main thread, which draws.
pub(crate) fn drawing_time(pid: u32) -> Duration {
    let times = fs::read_to_string(format!("/proc/{pid}/task/{pid}/schedstat")).unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

/// Reads the resident memory in MiB.
pub(crate) fn resident_mib(pid: u32) -> f64 {
    test_bench::mib(test_bench::process::resident_bytes(pid).unwrap())
}

/// Returns the number that follows `name` in the line of `text` that starts with `name`.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
