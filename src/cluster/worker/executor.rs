//! Runs work orders: in this process, in the sandbox of `runtime`, or in another process
//! (`external.rs`).

use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use model::function::{FunctionId, Method};
use model::node::PeerId;
use runtime::compiler::CompileIn;
use runtime::engine::{Preparation, Runtime};
use runtime::error::{RunError, RuntimeError};
use runtime::files::{Files, FolderCleanup, LIMITS_DEFAULT};
use runtime::options::{COMPILE_WITHIN, RuntimeOptions};
use runtime::program::Program;
use runtime::run::{Limits, RunOutcome};
use task::cache::Cache;
use task::private::create_folder;
use wire::executions::Usage;

use super::external::{External, ExternalError, ExternalRun, ExternalRuntime};
use super::scratch_dir::{self, FunctionDirs};
use crate::function_call::{FunctionCall, outcome_body};
use crate::message::{Code, NodeResult};
use content::{Function, Functions, FunctionsError, Kind, LOADED};

/// Variable that tells a function the id of its node.
const PEER_ID: &str = "PEER_ID";

/// Ways to run functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionOptions {
    /// Directory for the temporary directories of executions. No other node may use it. `None`:
    /// functions have no files.
    pub workspace: Option<PathBuf>,
    /// Directory for compiled functions, which all nodes of one user can share. `None`: functions
    /// are compiled again after each start.
    pub compiled_folder: Option<PathBuf>,
    /// Place where functions are compiled. Functions from untrusted sources require a child process.
    pub compile_in: CompileIn,
    /// Time limit for compiling a function. It does not include runs.
    pub compile_within: Duration,
    /// Program that runs functions instead of this process. Requires the workspace. Ignored if it is
    /// the program of this process.
    pub external: Option<ExternalRuntime>,
}

impl Default for ExecutionOptions {
    fn default() -> Self {
        Self {
            workspace: None,
            compiled_folder: None,
            compile_in: CompileIn::default(),
            compile_within: COMPILE_WITHIN,
            external: None,
        }
    }
}

/// A worker has no usable runtime.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The runtime in this process could not be set up.
    #[error("cannot set up the runtime")]
    Runtime(#[from] RuntimeError),
    /// The external runtime is not usable.
    #[error("program {} cannot be used as external runtime", program.display())]
    External {
        /// Path of the program.
        program: PathBuf,
        /// Reason why the program cannot be used.
        source: io::Error,
    },
    /// The workspace is not usable.
    #[error("workspace directory {} cannot be used", workspace.display())]
    Workspace {
        /// Path of the workspace.
        workspace: PathBuf,
        /// Reason why the directory cannot be used.
        source: io::Error,
    },
}

