//! `triptych completions` and `triptych man`: shell completions and the manual.

use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::cli::completion;
use crate::cli::output::write;

/// Names of the program for which shells request completions.
const PROGRAMS: [&str; 2] = ["triptych", "tui"];

/// Date of the last substantial change of the manual. By convention, each page contains a date.
const MANUAL_DATE: &str = "2026-11-23";

/// End of the completion script for zsh, which completes if zsh loaded the script for that.
const ZSH_FIRST: &str = "if [ \"$funcstack[1]\" = \"_triptych\" ]; then\n    \
    _clap_dynamic_completer_triptych \"$@\"\nfi\n";

/// Guide in the manual, in addition to the pages of commands.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Guide {
    /// Operation of services for other users: ports, TLS, backup, upgrade, limits, logs, monitoring
    Operate,
}

impl Guide {
    /// Returns the text of the guide. Headings begin at the start of a line, and all other lines are
    /// indented.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Operate => include_str!("../../assets/operate.txt"),
        }
    }

    /// Returns the guide as a page of the manual, with the same line breaks as in its text.
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

/// Prints a script that makes `shell` request completions from this program. The script applies to each
/// of [`PROGRAMS`].
///
/// # Errors
/// If standard output fails.
pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).context("shell is not supported")?;
    let mut script = Vec::new();
    for program in PROGRAMS {
        completer
            .write_registration(completion::VARIABLE, program, program, program, &mut script)
            .context("cannot write the completions")?;
    }
    if shell == Shell::Zsh {
        // Zsh loads the script as a function at the first completion, which it must also answer.
        script.extend(ZSH_FIRST.as_bytes());
    }
    write(&script)
}

/// Prints the manual pages of `command` and its subcommands. If `folder` is given, instead writes each
/// page, and the guide, to a file in the directory of its section in `folder`.
///
/// # Errors
/// If a page cannot be written.
pub(super) fn manual(command: Command, folder: Option<&Path>) -> anyhow::Result<()> {
    let mut pages = Vec::new();
    // `build` adds inherited options to the subcommands, so that their pages contain them.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    render(&command, &mut pages).context("cannot write the manual")?;
    let Some(folder) = folder else {
        return write(pages.iter().map(|page| page.text.as_str()).collect::<String>().as_bytes());
    };
    for page in pages.into_iter().chain([Guide::Operate.page()]) {
        let folder = folder.join(format!("man{}", page.section));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(format!("{}.{}", page.name, page.section));
        fs::write(&path, page.text).with_context(|| format!("cannot write {}", path.display()))?;
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
    let source = concat!("triptych ", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).date(MANUAL_DATE).source(source);
    page.render(&mut text)?;
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let text = with_own_breaks(&String::from_utf8_lossy(&text));
    pages.push(Page { name, section: 1, text });
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        render(subcommand, pages)?;
    }
    Ok(())
}

/// Keeps the line breaks of indented lines, which are examples. Removes requests for line breaks next to
/// vertical space, since checkers of manual pages complain about them.
fn with_own_breaks(page: &str) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let is_space =
        |line: Option<&&str>| line.is_some_and(|line| line.is_empty() || line.starts_with(".sp"));
    let (mut text, mut is_filled) = (String::new(), true);
    for (idx, line) in lines.iter().enumerate() {
        let before = idx.checked_sub(1).and_then(|idx| lines.get(idx));
        if *line == ".br" && (is_space(before) || is_space(lines.get(idx + 1))) {
            continue;
        }
        if line.starts_with(' ') == is_filled {
            text.push_str(if is_filled { ".nf\n" } else { ".fi\n" });
            is_filled = !is_filled;
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
    fn man_page_has_no_line_break_next_to_an_empty_line() {
        assert_eq!(with_own_breaks("a\n.br\n\n.br\nb\n.br\nc\n"), "a\n\nb\n.br\nc\n");
    }

    #[test]
    fn examples_in_a_man_page_keep_their_line_breaks() {
        let page = "Examples:\n  a = 1   # one\n  b\n\ntext\n.SH X\n";
        let want = "Examples:\n.nf\n  a = 1   # one\n  b\n.fi\n\ntext\n.SH X\n";
        assert_eq!(with_own_breaks(page), want);
    }

    #[test]
    fn manual_has_a_page_for_each_subcommand() {
        let argument = clap::Arg::new("c").long("c").env("A_C").help("sets it");
        let command =
            Command::new("a").subcommand(Command::new("b").about("does it").arg(argument));
        let mut pages = Vec::new();
        render(&command, &mut pages).unwrap();
        assert_eq!(pages.len(), 2);
        for part in ["does it", MANUAL_DATE, "A_C", "triptych 0."] {
            assert!(pages[1].text.contains(part), "{}", pages[1].text);
        }
    }
}
