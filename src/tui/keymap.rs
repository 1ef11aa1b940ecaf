//! Key bindings: one table for the actions, the hints in the footer, and the help.
//!
//! A key has the same meaning in all layers, if possible. These keys are never bound: `^B` and `^A`, the
//! prefixes of tmux and screen, and `^Q` and `^J`, which terminals use. Only forms bind `^S`.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use strum::IntoStaticStr;

use crate::action::Action;
use crate::screens::Screen;

mod bindings;
mod table;

pub(crate) use bindings::Bound;
pub use bindings::{Keymap, defaults_text};
pub(crate) use table::TABLE;

/// Keys that are not letters: name in a key file, code, displayed text.
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
    /// Key. Shift is expressed by a capital letter.
    pub(crate) code: KeyCode,
    /// True if control was held.
    pub(crate) is_ctrl: bool,
    /// True if alt was held.
    pub(crate) is_alt: bool,
}

/// Scope of a binding. `state::State::layers` returns the active layers. A key file names it as
/// `global` or `node-form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "kebab-case")]
pub(crate) enum Layer {
    /// Everywhere, including text fields.
    Always,
    /// Everywhere except in text fields.
    Global,
    /// Lists.
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
    /// The question before quitting.
    Confirm,
    /// A focused filter or search.
    Edit,
    /// The palette overlay.
    Palette,
    /// A list in an overlay.
    Choice,
    /// The list of profiles.
    Profiles,
    /// The form for an API key.
    Secret,
    /// The form that starts a node.
    NodeForm,
    /// The list of presets.
    Presets,
    /// The prompt for the name of a preset.
    PresetName,
    /// The question before a process is stopped.
    ConfirmStop,
    /// The question before a node is changed.
    ConfirmNode,
    /// The prompt for a file.
    Save,
    /// Labels on all places that can be clicked.
    Jump,
}

/// Action of keys in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Layer of the binding.
    pub(crate) layer: Layer,
    /// Alternative keys. The presses of a sequence are separated by spaces: `g g`.
    pub(crate) keys: &'static [&'static str],
    /// Action of the keys.
    pub(crate) action: Action,
    /// Hint in the footer, or empty for no hint.
    pub(crate) hint: &'static str,
}

/// Outcome of a key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    Action(Action),
    /// Part of a longer sequence.
    Pending,
    /// No binding matches.
    Nothing,
}

impl Layer {
    /// All combinations of active layers, highest precedence first.
    pub(crate) const CHAINS: [&'static [Self]; 21] = [
        &[Self::Cluster, Self::List, Self::Global, Self::Always],
        &[Self::Execute, Self::List, Self::Global, Self::Always],
        &[Self::Data, Self::List, Self::Global, Self::Always],
        &[Self::Inference, Self::List, Self::Global, Self::Always],
        &[Self::Logs, Self::List, Self::Global, Self::Always],
        &[Self::Overview, Self::List, Self::Global, Self::Always],
        &[Self::Profiles, Self::List, Self::Always],
        &[Self::Choice, Self::List, Self::Always],
        &[Self::Form, Self::Always],
        &[Self::Edit, Self::Always],
        &[Self::Help, Self::Always],
        &[Self::Palette, Self::Always],
        &[Self::Secret, Self::Always],
        &[Self::NodeForm, Self::Always],
        &[Self::PresetName, Self::Always],
        &[Self::Save, Self::Always],
        &[Self::Presets, Self::Always],
        &[Self::Confirm, Self::Always],
        &[Self::ConfirmStop, Self::Always],
        &[Self::ConfirmNode, Self::Always],
        &[Self::Jump, Self::Always],
    ];

    /// Returns the active layers while this one has the highest precedence.
    pub(crate) fn chain(self) -> &'static [Self] {
        let mut chains = Self::CHAINS.into_iter();
        chains.find(|chain| chain.first() == Some(&self)).unwrap_or(&[Self::Always])
    }

    /// Returns true if letters are text while this layer is active.
    pub(crate) fn is_typed(self) -> bool {
        let is_question =
            matches!(self, Self::Confirm | Self::ConfirmStop | Self::ConfirmNode | Self::Presets);
        self == Self::Always || (self.chain().len() == 2 && !is_question)
    }

    /// Returns the screen of the layer, if it belongs to one.
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

    /// Returns the title of its section in the help.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Always | Self::Global => "EVERYWHERE",
            Self::List => "LISTS",
            Self::Form | Self::NodeForm => "FORM",
            Self::Presets | Self::PresetName => "PRESETS",
            Self::Help => "HELP",
            Self::Confirm | Self::ConfirmStop | Self::ConfirmNode => "QUESTION",
            Self::Edit => "FILTER",
            Self::Palette => "PALETTE",
            Self::Choice => "CHOICE",
            Self::Profiles => "PROFILES",
            Self::Secret => "API KEY",
            Self::Jump => "LABELS",
            Self::Save => "FILE",
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

    /// Returns the letter to insert into a text, if this is one.
    pub(crate) fn letter(self) -> Option<char> {
        match self.code {
            KeyCode::Char(letter) if !self.is_ctrl && !self.is_alt => Some(letter),
            _ => None,
        }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ctrl {
            f.write_str("^")?;
        }
        if self.is_alt {
            f.write_str("alt-")?;
        }
        let named = NAMED.iter().find(|(_, code, _)| *code == self.code);
        match (self.code, named) {
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

/// Formats key presses for display: `g g`, `^R`.
pub(crate) fn sequence_text(sequence: &[Chord]) -> String {
    let presses: Vec<String> = sequence.iter().map(Chord::to_string).collect();
    presses.join(" ")
}

#[cfg(test)]
mod tests;
