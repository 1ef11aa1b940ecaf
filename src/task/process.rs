//! What the system says about processes. Linux says it in the files of `/proc`, which are read here
//! and nowhere else; other systems say less.

#[cfg(target_os = "linux")]
use std::fs;
use std::{env, io, path::PathBuf, time::Duration};

/// Clock ticks in a second, in which `/proc` counts processor time: the same on every machine.
#[cfg(target_os = "linux")]
const TICKS_PER_SECOND: u64 = 100;

/// The fields of `/proc/PID/stat` with the ticks spent by a program and by the system for it,
/// counted after the program's name.
#[cfg(target_os = "linux")]
const TICKS_FIELDS: [usize; 2] = [11, 12];

/// What a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Its memory in use, in bytes.
    pub memory_bytes: u64,
    /// The processor time it used so far.
    pub cpu: Duration,
}

/// The time that the threads of a process spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On a processor.
    pub ran: Duration,
    /// Ready to run, while others had the processors.
    pub waited: Duration,
}

/// The file of the program that runs. On Linux it is the same program also where its file was
/// replaced since.
///
/// # Errors
/// If the system does not tell.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { env::current_exe() }
}

/// Whether this process was started with SIGHUP ignored, as by `nohup`, or ignores it since.
#[must_use]
pub fn ignores_hangup() -> bool {
    ignored_signals().is_some_and(|mask| mask & 1 == 1)
}

/// The signals that this process ignores, a bit each, that of signal 1 first.
#[cfg(target_os = "linux")]
fn ignored_signals() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// As above, in the words of `ps`.
#[cfg(all(unix, not(target_os = "linux")))]
fn ignored_signals() -> Option<u64> {
    let pid = std::process::id().to_string();
    let listed = std::process::Command::new("ps").args(["-o", "ignored=", "-p", &pid]).output();
    let listed = String::from_utf8(listed.ok()?.stdout).ok()?;
    u64::from_str_radix(listed.trim(), 16).ok()
}

/// There are no signals.
#[cfg(not(unix))]
const fn ignored_signals() -> Option<u64> {
    None
}

/// What process `pid` uses; none if it is gone, or the system does not tell.
#[cfg(target_os = "linux")]
#[must_use]
pub fn usage(pid: u32) -> Option<ProcessUsage> {
    let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let (memory_bytes, cpu) = (resident_bytes(&text("status")?)?, cpu_time(&text("stat")?)?);
    Some(ProcessUsage { memory_bytes, cpu })
}

/// The system does not tell.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub const fn usage(_pid: u32) -> Option<ProcessUsage> {
    None
}

/// The times of all threads of process `pid`; none if it is gone, or the system does not tell.
#[cfg(target_os = "linux")]
#[must_use]
pub fn thread_times(pid: u32) -> Option<ThreadTimes> {
    let mut sum = ThreadTimes::default();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread that ended meanwhile has no figures.
        let Ok(line) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        let mut numbers = line.split_ascii_whitespace().map(str::parse);
        sum.ran += Duration::from_nanos(numbers.next()?.ok()?);
        sum.waited += Duration::from_nanos(numbers.next()?.ok()?);
    }
    Some(sum)
}

/// The system does not tell.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub const fn thread_times(_pid: u32) -> Option<ThreadTimes> {
    None
}

/// The memory in use, by the text of `/proc/PID/status`.
#[cfg(target_os = "linux")]
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// The processor time used, by the text of `/proc/PID/stat`. The name in it may hold anything.
#[cfg(target_os = "linux")]
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = TICKS_FIELDS.into_iter().map(|idx| fields.get(idx)?.parse::<u64>().ok());
    let ticks: u64 = ticks.sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks.saturating_mul(1000 / TICKS_PER_SECOND)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_and_processor_time_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 50 25 0 0 20 0 8 0 1";
        assert_eq!(cpu_time(stat), Some(Duration::from_millis(750)));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t  38 kB\n"), Some(38 * 1024));
        assert_eq!((cpu_time(""), resident_bytes("")), (None, None));
    }

    #[test]
    fn this_process_is_known_and_one_that_is_gone_is_not() {
        assert!(usage(std::process::id()).is_some_and(|usage| usage.memory_bytes > 0));
        assert!(thread_times(std::process::id()).is_some_and(|times| times.ran > Duration::ZERO));
        assert_eq!((usage(u32::MAX), thread_times(u32::MAX)), (None, None));
        assert!(own_program().unwrap().exists());
    }
}
