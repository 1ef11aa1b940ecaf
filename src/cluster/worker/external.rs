//! Running a work order in another process, by an external runtime.
//!
//! The program is called as b7s calls `bls-runtime`: in the directory `<workspace>/t/<request>`, with
//! the module's path, flags, `--` and the arguments. The environment contains the request's variables
//! and their names in `BLS_LIST_VARS`. Unlike in b7s, the environment is fixed apart from the request's
//! variables that the operator allows (`environment.rs`). Time and output are limited. The process and all
//! processes it started are killed when it exceeds the limits or the result is not needed any more. The
//! request's setting for a log file is ignored, since the caller could choose any file on this machine.
//!
//! If the external runtime is the program of this process, functions run in this process instead
//! (`executor.rs`).

mod environment;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{self, Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, io};

use bytes::Bytes;
use lru::LruCache;
use model::function::{FunctionId, Method};
use parking_lot::Mutex;
use runtime::run::{Limits, PAGE_BYTES, RunEnd, RunOutcome, START};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use task::file::{FileMode, write_atomic};
use task::private::create_folder;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use wait4::{ResUse, Wait4 as _};

pub(super) use self::environment::VariableError;
use super::scratch_dir::ScratchDir;
use crate::function_call::FunctionCall;

/// Configuration of an external runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalRuntime {
    /// Path of the executable.
    pub program: PathBuf,
    /// Names of a request's environment variables that the program receives. A request with any
    /// other variable fails.
    pub variables: BTreeSet<String>,
}

/// Time to wait after a process exits while one of its descendants holds its output open. Also the time
/// for a killed process to exit.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// An external runtime.
#[derive(Debug)]
pub(super) struct External(Arc<ExternalParts>);

#[derive(Debug)]
struct ExternalParts {
    program: PathBuf,
    /// Names of variables that the program gets.
    allowed_variables: BTreeSet<String>,
    workspace: PathBuf,
    /// Modules that this process wrote to files in the workspace.
    module_files: Mutex<LruCache<(FunctionId, Method), ()>>,
}

/// A process could not be run to completion.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExternalError {
    /// A file or directory of the workspace is not usable.
    #[error("workspace path {} is not usable", path.display())]
    Workspace { path: PathBuf, source: io::Error },
    /// A variable is not passed to the program.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// The program does not start.
    #[error("cannot start external runtime {}", program.display())]
    Start { program: PathBuf, source: io::Error },
    /// Waiting for the process failed.
    #[error("waiting for the external runtime failed")]
    Wait { source: io::Error },
    /// The node is stopping.
    #[error("run was interrupted: the node is stopping")]
    Lost,
}

/// A process and its descendants. They can be killed until the exit status of the process has been
/// collected.
#[derive(Debug, Clone)]
struct ProcessGroup {
    pid: Pid,
    is_gone: Arc<Mutex<bool>>,
}

/// A process group that is killed when this is dropped.
struct Process(ProcessGroup);

/// Output of a process and its remaining limit.
#[derive(Debug, Default)]
struct Written {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    bytes_left: usize,
}

impl ExternalRuntime {
    /// Returns true if the program is the executable of this process, under any name.
    pub(super) fn is_this_program(&self) -> bool {
        let file = |about: fs::Metadata| (about.dev(), about.ino());
        let own = env::current_exe().and_then(fs::metadata).map(file);
        let program = fs::metadata(&self.program).map(file);
        own.ok().is_some_and(|own| program.is_ok_and(|program| program == own))
    }
}

impl External {
    /// Returns a runtime that uses `workspace`.
    ///
    /// # Errors
    /// Returns an error if the program is missing or not executable, or the workspace is not
    /// usable.
    pub(super) fn new(
        ExternalRuntime { program, variables }: ExternalRuntime,
        workspace: &Path,
    ) -> io::Result<Self> {
        // Links are not resolved, since a program might depend on the name it is called by.
        let program = path::absolute(&program)?;
        let about = fs::metadata(&program)?;
        if !about.is_file() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the path is not a file"));
        }
        // Mode bits with which a file can be executed.
        if about.permissions().mode() & 0o111 == 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the file is not executable",
            ));
        }
        create_folder(workspace)?;
        let workspace = workspace.canonicalize()?;
        // Maximum number of module files in the workspace. If there are more, the file of the module
        // that ran longest ago is removed.
        let module_files = Mutex::new(LruCache::new(const { NonZeroUsize::new(1024).unwrap() }));
        Ok(Self(Arc::new(ExternalParts {
            program,
            allowed_variables: variables,
            workspace,
            module_files,
        })))
    }

    /// Runs a process until it completes or exceeds a limit. Dropping the future kills the process.
    pub(super) async fn run(&self, mut run: ExternalRun) -> Result<RunOutcome, ExternalError> {
        let (limits, input) = (run.limits, run.call.stdin.take());
        let (inner, has_input) = (Arc::clone(&self.0), input.is_some());
        let prepared = spawn_blocking(move || inner.command(&run, has_input)).await;
        let (mut command, scratch) = prepared.map_err(|_| ExternalError::Lost)??;
        let start = |source| ExternalError::Start { program: self.0.program.clone(), source };
        let mut child = command.spawn().map_err(start)?;
        let group = ProcessGroup { pid: Pid::from_child(&child), is_gone: Arc::default() };
        let process = Process(group.clone());
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let running = spawn_blocking(move || {
            let used = group.wait(child);
            drop(scratch);
            used
        });
        watch(&process.0, running, pipes, input.unwrap_or_default().into_bytes(), limits).await
    }
}

