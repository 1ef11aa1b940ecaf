//! Key bindings: one table defines the actions, the hints in the footer, and the help.
//!
//! A key has the same meaning in all layers if possible. Some keys are never bound: `^B` and `^A`,
//! the prefixes of tmux and screen, and `^Q` and `^J`, which terminals use. `^S` is bound only in
//! forms.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::screens::Screen;

mod action;
mod bindings;
mod table;

pub use action::Action;
pub(crate) use bindings::Bound;
pub use bindings::{Keymap, defaults_text};
pub(crate) use table::default_rows;

/// Keys that are not letters: name in a key file, key code, displayed text.
const NAMED: [(&str, KeyCode, &str); 15] = [
    ("space", KeyCode::Char(' '), "space"),
    ("enter", KeyCode::Enter, "⏎"),
    ("esc", KeyCode::Esc, "esc"),
    ("tab", KeyCode::Tab, "⇥"),
    ("shift-tab", KeyCode::BackTab, "⇧⇥"),
    ("up", KeyCode::Up, "↑"),
    ("down", KeyCode::Down, "↓"),
    ("left", KeyCode::Left, "←"),
    ("right", KeyCode::Right, "→"),
    ("home", KeyCode::Home, "home"),
    ("end", KeyCode::End, "end"),
    ("pgup", KeyCode::PageUp, "PgUp"),
    ("pgdn", KeyCode::PageDown, "PgDn"),
    ("backspace", KeyCode::Backspace, "⌫"),
    ("delete", KeyCode::Delete, "del"),
];

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Chord {
    /// Key that was pressed. A capital letter includes Shift.
    pub(crate) code: KeyCode,
    /// True if control was held.
    pub(crate) is_ctrl: bool,
    /// True if alt was held.
    pub(crate) is_alt: bool,
}

/// Scope of a binding. `state::State::layers` returns the active layers. In a key file, layers
/// have names such as `global` or `prompt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "kebab-case")]
pub(crate) enum Layer {
    /// Everywhere, including text fields.
    Always,
    /// Everywhere except in text fields.
    Global,
    /// All lists and tables.
    List,
    /// The Cluster screen.
    Cluster,
    /// The results on the Execute screen.
    Execute,
    /// The form on the Execute screen.
    Form,
    /// The Data screen.
    Data,
    /// The Inference screen.
    Inference,
    /// The Logs screen.
    Logs,
    /// The Overview screen.
    Overview,
    /// The help overlay.
    Help,
    /// An overlay with a question.
    Confirm,
    /// A focused filter or search.
    Edit,
    /// The palette overlay.
    Palette,
    /// A list in an overlay.
    Choice,
    /// The list of profiles.
    Profiles,
    /// The list of presets.
    Presets,
    /// The list of rules for alerts.
    Alerts,
    /// A form in an overlay, such as a prompt for a name.
    Prompt,
    /// The list of API keys.
    Keys,
    /// A report, such as that of an import.
    Report,
    /// Labels on all places that can be clicked.
    Jump,
    /// A frame of the past.
    Past,
}

/// Outcome of resolving a key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    Action(Action),
    /// The press is part of a longer sequence.
    Pending,
    /// No binding matches.
    Nothing,
}

impl Layer {
    /// Returns this layer and all layers that are active together with it, highest precedence
    /// first.
    pub(crate) fn chain(self) -> Vec<Self> {
        let shared: &[Self] = match self {
            Self::Profiles | Self::Choice | Self::Presets | Self::Alerts | Self::Keys => {
                &[Self::List, Self::Always]
            }
            _ if self.screen().is_some() && self != Self::Form => {
                &[Self::List, Self::Global, Self::Always]
            }
            _ => &[Self::Always],
        };
        [&[self], shared].concat()
    }

    /// Returns true if a letter is typed as text while this layer is active.
    pub(crate) fn is_typed(self) -> bool {
        let is_shared =
            matches!(self, Self::Global | Self::List | Self::Confirm | Self::Past | Self::Report);
        !is_shared && !self.chain().contains(&Self::List)
    }

