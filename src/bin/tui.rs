//! `tui`: the same program under a shorter name, started on its screen.

use std::process::ExitCode;

fn main() -> ExitCode {
    triptych::cli::main()
}
