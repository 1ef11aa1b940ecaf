//! The program `triptych`. Without a subcommand it opens the screen.

use std::process::ExitCode;

fn main() -> ExitCode {
    triptych::cli::main()
}
