//! Running a function in this process, with what a worker would let it have.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use client::functions::CODE_OK;
use cluster::{functions::Functions, worker::LIMITS_DEFAULT};
use model::function::Method;
use runtime::{
    bls::pages,
    compiler::CompileIn,
    engine::{Runtime, RuntimeOptions},
    files::{self, Afterwards, Files},
    program::Program,
    run::{Limits, Run, START},
};
use wire::functions::{
    ExecuteRequest, ExecuteResponse, OutcomeBody, ResultGroupBody, RuntimeConfig,
};

use super::{held::HeldFlags, patience::patiently, run::Target};
use crate::cli::config::{compiled_folder, folders};

/// Runs `target` as `request` says, and returns the reply that a head would give: one result, of no
/// peer.
///
/// # Errors
/// If it cannot be run at all.
pub(super) async fn run(
    target: Target,
    method: Option<Method>,
    request: &ExecuteRequest,
    held: HeldFlags,
) -> anyhow::Result<ExecuteResponse> {
    let (name, module) = match target {
        Target::Path(path) => of_path(&path, method).await?,
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
            (method.to_string(), Program::new(module.as_ref()))
        }
    };
    let config = &request.config;
    let settings = config.runtime.clone().unwrap_or_default();
    let folder = scratch();
    let files = folder.map(|folder| Files {
        folder,
        afterwards: Afterwards::Remove,
        limits: Some(files::LIMITS_DEFAULT),
        function: None,
    });
    let run = Run {
        name: name.clone(),
        entry: START.to_owned(),
        arguments: request.arguments(),
        environment: config.environment(),
        stdin: config.stdin.clone().unwrap_or_default().into_bytes(),
        files,
        limits: limits(&settings),
        client: Arc::default(),
    };
    let compile_in = CompileIn::own_child().context("find this program's own file")?;
    let options = RuntimeOptions {
        compiled_folder: compiled_folder(),
        ..RuntimeOptions::for_runs(NonZeroU32::MIN, compile_in)
    };
    let runtime = Runtime::new(options).context("set up the runtime")?;
    let finished = patiently(&format!("running {name}"), runtime.execute(&module, run)).await;
    let finished = finished.with_context(|| format!("run {name}"))?;
    let result = OutcomeBody {
        stdout: String::from_utf8_lossy(&finished.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&finished.stderr).into_owned(),
        exit_code: finished.exit_code,
    };
    let group = ResultGroupBody { result, peers: Vec::new(), frequency: 100.0 };
    Ok(ExecuteResponse {
        code: CODE_OK.to_owned(),
        results: vec![group],
        ..ExecuteResponse::default()
    })
}

/// Reads the module at `path`, or the one of the folder there.
async fn of_path(path: &Path, method: Option<Method>) -> anyhow::Result<(String, Program)> {
    let shown = path.display();
    let module = Functions::module_at(path, method).await;
    let (method, module) = module.with_context(|| format!("take {shown} as a function"))?;
    let module = module.with_context(|| format!("find {method} in {shown}"))?;
    Ok((method.to_string(), Program::new(module.as_ref())))
}

/// What a function may use: as much as at a worker, unless told otherwise.
fn limits(settings: &RuntimeConfig) -> Limits {
    let told = |number: u64| (number > 0).then_some(number);
    Limits {
        wall: told(settings.run_time_ms).map_or(LIMITS_DEFAULT.wall, Duration::from_millis),
        memory_bytes: told(settings.limited_memory_pages)
            .map_or(LIMITS_DEFAULT.memory_bytes, pages),
        ..LIMITS_DEFAULT
    }
}

/// A folder for this process alone, if this user has a home.
fn scratch() -> Option<PathBuf> {
    let runs = folders().ok()?.cache_dir().join("runs");
    Some(runs.join(std::process::id().to_string()))
}
