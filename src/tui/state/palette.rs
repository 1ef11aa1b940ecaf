//! The palette: fuzzy search over commands, screens, datasets, nodes, runs and topics.
//!
//! The entries are collected when the palette is opened. If the text begins with an
//! [`ItemKind::sign`], only entries of that kind are searched: `@btc` finds datasets.

use model::dataset::DatasetId;
use model::topic::TopicId;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use strum::{IntoStaticStr, VariantArray};

use crate::keymap::Action;
use crate::screens::Screen;
use crate::state::field::Field;
use crate::state::runs::RunId;
use crate::theme::Name;

/// Kind of an entry. The value is the sign that restricts a search to this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
#[repr(u8)]
pub(crate) enum ItemKind {
    /// A command of the key table.
    Command = b'>',
    Dataset = b'@',
    Function = b'%',
    Run = b'#',
    Node = b'!',
    Topic = b'$',
}

/// Effect of an entry that is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Performs an action on this screen, or on the current screen if it is `None`.
    Act(Option<Screen>, Action),
    /// Selects a theme. `None` matches the terminal.
    Theme(Option<Name>),
    Dataset(DatasetId),
    Node(String),
    Run(RunId),
    Topic(TopicId),
    /// Fills in the form with a function: its content id and its method.
    Function(String, String),
}

/// A searchable entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// The kind of the entry.
    pub(crate) kind: ItemKind,
    /// Group that is shown before the name, such as `Data`, `View` or `node`.
    pub(crate) group: String,
    /// The display name.
    pub(crate) text: String,
    /// Further text that is shown and searched. Can be empty.
    pub(crate) detail: String,
    /// Keys that have the same effect. Can be empty.
    pub(crate) keys: String,
    pub(crate) goal: Goal,
}

/// A search hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) entry_idx: usize,
    /// Indices of the matched characters within [`Item::haystack`], ascending.
    pub(crate) letters: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Palette {
    /// The search text.
    pub(crate) input: Field,
    pub(crate) entries: Vec<Item>,
    /// Entries that match the search text, best first.
    pub(crate) matches: Vec<Match>,
    /// Index of the selected match.
    pub(crate) row: usize,
}

impl ItemKind {
    /// Returns the first character of a search for items of this kind only.
    pub(crate) const fn sign(self) -> char {
        self as u8 as char
    }
}

impl Item {
    /// Returns an entry without keys. Its group is the name of its kind.
    pub(crate) fn new(kind: ItemKind, text: String, detail: String, goal: Goal) -> Self {
        Self { kind, group: kind.into_str().to_owned(), text, detail, keys: String::new(), goal }
    }

    /// Returns an entry for a command of `group`, with the keys that run the command directly.
    pub(crate) fn command(group: &str, text: String, keys: String, goal: Goal) -> Self {
        let (kind, group, detail) = (ItemKind::Command, group.to_owned(), String::new());
        Self { kind, group, text, detail, keys, goal }
    }

    /// Returns the text that is searched: name, detail and group.
    fn haystack(&self) -> String {
        format!("{} {} {}", self.text, self.detail, self.group)
    }
}

impl Palette {
    /// Returns a palette that shows all `entries`.
    pub(crate) fn new(entries: Vec<Item>) -> Self {
        let mut palette = Self { entries, input: Field::edited(""), ..Self::default() };
        palette.find();
        palette
    }

    /// Searches for the typed text and selects the best match.
    pub(crate) fn find(&mut self) {
        self.row = 0;
        let typed = self.input.value().trim_start();
        let kind = ItemKind::VARIANTS.iter().copied().find(|kind| typed.starts_with(kind.sign()));
        let wanted = typed.get(kind.map_or(0, |kind| kind.sign().len_utf8())..).unwrap_or(typed);
        let pattern = Pattern::parse(wanted.trim(), CaseMatching::Ignore, Normalization::Smart);
        let mut config = Config::DEFAULT;
        config.prefer_prefix = true;
        let mut matcher = Matcher::new(config);
        let mut letters_of_text = Vec::new();
        let mut found: Vec<(u32, Match)> = Vec::new();
        for (entry_idx, entry) in self.entries.iter().enumerate() {
            if kind.is_some_and(|kind| kind != entry.kind) {
                continue;
            }
            let haystack = entry.haystack();
            let text = Utf32Str::new(&haystack, &mut letters_of_text);
            let mut letters = Vec::new();
            if let Some(score) = pattern.indices(text, &mut matcher, &mut letters) {
                letters.sort_unstable();
                letters.dedup();
                found.push((score, Match { entry_idx, letters }));
            }
        }
        // The sort is stable, so equally good matches are in the order of the entries.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        self.matches = found.into_iter().map(|(_, found)| found).collect();
    }

    /// Returns the selected entry.
    pub(crate) fn selected(&self) -> Option<&Item> {
        self.entries.get(self.matches.get(self.row)?.entry_idx)
    }
}
