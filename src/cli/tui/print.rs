//! Prints the default configuration files of the screen, to be copied and changed.

use ::tui::{
    keymap::defaults_text,
    theme::{self, custom},
    widget::symbols::Symbols,
};
use anyhow::Context as _;
use clap::Args;

use crate::cli::output;

/// A configuration file with everything that may stand in it, all of it left out.
const CONFIG: &str = include_str!("../../../assets/config.toml");

/// What every set of symbols is tried on.
const CARD: [(&str, &str); 6] = [
    ("borders ", "╭─────┬─────╮ │ ├─────┼─────┤ ╰─────┴─────╯"),
    ("dots    ", "⣀⣀⡠⠤⠒⠊⠉⠉⠑⠢⢄⣀⡠⠔⠊⠉⠒⢄⡀ ⣿⣷⣶⣦⣤⣄⣀"),
    ("blocks  ", "▁▂▃▄▅▆▇█ ▏▎▍▌▋▊▉█ ░▒▓"),
    ("candles ", "╷ █ ┃ ▒ ╵ │"),
    ("marks   ", "● ○ ◆ ◇ ▲ ▼ ▸ ◂ ✓ ✗ ★"),
    ("keys    ", "⏎ ⇥ ⇧ ⌫ ↑ ↓ ← → …"),
];

/// What is printed instead of opening the screen.
#[derive(Debug, Args)]
pub(crate) struct PrintFlags {
    /// Print a configuration file with all that may stand in it
    #[arg(long, exclusive = true)]
    print_config: bool,
    /// Print every key, as keymap.toml would have it
    #[arg(long, exclusive = true)]
    print_keys: bool,
    /// Print the colors of a theme, as a file in the folder themes would have them
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "dark")]
    print_theme: Option<theme::Name>,
    /// Print the symbols that charts and marks are drawn with, to see which of them the font has
    #[arg(long, exclusive = true)]
    glyphs: bool,
}

impl PrintFlags {
    /// Prints what the flags request; returns whether they request anything.
    ///
    /// # Errors
    /// If it cannot be written, or a theme has no colors of its own.
    pub(super) fn print(&self) -> anyhow::Result<bool> {
        let text = if self.print_config {
            CONFIG.to_owned()
        } else if self.print_keys {
            defaults_text()
        } else if let Some(name) = self.print_theme {
            custom::text_of(name)
                .with_context(|| format!("print {name}: its colors are the terminal's own"))?
        } else if self.glyphs {
            card()
        } else {
            return Ok(false);
        };
        output::write(text.as_bytes())?;
        Ok(true)
    }
}

/// The symbols of each set, under its name.
fn card() -> String {
    let mut text = String::from(
        "Take the first set that looks right: no boxes, no gaps, borders that meet.\n\
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
    fn what_is_printed_can_be_put_to_use() {
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
    fn the_card_of_plain_symbols_is_plain() {
        let card = card();
        let (_, ascii) = card.split_once("\nascii\n").unwrap();
        assert!(ascii.is_ascii(), "{ascii}");
    }
}
