//! What the system says about processes. Linux says it in the files of `/proc`, which are read here
//! and nowhere else; other systems say less.

use std::{env, fs, io, path::PathBuf, time::Duration};

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

/// Returns true if this process has a controlling terminal. One that was closed is none.
#[must_use]
pub fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// The signals that this process ignores, a bit each, that of signal 1 first.
#[cfg(target_os = "linux")]
fn ignored_signals() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// As above, in the words of `ps`.
#[cfg(not(target_os = "linux"))]
fn ignored_signals() -> Option<u64> {
    let pid = std::process::id().to_string();
    let listed = std::process::Command::new("ps").args(["-o", "ignored=", "-p", &pid]).output();
    let listed = String::from_utf8(listed.ok()?.stdout).ok()?;
    u64::from_str_radix(listed.trim(), 16).ok()
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

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_and_one_that_is_gone_is_not() {
        assert!(thread_times(std::process::id()).is_some_and(|times| times.ran > Duration::ZERO));
        assert_eq!(thread_times(u32::MAX), None);
        assert!(own_program().unwrap().exists());
    }
}
