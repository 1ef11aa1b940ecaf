//! The program of an inference worker: a child process that prints a line of JSON for each epoch.
//!
//! The program runs in a shell with its own process group, so that its children are killed with
//! it.

use std::collections::BTreeMap;
use std::mem::take;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use model::escape::escape_line;
use parking_lot::Mutex;
use task::group::Group;
use task::process::GroupLeader;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::process::read_lines;

/// Maximum size of a response on standard output. A forecast for the thousand inferers of a large
/// topic is less than a tenth of this size.
const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;

/// Maximum length of a line of standard error that is displayed.
const ERROR_LINE_BYTES_MAX: u64 = 2000;

/// Maximum number of lines of standard error that are displayed for each response. A traceback is
/// shorter.
const ERROR_LINES_MAX: u32 = 50;

/// Exit codes of a shell if the command is not executable or is not found.
const EXIT_NO_COMMAND: [i32; 2] = [126, 127];

/// Maximum wait for the end of standard error after the program has exited. Children of the program can
/// hold standard error open.
const ERRORS_WITHIN: Duration = Duration::from_millis(500);

/// Maximum wait until tokio reports output that the program printed before a request. Output that is
/// printed later still counts as the response.
const LEFTOVER_WITHIN: Duration = Duration::from_millis(10);

/// A running program.
#[derive(Debug)]
pub struct Program {
    tell: fn(&str),
    leader: GroupLeader,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    said: Arc<Mutex<Said>>,
    /// Completed at the end of standard error.
    errors_end: oneshot::Receiver<()>,
    /// Part of the last request that the program has not read yet.
    unsent: Vec<u8>,
    /// Part of the next response that the program has already printed.
    printed: Vec<u8>,
    /// True while a response is pending.
    is_asked: bool,
    has_responded: bool,
}

/// Lines of standard error.
#[derive(Debug, Default)]
struct Said {
    /// Number of lines that were displayed since the last request.
    n_shown: u32,
    last_line: Option<String>,
}

