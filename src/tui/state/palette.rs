//! The palette: commands, screens, datasets, nodes, runs and topics in one list, found by letters.
//!
//! What can be found is gathered when it is opened, see [`entries`]. A first letter of
//! [`Kind::sign`] leaves one kind only: `@btc` finds datasets.

use model::{dataset::DatasetId, topic::TopicId};
use nucleo_matcher::{
    Config, Matcher, Utf32Str,
    pattern::{CaseMatching, Normalization, Pattern},
};
use strum::{IntoStaticStr, VariantArray};

use crate::{
    action::Action,
    screens::Screen,
    state::{field::Field, runs::RunId},
    theme::Name,
};

/// The kind of an entry, and the sign that searches it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
#[repr(u8)]
pub(crate) enum Kind {
    /// A command of the key table.
    Command = b'>',
    Dataset = b'@',
    Function = b'%',
    Run = b'#',
    Node = b'!',
    Topic = b'$',
}

/// What an entry opens or does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Does something on a screen, or on whichever is in view.
    Act(Option<Screen>, Action),
    /// Takes a theme, or the one that suits the terminal.
    Theme(Option<Name>),
    /// Charts a dataset.
    Dataset(DatasetId),
    /// Selects a node.
    Node(String),
    /// Shows a run's results.
    Run(RunId),
    /// Shows a topic.
    Topic(TopicId),
    /// Fills the form with a function: its content id and its method.
    Function(String, String),
}

/// A searchable entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The kind of the entry.
    pub(crate) kind: Kind,
    /// Where it belongs: `Data`, `View`, `node`.
    pub(crate) group: String,
    /// The display name.
    pub(crate) text: String,
    /// Additional text, searched too; may be empty.
    pub(crate) detail: String,
    /// The keys that do the same; may be empty.
    pub(crate) keys: String,
    /// What the entry opens or does.
    pub(crate) goal: Goal,
}

/// A search hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) entry_idx: usize,
    /// The indices of the matched characters in [`Entry::haystack`], ascending.
    pub(crate) letters: Vec<u32>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Palette {
    /// The search text.
    pub(crate) input: Field,
    pub(crate) entries: Vec<Entry>,
    /// The hits, best first.
    pub(crate) matches: Vec<Match>,
    /// The index of the selected hit.
    pub(crate) row: usize,
}

impl Kind {
    /// The prefix that restricts a search to this kind.
    pub(crate) const fn sign(self) -> char {
        self as u8 as char
    }
}

impl Entry {
    /// An entry without keys, in the group of its kind.
    pub(crate) fn new(kind: Kind, text: String, detail: String, goal: Goal) -> Self {
        Self { kind, group: kind.into_str().to_owned(), text, detail, keys: String::new(), goal }
    }

    /// A command of `group`, which `keys` do as well.
    pub(crate) fn command(group: &str, text: String, keys: String, goal: Goal) -> Self {
        let (kind, group, detail) = (Kind::Command, group.to_owned(), String::new());
        Self { kind, group, text, detail, keys, goal }
    }

    /// The searched text: name, detail, group.
    fn haystack(&self) -> String {
        format!("{} {} {}", self.text, self.detail, self.group)
    }
}

impl Palette {
    /// A palette of `entries`, all of them shown.
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let mut palette = Self { entries, input: Field::edited(""), ..Self::default() };
        palette.find();
        palette
    }

    /// Searches again after the search text changed.
    pub(crate) fn find(&mut self) {
        self.row = 0;
        let typed = self.input.value().trim_start();
        let kind = Kind::VARIANTS.iter().copied().find(|kind| typed.starts_with(kind.sign()));
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
        // Stable: what is as good stays in the order of the entries.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        self.matches = found.into_iter().map(|(_, found)| found).collect();
    }

    /// The selected entry.
    pub(crate) fn selected(&self) -> Option<&Entry> {
        self.entries.get(self.matches.get(self.row)?.entry_idx)
    }
}
