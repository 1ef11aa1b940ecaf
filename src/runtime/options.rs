//! Options of a runtime and their defaults.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::compiler::CompileIn;

/// Maximum module size. Functions have some ten kilobytes in C, a few megabytes in Go, and up to a
/// hundred with an interpreter and its libraries. Compilation needs time and memory in proportion.
const MODULE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Default time limit of a compilation. An interpreter of 17 MB takes a minute on two idle processors.
pub const COMPILE_WITHIN: Duration = Duration::from_mins(5);

/// Maximum processor time of a run that counts as short: a tenth of the time that a run can block a
/// shared thread.
const SHORT_CPU: Duration = Duration::from_millis(1);

/// Options of a runtime.
#[derive(Debug, Clone)]
pub struct RuntimeOptions {
    /// Maximum number of concurrent guests. Further runs wait.
    pub runs_max: NonZeroU32,
    /// Maximum module size.
    pub module_bytes_max: usize,
    /// Maximum processor time of a run that counts as short. After a short run, the next run of the
    /// program begins in the calling thread.
    pub short_cpu: Duration,
    /// Directory for compiled code, shared with other runtimes. With `None`, code is not stored on the
    /// disk. A directory that is unusable or writable by other users is ignored with a warning in the
    /// log.
    pub compiled_folder: Option<PathBuf>,
    /// Process in which programs are compiled.
    pub compile_in: CompileIn,
    /// Time limit of a compilation. The limits of a run apply afterwards.
    pub compile_within: Duration,
}

impl RuntimeOptions {
    /// Returns the defaults for `runs_max` concurrent guests: modules up to 128 MiB, no
    /// compiled code on the disk, five minutes for a compilation, and 1 ms for a short run.
    #[must_use]
    pub const fn for_runs(runs_max: NonZeroU32, compile_in: CompileIn) -> Self {
        Self {
            runs_max,
            module_bytes_max: MODULE_BYTES_MAX,
            short_cpu: SHORT_CPU,
            compiled_folder: None,
            compile_in,
            compile_within: COMPILE_WITHIN,
        }
    }
}
