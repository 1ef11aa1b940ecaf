//! `triptych function run` and `result`: execute a function, in a cluster or on this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use client::executions::CODE_IN_PROGRESS;
use client::functions::{CODE_OK, Functions as Head};
use model::escape::escape_line;
use model::function::Method;
use model::selector::Selector;
use tokio::time::sleep;
use wire::functions::{
    EnvVar, ExecuteConfig, ExecuteRequest, ExecuteResponse, FunctionBody, Parameter, RuntimeConfig,
};

use super::backend::{BackendFlags, HeadFlags, NOT_FOUND, RunTarget, find_function, upload};
use super::{pack, report, run_local};
use crate::cli::output::{
    print, print_body, tell, with_progress, write_data, write_data_to_stderr,
};
use crate::cli::parse::{parse_pair, read_text};

/// Exit code of this program if the function ran and exited with a code other than 0.
const FUNCTION_FAILED: u8 = 3;

/// Number of nodes in a request for `--nodes all`, which selects all nodes that respond.
const ALL: i64 = -1;

/// Maximum size of the input that is read, in bytes, equal to the maximum size of a function's content.
/// A head accepts only about 3 MiB, and its error contains this limit.
const STDIN_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Number of WebAssembly pages, of 64 KiB, in a mebibyte.
const PAGES_IN_MIB: u64 = 16;

/// Interval between requests for a result. A user hardly notices the delay, and it is long enough not
/// to load the head.
const POLL_EVERY: Duration = Duration::from_millis(250);

/// The flags of `function run`.
#[derive(Debug, Args)]
pub(super) struct RunCommand {
    /// Content id, name of a stored function, or path of a module or directory, which is uploaded
    /// to a head first
    #[arg(value_name = "CID_OR_NAME_OR_PATH")]
    target: String,
    /// Arguments of the function
    #[arg(last = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
    /// File of the function to run [default: the function's own]
    #[arg(long, value_name = "FILE")]
    method: Option<Method>,
    /// Number of nodes that run the function, or `all` for all nodes that respond
    #[arg(long, short, default_value = "1", value_name = "N", value_parser = nodes)]
    nodes: i64,
    /// Only nodes of this group
    #[arg(long, alias = "topic", value_name = "NAME")]
    subgroup: Option<String>,
    /// Only nodes with these attributes, as kubectl selects: `zone=a,gpu!=none`, `zone in (a,b)`,
    /// `!old`
    #[arg(long, value_name = "SELECTOR")]
    selector: Option<Selector>,
    /// Argument of the function, which precedes the arguments after `--`; may be repeated
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    param: Vec<String>,
    /// Environment variable of the function; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<EnvVar>,
    /// File with the standard input of the function, or `-` for the standard input of this command
    #[arg(long, value_name = "FILE")]
    stdin: Option<PathBuf>,
    /// Maximum time for nodes to report, 60 at most [default: the head's own]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Maximum run time, up to the node's own limit [default: the node's; on this machine 18]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    run_limit: Option<u64>,
    /// Maximum memory, up to the node's own limit [default: the node's; on this machine 256]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..))]
    memory: Option<u64>,
    /// Respond as soon as this many results are equal, and cancel the others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    quorum: Option<u32>,
    /// Share of the nodes that must respond, above 0 and at most 1 [default: the head's own]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    threshold: Option<f64>,
    /// Print the id of the execution immediately, and do not wait for it
    #[arg(long = "async", conflicts_with_all = ["json", "raw"])]
    is_async: bool,
    #[command(flatten)]
    format: FormatFlags,
    #[command(flatten)]
    backend: BackendFlags,
}

/// The flags of `function result`.
#[derive(Debug, Args)]
pub(super) struct ResultCommand {
    /// Id that `run --async` printed
    #[arg(value_name = "REQUEST")]
    id: String,
    /// Wait for the result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    format: FormatFlags,
    #[command(flatten)]
    head: HeadFlags,
}

