//! Functions of the operating system.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, geteuid, nice, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Unit in which the system reports the blocks of a file, independent of the disk's block size.
const BLOCK_BYTES: u64 = 512;

/// Returns the memory available to this process in bytes: the memory of the machine or the limit of the
/// control group, whichever is less. `u64::MAX` if unknown.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitHit {
    CpuTime,
    AddressSpace,
}

/// Sets the `limits` and `niceness` of this process. Afterwards it can neither raise the limits nor write
/// to files. On Linux, the process is also killed when its parent exits.
pub(crate) fn limit_process(limits: ProcessLimits, niceness: i32) -> io::Result<()> {
    let at_most = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    setrlimit(Resource::As, at_most(limits.address_space_bytes))?;
    // The system sends SIGXCPU at the first limit and SIGKILL at the second.
    let cpu = Rlimit { current: Some(limits.cpu_s), maximum: Some(limits.cpu_s + 1) };
    setrlimit(Resource::Cpu, cpu)?;
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::Fsize, at_most(0))?;
    nice(niceness)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Returns the limit that killed a process with this status.
pub(crate) fn limit_hit(status: ExitStatus) -> Option<LimitHit> {
    match status.signal().and_then(Signal::from_named_raw)? {
        Signal::XCPU => Some(LimitHit::CpuTime),
        // A process that exceeds its address space aborts or gets a memory fault.
        Signal::ABORT | Signal::SEGV => Some(LimitHit::AddressSpace),
        _ => None,
    }
}

/// Returns true if a file or directory belongs to this user and its mode has none of `mode_bits`.
pub(crate) fn is_own(metadata: &Metadata, mode_bits: u32) -> bool {
    metadata.uid() == geteuid().as_raw() && metadata.mode() & mode_bits == 0
}

/// Returns the size of a file on the disk.
pub(crate) fn disk_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(BLOCK_BYTES)
}

/// Returns the allocation unit of the file system.
pub(crate) fn cluster_bytes(metadata: &Metadata) -> u64 {
    metadata.blksize()
}

/// Returns the device and inode of an open file that was unlinked.
pub(crate) fn nameless_file(metadata: &Metadata) -> Option<(u64, u64)> {
    (metadata.nlink() == 0).then(|| (metadata.dev(), metadata.ino()))
}

/// Returns the processor time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
