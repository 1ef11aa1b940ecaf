//! The palette: fuzzy search over commands, screens, datasets, nodes, runs and topics.
//!
//! The entries are gathered when the palette is opened. A prefix of [`ItemKind::sign`] restricts the
//! search to one kind: `@btc` finds datasets.

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

/// Kind of an entry. The value is the sign that restricts the search to it.
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

/// Target of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// An action on this screen, or on the current one if it is `None`.
    Act(Option<Screen>, Action),
    /// A theme, or `None` to match the terminal.
    Theme(Option<Name>),
    Dataset(DatasetId),
    Node(String),
    Run(RunId),
    Topic(TopicId),
    /// A function for the form: its content id and its method.
    Function(String, String),
}

/// A searchable entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// The kind of the entry.
    pub(crate) kind: ItemKind,
    /// Group shown before the name: `Data`, `View`, `node`.
    pub(crate) group: String,
    /// The display name.
    pub(crate) text: String,
    /// Additional text, which is also searched. Can be empty.
    pub(crate) detail: String,
    /// Keys with the same effect. Can be empty.
    pub(crate) keys: String,
    pub(crate) goal: Goal,
}

/// A search hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) entry_idx: usize,
    /// Indices of the matched characters in [`Item::haystack`], ascending.
    pub(crate) letters: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Palette {
    /// The search text.
    pub(crate) input: Field,
    pub(crate) entries: Vec<Item>,
    /// best first.
    pub(crate) matches: Vec<Match>,
    /// Index of the selected hit.
    pub(crate) row: usize,
}

impl ItemKind {
    /// Returns the prefix that restricts a search to this kind.
    pub(crate) const fn sign(self) -> char {
        self as u8 as char
    }
}

impl Item {
    /// Returns an entry without keys, in the group of its kind.
    pub(crate) fn new(kind: ItemKind, text: String, detail: String, goal: Goal) -> Self {
        Self { kind, group: kind.into_str().to_owned(), text, detail, keys: String::new(), goal }
    }

    /// Returns a command of `group` that also has `keys`.
    pub(crate) fn command(group: &str, text: String, keys: String, goal: Goal) -> Self {
        let (kind, group, detail) = (ItemKind::Command, group.to_owned(), String::new());
        Self { kind, group, text, detail, keys, goal }
    }

    /// Returns the searched text: name, detail, group.
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

    /// Searches for the current text.
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
        // A stable sort preserves the order of equally good hits.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        self.matches = found.into_iter().map(|(_, found)| found).collect();
    }

    /// Returns the selected entry.
    pub(crate) fn selected(&self) -> Option<&Item> {
        self.entries.get(self.matches.get(self.row)?.entry_idx)
    }
}
