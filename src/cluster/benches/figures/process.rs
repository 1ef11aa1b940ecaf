//! A part in a separate process: starting, querying, measuring and killing it.

use std::process::Stdio;
use std::time::Duration;

use test_bench::process::{CpuTime, Usage};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::Outcome;

/// Variable with the part of a process.
pub(crate) const PART: &str = "FIGURES_PART";
/// Variable with the directory of a part.
pub(crate) const FOLDER: &str = "FIGURES_FOLDER";
/// Variable with the address of the head's network.
pub(crate) const BOOT: &str = "FIGURES_BOOT";
/// Variable with the external runtime of a worker.
pub(crate) const RUNTIME: &str = "FIGURES_RUNTIME";

/// Variable with the number of slots of a worker.
pub(crate) const SLOTS: &str = "FIGURES_SLOTS";

/// Variable with the number of connections of a head.
pub(crate) const CONNECTIONS: &str = "FIGURES_CONNECTIONS";

/// Variable with the port of a node's network.
pub(crate) const PORT: &str = "FIGURES_PORT";

/// Maximum time until a part writes a line. Fifty parts start simultaneously on two cores.
const LINE_WITHIN: Duration = Duration::from_mins(1);

/// A process that is killed when this handle is dropped.
pub(crate) struct Process {
    child: Child,
    /// Input and output of a part of this program; `None` for another program.
    talk: Option<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Process {
    /// Starts a process that responds to each line of input.
    pub(crate) fn spawn(mut command: Command) -> Outcome<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take().ok_or("part has no input")?;
        let stdout = child.stdout.take().ok_or("part has no output")?;
        Ok(Self { child, talk: Some((stdin, BufReader::new(stdout).lines())) })
    }

    /// Starts a process without input.
    pub(crate) fn spawn_without_io(mut command: Command) -> Outcome<Self> {
        let child = command.stdin(Stdio::null()).kill_on_drop(true).spawn()?;
        Ok(Self { child, talk: None })
    }

    /// Returns the number of tasks of the process, or `None` for another program.
    pub(crate) async fn n_tasks(&mut self) -> Outcome<Option<usize>> {
        Ok(self.ask("tasks").await?.map(|line| line.parse()).transpose()?)
    }

    /// Sends a line and returns the response, or `None` for another program.
    pub(crate) async fn ask(&mut self, question: &str) -> Outcome<Option<String>> {
        let Some((stdin, _)) = &mut self.talk else { return Ok(None) };
        stdin.write_all(format!("{question}\n").as_bytes()).await?;
        self.line().await.map(Some)
    }

    /// Returns the next line of output.
    pub(crate) async fn line(&mut self) -> Outcome<String> {
        let (_, lines) = self.talk.as_mut().ok_or("process prints no lines")?;
        let line = timeout(LINE_WITHIN, lines.next_line()).await??;
        Ok(line.ok_or("part exited before it responded")?)
    }

    /// Kills the process, waits until it has exited, and drops the handle.
    pub(crate) async fn kill(mut self) -> Outcome<()> {
        self.end().await
    }

    /// Kills the process and waits until it has exited.
    pub(crate) async fn end(&mut self) -> Outcome<()> {
        Ok(self.child.kill().await?)
    }

    /// Returns the processor time of the process.
    pub(crate) fn busy(&self) -> Outcome<Duration> {
        Ok(CpuTime::of(self.pid()?)?.own)
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> Outcome<u32> {
        Ok(self.child.id().ok_or("process has exited")?)
    }

    /// Returns the current resource usage of the process.
    pub(crate) fn usage(&self) -> Outcome<Usage> {
        Usage::of(self.pid()?)
    }
}
