//! `triptych function run`: executes a function, in a cluster or on this machine.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;
use client::{
    executions::CODE_UNDER_WAY,
    functions::{CODE_OK, Functions as Head},
};
use model::{escape::escape_line, function::Method, selector::Selector};
use tokio::time::sleep;
use wire::functions::{
    EnvVar, ExecuteConfig, ExecuteRequest, ExecuteResponse, FunctionBody, Parameter, RuntimeConfig,
};

use super::{
    backend::{BackendFlags, HeadFlags, NOT_FOUND, Target, find_function, upload},
    packed,
    progress::with_progress,
    report, run_local,
};
use crate::cli::{
    output::{print, print_body, write_data, write_data_to_stderr},
    parse::{parse_pair, read_text},
};

/// The exit code where the function ran and did not end well by its own account.
const FUNCTION_FAILED: u8 = 3;

/// What stands for everyone who answers.
const ALL: i64 = -1;

/// The most input taken, in bytes. Heads take some 3 MiB and say so; here it is as much as a
/// function may have of content.
const STDIN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Pages of WebAssembly in a mebibyte.
const PAGES_IN_MIB: u64 = 16;

/// How often a head is asked for a result that is waited for: often for people, rarely for a head.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// The flags of `function run`.
#[derive(Debug, Args)]
pub(super) struct RunCommand {
    /// A content id, the name of a function that is held, or the path of a module or folder, which
    /// a head is given first
    #[arg(value_name = "CID_OR_NAME_OR_PATH")]
    target: String,
    /// Arguments of the function
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// The file inside the function to run [default: the function's own]
    #[arg(long, value_name = "FILE")]
    method: Option<Method>,
    /// How many nodes run it: a number, or `all` for everyone who answers
    #[arg(long, short, default_value = "1", value_name = "N", value_parser = nodes)]
    nodes: i64,
    /// Only nodes of this group
    #[arg(long, alias = "topic", value_name = "NAME")]
    subgroup: Option<String>,
    /// Only nodes that declare this, as kubectl selects: `zone=a,gpu!=none`, `zone in (a,b)`, `!old`
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// An argument of the function, before those after `--`; may be given again
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    param: Vec<String>,
    /// A variable of its environment; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<EnvVar>,
    /// What it reads from its standard input: a file, or `-` for this command's own
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// How long the head waits for nodes to report [default: the head's own choice]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// The longest it may run, up to the node's own limit [default: the node's; here 18]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    run_limit: Option<u64>,
    /// The most memory it may have, up to the node's own limit [default: the node's; here 256]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    memory: Option<u64>,
    /// Answer as soon as so many results are equal, and cancel the others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    quorum: Option<u32>,
    /// The share of the nodes that must answer, above 0 and at most 1 [default: the head's own]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<f64>,
    /// Print the id of the execution at once, and do not wait for it
    #[arg(long = "async", conflicts_with_all = ["json", "raw"])]
    is_async: bool,
    #[command(flatten)]
    form: FormFlags,
    #[command(flatten)]
    held: BackendFlags,
}

/// The flags of `function result`.
#[derive(Debug, Args)]
pub(super) struct ResultCommand {
    /// The id that `run --async` printed
    #[arg(value_name = "REQUEST")]
    id: String,
    /// Wait until it is there
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    form: FormFlags,
    #[command(flatten)]
    head: HeadFlags,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, Args)]
