//! Pages that were written before and still hold, and what keys see: both kept in memory.
//!
//! Neither is ever told after it has changed. A page holds as long as no commit touches a moment that
//! it depends on, which [`commits`] knows: pages of history stay while new rows come. What a key sees
//! is kept under the version of the whole store, which any commit changes, be it that of another
//! process.

mod commits;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use model::{dataset::DatasetId, key::KeyId};
use parking_lot::Mutex;
use tsdb::{catalog::DatasetRef, span::Span, store::Sight};

use self::commits::Commits;
use crate::{query::params::Params, tag::Tag};

/// Bytes of pages that are kept at most: some four hundred of 250 rows.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The longest page that is kept, so that a few do not drive out all others.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// What a page takes beside its body, more or less.
const OVERHEAD_BYTES: usize = 512;

/// Links that were given and may be followed: those of as many readers.
const LINKS_MAX: usize = 4096;

/// Sights that are kept at most: one of seven columns takes about a kilobyte.
const SIGHTS_MAX: usize = 4096;

/// All that a page depends on, but for the rows themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AnswerKey {
    /// Which dataset.
    pub(crate) dataset: DatasetId,
    /// Its columns, which may be added without a commit of rows.
    pub(crate) columns: Tag,
    /// The moments that it covers.
    pub(crate) span: Span,
    /// What was asked for, word by word: the link to the next page repeats it.
    pub(crate) params: Params,
}

/// A page.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// As it is sent.
    pub(crate) body: Bytes,
    /// How many rows it has.
    pub(crate) n_rows: u64,
    /// The last commit of the dataset when it was read.
    pub(crate) revision: u64,
    /// The moments whose rows it depends on. No others change it, or how many rows it says there
    /// are, or whether there is a next page.
    pub(crate) reach: Span,
}

/// What is kept. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    pages: Arc<Mutex<Pages>>,
    /// The pages that links were given to and that nobody asked for yet.
    linked: Arc<Mutex<HashSet<Tag>>>,
    sights: Arc<Mutex<Sights>>,
}

/// Pages in two halves. Where the young half is full the old one goes, and it becomes the old one;
/// what is used of the old one is young again. So what nobody asks for goes, without a list of who
/// asked when.
#[derive(Debug, Default)]
struct Pages {
    young: HashMap<AnswerKey, Answer>,
    old: HashMap<AnswerKey, Answer>,
    /// Bytes of the young half.
    n_bytes: usize,
    /// What commits touched since.
    commits: Commits,
}

#[derive(Debug, Default)]
struct Sights {
    version: i64,
    seen: HashMap<(KeyId, DatasetRef), Arc<Sight>>,
}

impl Answers {
    /// The page, if it is kept and holds at the dataset's commit `revision`.
    pub(crate) fn get(&self, key: &AnswerKey, revision: u64) -> Option<Answer> {
        let mut pages = self.pages.lock();
        let holds = |commits: &Commits, answer: &Answer| {
            commits.hold(key.dataset, (answer.revision, revision), answer.reach)
        };
        if let Some(answer) = pages.young.get(key) {
            return holds(&pages.commits, answer).then(|| answer.clone());
        }
        let (key, answer) = pages.old.remove_entry(key)?;
        if !holds(&pages.commits, &answer) {
            return None;
        }
        pages.put(key, answer.clone());
        Some(answer)
    }

    /// Keeps a page, unless it is very long.
    pub(crate) fn put(&self, key: AnswerKey, answer: Answer) {
        if answer.body.len() <= ANSWER_BYTES_MAX {
            let mut pages = self.pages.lock();
            pages.commits.begin(key.dataset, answer.revision);
            pages.put(key, answer);
        }
    }

    /// How many pages are kept.
    #[cfg(test)]
    pub(crate) fn n_pages(&self) -> usize {
        let pages = self.pages.lock();
        pages.young.len() + pages.old.len()
    }

    /// Takes note that commit `revision` of a dataset touched rows of `span` and no others. Commits
    /// of which this is not told are taken to touch everything.
    pub(crate) fn touched(&self, dataset: DatasetId, revision: u64, span: Span) {
        self.pages.lock().commits.add(dataset, revision, span);
    }

    /// Takes note that a link to a page that is not kept was given.
    pub(crate) fn link(&self, page: &AnswerKey) {
        let mut linked = self.linked.lock();
        if linked.len() >= LINKS_MAX {
            linked.clear();
        }
        linked.insert(Tag::of(page));
    }

    /// Whether a link to the page was given, so that who asks for it may be following links. It
    /// counts once.
    pub(crate) fn is_linked(&self, page: &AnswerKey) -> bool {
        self.linked.lock().remove(&Tag::of(page))
    }

    /// What a key saw, if the store is still at `version`.
    pub(crate) fn sight(&self, version: i64, who: &(KeyId, DatasetRef)) -> Option<Arc<Sight>> {
        let sights = self.sights.lock();
        if sights.version == version { sights.seen.get(who).cloned() } else { None }
    }

    /// Keeps what a key sees. The store was at `version` before that was read.
    pub(crate) fn saw(&self, version: i64, who: (KeyId, DatasetRef), sight: Arc<Sight>) {
        let mut sights = self.sights.lock();
        if sights.version != version || sights.seen.len() >= SIGHTS_MAX {
            sights.seen.clear();
            sights.version = version;
        }
        sights.seen.insert(who, sight);
    }
}

impl Pages {
    fn put(&mut self, key: AnswerKey, answer: Answer) {
        let n_bytes = answer.body.len() + OVERHEAD_BYTES;
        if self.n_bytes + n_bytes > BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.n_bytes = 0;
        }
        let replaced = self.young.insert(key, answer);
        let n_replaced = replaced.map_or(0, |answer| answer.body.len() + OVERHEAD_BYTES);
        self.n_bytes = (self.n_bytes + n_bytes).saturating_sub(n_replaced);
    }
}

#[cfg(test)]
mod tests;
