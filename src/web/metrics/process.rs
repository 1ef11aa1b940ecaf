//! Metrics of the process, with the names that Prometheus exporters use.

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

/// Returns the memory, processor time, open files and start time of this process as Prometheus text. The
/// text is empty if they are unavailable. Blocks for about a millisecond.
pub(super) fn text() -> String {
    let pid = Pid::from_u32(std::process::id());
    let Ok(mut system) = System::new() else { return String::new() };
    let what = ProcessRefreshKind::nothing().with_memory().with_cpu();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
    let Some(process) = system.process(pid) else { return String::new() };
    let cpu_ms = process.accumulated_cpu_time();
    let cpu = format!("{}.{:03}", cpu_ms / 1000, cpu_ms % 1000);
    let lines = [
        ("resident_memory_bytes", "gauge", "Resident memory", process.memory().to_string()),
        ("virtual_memory_bytes", "gauge", "Virtual memory", process.virtual_memory().to_string()),
        ("cpu_seconds_total", "counter", "Processor time", cpu),
        ("start_time_seconds", "gauge", "Start, in Unix time", process.start_time().to_string()),
    ];
    let files = process.open_files().map(|n| ("open_fds", "gauge", "Open files", n.to_string()));
    let render = |(name, kind, help, value)| {
        let name = format!("process_{name}");
        format!("# HELP {name} {help}.\n# TYPE {name} {kind}\n{name} {value}\n")
    };
    lines.into_iter().chain(files).map(render).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_contain_memory_and_processor_time_of_the_process() {
        let text = text();
        let memory =
            text.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        assert!(memory.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 100_000), "{text}");
        assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
    }
}
