//! Functions of the operating system that need Unix. On other systems their values are unknown, and
//! programs are not compiled in child processes.

#[cfg(not(unix))]
mod elsewhere;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use self::elsewhere::*;
#[cfg(unix)]
pub(crate) use self::unix::*;

/// Returns the memory available to this process in bytes: that of the machine or of its control group,
/// whichever is less. `u64::MAX` if unknown.
pub(crate) fn memory_bytes() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory();
    let group = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    system.total_memory().min(group)
}

/// Limits of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessLimits {
    /// Maximum address space, in bytes.
    pub(crate) address_space_bytes: u64,
    /// Maximum processor time, in seconds.
    pub(crate) cpu_s: u64,
}

/// The limit that killed a process.
#[cfg_attr(not(unix), expect(dead_code, reason = "processes are not limited"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitHit {
    CpuTime,
    AddressSpace,
}
