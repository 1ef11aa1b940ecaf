//! Waits for events that stop a process: signals, and the exit of its parent process. Contains the
//! flags that all services share.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use rustix::process::Signal;
use stack::process::STAY;
use task::group::Group;
use task::process::{has_terminal, ignores_hangup};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::oneshot;
use tracing::{Level, info};

use super::log::{self, Collector, ServiceLog, ServiceName};

/// Environment variable with the address of the collector of spans for all services.
pub(crate) const OTLP_VARIABLE: &str = "TRIPTYCH_OTLP";

/// Flags of every service.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProcessFlags {
    /// Lowest level of log lines: error, warn, info, debug or trace
    #[arg(long, short = 'l', default_value = "info", value_name = "LEVEL")]
    pub(crate) log_level: Level,
    /// Send the spans of requests to this OpenTelemetry collector, by OTLP over HTTP
    #[arg(
        long, value_name = "URL", env = OTLP_VARIABLE, hide_env_values = true,
        value_parser = Collector::parse
    )]
    pub(crate) otlp: Option<Collector>,
    /// Stop when standard input closes, which the parent process holds open
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

impl ProcessFlags {
    /// Sets up logs and traces of the service in the role `role`.
    ///
    /// # Errors
    /// As [`log::of_service`], or if signals cannot be received.
    pub(crate) fn log(&self, role: &str, instance: Option<String>) -> anyhow::Result<ServiceLog> {
        ignore_signals_during_start()?;
        let name = ServiceName { role: role.to_owned(), instance };
        log::of_service(self.log_level, self.otlp.as_ref(), name)
    }

    /// Waits until the service has to stop, and then for the tasks of `group`.
    ///
    /// # Errors
    /// As [`wait_for_stop`].
    pub(crate) async fn run(&self, group: &Group) -> anyhow::Result<()> {
        let stopped = wait_for_stop(self.stop_events()).await;
        group.shutdown().await;
        stopped
    }

    /// Returns the events that stop the service.
    pub(crate) fn stop_events(&self) -> StopEvents {
        if self.stop_with_stdin { StopEvents::LostParent } else { StopEvents::LostTerminal }
    }
}

/// Events that stop a process, in addition to SIGINT and SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopEvents {
    /// SIGHUP, for commands that are only useful in a terminal.
    Hangup,
    /// SIGHUP, if the process has also lost the terminal in which it was started. Another SIGHUP does
    /// not stop a service, since tools send that signal to services to have files read again.
    LostTerminal,
    /// Loss of the terminal, or the exit of the parent process, which holds the other end of standard
    /// input. The pipe closes even if the parent is killed. If this process is to continue without its
    /// parent, the parent writes [`STAY`] before it exits.
    LostParent,
}

/// Waits until the process has to stop, and logs the reason.
///
/// # Errors
/// If signals cannot be received.
pub(crate) async fn wait_for_stop(events: StopEvents) -> anyhow::Result<()> {
    let reason = tokio::select! {
        reason = signal(events) => reason?,
        () = wait_for_parent_exit(events) => "the parent process exited",
    };
    info!(reason, "stopping");
    Ok(())
}

/// Runs `work` until it is complete or the process has to stop. Then stops the tasks of `group` and
/// waits for them.
///
/// # Errors
/// If `work` fails, or signals cannot be received.
pub(crate) async fn run_until_stopped(
    group: &Group,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let done = tokio::select! {
        done = work => done,
        stopped = wait_for_stop(StopEvents::Hangup) => stopped,
    };
    group.shutdown().await;
    done
}

/// Ignores SIGHUP until [`wait_for_stop`] receives it. By default, the signal would terminate the
/// process. Also ignores SIGXFSZ, so that a write beyond the limit of a file's size fails like a write
/// to a full disk.
fn ignore_signals_during_start() -> anyhow::Result<()> {
    let kind = SignalKind::from_raw(Signal::XFSZ.as_raw());
    drop(unix::signal(kind).context("cannot receive signals")?);
    if !ignores_hangup() {
        drop(unix::signal(SignalKind::hangup()).context("cannot receive signals")?);
    }
    Ok(())
}

async fn signal(events: StopEvents) -> anyhow::Result<&'static str> {
    let had_terminal = has_terminal();
    let listen = |kind| unix::signal(kind).context("cannot receive signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    // A process under nohup ignores SIGHUP and must outlive its terminal, so it does not listen for this
    // signal.
    let mut hangup = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
    let hung_up = async {
        while let Some(hangup) = &mut hangup {
            if hangup.recv().await.is_none() {
                break;
            }
            if events == StopEvents::Hangup || had_terminal && !has_terminal() {
                return;
            }
            info!("ignored SIGHUP: options and files are read only at the start");
        }
        std::future::pending::<()>().await;
    };
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        () = hung_up => "SIGHUP",
    })
}

async fn wait_for_parent_exit(events: StopEvents) {
    if events != StopEvents::LostParent {
        return std::future::pending().await;
    }
    let (exited, has_exited) = oneshot::channel::<()>();
    // A read of standard input cannot be canceled, and a pending read on a thread of the runtime would
    // delay its shutdown. Therefore a separate thread reads, until the process exits.
    std::thread::spawn(move || {
        let mut bytes = [0_u8; 256];
        while let Ok(n @ 1..) = std::io::stdin().read(&mut bytes) {
            if bytes.iter().take(n).eq(STAY) {
                return;
            }
        }
        // Sending fails, without consequence, if the process is already stopping for another reason.
        exited.send(()).ok();
    });
    if has_exited.await.is_err() {
        std::future::pending::<()>().await;
    }
}
