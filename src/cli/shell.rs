//! `triptych completions` and `triptych man`: what shells and readers of manuals need, on standard
//! output.

use std::io;

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;

use crate::cli::output::write;

/// The name under which shells complete the program.
const PROGRAM: &str = "triptych";

/// Prints the completions of `command` for `shell`.
///
/// # Errors
/// If standard output takes nothing.
pub(super) fn completions(mut command: Command, shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
    write(&script)
}

/// Prints the manual page of `command`, then those of its subcommands.
///
/// # Errors
/// If standard output takes nothing.
pub(super) fn manual(command: Command) -> anyhow::Result<()> {
    let mut page = Vec::new();
    let mut command = command;
    // Fills in what subcommands take from the whole.
    command.build();
    render(&command, &mut page).context("write the manual")?;
    write(&page)
}

fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    clap_mangen::Man::new(command.clone()).render(page)?;
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        if subcommand.get_name() != "help" {
            render(subcommand, page)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_has_a_page_for_each_subcommand() {
        let command = Command::new("a").subcommand(Command::new("b").about("does it"));
        let mut page = Vec::new();
        render(&command, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.matches(".TH ").count(), 2, "{page}");
        assert!(page.contains("does it"), "{page}");
    }
}
