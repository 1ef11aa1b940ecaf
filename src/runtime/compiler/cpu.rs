//! How much processor time a child used, and how long it waited for a processor.

use std::{fs, time::Duration};

/// Of the time a child wanted a processor, the share it must have had one, in percent, to be at
/// fault itself. The rest is what an otherwise idle machine takes away.
const SHARE_MIN: u32 = 75;

/// The processor time of all threads of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuUse {
    ran: Duration,
    /// While a thread was ready to run and others ran.
    waited: Duration,
}

impl CpuUse {
    /// Reads that of a running process. `None` where the system does not tell: only Linux does.
    pub(super) fn of_process(pid: u32) -> Option<Self> {
        let mut sum = Self::default();
        for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            // A thread that ended meanwhile has no figures.
            let Ok(line) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else {
                continue;
            };
            let mut numbers = line.split_ascii_whitespace().map(str::parse);
            sum.ran += Duration::from_nanos(numbers.next()?.ok()?);
            sum.waited += Duration::from_nanos(numbers.next()?.ok()?);
        }
        Some(sum)
    }

    /// Whether a process that did not end `within` that time had the processors for most of it.
    pub(super) fn is_most_of(self, within: Duration) -> bool {
        let wanted = self.ran + self.waited;
        self.ran >= within / 2 && self.ran * 100 >= wanted * SHARE_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_others_held_up_did_not_use_up_its_time() {
        let within = Duration::from_secs(3);
        let cpu = |ran_s, waited_s| CpuUse {
            ran: Duration::from_secs(ran_s),
            waited: Duration::from_secs(waited_s),
        };
        assert!(cpu(3, 0).is_most_of(within));
        assert!(cpu(11, 1).is_most_of(within));
        assert!(!cpu(1, 0).is_most_of(within));
        assert!(!cpu(6, 6).is_most_of(within));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_tells_the_processor_time_of_this_process() {
        assert!(CpuUse::of_process(std::process::id()).is_some_and(|cpu| cpu.ran > Duration::ZERO));
    }
}
