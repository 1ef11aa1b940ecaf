//! `triptych completions` and `triptych man`: what shells and readers of manuals need.

use std::{fs, io, path::Path};

use anyhow::Context as _;
use clap::{Command, ValueEnum};
use clap_complete::{Shell, env::Shells};

use crate::cli::{completion, output::write};

/// The names under which shells complete the program.
const PROGRAMS: [&str; 2] = ["triptych", "tui"];

/// The date on the pages of the manual: that of their last change in kind, since readers of manuals
/// want one.
const MANUAL_DATE: &str = "2026-11-23";

/// A guide beside the pages of commands.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Guide {
    /// How to run services for others: ports, TLS, backup, upgrade, limits, logs, monitoring
    Operate,
}

impl Guide {
    /// The guide: headings at the start of a line, the rest indented.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Operate => include_str!("../../assets/operate.txt"),
        }
    }

    /// Its page of the manual, which keeps the lines unchanged.
    fn page(self) -> Page {
        let Self::Operate = self;
        let version = env!("CARGO_PKG_VERSION");
        let lines = self.text().lines().map(|line| {
            let escaped = line.replace('\\', "\\e").replace('-', "\\-");
            match escaped.strip_prefix("  ") {
                Some(line) => format!("{line}\n"),
                None if line.is_empty() => ".sp\n".to_owned(),
                None if line == "NAME" => ".SH NAME\n".to_owned(),
                None => format!(".SH {line}\n.nf\n"),
            }
        });
        let heading = format!(".TH triptych-operate 7 {MANUAL_DATE} \"triptych {version}\"\n");
        let text = heading + &lines.collect::<String>();
        Page { name: "triptych-operate".to_owned(), section: 7, text }
    }
}

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

/// Prints the manual page of `command`, then those of its subcommands; or writes each, and the guide,
/// to a file in `folder`.
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
    for page in pages.into_iter().chain([Guide::Operate.page()]) {
        let path = folder.join(format!("{}.{}", page.name, page.section));
        fs::write(&path, page.text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// A page of the manual.
struct Page {
    name: String,
    section: u8,
    text: String,
}

fn render(command: &Command, pages: &mut Vec<Page>) -> io::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).date(MANUAL_DATE).render(&mut text)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    pages.push(Page { name, section: 1, text: tidied(&String::from_utf8_lossy(&text)) });
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
