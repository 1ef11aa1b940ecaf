//! A command of the program that runs to its end, in a home of its own.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command as Process, Output, Stdio},
};

use tempfile::TempDir;

use crate::support::{
    CACHE, ROOT, TRIPTYCH,
    running::{Running, first_line_only},
};

/// A home in which commands run. Nothing of the tester's own environment reaches them.
pub(crate) struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
    program: PathBuf,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its exit code.
    pub(crate) code: i32,
    /// Its standard output.
    pub(crate) out: String,
    /// Its standard error.
    pub(crate) err: String,
}

impl Home {
    /// An empty home.
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            variables: Vec::new(),
            program: PathBuf::from(TRIPTYCH),
        }
    }

    /// The same with a variable in the environment.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with the program called by another name.
    pub(crate) fn calling(self, program: PathBuf) -> Self {
        Self { program, ..self }
    }

    /// A path in it, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes a file, and the folders above it, and returns its path.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    /// Writes a program, as [`Self::write`] does.
    pub(crate) fn write_program(&self, name: &str, content: &str) -> String {
        let path = self.write(name, content.as_bytes());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        path
    }

    /// Runs a command.
    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.run_with(arguments, b"")
    }

    /// Runs a command that is to do well, and returns its standard output.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        said.out
    }

    /// Runs a command that is to fail, and returns its standard error.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, 1, "{arguments:?}: {said:?}");
        assert!(said.err.starts_with("triptych: cannot "), "{arguments:?}: {said:?}");
        said.err
    }

    /// Starts a command that goes on by itself.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::of(self.spawn(arguments))
    }

    /// The same as a script starts one with `&`: it is not interrupted unless it asks to be.
    pub(crate) fn start_in_background(&self, arguments: &[&str]) -> Running {
        let program = self.program.to_str().unwrap();
        let script = ["-c", "trap '' INT; exec \"$0\" \"$@\"", program];
        Running::of(self.spawn_program("sh".as_ref(), &[&script, arguments].concat()))
    }

    /// Runs a command of whose output only the first line is read; returns that, and the exit code.
    pub(crate) fn first_line_only(&self, arguments: &[&str]) -> (String, Option<i32>) {
        first_line_only(self.spawn(arguments))
    }

    /// Runs a command whose standard output nobody reads; returns its standard error, and the exit
    /// code.
    pub(crate) fn unread(&self, arguments: &[&str]) -> (String, Option<i32>) {
        let mut child = self.spawn(arguments);
        drop(child.stdout.take());
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        (String::from_utf8(stderr).unwrap(), status.code())
    }

    /// Runs a command that is given `input`.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut child = self.spawn(arguments);
        // A command need not read what it is given.
        drop(child.stdin.take().unwrap().write_all(input));
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        Said {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        self.spawn_program(&self.program, arguments)
    }

    fn spawn_program(&self, program: &Path, arguments: &[&str]) -> Child {
        Process::new(program)
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

/// A demo function that the program ships.
pub(crate) fn demo(name: &str) -> String {
    let path = Path::new(ROOT).join("assets/functions").join(name);
    path.display().to_string()
}