/// A function did not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecutorError {
    /// The content of the function could not be read.
    #[error("cannot read the function")]
    Content(#[from] FunctionsError),
    /// The function is invalid, or the runtime cannot run it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The external runtime cannot run the function.
    #[error(transparent)]
    External(#[from] ExternalError),
}

impl ExecutorError {
    /// Returns true if the function would fail on every worker.
    pub(super) const fn is_final(&self) -> bool {
        // A variable that this worker's external runtime does not accept might be accepted by other
        // workers.
        matches!(self, Self::Run(RunError::Program(_)))
    }
}

#[derive(Debug)]
pub(super) struct Executor {
    functions: Functions,
    host: Host,
    limits: Limits,
    /// Directories with the files of functions; `None` without a workspace.
    function_dirs: Option<FunctionDirs>,
}

/// Runtime that runs functions.
#[derive(Debug)]
enum Host {
    Here {
        runtime: Runtime,
        programs: Cache<(FunctionId, Method), Program>,
        workspace: Option<PathBuf>,
        /// Number of runs so far, to give executions of the same request different directories.
        n_runs: AtomicU64,
    },
    External(External),
}

impl Executor {
    pub(super) fn new(
        functions: Functions,
        concurrency: NonZeroU32,
        limits: Limits,
        options: ExecutionOptions,
    ) -> Result<Self, WorkerError> {
        let ExecutionOptions { workspace, compiled_folder, compile_in, compile_within, external } =
            options;
        let function_dirs = match &workspace {
            Some(workspace) => {
                let cleared = clear(workspace).and_then(|()| workspace.canonicalize());
                let path = cleared.map_err(|source| WorkerError::Workspace {
                    workspace: workspace.clone(),
                    source,
                })?;
                Some(FunctionDirs::new(&path))
            }
            None => None,
        };
        // This program as its own external runtime would do the same in more processes.
        let host = match external.filter(|external| !external.is_this_program()) {
            Some(mut external) => {
                let program = external.program.clone();
                // This variable is always allowed, since the node itself sets it.
                external.variables.insert(PEER_ID.to_owned());
                let no_workspace =
                    || io::Error::new(io::ErrorKind::InvalidInput, "it requires a workspace");
                workspace
                    .ok_or_else(no_workspace)
                    .and_then(|workspace| External::new(external, &workspace))
                    .map(Host::External)
                    .map_err(|source| WorkerError::External { program, source })?
            }
            None => Host::Here {
                runtime: Runtime::new(RuntimeOptions {
                    compiled_folder,
                    compile_within,
                    ..RuntimeOptions::for_runs(concurrency, compile_in)
                })?,
                programs: Cache::new(LOADED),
                workspace,
                n_runs: AtomicU64::new(0),
            },
        };
        Ok(Self { functions, host, limits, function_dirs })
    }

    /// Returns true if a run of `call` does not have to wait until `function` is compiled. Always true
    /// for an external runtime, which compiles functions itself.
    pub(super) async fn is_compiled(
        &self,
        function: &Function,
        call: &FunctionCall,
    ) -> Result<bool, ExecutorError> {
        let Host::Here { runtime, .. } = &self.host else { return Ok(true) };
        let has_fuel = self.limits.lowered(call.requested_limits()).fuel.is_some();
        let program = self.program(function.id, call.method.clone()).await?;
        Ok(program.is_none_or(|program| runtime.is_compiled(&program, has_fuel)))
    }

    /// Compiles `function` for runs of `call`, on behalf of `client`. Waits up to the time limit for
    /// compiling. Dropping the future stops the compiler if no other caller waits for the same code.
    pub(super) async fn compile(
        &self,
        function: &Function,
        call: &FunctionCall,
        client: Arc<str>,
    ) -> Result<(), ExecutorError> {
        let has_fuel = self.limits.lowered(call.requested_limits()).fuel.is_some();
        let how = Preparation { client, has_fuel, is_patient: false };
        self.prepare(function.id, call.method.clone(), how).await.map(drop)
    }

    /// Compiles the main module of `function` on behalf of `client`, for calls that request no fuel
    /// limit. Waits for other compilations without a time limit. Returns false if the content is
    /// missing. Dropping the future stops the compiler if no other caller waits for the same code.
    pub(super) async fn compile_ahead(
        &self,
        function: &Function,
        client: &Arc<str>,
    ) -> Result<bool, ExecutorError> {
        // Code that counts fuel is compiled separately. A worker with a fuel limit runs only such code.
        let has_fuel = self.limits.fuel.is_some();
        let how = Preparation { client: Arc::clone(client), has_fuel, is_patient: true };
        self.prepare(function.id, function.method.clone(), how).await
    }

    async fn prepare(
        &self,
        id: FunctionId,
        method: Method,
        how: Preparation,
    ) -> Result<bool, ExecutorError> {
        let Host::Here { runtime, .. } = &self.host else { return Ok(true) };
        let Some(program) = self.program(id, method).await? else { return Ok(false) };
        if !runtime.is_compiled(&program, how.has_fuel) {
            runtime.prepare(&program, how).await?;
        }
        Ok(true)
    }

    /// Runs `call` of `function`, for request `request_id` of `client`, on node `peer_id`. Returns
    /// the result, or `None` if the content is missing. Dropping the future cancels the run.
    pub(super) async fn run(
        &self,
        function: &Function,
        mut call: FunctionCall,
        request_id: &str,
        client: Arc<str>,
        peer_id: &PeerId,
    ) -> Result<Option<NodeResult>, ExecutorError> {
        call.environment.insert(PEER_ID.to_owned(), peer_id.to_string());
        let limits = self.limits.lowered(call.requested_limits());
        // Held during the run, since the function might be evicted in the meantime.
        let dir = match (&function.kind, &self.function_dirs) {
            (Kind::Folder(_), Some(dirs)) => match dirs.get(&self.functions, function.id).await? {
                None => return Ok(None),
                dir => dir,
            },
            _ => None,
        };
        let function_dir = dir.as_ref().map(|dir| dir.path.clone());
        let finished = match &self.host {
            Host::Here { runtime, workspace, n_runs, .. } => {
                let Some(program) = self.program(function.id, call.method.clone()).await? else {
                    return Ok(None);
                };
                let files = workspace.as_deref().map(|workspace| Files {
                    function: function_dir,
                    ..files(workspace, request_id, n_runs)
                });
                runtime.execute(&program, call.into_run(limits, files, client)).await?
            }
            Host::External(external) => {
                let module = self.functions.module(function.id, &call.method).await?;
                let Some(content) = module else { return Ok(None) };
                let request_id = request_id.to_owned();
                let function = function.id;
                let run = ExternalRun { request_id, function, content, function_dir, call, limits };
                external.run(run).await?
            }
        };
        Ok(Some(result(finished)))
    }

    /// Returns the number of additional functions that could run now. The number is limited only for
    /// the runtime in this process.
    pub(super) fn n_free(&self) -> usize {
        match &self.host {
            Host::Here { runtime, .. } => runtime.n_free(),
            Host::External(_) => usize::MAX,
        }
    }

    async fn program(
        &self,
        id: FunctionId,
        method: Method,
    ) -> Result<Option<Program>, ExecutorError> {
        let Host::Here { programs, .. } = &self.host else { return Ok(None) };
        let key = (id, method);
        if let Some(program) = programs.get(&key) {
            return Ok(Some(program));
        }
        let Some(content) = self.functions.module(key.0, &key.1).await? else { return Ok(None) };
        let program = Program::new(content.as_ref());
        programs.put(key, program.clone(), content.len());
        Ok(Some(program))
    }
}

/// Removes directories that executions of an earlier process left behind.
fn clear(workspace: &Path) -> io::Result<()> {
    create_folder(workspace)?;
    scratch_dir::clear(workspace)
}

/// Returns the description of an execution's directory, which is created only if the function uses
/// files.
fn files(workspace: &Path, request_id: &str, n_runs: &AtomicU64) -> Files {
    let n_run = n_runs.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{n_run}", scratch_dir::name(request_id));
    Files {
        folder: scratch_dir::root(workspace).join(name),
        afterwards: FolderCleanup::Remove,
        limits: Some(LIMITS_DEFAULT),
        function: None,
    }
}

fn result(finished: RunOutcome) -> NodeResult {
    NodeResult {
        code: if finished.exit_code == 0 { Code::OK } else { Code::ERROR },
        usage: Usage {
            wall_clock_ns: nanos(finished.wall),
            cpu_user_ns: nanos(finished.cpu_user),
            cpu_sys_ns: nanos(finished.cpu_system),
            memory_max_kib: u64::try_from(finished.memory_peak_bytes / 1024).unwrap_or(u64::MAX),
        },
        result: outcome_body(finished),
        // The worker signs the result later.
        call_signature: String::new(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
