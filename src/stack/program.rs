//! A worker's program: a child process that answers each epoch with a line of JSON.
//!
//! It runs in a shell and in a process group of its own, so that what it starts ends with it. Absent
//! on purpose: what it is asked, and when it is started again.

use std::{collections::BTreeMap, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use model::escape::escape_line;
use parking_lot::Mutex;
use task::group::Group;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::oneshot,
    time::timeout,
};

use crate::process::read_lines;

/// The most bytes of standard output that are read for one answer. A forecast of the thousand
/// inferers of a large topic has less than a tenth of it.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// The most bytes of a line of standard error that are shown.
const ERROR_LINE_BYTES_MAX: u64 = 2000;

/// Lines of standard error that are shown for each answer: a traceback, and some more.
const ERROR_LINES_MAX: u32 = 50;

/// The exit codes with which a shell says that a command cannot be run, or does not exist.
const EXIT_NO_COMMAND: [i32; 2] = [126, 127];

/// How long the end of standard error is waited for after that of the program: what it started may
/// hold it open.
const ERRORS_WITHIN: Duration = Duration::from_millis(500);

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    said: Arc<Mutex<Said>>,
    /// Closed at the end of standard error.
    errors_end: oneshot::Receiver<()>,
}

/// What came on standard error.
#[derive(Debug, Default)]
struct Said {
    /// Lines shown since the last question.
    n_shown: u32,
    last_line: Option<String>,
}

impl Program {
    /// Starts `command` in a shell, with `environment` beside that of this process. What it writes
    /// to standard error goes to `tell` as it comes, by a task of `group`.
    ///
    /// # Errors
    /// If there is no shell, or no process is left.
    pub fn start(
        command: &str,
        environment: &BTreeMap<&str, String>,
        group: &Group,
        tell: fn(&str),
    ) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).envs(environment).kill_on_drop(true);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        shell.process_group(0);
        let mut child = shell.spawn().context("start a shell")?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("read the program's output")?;
        let stderr = child.stderr.take().context("read the program's errors")?;
        let said = Arc::<Mutex<Said>>::default();
        let (open, errors_end) = oneshot::channel();
        let show = show_errors(stderr, Arc::clone(&said), tell);
        group.spawn("errors of a worker's program", async move {
            show.await;
            drop(open);
        });
        Ok(Self { child, stdin, stdout: BufReader::new(stdout), said, errors_end })
    }

    /// Gives `input` to the program and waits for its next line, at most for `within`.
    ///
    /// # Errors
    /// If it ends, stays silent, or prints too much. It is of no more use then.
    pub async fn ask(&mut self, input: &str, within: Duration) -> anyhow::Result<String> {
        self.said.lock().n_shown = 0;
        let (stdin, stdout) = (&mut self.stdin, &mut self.stdout);
        let write = async {
            if let Some(stdin) = stdin {
                // A program that reads nothing has ended, or is silent: both are reported below.
                drop(stdin.write_all(input.as_bytes()).await);
            }
        };
        let read = async {
            let mut line = Vec::new();
            stdout.take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line).await?;
            anyhow::Ok(line)
        };
        let line = within_limit(within, async { tokio::join!(write, read).1 }).await?;
        if line.ends_with(b"\n") {
            return text(line);
        }
        check_size(&line)?;
        let ended = self.ended(within).await?;
        bail!("{ended} without an answer")
    }

    /// Gives `input` to the program, lets it read to its end, and waits until it ends, at most for
    /// `within`. Returns the last line that it printed and that is not blank.
    ///
    /// # Errors
    /// If it fails, does not end, or prints nothing or too much.
    pub async fn finish(mut self, input: &str, within: Duration) -> anyhow::Result<String> {
        let (stdin, stdout) = (self.stdin.take(), &mut self.stdout);
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program need not read all, or anything.
                drop(stdin.write_all(input.as_bytes()).await);
            }
        };
        let read = async {
            let mut output = Vec::new();
            stdout.take(ANSWER_BYTES_MAX).read_to_end(&mut output).await?;
            anyhow::Ok(output)
        };
        let output = within_limit(within, async { tokio::join!(write, read).1 }).await?;
        check_size(&output)?;
        let ended = self.ended(within).await?;
        if !ended.is_success {
            bail!("{ended}");
        }
        let output = text(output)?;
        let line = output.lines().rev().find(|line| !line.trim().is_empty());
        line.map(str::to_owned).context("the program printed nothing")
    }

    /// Waits until the program has ended.
    async fn ended(&mut self, within: Duration) -> anyhow::Result<Ended> {
        let status = within_limit(within, async { Ok(self.child.wait().await?) }).await?;
        // Either way, what came is all there is.
        drop(timeout(ERRORS_WITHIN, &mut self.errors_end).await);
        let last_line = self.said.lock().last_line.take();
        Ok(Ended { is_success: status.success(), code: status.code(), last_line })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has a number as long as nobody waited for its end.
        #[cfg(unix)]
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
            && let Err(error) =
                rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)
        {
            tracing::debug!(%error, "could not kill a worker's program");
        }
    }
}

/// How a program ended.
struct Ended {
    is_success: bool,
    code: Option<i32>,
    last_line: Option<String>,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) if EXIT_NO_COMMAND.contains(&code) => {
                write!(f, "the command cannot be run (exit code {code})")?;
            }
            Some(code) => write!(f, "the program ended with exit code {code}")?,
            None => f.write_str("the program was killed by a signal")?,
        }
        match &self.last_line {
            Some(line) => write!(f, "; its last error line: {}", escape_line(line)),
            None => Ok(()),
        }
    }
}

fn check_size(output: &[u8]) -> anyhow::Result<()> {
    if u64::try_from(output.len()).is_ok_and(|n_bytes| n_bytes < ANSWER_BYTES_MAX) {
        return Ok(());
    }
    bail!("the program printed {ANSWER_BYTES_MAX} bytes and more for one answer")
}

/// Waits for `work`, at most for `limit`.
async fn within_limit<T>(
    limit: Duration,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let done = timeout(limit, work).await;
    done.unwrap_or_else(|_| bail!("the program did not answer within {:.1} s", limit.as_secs_f64()))
}

fn text(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).context("read the program's output as UTF-8")
}

/// Shows what comes on standard error, line by line.
async fn show_errors(
    stderr: impl AsyncRead + Send + Unpin + 'static,
    said: Arc<Mutex<Said>>,
    tell: fn(&str),
) {
    let show = |line: &str| {
        let mut said = said.lock();
        said.n_shown = said.n_shown.saturating_add(1);
        said.last_line = Some(line.to_owned());
        match said.n_shown {
            ..=ERROR_LINES_MAX => tell(&format!("program: {line}")),
            n if n == ERROR_LINES_MAX + 1 => tell("program: more lines until its next answer"),
            _ => {}
        }
    };
    read_lines(stderr, ERROR_LINE_BYTES_MAX, show).await;
}
