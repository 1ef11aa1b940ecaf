//! The parent's side of a compilation: starts the child, writes its input, reads its output and stops
//! it.

use std::io::{self, Read as _, Write as _};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use task::process::ThreadTimes;
use tokio::time::Instant;

use super::child::{COMMAND, Header, Status};
use super::refused;
use crate::error::{CompileError, CompileStep, ProgramError};
use crate::load::CompiledCode;
use crate::program::Program;
use crate::settings::Settings;
use crate::single_flight::WANTED_EVERY;
use crate::system::{LimitHit, ProcessLimits, limit_hit};

/// Maximum number of threads of a child. Each thread needs additional memory.
const THREADS_MAX: usize = 4;

/// Address space of a child for an empty program: its executable, and the stacks and heap arenas of its
/// threads.
const ADDRESS_SPACE_BYTES: u64 = 768 * 1024 * 1024;

/// Address space of a child in bytes for each byte of its program. The compiler holds all functions and
/// all code at the same time.
const ADDRESS_SPACE_BY_BYTE: u64 = 40;

/// Expected memory of a child in bytes for each byte of its program: 860 MB for a module of 16.7 MB.
const MEMORY_BY_BYTE: u64 = 52;

/// Maximum size of the output, which is mostly code: four times the size of the largest program.
const OUTPUT_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Environment variable with the compiler's number of threads.
const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";

/// Minimum time for which a child ran, in percent of the time for which it ran or waited for a processor.
/// Below this, the machine was busy, and the program does not count as too slow. Even on an idle machine,
/// other processes use some of the time.
const CPU_SHARE_MIN: u32 = 75;

/// Returns the expected memory of compiling `program`, in bytes.
pub(super) fn memory_bytes(program: &Program) -> u64 {
    u64::try_from(program.bytes.len()).unwrap_or(u64::MAX).saturating_mul(MEMORY_BY_BYTE)
}

/// Compiles `program` in a child that runs the executable at `path`. Kills it after `within`, or once
/// `is_wanted` returns false. The child has exited when this returns.
pub(super) fn compile(
    path: &Path,
    settings: Settings,
    program: &Program,
    within: Duration,
    is_wanted: &dyn Fn() -> bool,
) -> Result<CompiledCode, CompileError> {
    let n_threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
    let n_bytes = u64::try_from(program.bytes.len()).unwrap_or(u64::MAX);
    let address_space_bytes =
        ADDRESS_SPACE_BYTES.saturating_add(n_bytes.saturating_mul(ADDRESS_SPACE_BY_BYTE));
    let header = Header {
        limits: ProcessLimits {
            address_space_bytes,
            // Takes effect only if the parent has died, since the parent kills the child earlier.
            cpu_s: within.as_secs().saturating_add(1).saturating_mul(n_threads as u64),
        },
        settings,
    };
    let mut child = Command::new(path)
        .arg(COMMAND)
        .env_clear()
        .env(THREADS_VARIABLE, n_threads.to_string())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let (status, output) = converse(&mut child, &header.bytes(), program, within, is_wanted)?;
    if status.success()
        && let Some(code) = read_output(output)?
    {
        return Ok(code);
    }
    Err(match limit_hit(status) {
        Some(LimitHit::CpuTime) => CompileError::Program(ProgramError::CompileTime { within }),
        Some(LimitHit::AddressSpace) => {
            let n_bytes = address_space_bytes;
            CompileError::Program(ProgramError::CompileMemory { n_bytes })
        }
        // The program is not to blame, for example if the system killed the child because the whole
        // machine was out of memory.
        _ => failed(io::Error::other(format!("the compiler exited ({status})"))),
    })
}

/// Writes the child's input, reads its output and waits for its exit. Kills the child at the time limit
/// or once its output is not wanted.
fn converse(
    child: &mut Child,
    header: &[u8],
    program: &Program,
    within: Duration,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(ExitStatus, Vec<u8>), CompileError> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let started = Instant::now();
    thread::scope(|scope| {
        // Both threads exit at the latest when the child exits, since that closes the child's ends of
        // the pipes.
        let write = move || {
            let Some(mut stdin) = stdin else { return };
            if let Err(error) =
                stdin.write_all(header).and_then(|()| stdin.write_all(&program.bytes))
            {
                tracing::debug!(%error, "a compiler ended before it read its program");
            }
        };
        let (sender, receiver) = mpsc::sync_channel(1);
        let read = move || {
            let mut output = Vec::new();
            let read = stdout.map(|stdout| stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut output));
            // Without a receiver, the child was killed and its output is not needed.
            drop(sender.send(read.transpose().map(|_| output)));
        };
        let spawned = thread::Builder::new()
            .spawn_scoped(scope, write)
            .and_then(|_| thread::Builder::new().spawn_scoped(scope, read));
        let result = match spawned {
            Ok(_) => loop {
                match receiver.recv_timeout(WANTED_EVERY) {
                    Ok(output) => break output.map_err(failed),
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        break Err(failed(io::ErrorKind::BrokenPipe.into()));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) if started.elapsed() >= within => {
                        break Err(late(child, within));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) if !is_wanted() => {
                        break Err(CompileError::Unwanted(CompileStep::Compiling));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                }
            },
            Err(error) => Err(failed(error)),
        };
        if result.is_err() {
            // Fails only if the child has already exited.
            drop(child.kill());
        }
        let status = child.wait().map_err(failed)?;
        Ok((status, result?))
    })
}

/// Returns the error for a child that reached its time limit. The program is to blame only if the child
/// rarely had to wait for a processor.
fn late(child: &Child, within: Duration) -> CompileError {
    match task::process::thread_times(child.id()) {
        Some(times) if ran_for_most_of(times, within) => {
            CompileError::Program(ProgramError::CompileTime { within })
        }
        _ => CompileError::Busy,
    }
}

/// Returns true if a process with these times ran for at least half of `within` and rarely waited for
/// a processor.
fn ran_for_most_of(times: ThreadTimes, within: Duration) -> bool {
    let wanted = times.ran + times.waited;
    times.ran >= within / 2 && times.ran * 100 >= wanted * CPU_SHARE_MIN
}

/// Parses the complete output of a child. Returns `None` if it is not the output of a compiler.
fn read_output(output: Vec<u8>) -> Result<Option<CompiledCode>, CompileError> {
    let status = output.first().and_then(|status| Status::from_repr(*status));
    let rest = Bytes::from(output).slice(usize::from(status.is_some())..);
    match status {
        None => Ok(None),
        Some(Status::Compiled) => Ok(Some(CompiledCode::trusted(rest))),
        Some(Status::Refused) => Err(refused(String::from_utf8_lossy(&rest).into_owned())),
    }
}

fn failed(error: io::Error) -> CompileError {
    CompileError::Child(Arc::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_spent_waiting_for_a_processor_is_not_run_time() {
        let within = Duration::from_secs(3);
        let times = |ran_s, waited_s| ThreadTimes {
            ran: Duration::from_secs(ran_s),
            waited: Duration::from_secs(waited_s),
        };
        assert!(ran_for_most_of(times(3, 0), within));
        assert!(ran_for_most_of(times(11, 1), within));
        assert!(!ran_for_most_of(times(1, 0), within));
        assert!(!ran_for_most_of(times(6, 6), within));
    }
}