impl ExternalParts {
    /// Prepares the process for a run in a new directory. The returned directory must be kept until the
    /// process has exited, since dropping it removes it. Blocks.
    fn command(
        &self,
        run: &ExternalRun,
        has_input: bool,
    ) -> Result<(Command, ScratchDir), ExternalError> {
        environment::check(&run.call.environment, &self.allowed_variables)?;
        let module = self.module(run)?;
        let scratch = ScratchDir::make(&self.workspace, &run.request_id)
            .map_err(unusable(&self.workspace))?;
        let files = scratch.0.join("fs");
        fs::create_dir(&files).map_err(unusable(&files))?;
        let mut command = Command::new(&self.program);
        command.args(self.arguments(run, module, files)).env_clear();
        command.envs(environment::with_listed(&run.call.environment));
        command.current_dir(&scratch.0).process_group(0);
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok((command, scratch))
    }

    /// Writes the module to a file if necessary and returns its path. Blocks.
    fn module(&self, run: &ExternalRun) -> Result<PathBuf, ExternalError> {
        let method = &run.call.method;
        if let Some(folder) = &run.function_dir {
            return Ok(folder.join(method.as_str()));
        }
        let folder = self.workspace.join(run.function.to_string());
        let path = folder.join(method.as_str());
        let key = (run.function, method.clone());
        let mut module_files = self.module_files.lock();
        if module_files.get(&key).is_none() || !path.is_file() {
            create_folder(&folder)
                .and_then(|()| write_atomic(&path, &run.content, FileMode::Private))
                .map_err(unusable(&path))?;
            let evicted = module_files.push(key.clone(), ()).filter(|(other, ())| *other != key);
            if let Some(((function, method), ())) = evicted {
                let path = self.workspace.join(function.to_string()).join(method.as_str());
                // The file might already be gone.
                drop(fs::remove_file(path));
            }
        }
        Ok(path)
    }