    /// Returns the screen to which the layer belongs, if any.
    pub(crate) const fn screen(self) -> Option<Screen> {
        match self {
            Self::Cluster => Some(Screen::Cluster),
            Self::Execute | Self::Form => Some(Screen::Execute),
            Self::Data => Some(Screen::Data),
            Self::Inference => Some(Screen::Inference),
            Self::Logs => Some(Screen::Logs),
            Self::Overview => Some(Screen::Overview),
            _ => None,
        }
    }

    /// Returns the title of the layer's section in the help. Layers of overlays are not listed there.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Always | Self::Global => "EVERYWHERE",
            Self::List => "LISTS",
            Self::Form => "FORM",
            Self::Edit => "FILTER",
            _ => "THIS SCREEN",
        }
    }
}

impl Chord {
    /// Converts a key event of the terminal.
    pub(crate) fn from_event(event: &KeyEvent) -> Self {
        let is_ctrl = event.modifiers.contains(KeyModifiers::CONTROL);
        let is_shift = event.modifiers.contains(KeyModifiers::SHIFT);
        let code = match event.code {
            KeyCode::Tab if is_shift => KeyCode::BackTab,
            KeyCode::Char(letter) if is_ctrl => KeyCode::Char(letter.to_ascii_lowercase()),
            KeyCode::Char(letter) if is_shift => KeyCode::Char(letter.to_ascii_uppercase()),
            code => code,
        };
        Self { code, is_ctrl, is_alt: event.modifiers.contains(KeyModifiers::ALT) }
    }

    /// Parses the name of a key press, such as `ctrl-r`, `alt-x`, `shift-tab` or `G`.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let (is_ctrl, word) = without(word, "ctrl-");
        let (is_alt, word) = without(word, "alt-");
        let mut letters = word.chars();
        let code = match (letters.next(), letters.next()) {
            (Some(letter), None) if is_ctrl => KeyCode::Char(letter.to_ascii_lowercase()),
            (Some(letter), None) => KeyCode::Char(letter),
            _ => match NAMED.iter().find(|(name, ..)| *name == word) {
                Some((_, code, _)) => *code,
                None => match word.strip_prefix('f')?.parse() {
                    Ok(number @ 1..=12) => KeyCode::F(number),
                    _ => return None,
                },
            },
        };
        Some(Self { code, is_ctrl, is_alt })
    }

    /// Returns the letter that this key press types, or `None` for other keys.
    pub(crate) fn letter(self) -> Option<char> {
        match self.code {
            KeyCode::Char(letter) if !self.is_ctrl && !self.is_alt => Some(letter),
            _ => None,
        }
    }
}

impl fmt::Display for Chord {
    /// Writes the key with the symbols of a keyboard, or in the alternate form (`{:#}`) as in a key
    /// file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ctrl {
            f.write_str("^")?;
        }
        if self.is_alt {
            f.write_str("alt-")?;
        }
        let named = NAMED.iter().find(|(_, code, _)| *code == self.code);
        match (self.code, named) {
            (_, Some((name, ..))) if f.alternate() => f.write_str(name),
            (_, Some((.., text))) => f.write_str(text),
            (KeyCode::Char(letter), _) if self.is_ctrl => {
                write!(f, "{}", letter.to_ascii_uppercase())
            }
            (KeyCode::Char(letter), _) => write!(f, "{letter}"),
            (KeyCode::F(number), _) => write!(f, "F{number}"),
            _ => f.write_str("?"),
        }
    }
}

fn without<'a>(word: &'a str, prefix: &str) -> (bool, &'a str) {
    word.strip_prefix(prefix).map_or((false, word), |rest| (true, rest))
}

/// Parses key presses separated by spaces. Returns `None` if one of them is invalid.
pub(crate) fn sequence(keys: &str) -> Option<Vec<Chord>> {
    keys.split(' ').map(Chord::named).collect()
}

#[cfg(test)]
mod tests;