impl Program {
    /// Starts `command` in a shell with additional `environment` variables. A task of `group`
    /// calls `tell` for each line of standard error.
    ///
    /// # Errors
    /// If the shell cannot be started.
    pub fn start(
        command: &str,
        environment: &BTreeMap<&str, String>,
        group: &Group,
        tell: fn(&str),
    ) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).envs(environment).kill_on_drop(true);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut leader = GroupLeader::spawn(&mut shell).context("cannot start a shell")?;
        let child = &mut leader.0;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("output of the program is not readable")?;
        let stderr =
            child.stderr.take().context("standard error of the program is not readable")?;
        let said = Arc::<Mutex<Said>>::default();
        let (open, errors_end) = oneshot::channel();
        let show = show_errors(stderr, Arc::clone(&said), tell);
        group.spawn("errors of a worker's program", async move {
            show.await;
            drop(open);
        });
        Ok(Self {
            tell,
            leader,
            stdin,
            stdout: BufReader::new(stdout),
            said,
            errors_end,
            unsent: Vec::new(),
            printed: Vec::new(),
            is_asked: false,
            has_responded: false,
        })
    }

    /// Returns true if the program has responded to a request. Until then, the program can still
    /// be loading.
    #[must_use]
    pub const fn has_responded(&self) -> bool {
        self.has_responded
    }

    /// Returns true if no response is pending. A response that is still pending is too late: if it
    /// arrives within `within`, it is dropped. Returns false if the program is still loading.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::request`].
    pub async fn is_ready(&mut self, within: Duration) -> anyhow::Result<bool> {
        Ok(!self.is_asked || self.response(within).await?.is_some())
    }

    /// Sends `input` to the program and returns the next line that it prints. Drops lines that it
    /// printed after its last response, which would otherwise respond to `input`. Waits at most for
    /// `within`. If the wait ends and the program has never responded, returns `None`, since the program
    /// can still be loading. [`Self::is_ready`] then handles the late response.
    ///
    /// # Errors
    /// If the program exits, prints too much, or does not respond in time although it has
    /// responded before. The program must not be used after an error.
    pub async fn request(
        &mut self,
        input: &str,
        within: Duration,
    ) -> anyhow::Result<Option<String>> {
        self.said.lock().n_shown = 0;
        self.drop_leftover().await?;
        self.unsent = input.as_bytes().to_vec();
        self.is_asked = true;
        self.response(within).await
    }

    async fn drop_leftover(&mut self) -> anyhow::Result<()> {
        let mut n_dropped = 0;
        while let Ok(printed) = timeout(LEFTOVER_WITHIN, self.stdout.fill_buf()).await {
            let n_bytes = printed?.len();
            if n_bytes == 0 {
                break;
            }
            self.stdout.consume(n_bytes);
            n_dropped += u64::try_from(n_bytes).unwrap_or(u64::MAX);
            if n_dropped >= RESPONSE_BYTES_MAX {
                bail!("the program prints without a request");
            }
        }
        if n_dropped > 0 {
            (self.tell)("dropped output that the program printed without a request");
        }
        Ok(())
    }

    async fn response(&mut self, within: Duration) -> anyhow::Result<Option<String>> {
        let exchanged = timeout(within, self.exchange()).await;
        if exchanged.is_err() && !self.has_responded {
            return Ok(None);
        }
        exchanged.unwrap_or_else(|_| Err(late(within)))?;
        let line = take(&mut self.printed);
        if line.ends_with(b"\n") {
            (self.is_asked, self.has_responded) = (false, true);
            return text(line).map(Some);
        }
        check_size(&line)?;
        let exit = self.wait_for_exit(within).await?;
        bail!("{exit}")
    }

    /// Sends the request and reads a line of the response. Continues where a cancelled call has
    /// stopped.
    async fn exchange(&mut self) -> anyhow::Result<()> {
        let Self { stdin, stdout, unsent, printed, .. } = self;
        let write = async {
            while let (Some(stdin), false) = (stdin.as_mut(), unsent.is_empty()) {
                match stdin.write(unsent).await {
                    Ok(n_bytes) if n_bytes > 0 => drop(unsent.drain(..n_bytes)),
                    // The program has exited or has closed its input. `response` reports the
                    // failure.
                    _ => return,
                }
            }
        };
        let read = async {
            let n_printed = u64::try_from(printed.len()).unwrap_or(u64::MAX);
            let left = RESPONSE_BYTES_MAX.saturating_sub(n_printed);
            if !printed.ends_with(b"\n") {
                stdout.take(left).read_until(b'\n', printed).await?;
            }
            anyhow::Ok(())
        };
        tokio::join!(write, read).1
    }

    /// Sends `input` to the program, closes its standard input, and waits for its exit, at most
    /// for `within`. Returns the last line of output that is not blank.
    ///
    /// # Errors
    /// If the program fails, does not exit in time, or prints nothing or too much.
    pub async fn finish(mut self, input: &str, within: Duration) -> anyhow::Result<String> {
        let (stdin, stdout) = (self.stdin.take(), &mut self.stdout);
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program may exit without reading its input.
                drop(stdin.write_all(input.as_bytes()).await);
            }
        };
        let read = async {
            let mut output = Vec::new();
            stdout.take(RESPONSE_BYTES_MAX).read_to_end(&mut output).await?;
            anyhow::Ok(output)
        };
        let output = within_limit(within, async { tokio::join!(write, read).1 }).await?;
        check_size(&output)?;
        let exit = self.wait_for_exit(within).await?;
        if !exit.is_success {
            bail!("{exit}");
        }
        let output = text(output)?;
        let line = output.lines().rev().find(|line| !line.trim().is_empty());
        line.map(str::to_owned).context("the program printed nothing")
    }

    /// Waits for the exit of the program, at most for `within`.
    async fn wait_for_exit(&mut self, within: Duration) -> anyhow::Result<ProgramExit> {
        let status = within_limit(within, async { Ok(self.leader.0.wait().await?) }).await?;
        // After a timeout, the lines that were read so far are used.
        drop(timeout(ERRORS_WITHIN, &mut self.errors_end).await);
        let last_line = self.said.lock().last_line.take();
        Ok(ProgramExit { is_success: status.success(), code: status.code(), last_line })
    }
}