    /// Returns the command line, in the order of b7s.
    fn arguments(&self, run: &ExternalRun, module: PathBuf, files: PathBuf) -> Vec<OsString> {
        let call = &run.call;
        let drivers = self.program.parent().unwrap_or(Path::new("/")).join("extensions");
        let mut arguments: Vec<OsString> = vec![module.into()];
        if call.entry() != START {
            arguments.extend(["--entry".into(), call.entry().into()]);
        }
        if call.requested_limits().wall.is_some() {
            let run_time_ms = run.limits.wall.as_millis().to_string();
            arguments.extend(["--run-time".into(), run_time_ms.into()]);
        }
        if call.runtime.debug_info {
            arguments.push("--debug-info".into());
        }
        arguments.extend(["--fs-root-path".into(), files.into()]);
        arguments.extend(["--drivers-root-path".into(), drivers.into()]);
        if let Some(fuel) = run.limits.fuel {
            arguments.extend(["--limited-fuel".into(), fuel.to_string().into()]);
        }
        let n_pages = run.limits.memory_bytes / PAGE_BYTES;
        arguments.extend(["--limited-memory".into(), n_pages.to_string().into()]);
        for permission in &call.permissions {
            arguments.extend(["--permission".into(), permission.into()]);
        }
        arguments.push("--".into());
        arguments.extend(call.arguments.iter().map(OsString::from));
        arguments
    }
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> ExternalError {
    let path = path.to_owned();
    |source| ExternalError::Workspace { path, source }
}

/// Pipes to the standard streams of a process. The first is `None` if the process gets no input.
type Pipes = (
    Option<std::process::ChildStdin>,
    Option<std::process::ChildStdout>,
    Option<std::process::ChildStderr>,
);

/// Feeds a process and waits until it exits. Kills it when it exceeds its limits.
async fn watch(
    group: &ProcessGroup,
    mut running: JoinHandle<io::Result<ResUse>>,
    pipes: Pipes,
    input: Vec<u8>,
    limits: Limits,
) -> Result<RunOutcome, ExternalError> {
    let started = Instant::now();
    let failed = |source| ExternalError::Wait { source };
    let written = Mutex::new(Written { bytes_left: limits.output_bytes, ..Written::default() });
    let talk = talk(pipes, input, &written);
    tokio::pin!(talk);
    // If the sum overflows, a year is used, which is longer than any node runs.
    let mut deadline =
        started.checked_add(limits.wall).unwrap_or(started + Duration::from_hours(24 * 365));
    let (mut ended, mut used, mut is_silent) = (RunEnd::Exited, None, false);
    while used.is_none() || !is_silent {
        tokio::select! {
            is_whole = &mut talk, if !is_silent => {
                is_silent = true;
                if !is_whole.map_err(failed)? {
                    ended = RunEnd::OutputFull;
                    group.kill();
                }
            }
            outcome = &mut running, if used.is_none() => {
                used = Some(outcome.map_err(|_| ExternalError::Lost)?.map_err(failed)?);
                deadline = Instant::now() + CLOSE_WITHIN;
            }
            () = sleep_until(deadline) => {
                // The process has exited, but a descendant holds its output open.
                if used.is_some() {
                    break;
                }
                if ended == RunEnd::Exited {
                    ended = RunEnd::TimedOut;
                }
                group.kill();
                deadline = Instant::now() + CLOSE_WITHIN;
            }
        }
    }
    let wall = started.elapsed();
    let used = used.ok_or(ExternalError::Lost)?;
    let written = std::mem::take(&mut *written.lock());
    Ok(outcome_of(written, &used, ended, limits, wall))
}

fn outcome_of(
    written: Written,
    used: &ResUse,
    ended: RunEnd,
    limits: Limits,
    wall: Duration,
) -> RunOutcome {
    let Written { stdout, mut stderr, .. } = written;
    if let Some(reason) = ended.reason(&limits) {
        if stderr.last().is_some_and(|last| *last != b'\n') {
            stderr.push(b'\n');
        }
        stderr.extend_from_slice(reason.as_bytes());
    }
    // As in shells, 128 plus the number of the signal that killed the process.
    let own_code = used.status.code().or_else(|| Some(128 + used.status.signal()?)).unwrap_or(-1);
    RunOutcome {
        stdout,
        stderr,
        exit_code: if ended == RunEnd::Exited { own_code } else { ended.exit_code() },
        ended,
        wall,
        cpu_user: used.rusage.utime,
        cpu_system: used.rusage.stime,
        memory_peak_bytes: usize::try_from(used.rusage.maxrss).unwrap_or(usize::MAX),
    }
}

/// Exchanges the input and output of a process until it has closed its output. Returns false if the
/// output exceeds the limit.
async fn talk(pipes: Pipes, input: Vec<u8>, written: &Mutex<Written>) -> io::Result<bool> {
    let (stdin, stdout, stderr) = pipes;
    let feed = async {
        let Some(stdin) = stdin else { return Ok(()) };
        match ChildStdin::from_std(stdin).map_err(Some)?.write_all(&input).await {
            // A process is not required to read its input, so a broken pipe is no error.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Some(error)),
            _ => Ok(()),
        }
    };
    let out = async {
        let Some(stdout) = stdout else { return Ok(()) };
        read(ChildStdout::from_std(stdout).map_err(Some)?, written, |w| &mut w.stdout).await
    };
    let error = async {
        let Some(stderr) = stderr else { return Ok(()) };
        read(ChildStderr::from_std(stderr).map_err(Some)?, written, |w| &mut w.stderr).await
    };
    // If one stream exceeds the limit, all three are stopped. If one stream completes, the other two
    // continue.
    match tokio::try_join!(feed, out, error) {
        Ok(_) => Ok(true),
        Err(None) => Ok(false),
        Err(Some(error)) => Err(error),
    }
}

/// Reads a stream to its end. Returns `Err(None)` if the output exceeds the limit.
async fn read(
    mut stream: impl AsyncRead + Unpin,
    written: &Mutex<Written>,
    kept: impl Fn(&mut Written) -> &mut Vec<u8>,
) -> Result<(), Option<io::Error>> {
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let n_read = stream.read(&mut chunk).await.map_err(Some)?;
        let read = chunk.get(..n_read).unwrap_or_default();
        if read.is_empty() {
            return Ok(());
        }
        let mut written = written.lock();
        let n_kept = n_read.min(written.bytes_left);
        written.bytes_left -= n_kept;
        kept(&mut written).extend_from_slice(read.get(..n_kept).unwrap_or_default());
        if n_kept < n_read {
            return Err(None);
        }
    }
}

impl ProcessGroup {
    /// Kills the process and its descendants. Does nothing once the exit status of the process has been
    /// collected, since its id might have been reused by then.
    fn kill(&self) {
        let is_gone = self.is_gone.lock();
        if !*is_gone && let Err(error) = kill_process_group(self.pid, Signal::KILL) {
            tracing::debug!(%error, "a process could not be killed");
        }
    }

    /// Waits until the process has exited and kills the descendants that it left behind. Returns the
    /// resources that the process used. Blocks.
    fn wait(&self, child: Child) -> io::Result<ResUse> {
        // `NOWAIT` keeps the process id reserved, so that the descendants can be killed by this id.
        waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        self.kill();
        let mut is_gone = self.is_gone.lock();
        *is_gone = true;
        child.wait4()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Input of a run.
#[derive(Debug)]
pub(super) struct ExternalRun {
    /// Id of the request.
    pub(super) request_id: String,
    pub(super) function: FunctionId,
    /// Module of the call.
    pub(super) content: Bytes,
    /// Directory with all files of the function, including the module; `None` for a single module.
    pub(super) function_dir: Option<PathBuf>,
    pub(super) call: FunctionCall,
    /// Limits. The program gets the time limit as a flag only if the call sets one.
    pub(super) limits: Limits,
}

#[cfg(test)]
mod tests;
