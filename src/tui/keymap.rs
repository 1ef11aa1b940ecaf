//! Keys: one table for what they do, for the footer's hints and for the help.
//!
//! A key means the same in every layer that has it, as far as that goes. Never bound: `^B` and
//! `^A`, the prefixes of tmux and screen, and `^Q` and `^J`, which terminals keep; `^S` in forms alone.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use strum::IntoStaticStr;

use crate::{action::Action, screens::Screen};

mod bindings;
mod table;

pub(crate) use bindings::Bound;
pub use bindings::{Keymap, defaults_text};
pub(crate) use table::TABLE;

/// Keys that are not letters: the name in a file of keys, and what people read.
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

/// One press of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Chord {
    /// The key. A capital letter says that shift was held.
    pub(crate) code: KeyCode,
    /// Whether control was held.
    pub(crate) is_ctrl: bool,
    /// Whether alt was held.
    pub(crate) is_alt: bool,
}

/// Where a binding holds. Which layers hold is the state's to say; see `state::State::layers`. A file
/// of keys writes it as `global` or `node-form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "kebab-case")]
pub(crate) enum Layer {
    /// Everywhere, also while a text is edited.
    Always,
    /// Everywhere but while a text is edited.
    Global,
    /// Wherever there is something to select.
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
    /// A question to be answered with yes or no.
    Confirm,
    /// A filter that is edited.
    Edit,
    /// The palette overlay.
    Palette,
    /// A list to choose from that lies over the screen.
    Choice,
    /// The choice of a profile.
    Profiles,
    /// The form that takes a key.
    Secret,
    /// The form that starts a node.
    NodeForm,
    /// The list of presets.
    Presets,
    /// The name of a preset.
    PresetName,
    /// Whether to stop a process.
    ConfirmStop,
    /// Whether to change a node.
    ConfirmNode,
    /// The form that asks for a file.
    Save,
    /// Labels on everything that can be clicked.
    Jump,
}

/// What a key does in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The layer it holds in.
    pub(crate) layer: Layer,
    /// The keys, each alone enough; one of several presses has them apart by spaces: `g g`.
    pub(crate) keys: &'static [&'static str],
    /// The action it performs.
    pub(crate) action: Action,
    /// What the footer says, empty for nothing.
    pub(crate) hint: &'static str,
}

/// What a press comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// A command of the key table.
    Action(Action),
    /// The start of a longer sequence.
    Pending,
    /// No binding matches.
    Nothing,
}

impl Layer {
    /// The layers that are ever in force together, the first one first.
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

    /// The layers that are in force where this one is the first.
    pub(crate) fn chain(self) -> &'static [Self] {
        let mut chains = Self::CHAINS.into_iter();
        chains.find(|chain| chain.first() == Some(&self)).unwrap_or(&[Self::Always])
    }

    /// Whether letters are text where it is in force.
    pub(crate) fn is_typed(self) -> bool {
        let is_question =
            matches!(self, Self::Confirm | Self::ConfirmStop | Self::ConfirmNode | Self::Presets);
        self == Self::Always || (self.chain().len() == 2 && !is_question)
    }

    /// The screen it belongs to, if it belongs to one.
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

    /// What the help calls it.
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
    /// The press that a terminal told of.
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

    /// The press that a word of the table names, such as `ctrl-r`, `alt-x`, `shift-tab` or `G`.
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

    /// The letter to be written into a text, if this is one.
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

/// The presses that `keys` name, apart by spaces; none if one is no key.
pub(crate) fn sequence(keys: &str) -> Option<Vec<Chord>> {
    keys.split(' ').map(Chord::named).collect()
}

/// Presses as people read them: `g g`, `^R`.
pub(crate) fn sequence_text(sequence: &[Chord]) -> String {
    let presses: Vec<String> = sequence.iter().map(Chord::to_string).collect();
    presses.join(" ")
}

#[cfg(test)]
mod tests;
