//! What charts, borders and marks are drawn with, for fonts that lack some of it.
//!
//! Widgets draw with the finest symbols. Where a terminal's font does not have them, a drawn buffer
//! is gone over once more and each symbol is put in place of the one that stands for it; letters of
//! any script are left as they are.

use ratatui::buffer::Buffer;

/// The symbols that a terminal's font has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = SymbolsError, parse_err_fn = no_symbols)]
pub enum Symbols {
    /// Dots, blocks, lines and marks.
    #[default]
    Braille,
    /// The same without dots, which some fonts draw as boxes.
    Blocks,
    /// Letters, digits and signs that every font has.
    Ascii,
}

/// A text names no symbols.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{text}` as symbols, which are braille, blocks or ascii")]
pub struct SymbolsError {
    text: String,
}

/// The first of the braille symbols, the one without dots; the last one has all eight.
const BRAILLE: u32 = 0x2800;

/// The quarters of a cell, by the bits of those filled: top left, top right, bottom left, bottom
/// right.
const QUARTERS: [&str; 16] =
    [" ", "▘", "▝", "▀", "▖", "▌", "▞", "▛", "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"];

/// ASCII by how much of a cell is filled, from nothing to all of it.
const SHADES: [&str; 5] = [" ", ".", ":", "+", "#"];

/// What stands for other symbols in ASCII: those, and the one.
const ASCII: [(&str, &str); 26] = [
    ("─━┄┅┈┉╌—–−", "-"),
    ("│┃┆┊┇┋╎╏╵╷▏▎▍", "|"),
    ("╭╮╰╯┌┐└┘├┤┬┴┼┿┯┷┻┠┨┝┥", "+"),
    ("█▇▆▉▊▓", "#"),
    ("▅▄▀▌▐▋▒▛▜▙▟▚▞", "="),
    ("▃▂░▖▗▘▝", ":"),
    ("▁·•", "."),
    ("●◉◆★", "*"),
    ("○◇◌", "o"),
    ("◐", "%"),
    ("▲▴↑", "^"),
    ("▼▾↓", "v"),
    ("▸→›❯", ">"),
    ("◂←‹", "<"),
    ("✓", "y"),
    ("✗⊘", "x"),
    ("…", "~"),
    ("⏎", "E"),
    ("⇥", "T"),
    ("⇧", "S"),
    ("⌫", "B"),
    ("⌕", "?"),
    ("∞", "8"),
    ("≥", ">"),
    ("σ", "s"),
    ("Δ", "d"),
];

fn no_symbols(text: &str) -> SymbolsError {
    SymbolsError { text: text.chars().take(32).collect() }
}

impl Symbols {
    /// The symbols that terminals called so (`TERM`) surely have: the console's font has no dots.
    #[must_use]
    pub fn of_terminal(term: &str) -> Self {
        if term == "linux" { Self::Blocks } else { Self::Braille }
    }

    /// Puts what the font has in place of what it has not, all over `buf`.
    pub fn apply(self, buf: &mut Buffer) {
        if self == Self::Braille {
            return;
        }
        for cell in &mut buf.content {
            if let Some(symbol) = self.instead(cell.symbol()) {
                cell.set_symbol(symbol);
            }
        }
    }

    /// A text with what the font has in it.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        let mut written = String::new();
        for letter in text.chars() {
            let letter = letter.to_string();
            written.push_str(self.instead(&letter).unwrap_or(&letter));
        }
        written
    }

    /// What is drawn instead of `symbol`; none for itself.
    fn instead(self, symbol: &str) -> Option<&'static str> {
        let mut letters = symbol.chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else { return None };
        if self == Self::Braille || letter.is_ascii() {
            return None;
        }
        let dots = u32::from(letter).checked_sub(BRAILLE).and_then(|dots| u8::try_from(dots).ok());
        match (dots, self) {
            (Some(dots), Self::Blocks) => QUARTERS.get(quarters(dots)).copied(),
            (Some(dots), _) => SHADES.get(dots.count_ones().div_ceil(2) as usize).copied(),
            (None, Self::Ascii) => {
                ASCII.iter().find(|(those, _)| those.contains(letter)).map(|(_, one)| *one)
            }
            (None, _) => None,
        }
    }
}

/// The quarters of a cell that hold dots, as bits of a place among [`QUARTERS`].
fn quarters(dots: u8) -> usize {
    /// The dots of each quarter, as Unicode numbers them.
    const DOTS: [u8; 4] = [0x03, 0x18, 0x44, 0xa0];
    (0..).zip(DOTS).map(|(bit, of)| usize::from(dots & of != 0) << bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(symbols: Symbols, text: &str, want: &str) {
        assert_eq!(symbols.text(text), want);
    }

    #[test]
    fn every_font_has_what_stands_for_dots() {
        check(Symbols::Braille, "⣿⠁ ╭─╮", "⣿⠁ ╭─╮");
        check(Symbols::Blocks, "⠀⠁⠈⡀⢀⣿⠛⣤ ╭─╮", " ▘▝▖▗█▀▄ ╭─╮");
        check(Symbols::Ascii, "⠀⠁⠛⣿ ╭─╮ ●▲▼", " .:# +-+ *^v");
    }

    #[test]
    fn words_of_any_script_are_left_alone() {
        check(Symbols::Ascii, "語 naïve", "語 naïve");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["braille", "blocks", "ascii"] {
            assert_eq!(name.parse::<Symbols>().unwrap().to_string(), name);
        }
        let error = "dots".parse::<Symbols>().unwrap_err().to_string();
        assert!(error.contains("blocks"), "{error}");
    }
}
