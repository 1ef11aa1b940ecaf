//! `triptych completions` and `triptych man`: what shells and readers of manuals need.

use std::{fs, io, path::Path};

use anyhow::Context as _;
use clap::Command;
use clap_complete::{Shell, env::Shells};

use crate::cli::{completion, output::write};

/// The names under which shells complete the program.
const PROGRAMS: [&str; 2] = ["triptych", "tui"];

/// The date on the pages of the manual: that of their last change in kind, since readers of manuals
/// want one.
const MANUAL_DATE: &str = "2026-11-23";

/// Prints what has `shell` ask this program for completions, under each of its names.
///
/// # Errors
/// If standard output takes nothing.
pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).context("complete in this shell")?;
    let mut script = Vec::new();
    for program in PROGRAMS {
        let registered = completer.write_registration(
            completion::VARIABLE,
            program,
            program,
            program,
            &mut script,
        );
        registered.context("write the completions")?;
    }
    write(&script)
}

/// Prints the manual page of `command`, then those of its subcommands; or writes each to a file in
/// `folder`.
///
/// # Errors
/// If a page cannot be written.
pub(super) fn manual(command: Command, folder: Option<&Path>) -> anyhow::Result<()> {
    let mut pages = Vec::new();
    // Fills in what subcommands take from the whole.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    render(&command, &mut pages).context("write the manual")?;
    let Some(folder) = folder else {
        return write(pages.iter().map(|page| page.text.as_str()).collect::<String>().as_bytes());
    };
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    for page in pages {
        let path = folder.join(format!("{}.1", page.name));
        fs::write(&path, page.text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// A page of the manual.
struct Page {
    name: String,
    text: String,
}

fn render(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).date(MANUAL_DATE).render(&mut text)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    pages.push(Page { name, text: tidied(&String::from_utf8_lossy(&text)) });
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        render(subcommand, pages)?;
    }
    Ok(())
}

/// The page without line breaks beside vertical space, of which readers of manuals complain.
fn tidied(page: &str) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let is_space =
        |line: Option<&&str>| line.is_some_and(|line| line.is_empty() || line.starts_with(".sp"));
    let mut text = String::new();
    for (idx, line) in lines.iter().enumerate() {
        let before = idx.checked_sub(1).and_then(|idx| lines.get(idx));
        if *line == ".br" && (is_space(before) || is_space(lines.get(idx + 1))) {
            continue;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_no_line_break_beside_space() {
        assert_eq!(tidied("a\n.br\n\n.br\nb\n.br\nc\n"), "a\n\nb\n.br\nc\n");
    }

    #[test]
    fn a_manual_has_a_page_for_each_subcommand() {
        let command = Command::new("a").subcommand(Command::new("b").about("does it"));
        let mut pages = Vec::new();
        render(&command, &mut pages).unwrap();
        assert_eq!(pages.len(), 2);
        assert!(pages[1].text.contains("does it") && pages[1].text.contains(MANUAL_DATE));
    }
}