/// Exit status of a program, and its last line of standard error.
struct ProgramExit {
    is_success: bool,
    code: Option<i32>,
    last_line: Option<String>,
}

impl std::fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) if EXIT_NO_COMMAND.contains(&code) => {
                write!(f, "the command cannot be run (exit code {code})")?;
            }
            Some(code) => write!(f, "the program exited with code {code}")?,
            None => f.write_str("the program was killed by a signal")?,
        }
        match &self.last_line {
            Some(line) => write!(f, "; its last error line: {}", escape_line(line)),
            None => Ok(()),
        }
    }
}

fn check_size(output: &[u8]) -> anyhow::Result<()> {
    if u64::try_from(output.len()).is_ok_and(|n_bytes| n_bytes < RESPONSE_BYTES_MAX) {
        return Ok(());
    }
    bail!("the program printed {RESPONSE_BYTES_MAX} bytes or more for one response")
}

/// Waits for `work`, at most for `limit`.
async fn within_limit<T>(
    limit: Duration,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(late(limit)))
}

fn late(limit: Duration) -> anyhow::Error {
    anyhow!("the program did not respond within {:.1} s", limit.as_secs_f64())
}

fn text(bytes: Vec<u8>) -> anyhow::Result<String> {
    String::from_utf8(bytes).context("output of the program is not UTF-8")
}

/// Displays the lines of standard error.
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
            n if n == ERROR_LINES_MAX + 1 => tell("program: further lines are hidden"),
            _ => {}
        }
    };
    read_lines(stderr, ERROR_LINE_BYTES_MAX, show).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    const LONG: Duration = Duration::from_mins(1);

    fn program(command: &str) -> Program {
        Program::start(command, &BTreeMap::new(), &Group::default(), |_| ()).unwrap()
    }

    #[tokio::test]
    async fn program_that_loads_too_long_is_not_stopped_but_its_late_response_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let loaded = folder.path().join("loaded");
        let echo = "while read -r line; do echo \"got $line\"; done";
        let load = format!("while [ ! -e {} ]; do sleep 0.01; done; {echo}", loaded.display());
        let mut program = program(&load);
        // The input does not fit into a pipe, so the rest is only sent when the program reads.
        let first = "x".repeat(200_000) + "\n";
        assert!(program.is_ready(SHORT).await.unwrap(), "nothing was asked yet");
        assert_eq!(program.request(&first, SHORT).await.unwrap(), None);
        assert!(!program.is_ready(SHORT).await.unwrap() && !program.has_responded());
        std::fs::write(&loaded, "").unwrap();
        assert!(program.is_ready(LONG).await.unwrap());
        let answer = program.request("second\n", LONG).await.unwrap();
        assert_eq!(answer.as_deref(), Some("got second\n"));
    }

    #[tokio::test]
    async fn further_lines_of_a_response_do_not_respond_to_the_next_request() {
        let twice = r#"while read -r line; do printf '%s\n%s\n' "$line" "$line"; done"#;
        let mut program = program(twice);
        for line in ["first\n", "second\n", "third\n"] {
            assert_eq!(program.request(line, LONG).await.unwrap().as_deref(), Some(line));
        }
    }

    #[tokio::test]
    async fn program_must_respond_in_time_after_its_first_response() {
        let mut program = program("read -r line; echo \"$line\"; read -r line; sleep 600");
        assert_eq!(program.request("first\n", LONG).await.unwrap().as_deref(), Some("first\n"));
        let error = program.request("second\n", SHORT).await.unwrap_err();
        assert_eq!(error.to_string(), "the program did not respond within 0.0 s");
    }

    #[tokio::test]
    async fn error_for_an_exit_while_loading_contains_the_reason() {
        let mut program = program("read -r line; echo no such model >&2; exit 3");
        let error = program.request("first\n", LONG).await.unwrap_err().to_string();
        let want = "the program exited with code 3; its last error line: no such model";
        assert_eq!(error, want);
    }
}
