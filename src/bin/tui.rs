//! `tui`: the same program under a shorter name, for those who live in its screen.

use std::process::ExitCode;

fn main() -> ExitCode {
    triptych::cli::main()
}
