//! The answers of Unix.

use std::{
    fs::Metadata,
    io,
    os::unix::{fs::MetadataExt as _, process::ExitStatusExt as _},
    process::ExitStatus,
    time::Duration,
};

use rustix::{
    process::{Resource, Rlimit, Signal, geteuid, nice, setrlimit},
    time::{ClockId, clock_gettime},
};

use super::{LimitHit, ProcessLimits};

/// Whether processes can be limited.
pub(crate) const LIMITS_PROCESSES: bool = true;

/// What a block of a file is measured in, whatever the disk's own blocks are.
const BLOCK_BYTES: u64 = 512;

/// Takes on `limits`, which nothing that runs in this process later can raise, and `niceness`
/// towards other processes. It ends with its parent, where the system can, and writes to no file.
pub(crate) fn limit_process(limits: ProcessLimits, niceness: i32) -> io::Result<()> {
    let at_most = |n: u64| Rlimit { current: Some(n), maximum: Some(n) };
    setrlimit(Resource::As, at_most(limits.address_space_bytes))?;
    // At the first the system ends it with a signal that tells the reason, at the second by force.
    let cpu = Rlimit { current: Some(limits.cpu_s), maximum: Some(limits.cpu_s + 1) };
    setrlimit(Resource::Cpu, cpu)?;
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::Fsize, at_most(0))?;
    nice(niceness)?;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// Which of its limits ended a process, as its status tells.
pub(crate) fn limit_hit(status: ExitStatus) -> Option<LimitHit> {
    match status.signal().and_then(Signal::from_named_raw)? {
        Signal::XCPU => Some(LimitHit::CpuTime),
        // What exceeds its own address space aborts.
        Signal::ABORT | Signal::SEGV => Some(LimitHit::AddressSpace),
        _ => None,
    }
}

/// Whether a file or folder is this user's, and none of `mode_bits` is set.
pub(crate) fn is_own(metadata: &Metadata, mode_bits: u32) -> bool {
    metadata.uid() == geteuid().as_raw() && metadata.mode() & mode_bits == 0
}

/// What a file takes on the disk.
pub(crate) fn disk_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(BLOCK_BYTES)
}

/// What the file system of a file sets aside at once.
pub(crate) fn cluster_bytes(metadata: &Metadata) -> u64 {
    metadata.blksize()
}

/// The number of an open file that has no name any more.
pub(crate) fn nameless_file(metadata: &Metadata) -> Option<(u64, u64)> {
    (metadata.nlink() == 0).then(|| (metadata.dev(), metadata.ino()))
}

/// The processor's time this thread has taken.
pub(crate) fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
