//! Implementation for systems other than Unix.

use std::fs::Metadata;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use super::{LimitHit, ProcessLimits};

/// True if processes can be limited.
pub(crate) const LIMITS_PROCESSES: bool = false;

pub(crate) fn limit_process(_limits: ProcessLimits, _niceness: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn limit_hit(_status: ExitStatus) -> Option<LimitHit> {
    None
}

/// The owner of a file is unknown, so no file is trusted.
pub(crate) fn is_own(_metadata: &Metadata, _mode_bits: u32) -> bool {
    false
}

pub(crate) fn disk_bytes(metadata: &Metadata) -> u64 {
    metadata.len()
}

pub(crate) fn cluster_bytes(_metadata: &Metadata) -> u64 {
    0
}

/// Always `None`, since open files cannot be unlinked.
pub(crate) fn nameless_file(_metadata: &Metadata) -> Option<(u64, u64)> {
    None
}

pub(crate) fn thread_cpu() -> Duration {
    Duration::ZERO
}
