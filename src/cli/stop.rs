//! When a service is to stop: a signal, or the end of what started it.

use std::io::Read as _;

use anyhow::Context as _;
use clap::Args;
use stack::process::STAY;
use task::group::Group;
use tokio::sync::oneshot;
use tracing::{Level, info};

use super::log::{self, Collector, ServiceLog, ServiceName};

/// The variable that names a collector for every service.
pub(crate) const OTLP_VARIABLE: &str = "TRIPTYCH_OTLP";

/// The flags of every service.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProcessFlags {
    /// The least severe lines that are logged: error, warn, info, debug or trace
    #[arg(long, short = 'l', default_value = "info", value_name = "LEVEL")]
    pub(crate) log_level: Level,
    /// Send the spans of requests to the OpenTelemetry collector at this address, by OTLP over HTTP
    #[arg(
        long, value_name = "URL", env = OTLP_VARIABLE, hide_env_values = true,
        value_parser = Collector::parse
    )]
    pub(crate) otlp: Option<Collector>,
    /// Stop when standard input ends: it is held by the process that started this one
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
}

impl ProcessFlags {
    /// Sets up what the service that does `role` logs and traces.
    ///
    /// # Errors
    /// As [`log::of_service`], and if signals cannot be listened to.
    pub(crate) fn log(&self, role: &str, instance: Option<String>) -> anyhow::Result<ServiceLog> {
        keep_hangup_from_ending_the_start()?;
        let name = ServiceName { role: role.to_owned(), instance };
        log::of_service(self.log_level, self.otlp.as_ref(), name)
    }

    /// Events that stop the service.
    pub(crate) fn stop_events(&self) -> StopEvents {
        if self.stop_with_stdin { StopEvents::LostParent } else { StopEvents::LostTerminal }
    }
}

/// Events that stop a process, next to SIGINT and SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopEvents {
    /// SIGHUP: a command that is of use only to its terminal.
    Hangup,
    /// The loss of the terminal that a service was started in. SIGHUP alone does not stop a service:
    /// tools for logs and configurations send it to have something read again.
    LostTerminal,
    /// The same, and the end of the process holding the other end of standard input. When that ends,
    /// however it ends, the pipe closes, unless it wrote [`STAY`] before.
    LostParent,
}

/// Waits until the process is asked to stop, and logs why.
///
/// # Errors
/// If signals cannot be listened to.
pub(crate) async fn wait_for_stop(events: StopEvents) -> anyhow::Result<()> {
    let reason = tokio::select! {
        reason = signal(events) => reason?,
        () = parent_gone(events) => "the process that started it ended",
    };
    info!(reason, "stopping");
    Ok(())
}

/// Does `work` until it ends or the process is asked to stop; waits for the tasks of `group` then.
///
/// # Errors
/// Those of `work`, and if signals cannot be listened to.
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

/// Has SIGHUP, which ends a process by default, do nothing until [`wait_for_stop`] listens to it.
fn keep_hangup_from_ending_the_start() -> anyhow::Result<()> {
    #[cfg(unix)]
    if !task::process::ignores_hangup() {
        use tokio::signal::unix::{SignalKind, signal};
        drop(signal(SignalKind::hangup()).context("listen to signals")?);
    }
    Ok(())
}

#[cfg(unix)]
async fn signal(events: StopEvents) -> anyhow::Result<&'static str> {
    use task::process::{has_terminal, ignores_hangup};
    use tokio::signal::unix::{SignalKind, signal};

    let had_terminal = has_terminal();
    let listen = |kind| signal(kind).context("listen to signals");
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    // Under nohup a service outlives its terminal. Listening would end that.
    let mut hangup = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
    let hung_up = async {
        while let Some(hangup) = &mut hangup {
            if hangup.recv().await.is_none() {
                break;
            }
            if events == StopEvents::Hangup || had_terminal && !has_terminal() {
                return;
            }
            info!("ignored SIGHUP: options and files are read at the start");
        }
        std::future::pending::<()>().await;
    };
    Ok(tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        () = hung_up => "SIGHUP",
    })
}

#[cfg(not(unix))]
async fn signal(_: StopEvents) -> anyhow::Result<&'static str> {
    tokio::signal::ctrl_c().await.context("listen to signals")?;
    Ok("interrupt")
}

async fn parent_gone(events: StopEvents) {
    if events != StopEvents::LostParent {
        return std::future::pending().await;
    }
    let (gone, is_gone) = oneshot::channel::<()>();
    // A thread of its own: a read of standard input cannot be called off, and must not hold up the
    // runtime's end. It ends with the process.
    std::thread::spawn(move || {
        let mut bytes = [0_u8; 256];
        while let Ok(n @ 1..) = std::io::stdin().read(&mut bytes) {
            if bytes.iter().take(n).eq(STAY) {
                return;
            }
        }
        // Where nobody waits any more it is ending already.
        gone.send(()).ok();
    });
    if is_gone.await.is_err() {
        std::future::pending::<()>().await;
    }
}