struct FormFlags {
    /// Print the reply as JSON, as `POST /api/v1/functions/execute` answers it
    #[arg(long)]
    json: bool,
    /// Print what the function wrote, of the most frequent result alone, byte for byte
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

/// Runs a function and prints its results.
///
/// # Errors
/// If it cannot be run, or its answer is not a success.
pub(super) async fn run(command: RunCommand) -> anyhow::Result<ExitCode> {
    let target = target(&command.target, &command.held).await?;
    let mut request = request(&command)?;
    let Some(head) = command.held.head()? else {
        if is_for_others(&command) {
            bail!("run it on other nodes than this machine: name a head with --head URL");
        }
        let response = run_local::run(target, command.method, &request, command.held).await?;
        return finish(&command.target, &response, command.form);
    };
    let (id, method) = prepared(&head, target, command.method).await?;
    request.function_id = id;
    request.method = method;
    let running = format!("waiting for results from {}", head.address());
    if command.is_async {
        let started = with_progress(&running, head.execute_async(&request)).await;
        let id = started.with_context(|| format!("start {}", command.target))?;
        print(&escape_line(&id))?;
        return Ok(ExitCode::SUCCESS);
    }
    let response = with_progress(&running, head.execute(&request)).await;
    let response = response.with_context(|| format!("run {}", command.target))?;
    finish(&command.target, &response, command.form)
}

/// Prints the result of an execution that goes on by itself.
///
/// # Errors
/// If it is not there, or not a success.
pub(super) async fn result(command: ResultCommand) -> anyhow::Result<ExitCode> {
    let head = command.head.connect()?;
    let what = format!("execution {}", command.id);
    let request = || async {
        match head.result(&command.id).await {
            Err(error) if error.status() == Some(NOT_FOUND) => {
                bail!("find {what}: the head remembers none of this id")
            }
            response => response.with_context(|| format!("look up {what}")),
        }
    };
    let mut response = request().await?;
    if command.wait {
        let waiting = with_progress("waiting for the result", async {
            while response.code == CODE_UNDER_WAY {
                sleep(ASK_EVERY).await;
                response = request().await?;
            }
            anyhow::Ok(())
        });
        waiting.await?;
    }
    if response.code == CODE_UNDER_WAY {
        bail!("print the result of {what}: it is under way; --wait waits for it");
    }
    finish(&what, &response, command.form)
}

/// Makes sure that `head` can have `target` run, and returns its id and method.
async fn prepared(
    head: &Head,
    target: Target,
    method: Option<Method>,
) -> anyhow::Result<(String, String)> {
    let (id, offered) = match target {
        Target::Kept(id) => (id, None),
        Target::Path(path) => {
            let offered = packed(&path).await?;
            (offered.function.id, Some(offered))
        }
    };
    let given = method.as_ref().map(Method::to_string);
    match (find_function(head, id).await?, offered) {
        (Some(function), _) => Ok((function.function_id, given.unwrap_or(function.method))),
        (None, Some(mut offered)) => {
            if let Some(method) = method {
                offered.function.method = method;
            }
            let added = upload(head, offered).await?;
            Ok((added.function_id, given.unwrap_or(added.method)))
        }
        (None, None) => match given {
            Some(method) => Ok((id.to_string(), method)),
            None => bail!(
                "find the file to run in {id}, which the head does not hold: name it with --method"
            ),
        },
    }
}

/// Whether a command says which nodes of a cluster run it.
fn is_for_others(command: &RunCommand) -> bool {
    let is_chosen = command.subgroup.is_some() || command.selector.is_some();
    command.is_async || is_chosen || command.nodes != 1
}

/// Returns what `text` names: a content id, a path, or the name of a function that is held.
async fn target(text: &str, held: &BackendFlags) -> anyhow::Result<Target> {
    if let Ok(id) = text.parse() {
        return Ok(Target::Kept(id));
    }
    if Path::new(text).exists() {
        return Ok(Target::Path(PathBuf::from(text)));
    }
    let held = held.clone().open().await?;
    let functions = held.list().await.with_context(|| {
        format!("find `{text}`, which is neither a content id (CID) nor a path that exists")
    })?;
    let is_called = |function: &FunctionBody| {
        function.name == text || function.by_manifest.iter().any(|id| id == text)
    };
    let named: Vec<_> = functions.into_iter().filter(is_called).collect();
    match named.as_slice() {
        [function] => Ok(Target::Kept(function.function_id.parse()?)),
        [] => bail!(
            "find `{text}`: it is neither a content id (CID) nor a path that exists, and no \
             function in {held} has this name"
        ),
        [_, ..] => {
            let ids: Vec<&str> = named.iter().map(|function| &*function.function_id).collect();
            bail!(
                "choose a function called `{text}`: name one by its content id, {}",
                ids.join(" or ")
            )
        }
    }
}

/// The request without the function.
fn request(command: &RunCommand) -> anyhow::Result<ExecuteRequest> {
    let values = command.param.iter().chain(&command.arguments);
    let parameters: Vec<Parameter> =
        values.map(|value| Parameter { name: None, value: value.clone() }).collect();
    let runtime = RuntimeConfig {
        run_time_ms: command.run_limit.unwrap_or_default().saturating_mul(1000),
        limited_memory_pages: command.memory.unwrap_or_default().saturating_mul(PAGES_IN_MIB),
        ..RuntimeConfig::default()
    };
    // Requests carry it as text.
    let stdin = command.stdin.as_deref().map(|path| read_text(path, STDIN_BYTES_MAX));
    let config = ExecuteConfig {
        number_of_nodes: command.nodes,
        timeout: command.timeout.unwrap_or_default(),
        stdin: stdin.transpose()?,
        env_vars: Some(command.env.clone()).filter(|variables| !variables.is_empty()),
        threshold: command.threshold,
        selector: command.selector.as_ref().map(ToString::to_string),
        quorum: command.quorum,
        runtime: Some(runtime).filter(|runtime| *runtime != RuntimeConfig::default()),
        ..ExecuteConfig::default()
    };
    Ok(ExecuteRequest {
        parameters: Some(parameters).filter(|parameters| !parameters.is_empty()),
        config,
        subgroup: command.subgroup.clone(),
        ..ExecuteRequest::default()
    })
}

/// Prints a reply, and returns how the process is to exit.
fn finish(what: &str, response: &ExecuteResponse, form: FormFlags) -> anyhow::Result<ExitCode> {
    if form.json {
        print_body(&response)?;
    } else if form.raw {
        raw(response)?;
    } else {
        print(&report::text(response))?;
    }
    if response.code != CODE_OK {
        bail!("run {what}: {}", report::reason(&response.code, &response.message));
    }
    let exit_code = response.results.first().map_or(0, |group| group.result.exit_code);
    Ok(if exit_code == 0 { ExitCode::SUCCESS } else { ExitCode::from(FUNCTION_FAILED) })
}

/// Passes on what the function wrote.
fn raw(response: &ExecuteResponse) -> anyhow::Result<()> {
    let Some(group) = response.results.first() else { return Ok(()) };
    write_data(group.result.stdout.as_bytes())?;
    write_data_to_stderr(group.result.stderr.as_bytes());
    Ok(())
}

fn nodes(text: &str) -> Result<i64, String> {
    match text {
        "all" => Ok(ALL),
        _ => match text.parse() {
            Ok(number) if number >= 1 || number == ALL => Ok(number),
            _ => Err("a number from 1, or `all`".to_owned()),
        },
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|&share: &f64| share > 0.0 && share <= 1.0);
    share.ok_or_else(|| "a share is above 0 and at most 1".to_owned())
}

fn variable(text: &str) -> Result<EnvVar, String> {
    let (name, value) = parse_pair(text).map_err(|_| "a variable is NAME=VALUE".to_owned())?;
    Ok(EnvVar { name, value })
}
