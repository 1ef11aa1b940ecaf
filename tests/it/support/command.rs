//! Commands of the program that run to completion, in a separate home directory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::running::{Running, wait_child};
use crate::support::{CACHE, ROOT, TRIPTYCH};

/// A home directory in which commands run. The commands do not get the tester's own environment.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
    program: PathBuf,
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit code, or -1 if a signal stopped the command.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Home {
    /// Creates an empty home directory.
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            variables: Vec::new(),
            program: PathBuf::from(TRIPTYCH),
        }
    }

    /// Adds an environment variable for the commands.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the program that is started for the commands.
    pub(crate) fn with_program(self, program: PathBuf) -> Self {
        Self { program, ..self }
    }

    /// Returns the path of `name` in this directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes a file, and creates the directories above it. Returns the path of the file.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Writes an executable file, as [`Self::write`] does.
    pub(crate) fn write_program(&self, name: &str, content: &str) -> String {
        let path = self.write(name, content.as_bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Runs a command.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, b"")
    }

    /// Runs a command that must succeed. Returns its standard output.
    #[track_caller]
    pub(crate) fn run_ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {output:?}");
        output.out
    }

    /// Runs a command that must fail with exit code 1. Returns its standard error.
    #[track_caller]
    pub(crate) fn run_err(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.code, 1, "{arguments:?}: {output:?}");
        assert!(!output.err.is_empty(), "{arguments:?}: {output:?}");
        output.err
    }

    /// Runs a command with `input` as its standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self.spawn(&self.program, arguments);
        // Writing fails for a command that does not read its input.
        drop(child.stdin.take().unwrap().write_all(input));
        wait_output(child)
    }

    /// Runs a command. Returns its standard output, which does not have to be UTF-8.
    pub(crate) fn run_for_bytes(&self, arguments: &[&str]) -> Vec<u8> {
        self.spawn(&self.program, arguments).wait_with_output().unwrap().stdout
    }

    /// Runs a command with its standard output closed from the start.
    pub(crate) fn run_without_stdout(&self, arguments: &[&str]) -> Output {
        let mut child = self.spawn(&self.program, arguments);
        drop(child.stdout.take());
        wait_output(child)
    }

    /// Runs a command and closes its standard output after it has written one line. Returns this line
    /// and the exit code.
    pub(crate) fn run_for_first_line(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let mut child = self.spawn(&self.program, arguments);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (line, wait_child(&mut child).code())
    }

    /// Starts a command that runs until it is stopped.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::from_command(self.spawn(&self.program, arguments))
    }

    /// Starts a command as a script does with `&`: SIGINT is ignored unless the program installs a
    /// handler.
    pub(crate) fn start_in_background(&self, arguments: &[&str]) -> Running {
        let program = self.program.to_str().unwrap();
        let script = ["-c", "trap '' INT; exec \"$0\" \"$@\"", program];
        Running::from_command(self.spawn("sh".as_ref(), &[&script, arguments].concat()))
    }

    fn spawn(&self, program: &Path, arguments: &[&str]) -> Child {
        Command::new(program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", CACHE)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

fn wait_output(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the path of a demo function that is part of the program.
pub(crate) fn demo(name: &str) -> String {
    Path::new(ROOT).join("assets/functions").join(name).display().to_string()
}
