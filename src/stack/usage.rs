//! Processor time and memory of processes, on systems that report them.

use std::{collections::HashMap, time::Duration};

use task::process;
use tokio::time::Instant;

use crate::local::Usage;

/// Measures processes, and remembers the last measurement: processor time is counted since then.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    last: HashMap<u32, (Duration, Instant)>,
}

impl Meter {
    /// What each of `processes`, by name and number, uses now.
    pub(crate) fn measure(&mut self, processes: &[(String, u32)]) -> Vec<(String, Usage)> {
        self.last.retain(|pid, _| processes.iter().any(|(_, running)| running == pid));
        let now = Instant::now();
        let mut all = Vec::new();
        for (name, pid) in processes {
            let Some(usage) = process::usage(*pid) else { continue };
            let memory_bytes = usage.memory_bytes;
            let before = self.last.insert(*pid, (usage.cpu, now));
            let cpu_percent = before.and_then(|(cpu_before, at)| {
                let seconds = now.duration_since(at).as_secs_f64();
                let used = usage.cpu.saturating_sub(cpu_before).as_secs_f64();
                (seconds > 0.0).then(|| 100.0 * used / seconds)
            });
            all.push((name.clone(), Usage { cpu_percent, memory_bytes }));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_runs_is_measured_and_one_that_is_gone_is_left_out() {
        let mut meter = Meter::default();
        let processes = [("me".to_owned(), std::process::id()), ("none".to_owned(), u32::MAX)];
        let first = meter.measure(&processes);
        assert_eq!(first.len(), 1);
        assert!(first[0].1.memory_bytes > 0 && first[0].1.cpu_percent.is_none());
        assert!(meter.measure(&processes)[0].1.cpu_percent.is_some());
    }
}