/// Output format of results.
#[derive(Debug, Clone, Copy, Args)]
struct FormatFlags {
    /// Print the response as JSON, in the form of `POST /api/v1/functions/execute`
    #[arg(long)]
    json: bool,
    /// Print only the output of the most frequent result, byte for byte. A head returns text, in
    /// which bytes that are not UTF-8 are replaced, with their SHA-256 in the JSON
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

/// Runs a function and prints its results.
///
/// # Errors
/// If the function cannot be run, or the response is not a success.
pub(super) async fn run(command: RunCommand) -> anyhow::Result<ExitCode> {
    let target = find_target(&command.target, &command.backend).await?;
    let mut request = request(&command)?;
    let Some(head) = command.backend.head()? else {
        if let Some(flag) = cluster_flag(&command) {
            bail!("{flag} has no effect on this machine\nhint: pass --head URL, or leave it out");
        }
        let outcome = run_local::run(target, command.method, &request, command.backend).await?;
        if command.format.raw {
            print_raw(&outcome.stdout, &outcome.stderr)?;
            return Ok(exit_code(outcome.exit_code));
        }
        return finish(&command.target, &run_local::response(outcome), command.format, false);
    };
    (request.function_id, request.method) = prepare(&head, target, command.method).await?;
    let failed = || format!("cannot run {}", command.target);
    let running = format!("waiting for results from {}", head.address());
    if command.is_async {
        let started = with_progress(&running, head.execute_async(&request)).await;
        print(&escape_line(&started.with_context(failed)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let response = with_progress(&running, head.execute(&request)).await.with_context(failed)?;
    let is_partial_ok = command.quorum.is_some() || command.threshold.is_some();
    finish(&command.target, &response, command.format, is_partial_ok)
}

/// Prints the result of an asynchronous execution.
///
/// # Errors
/// If the head has no such result, or the execution did not succeed.
pub(super) async fn result(command: ResultCommand) -> anyhow::Result<ExitCode> {
    let head = command.head.connect()?;
    let request = || async {
        match head.result(&command.id).await {
            Err(error) if error.status() == Some(NOT_FOUND) => {
                bail!("the head has no execution {}", command.id)
            }
            response => response.with_context(|| format!("cannot read execution {}", command.id)),
        }
    };
    let mut response = request().await?;
    if command.wait {
        let waiting = with_progress("waiting for the result", async {
            while response.code == CODE_IN_PROGRESS {
                sleep(POLL_EVERY).await;
                response = request().await?;
            }
            anyhow::Ok(())
        });
        waiting.await?;
    }
    if response.code == CODE_IN_PROGRESS {
        bail!("execution {} is in progress\nhint: --wait waits for its result", command.id);
    }
    // The request may have accepted fewer results, which the response does not tell.
    finish(&command.id, &response, command.format, true)
}

/// Uploads `target` if it is a path and `head` does not have the function yet. Returns the id and the
/// method to request.
async fn prepare(
    head: &Head,
    target: RunTarget,
    method: Option<Method>,
) -> anyhow::Result<(String, String)> {
    let (id, packed) = match target {
        RunTarget::Stored(id) => (id, None),
        RunTarget::Path(path) => {
            let packed = pack(&path).await?;
            (packed.function.id, Some(packed))
        }
    };
    let given = method.as_ref().map(Method::to_string);
    match (find_function(head, id).await?, packed) {
        (Some(function), _) => Ok((function.function_id, given.unwrap_or(function.method))),
        (None, Some(mut packed)) => {
            if let Some(method) = method {
                packed.function.method = method;
            }
            let added = upload(head, packed).await?;
            Ok((added.function_id, given.unwrap_or(added.method)))
        }
        (None, None) => match given {
            Some(method) => Ok((id.to_string(), method)),
            None => bail!(
                "the head does not have function {id}, so its file to run is unknown\nhint: name it with --method"
            ),
        },
    }
}

/// Returns a flag of the command that needs a cluster.
fn cluster_flag(command: &RunCommand) -> Option<&'static str> {
    let flags = [
        ("--async", command.is_async),
        ("--nodes", command.nodes != 1),
        ("--subgroup", command.subgroup.is_some()),
        ("--selector", command.selector.is_some()),
        ("--timeout", command.timeout.is_some()),
        ("--quorum", command.quorum.is_some()),
        ("--threshold", command.threshold.is_some()),
    ];
    flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}

/// Returns the function that `text` names: a content id, a path, or the name of a stored function.
async fn find_target(text: &str, backend: &BackendFlags) -> anyhow::Result<RunTarget> {
    if let Ok(id) = text.parse() {
        return Ok(RunTarget::Stored(id));
    }
    if Path::new(text).exists() {
        return Ok(RunTarget::Path(PathBuf::from(text)));
    }
    let backend = backend.clone().open().await?;
    let functions = backend
        .list()
        .await
        .with_context(|| format!("`{text}` is neither a content id (CID) nor an existing path"))?;
    let is_named = |function: &FunctionBody| {
        function.name == text || function.by_manifest.iter().any(|id| id == text)
    };
    let named: Vec<_> = functions.into_iter().filter(is_named).collect();
    match named.as_slice() {
        [function] => Ok(RunTarget::Stored(function.function_id.parse()?)),
        [] => bail!(
            "`{text}` is neither a content id (CID) nor an existing path, and no function in {backend} has \
             this name"
        ),
        [_, ..] => {
            let ids: Vec<&str> = named.iter().map(|function| &*function.function_id).collect();
            bail!(
                "several functions are called `{text}`\nhint: name one by its content id, {}",
                ids.join(" or ")
            )
        }
    }
}

/// Returns the request to execute a function. The caller sets the function and its method.
fn request(command: &RunCommand) -> anyhow::Result<ExecuteRequest> {
    let values = command.param.iter().chain(&command.arguments);
    let parameters: Vec<Parameter> =
        values.map(|value| Parameter { name: None, value: value.clone() }).collect();
    let runtime = RuntimeConfig {
        run_time_ms: command.run_limit.unwrap_or_default().saturating_mul(1000),
        limited_memory_pages: command.memory.unwrap_or_default().saturating_mul(PAGES_IN_MIB),
        ..RuntimeConfig::default()
    };
    // The input must be text, since requests contain it as a string of JSON.
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

/// Prints a response and returns the exit code of the process. Fewer results than requested are an error
/// unless `is_partial_ok`.
fn finish(
    target: &str,
    response: &ExecuteResponse,
    format: FormatFlags,
    is_partial_ok: bool,
) -> anyhow::Result<ExitCode> {
    if format.json {
        print_body(&response)?;
    } else if format.raw {
        if let Some(group) = response.results.first() {
            print_raw(group.result.stdout.as_bytes(), group.result.stderr.as_bytes())?;
        }
    } else {
        print(&report::text(response))?;
    }
    if response.code != CODE_OK {
        bail!("cannot run {target}: {}", report::reason(&response.code, &response.message));
    }
    // The message of a success names the nodes without a result.
    if !response.message.is_empty() {
        let message = escape_line(&response.message);
        if !is_partial_ok {
            bail!("{target} has fewer results than requested: {message}");
        }
        tell(&message);
    }
    Ok(exit_code(response.results.first().map_or(0, |group| group.result.exit_code)))
}

/// Returns the exit code of this process for a function that exited with `code`.
fn exit_code(code: i32) -> ExitCode {
    if code == 0 { ExitCode::SUCCESS } else { ExitCode::from(FUNCTION_FAILED) }
}

/// Writes the output of the function to the streams of this process.
fn print_raw(stdout: &[u8], stderr: &[u8]) -> anyhow::Result<()> {
    write_data(stdout)?;
    write_data_to_stderr(stderr);
    Ok(())
}

fn nodes(text: &str) -> Result<i64, String> {
    match text {
        "all" => Ok(ALL),
        _ => match text.parse() {
            Ok(number) if number >= 1 || number == ALL => Ok(number),
            _ => Err("expected a number from 1, or `all`".to_owned()),
        },
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|&share: &f64| share > 0.0 && share <= 1.0);
    share.ok_or_else(|| "invalid share, expected a number above 0 and at most 1".to_owned())
}

fn variable(text: &str) -> Result<EnvVar, String> {
    let (name, value) = parse_pair(text).map_err(|_| "expected NAME=VALUE".to_owned())?;
    Ok(EnvVar { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_results_than_requested_are_an_error_unless_a_part_is_enough() {
        let message = "2 of 3 nodes returned a result: 12D3 was lost".to_owned();
        let response =
            ExecuteResponse { code: CODE_OK.to_owned(), message, ..ExecuteResponse::default() };
        let format = FormatFlags { json: false, raw: true };
        let error = finish("hello", &response, format, false).unwrap_err().to_string();
        let want = "hello has fewer results than requested: 2 of 3 nodes returned a result";
        assert!(error.starts_with(want), "{error}");
        assert_eq!(finish("hello", &response, format, true).unwrap(), ExitCode::SUCCESS);
    }
}
