//! What processes of this machine use, as Linux shows it in `/proc`; elsewhere nothing is known.

use std::{collections::HashMap, fs};

use ::tui::local::Usage;
use tokio::time::Instant;

/// Ticks of processor time in a second: Linux tells programs this number on every machine.
const TICKS_A_SECOND: f64 = 100.0;

/// The places of the ticks spent by a program and by the system for it, after its name.
const TICKS_AT: [usize; 2] = [11, 12];

/// Looks at processes, and remembers the last look: processor time is what was used since then.
#[derive(Debug, Default)]
pub(super) struct Meter {
    last: HashMap<u32, (u64, Instant)>,
}

impl Meter {
    /// What each of `processes`, by name and number, uses now.
    pub(super) fn measure(&mut self, processes: &[(String, u32)]) -> Vec<(String, Usage)> {
        self.last.retain(|pid, _| processes.iter().any(|(_, running)| running == pid));
        let now = Instant::now();
        let mut all = Vec::new();
        for (name, pid) in processes {
            let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
            let memory_bytes = text("status").and_then(|status| resident_bytes(&status));
            let ticks = text("stat").and_then(|stat| ticks(&stat));
            let (Some(memory_bytes), Some(ticks)) = (memory_bytes, ticks) else { continue };
            let before = self.last.insert(*pid, (ticks, now));
            let cpu_percent = before.and_then(|(ticks_before, at)| {
                let seconds = now.duration_since(at).as_secs_f64();
                #[expect(clippy::cast_precision_loss, reason = "a percentage needs no more")]
                let used = ticks.saturating_sub(ticks_before) as f64 / TICKS_A_SECOND;
                (seconds > 0.0).then(|| 100.0 * used / seconds)
            });
            all.push((name.clone(), Usage { cpu_percent, memory_bytes }));
        }
        all
    }
}

/// The memory in use, by the text of `/proc/PID/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// The processor time used, by the text of `/proc/PID/stat`. The name in it may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    TICKS_AT.into_iter().map(|idx| fields.get(idx)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_ticks_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 50 25 0 0 20 0 8 0 1";
        assert_eq!(ticks(stat), Some(75));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t  38 kB\n"), Some(38 * 1024));
        assert_eq!((ticks(""), resident_bytes("")), (None, None));
    }

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
