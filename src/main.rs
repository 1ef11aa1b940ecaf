//! `triptych`: the whole program. Without a subcommand it opens its screen.

use std::process::ExitCode;

fn main() -> ExitCode {
    triptych::cli::main()
}
