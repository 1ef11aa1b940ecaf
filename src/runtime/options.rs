//! How a runtime is sized, and the usual sizes.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use task::cache::Capacity;

use crate::compiler::CompileIn;

/// The stack a guest's calls may take: what the engine gives by default, and eight times the stack
/// of a thread in WASI's C library.
const STACK_BYTES: usize = 512 * 1024;

/// The largest module accepted. Functions are some ten kilobytes in C, a few megabytes in Go, and up
/// to a hundred with an interpreter and its libraries. Compiling takes time and memory in proportion.
const MODULE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Compiled modules kept, by number and by size: one of the largest, since compiled code is some
/// three times its module.
const KEPT: Capacity = Capacity { n_values_max: 64, bytes_max: 512 * 1024 * 1024 };

/// The longest that one program is compiled unless the operator says otherwise. An interpreter of
/// 17 MB takes a minute of two processors that do nothing else.
pub const COMPILE_WITHIN: Duration = Duration::from_mins(5);

/// Up to what it took last, of the processor's time, a program is begun on a thread that does other
/// things: a tenth of what such a thread may then be held up.
const SHORT_CPU: Duration = Duration::from_millis(1);

/// How a runtime is sized.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// How many guests run at once. Who comes when all places are taken waits for one.
    pub runs_max: NonZeroU32,
    /// How deep a guest's calls may go.
    pub stack_bytes: usize,
    /// The largest module accepted.
    pub module_bytes_max: usize,
    /// How many compiled modules are kept, and bytes of them.
    pub kept: Capacity,
    /// A program whose last run took no more of the processor's time than this is begun on the
    /// thread that asks for its next one.
    pub short_cpu: Duration,
    /// Where compiled code is kept beyond the life of this runtime, shared with all others that
    /// are given this folder. None: nowhere. A folder that cannot be used, or that other users
    /// may write to, is not used, with a warning in the log.
    pub compiled_folder: Option<PathBuf>,
    /// Where programs are compiled.
    pub compile_in: CompileIn,
    /// How long compiling one program may take. The limits of a run apply only
    /// afterwards.
    pub compile_within: Duration,
}

impl RuntimeOptions {
    /// The usual sizes for `runs_max` guests at once: a stack of 512 KiB, modules up to 128 MiB, 64
    /// of them kept compiled in at most 512 MiB, none on the disk; compiling takes five minutes at
    /// most; a run up to 1 ms is short.
    #[must_use]
    pub const fn for_runs(runs_max: NonZeroU32, compile_in: CompileIn) -> Self {
        Self {
            runs_max,
            stack_bytes: STACK_BYTES,
            module_bytes_max: MODULE_BYTES_MAX,
            kept: KEPT,
            short_cpu: SHORT_CPU,
            compiled_folder: None,
            compile_in,
            compile_within: COMPILE_WITHIN,
        }
    }
}
