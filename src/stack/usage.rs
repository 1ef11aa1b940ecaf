//! Processor time, memory and state of processes, on systems that report them.

use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use crate::local::Usage;

/// Measures the resource usage of processes. Processor time is measured since the previous call.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    system: Option<System>,
}

impl Meter {
    /// Returns the resource usage of `processes`, which are names and process ids. Processes that
    /// the system cannot measure are omitted.
    pub(crate) fn measure(&mut self, processes: &[(String, u32)]) -> Vec<(String, Usage)> {
        let Some(system) = self.system.take().or_else(|| System::new().ok()) else {
            return Vec::new();
        };
        let system = self.system.insert(system);
        let pids: Vec<Pid> = processes.iter().map(|(_, pid)| Pid::from_u32(*pid)).collect();
        let were_measured: Vec<bool> =
            pids.iter().map(|pid| system.process(*pid).is_some()).collect();
        let what = ProcessRefreshKind::nothing().with_memory().with_cpu();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, what);
        let mut all = Vec::new();
        for (((name, _), pid), was_measured) in processes.iter().zip(&pids).zip(were_measured) {
            let Some(process) = system.process(*pid) else { continue };
            let usage = Usage {
                cpu_percent: was_measured.then(|| f64::from(process.cpu_usage())),
                memory_bytes: process.memory(),
                is_suspended: process.status() == ProcessStatus::Stop,
            };
            all.push((name.clone(), usage));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn usage_is_measured_for_running_processes_and_omitted_for_missing_processes() {
        let mut meter = Meter::default();
        let processes = [("me".to_owned(), std::process::id()), ("none".to_owned(), u32::MAX)];
        let first = meter.measure(&processes);
        assert_eq!(first.len(), 1);
        assert!(first[0].1.memory_bytes > 0 && first[0].1.cpu_percent.is_none());
        assert!(meter.measure(&processes)[0].1.cpu_percent.is_some());
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "there is no runtime to sleep on")]
    fn process_is_measured_as_suspended_until_it_is_continued() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        let mut meter = Meter::default();
        let mut is_suspended_after = |signal: &str| {
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args([signal, &pid.to_string()]).status().unwrap().success());
            let is_wanted = signal == "-STOP";
            let mut is_suspended = !is_wanted;
            // A signal takes effect some time after it was sent.
            for _ in 0..1_000 {
                is_suspended = meter.measure(&[("it".to_owned(), pid)])[0].1.is_suspended;
                if is_suspended == is_wanted {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            is_suspended
        };
        let got = (is_suspended_after("-STOP"), is_suspended_after("-CONT"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(got, (true, false));
    }
}
