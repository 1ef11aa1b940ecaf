//! `triptych up` and `triptych env`: run the local stack without a screen and print its addresses.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use model::key::ApiKey;
use serde_json::json;
use stack::data_dir::StackClaim;
use stack::local::{Addresses, LocalFunction, LocalNode, LocalReady};
use stack::process::Line;
use stack::running::find_running;
use stack::start::{Ports, Progress, StackOptions, start};
use stack::supervise::{Supervised, supervise};
use task::group::Group;
use tokio::sync::{mpsc, oneshot};
use tracing::{Level, warn};

use crate::cli::own_files::OwnFiles;
use crate::cli::{config, log, output, stop};

/// Maximum number of log lines of the processes that wait to be printed. Further lines are dropped, so
/// that a blocked output does not stall a service.
const LINES_CAPACITY: usize = 4096;

/// Flags of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpCommand {
    /// Print one line of JSON once all services respond, and nothing else on standard output; logs
    /// go to standard error
    #[arg(long)]
    json: bool,
    /// Directory of all state [default: the platform's data directory]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Port of the head's REST API, 0 for any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    head_port: u16,
    /// Port of the dataset service, 0 for any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    datasets_port: u16,
    /// Port of the inference service, 0 for any free port
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    inference_port: u16,
    #[command(flatten)]
    process: stop::ProcessFlags,
}

/// Runs the local stack until a signal arrives. Restarts processes of the stack that exit.
///
/// # Errors
/// If the stack cannot be started.
pub(crate) async fn run(command: UpCommand) -> anyhow::Result<()> {
    let _log = log::to_stderr(Level::WARN)?;
    let ports = Ports {
        head: command.head_port,
        datasets: command.datasets_port,
        inference: command.inference_port,
    };
    let claim = StackClaim::acquire(command.data_dir.clone())?;
    let options = StackOptions {
        data_dir: claim.data_dir.clone(),
        ports,
        log_level: command.process.log_level,
        environment: command.process.otlp.as_ref().map_or_else(Vec::new, |collector| {
            vec![(stop::OTLP_VARIABLE, collector.as_str().to_owned())]
        }),
        head_token: config::head_token()?,
    };
    let group = Group::default();
    let printing = Group::default();
    let (lines, received) = mpsc::channel(LINES_CAPACITY);
    let (announced, is_announced) = oneshot::channel();
    let (is_json, level) = (command.json, command.process.log_level);
    printing.spawn_to_end("print log lines", async move {
        if !is_json {
            // Lines are printed only after the addresses. If the start fails, the sender is dropped,
            // and the lines are printed because they show the reason.
            drop(is_announced.await);
        }
        print_lines(received, level, is_json).await;
    });
    let result = serve(&options, &group, lines, announced, &command).await;
    group.shutdown().await;
    printing.shutdown().await;
    result
}

/// Starts the stack, prints its addresses and supervises it until a signal arrives. Log lines of its
/// processes are sent to `lines`. `announced` is dropped once the addresses are printed.
async fn serve(
    options: &StackOptions,
    group: &Group,
    lines: mpsc::Sender<Line>,
    announced: oneshot::Sender<()>,
    command: &UpCommand,
) -> anyhow::Result<()> {
    let stopped = stop::wait_for_stop(command.process.stop_events());
    tokio::pin!(stopped);
    let started = tokio::select! {
        started = start(options, &OwnFiles, group, lines.clone(), report_delay) => started?,
        stopped = &mut stopped => return stopped,
    };
    print_addresses(&started.ready, command).context("cannot print the addresses of the stack")?;
    drop(announced);
    for process in started.processes {
        let (name, lines) = (Arc::clone(&process.process), lines.clone());
        let report = move |happened| {
            log_restart(&name, happened);
            std::future::ready(())
        };
        let processes = group.clone();
        group.spawn("supervise", async move {
            supervise(process, processes, lines, report).await;
        });
    }
    drop(lines);
    stopped.await
}

/// If the stack starts slowly, tells the user what the start is waiting for.
fn report_delay(progress: Progress<'_>) {
    if let Progress::Delayed { since, awaited } = progress {
        let seconds = since.as_secs();
        output::tell(&format!(
            "the local stack is not up after {seconds} s: waiting for {awaited}"
        ));
    }
}

