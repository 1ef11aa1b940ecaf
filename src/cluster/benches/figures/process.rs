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

/// Time for a part to write a line. Fifty of them start simultaneously on two cores.
const SAYS_WITHIN: Duration = Duration::from_mins(1);

/// A process. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    /// Starts a part of this program.
    talk: Option<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

impl Process {
    /// Starts a process that responds to each line of input.
    pub(crate) fn spawn(mut command: Command) -> Outcome<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take().ok_or("a part without input")?;
        let stdout = child.stdout.take().ok_or("a part without output")?;
        Ok(Self { child, talk: Some((stdin, BufReader::new(stdout).lines())) })
    }

    /// Starts a process without input.
    pub(crate) fn quiet(mut command: Command) -> Outcome<Self> {
        let child = command.stdin(Stdio::null()).kill_on_drop(true).spawn()?;
        Ok(Self { child, talk: None })
    }

    /// Returns its number of tasks, if it reports that.
    pub(crate) async fn n_tasks(&mut self) -> Outcome<Option<usize>> {
        Ok(self.ask("tasks").await?.map(|line| line.parse()).transpose()?)
    }

    /// Returns its response, if there is one.
    pub(crate) async fn ask(&mut self, question: &str) -> Outcome<Option<String>> {
        let Some((stdin, _)) = &mut self.talk else { return Ok(None) };
        stdin.write_all(format!("{question}\n").as_bytes()).await?;
        self.line().await.map(Some)
    }

    /// Returns its next line.
    pub(crate) async fn line(&mut self) -> Outcome<String> {
        let (_, lines) = self.talk.as_mut().ok_or("a process that says nothing")?;
        let line = timeout(SAYS_WITHIN, lines.next_line()).await??;
        Ok(line.ok_or("a part ended before it answered")?)
    }

    /// Kills the process and waits until it has exited.
    pub(crate) async fn kill(mut self) -> Outcome<()> {
        self.end().await
    }

    /// Kills the process and drops it.
    pub(crate) async fn end(&mut self) -> Outcome<()> {
        Ok(self.child.kill().await?)
    }

    /// Returns the processor time that it has used.
    pub(crate) fn busy(&self) -> Outcome<Duration> {
        Ok(CpuTime::of(self.pid()?)?.own)
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> Outcome<u32> {
        Ok(self.child.id().ok_or("a process that has ended")?)
    }

    /// Returns its current usage.
    pub(crate) fn usage(&self) -> Outcome<Usage> {
        Usage::of(self.pid()?)
    }
}
