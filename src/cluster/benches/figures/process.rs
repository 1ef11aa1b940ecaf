//! A part in a process of its own: started, asked, looked at and killed.

use std::{process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::Outcome;

/// The variable that tells a process of this program its part.
pub(crate) const PART: &str = "FIGURES_PART";
/// The variable that names the folder a part keeps its state in.
pub(crate) const FOLDER: &str = "FIGURES_FOLDER";
/// The variable that names the address of the head's network.
pub(crate) const BOOT: &str = "FIGURES_BOOT";
/// The variable that names the external runtime of a worker.
pub(crate) const RUNTIME: &str = "FIGURES_RUNTIME";

/// The variable that says how many functions a worker runs at once.
pub(crate) const SLOTS: &str = "FIGURES_SLOTS";

/// The variable that says how many connections a head keeps.
pub(crate) const CONNECTIONS: &str = "FIGURES_CONNECTIONS";

/// The variable that says on which port a node's network listens.
pub(crate) const PORT: &str = "FIGURES_PORT";

/// Ticks in which the system counts the time of processes: 100 on every machine that Linux runs on.
const TICKS_PER_SECOND: u32 = 100;

/// How long a part may take to say something. Fifty of them start at one time on two cores.
const SAYS_WITHIN: Duration = Duration::from_mins(1);

/// A process. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    /// With a part of this program.
    talk: Option<(ChildStdin, Lines<BufReader<ChildStdout>>)>,
}

/// What a process takes of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub(crate) resident_bytes: u64,
    /// How much of that is the process's own, not mapped from a file.
    pub(crate) own_bytes: u64,
    /// Open files.
    pub(crate) n_files: usize,
    /// Threads.
    pub(crate) n_threads: usize,
}

impl Process {
    /// Starts a process that answers what it is asked, line for line.
    pub(crate) fn spawn(mut command: Command) -> Outcome<Self> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take().ok_or("a part without input")?;
        let stdout = child.stdout.take().ok_or("a part without output")?;
        Ok(Self { child, talk: Some((stdin, BufReader::new(stdout).lines())) })
    }

    /// Starts a process that is asked nothing.
    pub(crate) fn quiet(mut command: Command) -> Outcome<Self> {
        let child = command.stdin(Stdio::null()).kill_on_drop(true).spawn()?;
        Ok(Self { child, talk: None })
    }

    /// How many tasks it has, if it tells.
    pub(crate) async fn n_tasks(&mut self) -> Outcome<Option<usize>> {
        Ok(self.ask("tasks").await?.map(|line| line.parse()).transpose()?)
    }

    /// What it answers, if it answers anything.
    pub(crate) async fn ask(&mut self, question: &str) -> Outcome<Option<String>> {
        let Some((stdin, _)) = &mut self.talk else { return Ok(None) };
        stdin.write_all(format!("{question}\n").as_bytes()).await?;
        self.line().await.map(Some)
    }

    /// The next line it writes.
    pub(crate) async fn line(&mut self) -> Outcome<String> {
        let (_, lines) = self.talk.as_mut().ok_or("a process that says nothing")?;
        let line = timeout(SAYS_WITHIN, lines.next_line()).await??;
        Ok(line.ok_or("a part ended before it answered")?)
    }

    /// Kills the process as a crash would, and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Outcome<()> {
        self.end().await
    }

    /// The same, of one that is looked at no more.
    pub(crate) async fn end(&mut self) -> Outcome<()> {
        Ok(self.child.kill().await?)
    }

    /// How long it has used the processor so far.
    pub(crate) fn busy(&self) -> Outcome<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid()?))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("a process without a name")?;
        // Fields 14 and 15 of the whole line; two are gone.
        let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
        let n_ticks = ticks.sum::<Result<u32, _>>()?;
        Ok(Duration::from_secs(1) * n_ticks / TICKS_PER_SECOND)
    }

    /// Its id, as the system has it.
    pub(crate) fn pid(&self) -> Outcome<u32> {
        Ok(self.child.id().ok_or("a process that has ended")?)
    }

    /// What the process takes now, by the system's account.
    pub(crate) fn usage(&self) -> Outcome<Usage> {
        let pid = self.pid()?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        Ok(Usage {
            resident_bytes: number("VmRSS:") * 1024,
            own_bytes: number("RssAnon:") * 1024,
            n_files: std::fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            n_threads: usize::try_from(number("Threads:"))?,
        })
    }
}
