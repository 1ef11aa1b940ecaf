//! Prints the default configuration files of the screen, to be copied and changed.

use ::tui::keymap::defaults_text;
use ::tui::theme::{self, custom};
use ::tui::widget::symbols::Symbols;
use anyhow::Context as _;
use clap::Args;

use crate::cli::output;

/// A configuration file with all settings, commented out.
const CONFIG: &str = include_str!("../../../assets/config.toml");

/// Samples that every set of symbols is shown with.
const CARD: [(&str, &str); 6] = [
    ("borders ", "╭─────┬─────╮ │ ├─────┼─────┤ ╰─────┴─────╯"),
    ("dots    ", "⣀⣀⡠⠤⠒⠊⠉⠉⠑⠢⢄⣀⡠⠔⠊⠉⠒⢄⡀ ⣿⣷⣶⣦⣤⣄⣀"),
    ("blocks  ", "▁▂▃▄▅▆▇█ ▏▎▍▌▋▊▉█ ░▒▓"),
    ("candles ", "╷ █ ┃ ▒ ╵ │"),
    ("marks   ", "● ○ ◆ ◇ ▲ ▼ ▸ ◂ ✓ ✗ ★"),
    ("keys    ", "⏎ ⇥ ⇧ ⌫ ↑ ↓ ← → …"),
];

/// Flags to print something instead of opening the screen.
#[derive(Debug, Args)]
pub(crate) struct PrintFlags {
    /// Print a configuration file with all settings
    #[arg(long, exclusive = true)]
    print_config: bool,
    /// Print all keys, as in keymap.toml
    #[arg(long, exclusive = true)]
    print_keys: bool,
    /// Print the colors of a theme, as in a file of the directory themes
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "dark")]
    print_theme: Option<theme::Name>,
    /// Print the symbols of charts and marks, to see which of them the font has
    #[arg(long, exclusive = true)]
    glyphs: bool,
}

impl PrintFlags {
    /// Prints what the flags request. Returns false if they request no output.
    ///
    /// # Errors
    /// If it cannot be printed, or a theme has no own colors.
    pub(super) fn print(&self) -> anyhow::Result<bool> {
        let text = if self.print_config {
            CONFIG.to_owned()
        } else if self.print_keys {
            defaults_text()
        } else if let Some(name) = self.print_theme {
            custom::text_of(name)
                .with_context(|| format!("theme {name} has only the terminal's own colors"))?
        } else if self.glyphs {
            symbols_card()
        } else {
            return Ok(false);
        };
        output::write(text.as_bytes())?;
        Ok(true)
    }
}

/// Formats the samples in each set of symbols.
fn symbols_card() -> String {
    let mut text = String::from(
        "Choose the first set that looks right: no boxes, no gaps, borders that meet.\n\
         In config.toml: [screen] symbols = \"…\"; or --symbols …\n",
    );
    for symbols in [Symbols::Braille, Symbols::Blocks, Symbols::Ascii] {
        text.extend(["\n", &symbols.to_string(), "\n"]);
        for (what, sample) in CARD {
            text.extend(["  ", what, &symbols.text(sample), "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_files_are_valid() {
        let all: String = CONFIG
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(rest) if rest.starts_with('[') || rest.contains(" = ") => format!("{rest}\n"),
                _ => String::new(),
            })
            .collect();
        crate::cli::config::check(&all).unwrap();
        toml::from_str::<toml::Table>(&defaults_text()).unwrap();
    }

    #[test]
    fn card_of_ascii_symbols_is_ascii() {
        let card = symbols_card();
        let (_, ascii) = card.split_once("\nascii\n").unwrap();
        assert!(ascii.is_ascii(), "{ascii}");
    }
}
