//! Resources used by a process, read from Linux's `/proc`.

use std::fs;
use std::time::Duration;

use crate::Outcome;

/// Clock ticks per second in which processor times are counted. 100 on all Linux machines.
const TICKS_PER_SECOND: u32 = 100;

/// Processor time of a process.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    /// Process id of the parent.
    pub parent: u32,
    /// Processor time of the process itself.
    pub own: Duration,
    /// Processor time of children that have exited.
    pub of_children: Duration,
}

/// Memory, files and threads of a process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Size of the resident memory.
    pub resident_bytes: u64,
    /// Size of the resident memory that is not mapped from files.
    pub anonymous_bytes: u64,
    /// Number of open files.
    pub n_files: usize,
    /// Number of threads.
    pub n_threads: usize,
}

impl CpuTime {
    /// Reads the processor time of process `pid`.
    pub fn of(pid: u32) -> Outcome<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("invalid stat")?;
        // Fields are numbered from 1. The state, which follows the name, is field 3.
        let number = |field: usize| -> Outcome<u32> {
            Ok(fields.split(' ').nth(field - 3).ok_or("invalid stat")?.parse()?)
        };
        let time = |ticks: u32| Duration::from_secs(1) * ticks / TICKS_PER_SECOND;
        Ok(Self {
            parent: number(4)?,
            own: time(number(14)? + number(15)?),
            of_children: time(number(16)? + number(17)?),
        })
    }
}

impl Usage {
    /// Reads the usage of process `pid`.
    pub fn of(pid: u32) -> Outcome<Self> {
        Ok(Self {
            n_files: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            ..Self::of_status(&fs::read_to_string(format!("/proc/{pid}/status"))?)
        })
    }

    fn of_status(status: &str) -> Self {
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        Self {
            resident_bytes: number("VmRSS:") * 1024,
            anonymous_bytes: number("RssAnon:") * 1024,
            n_files: 0,
            n_threads: usize::try_from(number("Threads:")).unwrap_or_default(),
        }
    }
}

/// Reads the resident memory of process `pid` in bytes. Faster than reading all of [`Usage`].
pub fn resident_bytes(pid: u32) -> Outcome<u64> {
    Ok(Usage::of_status(&fs::read_to_string(format!("/proc/{pid}/status"))?).resident_bytes)
}
