//! Runs a function in this process, with the same limits as on a worker.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use client::functions::CODE_OK;
use cluster::function_call::{FunctionCall, outcome_body};
use cluster::worker::LIMITS_DEFAULT;
use content::{Functions, Kind, LocalModule};
use model::function::Method;
use runtime::files::{self, Files, FolderCleanup};
use runtime::program::Program;
use runtime::run::{Limits, RequestedLimits, RunOutcome};
use stack::data_dir::project_dirs;
use wire::functions::{ExecuteRequest, ExecuteResponse, ResultGroupBody};

use super::backend::{BackendFlags, RunTarget};
use crate::cli::output::with_progress;
use crate::cli::runtime::engine;

/// Runs `target` with the limits of `request`.
///
/// # Errors
/// If the target cannot be read, or the function cannot be run.
pub(super) async fn run(
    target: RunTarget,
    method: Option<Method>,
    request: &ExecuteRequest,
    backend: BackendFlags,
) -> anyhow::Result<RunOutcome> {
    let scratch = scratch();
    let function_dir = scratch.as_deref().map(|folder| FunctionDir(folder.join("function")));
    let function_path = function_dir.as_ref().map(|dir| dir.0.clone());
    let (method, module, is_folder) = match target {
        RunTarget::Path(path) => read_path(&path, method, function_path.clone()).await?,
        RunTarget::Stored(id) => {
            let store = backend.store().await?;
            let Some(function) = store.functions.get(id) else {
                bail!("no function {id} in {store}\nhint: add it, or pass --head URL");
            };
            let method = method.unwrap_or_else(|| function.method.clone());
            if !function.runs(&method) {
                bail!("function {id} has no module {method}");
            }
            let failed = || format!("cannot read function {id}");
            let module = store.functions.module(id, &method).await.with_context(failed)?;
            let module = module.with_context(failed)?;
            let is_folder = matches!(function.kind, Kind::Folder(_));
            if let Some(to) = function_path.clone().filter(|_| is_folder) {
                let written = store.functions.write_to(id, to).await;
                written.with_context(|| format!("cannot write the files of function {id}"))?;
            }
            (method, Program::new(module.as_ref()), is_folder)
        }
    };
    let call = FunctionCall::new(method, request.arguments(), &request.config);
    let files = scratch.map(|folder| Files {
        folder: folder.join("files"),
        afterwards: FolderCleanup::Remove,
        limits: Some(files::LIMITS_DEFAULT),
        function: function_path.filter(|_| is_folder),
    });
    let (name, limits) = (call.method.to_string(), limits(&call));
    let run = call.into_run(limits, files, Arc::default());
    let runtime = engine(NonZeroU32::MIN)?;
    let finished = with_progress(&format!("running {name}"), runtime.execute(&module, run)).await;
    finished.with_context(|| format!("cannot run {name}"))
}

/// Returns a response in the form of a head's, with a single result and no peers.
pub(super) fn response(outcome: RunOutcome) -> ExecuteResponse {
    let group =
        ResultGroupBody { result: outcome_body(outcome), peers: Vec::new(), frequency: 100.0 };
    ExecuteResponse { code: CODE_OK.to_owned(), results: vec![group], ..ExecuteResponse::default() }
}

/// Reads the module at `path`. If `path` is a directory, reads one of its modules and copies the
/// directory's files to `files_to`. Returns the module's name, its program, and true if `path` is a
/// directory.
async fn read_path(
    path: &Path,
    method: Option<Method>,
    files_to: Option<PathBuf>,
) -> anyhow::Result<(Method, Program, bool)> {
    let shown = path.display();
    let found = Functions::read_module(path, method, files_to).await;
    let LocalModule { method, module, is_folder } =
        found.with_context(|| format!("{shown} is not a function"))?;
    let module = module.with_context(|| format!("{shown} has no module {method}"))?;
    let program = Program::new(module.as_ref());
    Ok((method, program, is_folder))
}

/// Returns the limits of a run: the limits that `call` requests, or a worker's defaults.
fn limits(call: &FunctionCall) -> Limits {
    let RequestedLimits { wall, memory_bytes, fuel } = call.requested_limits();
    Limits {
        wall: wall.unwrap_or(LIMITS_DEFAULT.wall),
        memory_bytes: memory_bytes.unwrap_or(LIMITS_DEFAULT.memory_bytes),
        fuel,
        ..LIMITS_DEFAULT
    }
}

/// Directory with the files of a function. Dropping it removes the directory, and also its parent if
/// that is empty afterwards.
struct FunctionDir(PathBuf);

impl Drop for FunctionDir {
    fn drop(&mut self) {
        // The directory does not exist if the function is a single module, which has no files.
        if self.0.exists()
            && let Err(error) = files::remove(&self.0)
        {
            tracing::warn!(folder = %self.0.display(), %error, "could not remove a function's directory");
        }
        // This fails, and the parent remains, if another run of this process still has its directory
        // there.
        drop(self.0.parent().map(fs::remove_dir));
    }
}

/// Returns the path of a directory that only this process uses, or `None` if the user has no home
/// directory.
fn scratch() -> Option<PathBuf> {
    let runs = project_dirs().ok()?.cache_dir().join("runs");
    Some(runs.join(std::process::id().to_string()))
}
