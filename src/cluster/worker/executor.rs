//! Running a work order: in this process, in room `runtime`, or in one of its own (`external.rs`).

use std::{
    io,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use model::{
    function::{FunctionId, Method},
    node::PeerId,
};
use runtime::{
    compiler::CompileIn,
    engine::{Preparation, Runtime},
    error::{RunError, RuntimeError},
    files::{Files, FolderCleanup, LIMITS_DEFAULT},
    options::{COMPILE_WITHIN, RuntimeOptions},
    program::Program,
    run::{Limits, RunOutcome},
};
use task::cache::Cache;
use wire::executions::Usage;

use super::{
    external::{External, ExternalError, ExternalRun, ExternalRuntime},
    scratch_dir::{self, FunctionDir, FunctionDirs},
};
use crate::{
    function_call::{FunctionCall, outcome_body},
    message::{Code, NodeResult},
};
use content::{Function, Functions, FunctionsError, Kind, LOADED};

/// The variable that tells a function on which node it runs.
const PEER_ID: &str = "PEER_ID";

/// How functions are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionOptions {
    /// Where executions have their folders, one each, removed afterwards. No other node may use it.
    /// None: functions have no files.
    pub workspace: Option<PathBuf>,
    /// Where compiled functions are kept, which all nodes of one user may share. None: they are
    /// compiled again after each start.
    pub compiled_folder: Option<PathBuf>,
    /// Where functions are compiled; in no other way than in a child where they come from others.
    pub compile_in: CompileIn,
    /// How long a function can be compiled, apart from its runs.
    pub compile_within: Duration,
    /// Program that runs functions instead of this process. It needs the workspace.
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

/// Why a worker has no runtime.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The one in this process.
    #[error("set up the runtime")]
    Runtime(#[from] RuntimeError),
    /// The one that is another program.
    #[error("use {} as runtime", program.display())]
    External {
        /// Path of the program.
        program: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The workspace is not usable.
    #[error("use the workspace {}", workspace.display())]
    Workspace {
        /// Path of the workspace.
        workspace: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
}

/// Why a function was not run.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecutorError {
    /// Its content could not be read.
    #[error("read its content")]
    Content(#[from] FunctionsError),
    /// It is no program, or the host cannot run it.
    #[error("start it")]
    Run(#[from] RunError),
    /// The same, of another program.
    #[error("run it in a process of its own")]
    External(#[from] ExternalError),
}

impl ExecutorError {
    /// Whether it would fail so on every worker.
    pub(super) const fn is_final(&self) -> bool {
        // A variable that another program may not have, a worker that runs functions itself takes.
        matches!(self, Self::Run(RunError::Program(_)))
    }
}

#[derive(Debug)]
pub(super) struct Executor {
    functions: Functions,
    host: Host,
    limits: Limits,
    /// None without a workspace.
    function_dirs: Option<FunctionDirs>,
}

/// What runs them.
#[derive(Debug)]
enum Host {
    Here {
        runtime: Runtime,
        programs: Cache<(FunctionId, Method), Program>,
        workspace: Option<PathBuf>,
        /// Tells the folders of executions of one request apart.
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
    ) -> Result<Self, StartError> {
        let ExecutionOptions { workspace, compiled_folder, compile_in, compile_within, external } =
            options;
        let function_dirs = match &workspace {
            Some(workspace) => {
                let cleared = clear(workspace).and_then(|()| workspace.canonicalize());
                let path = cleared.map_err(|source| StartError::Workspace {
                    workspace: workspace.clone(),
                    source,
                })?;
                Some(FunctionDirs::new(path))
            }
            None => None,
        };
        let host = match external {
            Some(mut external) => {
                let program = external.program.clone();
                // The node itself sets this one.
                external.variables.insert(PEER_ID.to_owned());
                let nowhere = || io::Error::new(io::ErrorKind::InvalidInput, "it has no workspace");
                workspace
                    .ok_or_else(nowhere)
                    .and_then(|workspace| External::new(external, &workspace, compiled_folder))
                    .map(Host::External)
                    .map_err(|source| StartError::External { program, source })?
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

    /// Returns true if a run of `function` as `call` says need not wait until it is compiled. Another
    /// runtime compiles by itself.
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

    /// Compiles `function` for runs as `call` says, on behalf of `client`. Waits as long as a function
    /// can be compiled. Dropping it ends the compiler if no one else waits for it.
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

    /// Compiles the module that `function` is called by, for calls without limits of their own, on
    /// behalf of `client`, however long it waits for others. Returns false if the content is gone.
    /// Dropping it ends the compiler if no one else waits for it.
    pub(super) async fn compile_ahead(
        &self,
        function: &Function,
        client: &Arc<str>,
    ) -> Result<bool, ExecutorError> {
        // Code that counts fuel is compiled separately. A worker with a limit runs no other.
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

    /// Runs `function` as `call` says, for the request `request_id` of `client`, on the node `peer_id`.
    /// Returns what it left behind, or none if its content is not here any more. Dropping it ends the
    /// run.
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
        // Held until the run ends, since its function may be evicted meanwhile.
        let dir = self.function_dir(function).await?;
        let function_dir = dir.as_ref().map(|dir| dir.path().to_owned());
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

    /// How many more functions it could run now, as far as it bounds that.
    pub(super) fn n_free(&self) -> usize {
        match &self.host {
            Host::Here { runtime, .. } => runtime.n_free(),
            Host::External(_) => usize::MAX,
        }
    }

    /// Returns the folder of the function's files, if it is more than a module.
    async fn function_dir(
        &self,
        function: &Function,
    ) -> Result<Option<FunctionDir>, FunctionsError> {
        match (&function.kind, &self.function_dirs) {
            (Kind::Folder(_), Some(dirs)) => dirs.get(&self.functions, function.id).await,
            _ => Ok(None),
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

/// Removes what executions of an earlier process left behind.
fn clear(workspace: &Path) -> io::Result<()> {
    std::fs::create_dir_all(workspace)?;
    scratch_dir::clear(workspace)
}

/// A folder for one execution, which is made if its function asks for files.
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
        // The worker signs it.
        signature: String::new(),
        call_signature: String::new(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