/// Logs that the process called `name` exited, was restarted or could not be restarted.
fn log_restart(name: &str, happened: Supervised) {
    match happened {
        Supervised::Exited { exit, restart_in } => {
            let (how, seconds) = (exit.text, restart_in.as_secs_f64());
            warn!(process = name, "the {name} exited ({how}); it restarts in {seconds:.1} s");
        }
        Supervised::Restarted(process) => {
            warn!(process = name, pid = process.pid, "the {name} restarted");
        }
        Supervised::Failed { error, restart_in } => {
            let seconds = restart_in.as_secs_f64();
            warn!(process = name, "{error:#}; retrying in {seconds:.1} s");
        }
    }
}

/// Prints the addresses of the stack. The members of the JSON object are an interface for scripts and
/// must not change.
fn print_addresses(ready: &LocalReady, command: &UpCommand) -> anyhow::Result<()> {
    let LocalReady { addresses, nodes, functions, .. } = ready;
    let Addresses { heads, datasets, inference, .. } = addresses;
    let head = heads.first().map_or("", String::as_str);
    let [datasets, inference] =
        [datasets, inference].map(|address| address.as_deref().unwrap_or_default());
    let api_key = addresses.api_key.as_ref().map(ApiKey::reveal).unwrap_or_default();
    if command.json {
        let node = |node: &LocalNode| {
            let LocalNode { peer_id, role, subgroup, pid, .. } = node;
            json!({"peer_id": peer_id, "role": role, "subgroup": subgroup, "pid": pid})
        };
        let function = |function: &LocalFunction| {
            let LocalFunction { name, function_id, method } = function;
            json!({"name": name, "function_id": function_id, "method": method})
        };
        let line = json!({
            "head": head,
            "datasets": datasets,
            "inference": inference,
            "api_key": api_key,
            "nodes": nodes.iter().map(node).collect::<Vec<_>>(),
            "functions": functions.iter().map(function).collect::<Vec<_>>(),
        });
        return output::print_body(&line);
    }
    let mut lines = vec![
        format!("head       {head}"),
        format!("datasets   {datasets}"),
        format!("inference  {inference}"),
        format!("API key    {api_key}   (only shown now; the next start creates another key)"),
        "\ntry   # in another terminal, whose commands find this stack".to_owned(),
    ];
    if let Some(folder) = &command.data_dir {
        lines.push(format!("      export TRIPTYCH_DATA_DIR={}", folder.display()));
    }
    if let Some(function) = functions.first() {
        lines.push(format!("      triptych function run {} --nodes 3", function.name));
    }
    lines.extend([
        "      triptych datasets list".to_owned(),
        "      triptych inference show 1".to_owned(),
        "      eval \"$(triptych env)\"; curl -H \"X-API-Key: $KEY\" $DATASETS/datasets/\n"
            .to_owned(),
    ]);
    output::print(&lines.join("\n"))
}

/// Prints the log lines of all processes with at least this level, each with the name of its process,
/// until all senders are dropped.
async fn print_lines(mut lines: mpsc::Receiver<Line>, level: Level, is_json: bool) {
    while let Some(line) = lines.recv().await {
        if line.level().is_some_and(|of_line| of_line > level) {
            continue;
        }
        let text = named(&line);
        if is_json {
            output::log_json(&text);
        } else {
            // A closed output is ignored, since the stack must continue without a reader.
            drop(output::print_json(&text));
        }
    }
}

/// Adds the name of the process to a log line, as its first member. A line that is not a JSON object
/// becomes the message of a new object.
fn named(line: &Line) -> String {
    let process = json!(&*line.process);
    match line.text.strip_prefix('{') {
        Some(rest) if line.text.ends_with('}') => format!("{{\"process\":{process},{rest}"),
        _ => json!({"process": process, "level": "warn", "message": line.text}).to_string(),
    }
}

/// Prints the addresses of the running stack and its key as assignments of a shell.
///
/// # Errors
/// If no stack is running.
pub(crate) fn print_env() -> anyhow::Result<()> {
    let Addresses { heads, datasets, inference, api_key, .. } = find_running()
        .context("no local stack is running\nhint: start one with `triptych up` or `triptych`")?
        .addresses;
    let key = api_key.map(|key| key.reveal().to_owned());
    let head = heads.into_iter().next();
    let variables =
        [("HEAD", head), ("DATASETS", datasets), ("INFERENCE", inference), ("KEY", key)];
    // The values need no escaping: this program makes all of them, without quotes.
    let lines = variables.map(|(name, value)| format!("{name}='{}'", value.unwrap_or_default()));
    output::print(&lines.join("\n"))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(named(&Line::new("head".into(), text.into())), want);
    }

    #[test]
    fn log_line_gets_the_name_of_its_process() {
        check(r#"{"level":"info"}"#, r#"{"process":"head","level":"info"}"#);
        check("oops", r#"{"level":"warn","message":"oops","process":"head"}"#);
    }
}
