//! `triptych function`: functions of a cluster or of this machine: add, list, show, run, remove,
//! evict.
//!
//! Results, such as the content id for `add`, are printed to standard output, and messages to standard
//! error.

mod backend;
mod events;
mod report;
mod run;
mod run_local;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use client::functions::CODE_OK;
use content::{Functions as Store, Upload};
use model::escape::escape_line;
use model::function::{FunctionId, Method};
use model::node::GENERAL_TOPIC;
use wire::functions::{EvictedBody, FunctionDetail, FunctionsResponse, InstallRequest, NodeBody};

use self::backend::BackendFlags;
pub(crate) use self::backend::{HeadFlags, NOT_FOUND, with_advice};
use self::events::EventsCommand;
use self::run::{ResultCommand, RunCommand};
use crate::cli::output::{self, print, print_body, tell, with_progress};

/// The flags and arguments of `function`.
#[derive(Debug, Args)]
pub(crate) struct FunctionCommand {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands of `function`.
#[derive(Debug, Subcommand)]
enum Action {
    /// Add a module or a directory, and print its content id
    Add {
        /// A module, or a directory that contains modules
        path: PathBuf,
        /// Name of the function [default: the file's name without its ending, or the directory's]
        #[arg(long)]
        name: Option<String>,
        /// File to run [default: the module; in a directory, the module with the directory's name,
        /// else the first module]
        #[arg(long, value_name = "FILE")]
        method: Option<Method>,
        #[command(flatten)]
        backend: BackendFlags,
    },
    /// List functions: content id, bytes, method, name
    #[command(alias = "ls")]
    List {
        /// Print the list as JSON, as in the response of `GET /api/v1/functions`
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        backend: BackendFlags,
    },
    /// Show a function and its files
    Show {
        /// Content id of the function
        #[arg(value_name = "CID")]
        id: FunctionId,
        /// Print JSON, as in the response of `GET /api/v1/functions/CID`
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        backend: BackendFlags,
    },
    /// Run a function and print its results, the most frequent first
    Run(RunCommand),
    /// Print the results of an execution that `run --async` started
    Result(ResultCommand),
    /// Cancel an execution, also on its workers
    Cancel {
        /// Id that `run --async` printed
        #[arg(value_name = "REQUEST")]
        id: String,
        #[command(flatten)]
        head: HeadFlags,
    },
    /// Print the events of a cluster as they happen
    Events(EventsCommand),
    /// Have the nodes of a cluster install a function, and print its id
    Install {
        /// Content id, or address of a manifest, whose SHA-256 is then the function's id
        #[arg(value_name = "CID_OR_URL")]
        source: String,
        /// Only nodes of this group
        #[arg(long, alias = "topic", value_name = "NAME")]
        subgroup: Option<String>,
        #[command(flatten)]
        head: HeadFlags,
    },
    /// Have the workers of a cluster remove a function from their stores, or all functions that no
    /// operator added or installed
    Evict {
        /// Content id of the function
        #[arg(value_name = "CID", required_unless_present = "all")]
        id: Option<FunctionId>,
        /// Remove all functions that were only fetched for executions. Functions that an operator
        /// added or installed are kept
        #[arg(long, conflicts_with = "id")]
        all: bool,
        #[command(flatten)]
        backend: BackendFlags,
    },
    /// Remove a function; workers that have it keep it (see evict)
    #[command(alias = "rm")]
    Remove {
        /// Content id of the function
        #[arg(value_name = "CID")]
        id: FunctionId,
        #[command(flatten)]
        backend: BackendFlags,
    },
}

/// Runs a subcommand of `function` and returns the exit code of the process.
///
/// # Errors
/// Errors of the subcommand.
pub(crate) async fn run(command: FunctionCommand) -> anyhow::Result<ExitCode> {
    dispatch(command.action).await.map_err(with_advice)
}

async fn dispatch(action: Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Add { path, name, method, backend } => add(&path, name, method, backend).await?,
        Action::List { json, backend } => list(json, backend).await?,
        Action::Show { id, json, backend } => show(id, json, backend).await?,
        Action::Run(command) => return run::run(command).await,
        Action::Result(command) => return run::result(command).await,
        Action::Cancel { id, head } => cancel(&id, head).await?,
        Action::Events(command) => events::events(command).await?,
        Action::Install { source, subgroup, head } => install(&source, subgroup, head).await?,
        Action::Evict { id, all: _, backend } => evict(id, backend).await?,
        Action::Remove { id, backend } => remove(id, backend).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Packs the module or directory at `path`.
async fn pack(path: &Path) -> anyhow::Result<Upload> {
    let reading = format!("reading {}", path.display());
    let packed = with_progress(&reading, Store::pack_path(path)).await;
    packed.with_context(|| format!("{} is not a function", path.display()))
}

async fn add(
    path: &Path,
    name: Option<String>,
    method: Option<Method>,
    backend: BackendFlags,
) -> anyhow::Result<()> {
    let mut upload = pack(path).await?;
    let function = &mut upload.function;
    if let Some(method) = method {
        if function.runs(&method) {
            function.method = method;
        } else {
            bail!("{} has no module {method} at its top level", path.display());
        }
    }
    if let Some(name) = name {
        function.name = name;
    }
    let backend = backend.open().await?;
    // Fails if the function is new. Heads of b7s describe no functions.
    let known = backend.show(upload.function.id).await.ok();
    let added = backend.add(upload).await?;
    tell(&format!("added {} to {backend}", escape_line(&added.name)));
    if let Some(known) = known.map(|known| known.function).filter(|it| it.name != added.name) {
        tell(&format!("the same function was called {} before", escape_line(&known.name)));
    }
    print(&escape_line(&added.function_id))
}

async fn list(is_json: bool, backend: BackendFlags) -> anyhow::Result<()> {
    let backend = backend.open().await?;
    let functions = backend.list().await?;
    if is_json {
        return print_body(&FunctionsResponse { functions });
    }
    if functions.is_empty() {
        tell(&format!("no functions in {backend}"));
        return Ok(());
    }
    let lines: Vec<String> = functions
        .iter()
        .map(|function| {
            let (id, bytes) = (escape_line(&function.function_id), function.bytes);
            let (method, name) = (escape_line(&function.method), escape_line(&function.name));
            let by_manifest = match function.by_manifest.as_slice() {
                [] => String::new(),
                ids => format!("  by manifest: {}", escape_line(&ids.join(", "))),
            };
            format!("{id}  {bytes:>10}  {method}  {name}{by_manifest}")
        })
        .collect();
    print(&lines.join("\n"))
}

async fn show(id: FunctionId, is_json: bool, backend: BackendFlags) -> anyhow::Result<()> {
    let detail = backend.open().await?.show(id).await?;
    output::show(is_json, &detail, format_detail)
}

/// Formats a function with its files.
fn format_detail(detail: &FunctionDetail) -> String {
    let function = &detail.function;
    let mut lines = vec![
        format!("id      {}", escape_line(&function.function_id)),
        format!("name    {}", escape_line(&function.name)),
        format!("method  {}", escape_line(&function.method)),
        format!("bytes   {}", function.bytes),
        "files:".to_owned(),
    ];
    lines.extend(detail.files.iter().map(|file| {
        let runs = if file.runs { "  runs" } else { "" };
        format!("  {:>10}  {}{runs}", file.bytes, escape_line(&file.path))
    }));
    lines.join("\n")
}

async fn cancel(id: &str, head: HeadFlags) -> anyhow::Result<()> {
    let execution = head.connect()?.cancel(id).await;
    let execution = execution.with_context(|| format!("cannot cancel execution {id}"))?;
    print(&format!("execution {id} is {}", escape_line(&execution.state)))
}

async fn install(source: &str, subgroup: Option<String>, head: HeadFlags) -> anyhow::Result<()> {
    let head = head.connect()?;
    let mut request = InstallRequest { subgroup, ..InstallRequest::default() };
    let id = if source.contains("://") {
        source.clone_into(&mut request.uri);
        FunctionId::from_address(source)
    } else {
        let id: FunctionId = source.parse().context("cannot install the function")?;
        request.cid = id.to_string();
        id
    };
    let installing = format!("waiting for the nodes to install {source}");
    let installed = with_progress(&installing, head.install(&request)).await;
    let installed = installed.with_context(|| format!("cannot install {source}"))?;
    if installed.code != CODE_OK {
        let why = report::reason(&installed.code, &installed.message);
        bail!("cannot install {source}: {why}");
    }
    if installed.message.is_empty() {
        tell(&format!("installed {source} in the cluster of {}", head.address()));
    } else {
        tell(&format!("{source} is {}", escape_line(&installed.message)));
    }
    // A head of b7s does not list its nodes.
    let nodes = head.nodes().await.unwrap_or_default();
    if let Some(warning) = warn_without_workers(&nodes, request.subgroup.as_deref()) {
        tell(&warning);
    }
    print(&id.to_string())
}

/// Returns a warning if none of the nodes that a head lists is a worker of the group.
fn warn_without_workers(nodes: &[NodeBody], subgroup: Option<&str>) -> Option<String> {
    let subgroup = subgroup.filter(|name| *name != GENERAL_TOPIC);
    let is_of_group = |node: &NodeBody| {
        let is_worker = node.connected && node.role.as_deref() == Some("worker");
        is_worker && subgroup.is_none_or(|name| node.subgroups.iter().any(|other| other == name))
    };
    if nodes.is_empty() || nodes.iter().any(is_of_group) {
        return None;
    }
    let group = subgroup.map_or_else(String::new, |name| format!(" of subgroup {name}"));
    Some(format!("no worker{group} is connected to this head"))
}

async fn evict(id: Option<FunctionId>, backend: BackendFlags) -> anyhow::Result<()> {
    let backend = backend.open().await?;
    let nodes = with_progress("waiting for the workers", backend.evict(id)).await?;
    if nodes.is_empty() {
        bail!("{backend} has no connected worker");
    }
    let lines: Vec<String> = nodes.iter().map(format_evicted).collect();
    print(&lines.join("\n"))?;
    let n_failed = nodes.iter().filter(|node| !node.message.is_empty()).count();
    if n_failed > 0 {
        bail!("{n_failed} of {} workers could not evict functions", nodes.len());
    }
    Ok(())
}

/// Formats the removals of a store.
fn format_evicted(node: &EvictedBody) -> String {
    let (id, EvictedBody { functions, bytes, left, message, .. }) =
        (escape_line(&node.peer_id), node);
    if message.is_empty() {
        format!("{id}  evicted {functions}, {bytes} bytes, {left} left")
    } else {
        format!("{id}  {}", escape_line(message))
    }
}

async fn remove(id: FunctionId, backend: BackendFlags) -> anyhow::Result<()> {
    let backend = backend.open().await?;
    let name = backend.remove(id).await?;
    tell(&format!("removed {} from {backend}", escape_line(&name)));
    Ok(())
}

#[cfg(test)]
mod tests;
