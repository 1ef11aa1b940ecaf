//! Keys: one table for what they do, for the footer's hints and for the help.
//!
//! A key means the same in every layer that has it, as far as that goes. Never bound: `^B` and
//! `^A`, the prefixes of tmux and screen, and `^Q` and `^J`, which terminals keep; `^S` in forms alone.

use std::fmt;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::{action::Action, state::Screen};

mod table;

pub use table::TABLE;

/// One press of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chord {
    /// The key. A capital letter says that shift was held.
    pub code: KeyCode,
    /// Whether control was held.
    pub is_ctrl: bool,
    /// Whether alt was held.
    pub is_alt: bool,
}

/// Where a binding holds. Which layers hold is the state's to say; see `state::State::layers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
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
    /// The help.
    Help,
    /// A question to be answered with yes or no.
    Confirm,
    /// A filter that is edited.
    Edit,
    /// The palette.
    Palette,
    /// A list to choose from that lies over the screen.
    Choice,
    /// The choice of a profile.
    Profiles,
    /// The form that takes a key.
    Secret,
    /// The form of a node to be started.
    NodeForm,
    /// The list of presets.
    Presets,
    /// The name of a preset.
    PresetName,
    /// Whether to stop a process.
    ConfirmStop,
}

/// What a key does in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Where.
    pub layer: Layer,
    /// The keys, each alone enough; one of several presses has them apart by spaces: `g g`.
    pub keys: &'static [&'static str],
    /// What.
    pub action: Action,
    /// What the footer says, empty for nothing.
    pub hint: &'static str,
}

/// What a press comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// Something to do.
    Action(Action),
    /// The start of a longer sequence.
    Pending,
    /// Nothing.
    Nothing,
}

impl Layer {
    /// The screen it belongs to, if it belongs to one.
    #[must_use]
    pub const fn screen(self) -> Option<Screen> {
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
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Always | Self::Global => "EVERYWHERE",
            Self::List => "LISTS",
            Self::Form | Self::NodeForm => "FORM",
            Self::Presets | Self::PresetName => "PRESETS",
            Self::Help => "HELP",
            Self::Confirm | Self::ConfirmStop => "QUESTION",
            Self::Edit => "FILTER",
            Self::Palette => "PALETTE",
            Self::Choice => "CHOICE",
            Self::Profiles => "PROFILES",
            Self::Secret => "API KEY",
            Self::Cluster
            | Self::Execute
            | Self::Data
            | Self::Inference
            | Self::Logs
            | Self::Overview => "THIS SCREEN",
        }
    }
}

impl Chord {
    /// The press that a terminal told of.
    #[must_use]
    pub fn of(event: &KeyEvent) -> Self {
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

    /// The press that a word of the table names, such as `ctrl-r`, `shift-tab` or `G`.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        let (is_ctrl, word) = match word.strip_prefix("ctrl-") {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let mut letters = word.chars();
        let code = match (letters.next(), letters.next()) {
            (Some(letter), None) => KeyCode::Char(letter),
            _ => match word {
                "space" => KeyCode::Char(' '),
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "tab" => KeyCode::Tab,
                "shift-tab" => KeyCode::BackTab,
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "left" => KeyCode::Left,
                "right" => KeyCode::Right,
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "pgup" => KeyCode::PageUp,
                "pgdn" => KeyCode::PageDown,
                "backspace" => KeyCode::Backspace,
                "delete" => KeyCode::Delete,
                "f1" => KeyCode::F(1),
                _ => return None,
            },
        };
        Some(Self { code, is_ctrl, is_alt: false })
    }

    /// The letter to be written into a text, if this is one.
    #[must_use]
    pub fn letter(self) -> Option<char> {
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
        let name = match self.code {
            KeyCode::Char(' ') => "space",
            KeyCode::Char(letter) if self.is_ctrl => {
                return write!(f, "{}", letter.to_ascii_uppercase());
            }
            KeyCode::Char(letter) => return write!(f, "{letter}"),
            KeyCode::F(number) => return write!(f, "F{number}"),
            KeyCode::Enter => "⏎",
            KeyCode::Esc => "esc",
            KeyCode::Tab => "⇥",
            KeyCode::BackTab => "⇧⇥",
            KeyCode::Up => "↑",
            KeyCode::Down => "↓",
            KeyCode::Left => "←",
            KeyCode::Right => "→",
            KeyCode::Home => "home",
            KeyCode::End => "end",
            KeyCode::PageUp => "PgUp",
            KeyCode::PageDown => "PgDn",
            KeyCode::Backspace => "⌫",
            KeyCode::Delete => "del",
            _ => "?",
        };
        f.write_str(name)
    }
}

impl Binding {
    /// The presses of each of its keys.
    fn sequences(&self) -> impl Iterator<Item = Vec<Chord>> {
        self.keys.iter().map(|keys| keys.split(' ').filter_map(Chord::named).collect())
    }

    /// Its keys as people read them: `g g`, `^R`.
    #[must_use]
    pub fn keys_text(&self) -> String {
        let keys: Vec<String> = self.sequences().map(|sequence| sequence_text(&sequence)).collect();
        keys.join("  ")
    }

    /// The first of its keys.
    #[must_use]
    pub fn first_key_text(&self) -> String {
        self.sequences().next().map(|sequence| sequence_text(&sequence)).unwrap_or_default()
    }
}

fn sequence_text(sequence: &[Chord]) -> String {
    let presses: Vec<String> = sequence.iter().map(Chord::to_string).collect();
    presses.join(" ")
}

/// What `chord`, after the presses of `pending`, comes to where `layers` hold, the first wins.
#[must_use]
pub fn resolve(layers: &[Layer], pending: &[Chord], chord: Chord) -> Resolved {
    let mut is_start = false;
    for layer in layers {
        for binding in TABLE.iter().filter(|binding| binding.layer == *layer) {
            for sequence in binding.sequences() {
                let Some((last, before)) = sequence.split_last() else { continue };
                if before == pending && *last == chord {
                    return Resolved::Action(binding.action);
                }
                is_start |= sequence.len() > pending.len() + 1
                    && sequence.starts_with(pending)
                    && sequence.get(pending.len()) == Some(&chord);
            }
        }
    }
    if is_start { Resolved::Pending } else { Resolved::Nothing }
}

/// The bindings that hold in `layers`, without those that an earlier layer covers.
#[must_use]
pub fn in_force(layers: &[Layer]) -> Vec<&'static Binding> {
    let mut taken: Vec<&str> = Vec::new();
    let mut bindings = Vec::new();
    for layer in layers {
        let layer = TABLE.iter().filter(|binding| binding.layer == *layer);
        let open: Vec<_> =
            layer.filter(|binding| !binding.keys.iter().all(|key| taken.contains(key))).collect();
        taken.extend(open.iter().flat_map(|binding| binding.keys));
        bindings.extend(open);
    }
    bindings
}

#[cfg(test)]
mod tests;
