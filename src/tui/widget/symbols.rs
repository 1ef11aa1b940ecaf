//! Replaces symbols that the terminal's font lacks.
//!
//! Widgets draw with the finest symbols. After a frame is drawn, its symbols are replaced for
//! fonts without them. Letters of any script remain.

use ratatui::buffer::Buffer;

/// Symbols that the terminal's font contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = SymbolsError, parse_err_fn = no_symbols)]
pub enum Symbols {
    /// Braille dots, blocks, lines and marks.
    #[default]
    Braille,
    /// No braille dots, which some fonts draw as boxes.
    Blocks,
    /// Symbols are ASCII characters.
    Ascii,
}

/// A text is not the name of a set of symbols.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown symbol set `{text}`, expected braille, blocks or ascii")]
pub struct SymbolsError {
    text: String,
}

/// First braille symbol, which has no dots.
const BRAILLE: u32 = 0x2800;

/// Symbols by the quarters of a cell that are filled. The bits of the index are top left, top
/// right, bottom left and bottom right.
const QUARTERS: [&str; 16] =
    [" ", "▘", "▝", "▀", "▖", "▌", "▞", "▛", "▗", "▚", "▐", "▜", "▄", "▙", "▟", "█"];

/// ASCII symbols by the share of a cell that is filled.
const SHADES: [&str; 5] = [" ", ".", ":", "+", "#"];

/// Symbols, and the ASCII symbol that replaces them.
const ASCII: [(&str, &str); 27] = [
    ("─━┄┅┈┉╌—–−", "-"),
    ("│┃┆┊┇┋╎╏╵╷▏▎▍", "|"),
    ("╭╮╰╯┌┐└┘├┤┬┴┼┿┯┷┻┠┨┝┥", "+"),
    ("█▇▆▉▊▓", "#"),
    ("▅▄▀▌▐▋▒▛▜▙▟▚▞", "="),
    ("▃▂░▖▗▘▝", ":"),
    ("▁·•", "."),
    ("●", "*"),
    ("◉", "@"),
    ("◆", "#"),
    ("★", "+"),
    ("○◇", "o"),
    ("◌", "?"),
    ("◐", "%"),
    ("▲▴↑", "^"),
    ("▼▾↓", "v"),
    ("▸→›❯", ">"),
    ("◂←‹", "<"),
    ("✓", "y"),
    ("✗", "x"),
    ("⊘", "/"),
    ("…", "~"),
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
    /// Returns the symbols of a terminal, judging by the variable `TERM`. The font of the Linux
    /// console has no braille dots.
    #[must_use]
    pub fn of_terminal(term: &str) -> Self {
        if term == "linux" { Self::Blocks } else { Self::Braille }
    }

    /// Replaces the symbols in `buf` that the font lacks.
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

    /// Replaces the symbols in `text` that the font lacks.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        let mut written = String::new();
        for letter in text.chars() {
            let letter = letter.to_string();
            written.push_str(self.instead(&letter).unwrap_or(&letter));
        }
        written
    }

    /// Returns the replacement of `symbol`, or `None` if the font contains it.
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

/// Returns the quarters that contain braille dots, as an index in [`QUARTERS`].
fn quarters(dots: u8) -> usize {
    /// Bits of the dots in each quarter, as numbered by Unicode.
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
    fn dots_of_a_chart_are_replaced_by_symbols_that_the_font_has() {
        check(Symbols::Braille, "⣿⠁ ╭─╮", "⣿⠁ ╭─╮");
        check(Symbols::Blocks, "⠀⠁⠈⡀⢀⣿⠛⣤ ╭─╮", " ▘▝▖▗█▀▄ ╭─╮");
        check(Symbols::Ascii, "⠀⠁⠛⣿ ╭─╮ ●▲▼", " .:# +-+ *^v");
    }

    #[test]
    fn symbols_of_a_legend_remain_different_in_ascii() {
        for legend in ["●◉◌!✗⊘◐○", "●○·◌★", "●▲◆◇─░"] {
            let mut ascii: Vec<char> = Symbols::Ascii.text(legend).chars().collect();
            ascii.sort_unstable();
            ascii.dedup();
            assert_eq!(ascii.len(), legend.chars().count(), "{legend}: {ascii:?}");
        }
    }

    #[test]
    fn letters_of_any_script_are_not_replaced() {
        check(Symbols::Ascii, "語 naïve", "語 naïve");
    }

    #[test]
    fn names_of_symbol_sets_round_trip() {
        for name in ["braille", "blocks", "ascii"] {
            assert_eq!(name.parse::<Symbols>().unwrap().to_string(), name);
        }
        let error = "dots".parse::<Symbols>().unwrap_err().to_string();
        assert!(error.contains("blocks"), "{error}");
    }
}
