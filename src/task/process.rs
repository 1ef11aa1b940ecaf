//! Child processes with their descendants, figures about processes, and their cryptography provider.
//! The figures are taken from `/proc` on Linux. Other systems provide fewer figures.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, io};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Installs ring as the default cryptography provider of the process, unless a provider is already
/// installed. Every HTTP client calls this first.
pub fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none()
        && rustls::crypto::ring::default_provider().install_default().is_err()
    {
        tracing::debug!("another thread installed a provider of cryptography first");
    }
}

/// A child process with its own process group. If it is dropped before its exit is collected, all
/// processes of the group are killed.
#[derive(Debug)]
pub struct GroupLeader(pub Child);

impl GroupLeader {
    /// Starts `command` in a new process group.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }
}

impl Drop for GroupLeader {
    fn drop(&mut self) {
        // The id of the group is valid until the exit of the child is collected. From then on,
        // `id` returns `None`.
        if let Some(group) = self.0.id().and_then(|id| i32::try_from(id).ok())
            && let Some(group) = Pid::from_raw(group)
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::debug!(%error, "the processes of a command could not be killed");
        }
    }
}

/// Scheduling times of a process, added over all its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time for which the threads ran on a processor.
    pub ran: Duration,
    /// Time for which the threads were ready to run, but no processor was free.
    pub waited: Duration,
}

/// Returns a path from which this program can be started again. On Linux, the path leads to the
/// program that is running, even if an upgrade has replaced its file.
///
/// # Errors
/// If the system does not provide the path.
pub fn own_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { env::current_exe() }
}

/// Returns true if this process ignores SIGHUP, such as after a start by `nohup`.
#[must_use]
pub fn ignores_hangup() -> bool {
    ignored_signals().is_some_and(|mask| mask & 1 == 1)
}

/// Returns true if this process has a controlling terminal that still exists.
#[must_use]
pub fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// Returns the signals that this process ignores, as a mask. Bit 0 is signal 1.
#[cfg(target_os = "linux")]
fn ignored_signals() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Returns the signals that this process ignores, as a mask. `ps` reports them.
#[cfg(not(target_os = "linux"))]
fn ignored_signals() -> Option<u64> {
    let pid = std::process::id().to_string();
    let listed = std::process::Command::new("ps").args(["-o", "ignored=", "-p", &pid]).output();
    let listed = String::from_utf8(listed.ok()?.stdout).ok()?;
    u64::from_str_radix(listed.trim(), 16).ok()
}

/// Returns the scheduling times of the process `pid`. Returns `None` if the process has exited.
#[cfg(target_os = "linux")]
#[must_use]
pub fn thread_times(pid: u32) -> Option<ThreadTimes> {
    let mut sum = ThreadTimes::default();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // The thread can have exited in the meantime.
        let Ok(line) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        let mut numbers = line.split_ascii_whitespace().map(str::parse);
        sum.ran += Duration::from_nanos(numbers.next()?.ok()?);
        sum.waited += Duration::from_nanos(numbers.next()?.ok()?);
    }
    Some(sum)
}

/// Returns `None`. This system does not provide scheduling times.
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
    fn thread_times_are_returned_only_for_running_processes() {
        assert!(thread_times(std::process::id()).is_some_and(|times| times.ran > Duration::ZERO));
        assert_eq!(thread_times(u32::MAX), None);
        assert!(own_program().unwrap().exists());
    }
}
