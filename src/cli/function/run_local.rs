//! Running a function in this process, with what a worker would let it have.

use std::{
    fs,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail};
use client::functions::CODE_OK;
use cluster::{
    function_call::{FunctionCall, outcome_body},
    worker::LIMITS_DEFAULT,
};
use content::{Functions, Kind, LocalModule};
use model::function::Method;
use runtime::{
    files::{self, Files, FolderCleanup},
    program::Program,
    run::{Limits, RequestedLimits},
};
use stack::data_dir::project_dirs;
use wire::functions::{ExecuteRequest, ExecuteResponse, ResultGroupBody};

use super::{
    backend::{BackendFlags, Target},
    progress::with_progress,
};
use crate::cli::runtime::engine;

/// Runs `target` as `request` says, and returns the reply that a head would give: one result, of no
/// peer.
///
/// # Errors
/// If it cannot be run at all.
pub(super) async fn run(
    target: Target,
    method: Option<Method>,
    request: &ExecuteRequest,
    held: BackendFlags,
) -> anyhow::Result<ExecuteResponse> {
    let scratch = scratch();
    let function_dir = scratch.as_deref().map(|folder| FunctionDir(folder.join("function")));
    let function_path = function_dir.as_ref().map(|dir| dir.0.clone());
    let (method, module, is_folder) = match target {
        Target::Path(path) => of_path(&path, method, function_path.clone()).await?,
        Target::Kept(id) => {
            let store = held.store().await?;
            let Some(function) = store.functions.get(id) else {
                bail!("find function {id} in {store}: add it, or name a head with --head URL");
            };
            let method = method.unwrap_or_else(|| function.method.clone());
            if !function.runs(&method) {
                bail!("find {method} among what runs in function {id}");
            }
            let module = store.functions.module(id, &method).await.context("read a function")?;
            let module = module.with_context(|| format!("find {method} in function {id}"))?;
            let is_folder = matches!(function.kind, Kind::Folder(_));
            if let Some(to) = function_path.clone().filter(|_| is_folder) {
                let written = store.functions.write_to(id, to).await;
                written.with_context(|| format!("lay out the files of function {id}"))?;
            }
            (method, Program::new(module.as_ref()), is_folder)
        }
    };
    let call = FunctionCall::new(method, request.parameters.as_deref(), &request.config);
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
    let finished = finished.with_context(|| format!("run {name}"))?;
    let group =
        ResultGroupBody { result: outcome_body(finished), peers: Vec::new(), frequency: 100.0 };
    Ok(ExecuteResponse {
        code: CODE_OK.to_owned(),
        results: vec![group],
        ..ExecuteResponse::default()
    })
}

/// Reads the module at `path`, or the one of the folder there, whose files it writes to `files_to`.
/// Returns which file that is, what runs, and whether it is of a folder.
async fn of_path(
    path: &Path,
    method: Option<Method>,
    files_to: Option<PathBuf>,
) -> anyhow::Result<(Method, Program, bool)> {
    let shown = path.display();
    let found = Functions::read_module(path, method, files_to).await;
    let LocalModule { method, module, is_folder } =
        found.with_context(|| format!("take {shown} as a function"))?;
    let module = module.with_context(|| format!("find {method} in {shown}"))?;
    let program = Program::new(module.as_ref());
    Ok((method, program, is_folder))
}

/// What a function may use: as much as it asks for, and by default as much as at a worker.
fn limits(call: &FunctionCall) -> Limits {
    let RequestedLimits { wall, memory_bytes, fuel } = call.requested_limits();
    Limits {
        wall: wall.unwrap_or(LIMITS_DEFAULT.wall),
        memory_bytes: memory_bytes.unwrap_or(LIMITS_DEFAULT.memory_bytes),
        fuel,
        ..LIMITS_DEFAULT
    }
}

/// The files of a function, in a folder that is removed, with the one around it if that is empty then,
/// when this is dropped.
struct FunctionDir(PathBuf);

impl Drop for FunctionDir {
    fn drop(&mut self) {
        // A function that is one module has no files.
        if self.0.exists()
            && let Err(error) = files::remove(&self.0)
        {
            tracing::warn!(folder = %self.0.display(), %error, "a function's folder stays");
        }
        // Another run of this process may use it.
        drop(self.0.parent().map(fs::remove_dir));
    }
}

/// A folder for this process alone, if this user has a home.
fn scratch() -> Option<PathBuf> {
    let runs = project_dirs().ok()?.cache_dir().join("runs");
    Some(runs.join(std::process::id().to_string()))
}
