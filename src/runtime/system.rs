//! What this room asks of a Unix system, and nothing else here does. Elsewhere each answer says
//! that it is not known, and programs are not compiled in child processes: that is what a port adds.

#[cfg(not(unix))]
mod elsewhere;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::elsewhere::*;
#[cfg(unix)]
pub(crate) use self::unix::*;

/// Returns the memory of this machine in bytes, or that of the control group of this process, if it has
/// less; the largest number if it is unknown.
pub(crate) fn memory_bytes() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory();
    let group = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    system.total_memory().min(group)
}

/// Limits that a process takes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessLimits {
    /// The most address space it may take, in bytes.
    pub(crate) address_space_bytes: u64,
    /// The most processor time it may take, in seconds.
    pub(crate) cpu_s: u64,
}

/// Which of its limits ended a process.
#[cfg_attr(not(unix), expect(dead_code, reason = "no process is limited"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitHit {
    CpuTime,
    AddressSpace,
}
