//! `tui`: starts `triptych`, which is in the same directory and opens its screen.

use std::env::{args_os, current_exe};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Exit code of a shell for a command that cannot be executed.
const CANNOT_EXECUTE: u8 = 126;

#[expect(clippy::print_stderr, reason = "there is no log before the program has started")]
fn main() -> ExitCode {
    let mut arguments = args_os();
    let name = arguments.next().unwrap_or_else(|| "tui".into());
    let error = match current_exe().map(|tui| tui.with_file_name("triptych")) {
        // Returns only if executing the program fails.
        Ok(program) => {
            let error = Command::new(&program).arg0(name).args(arguments).exec();
            format!("cannot execute {}: {error}", program.display())
        }
        Err(error) => format!("cannot find the directory of this program: {error}"),
    };
    eprintln!("error: {error}");
    ExitCode::from(CANNOT_EXECUTE)
}
