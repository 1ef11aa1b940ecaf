//! Pages that were written before and still hold, and what keys see: both kept in memory.
//!
//! Neither is ever told after it has changed. A page is kept under the number of the commit that it
//! was read at, and asked for under that of the last one. What a key sees is kept under the version
//! of the whole store, which any commit changes, be it that of another process.

use std::{collections::HashMap, sync::Arc};

use accounts::KeyId;
use bytes::Bytes;
use model::dataset::DatasetId;
use parking_lot::Mutex;

use crate::{
    query::{DatasetRef, Span, params::Params},
    store::Sight,
    tag::Tag,
};

/// Bytes of pages that are kept at most: some four hundred of 250 rows.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// The longest page that is kept, so that a few do not drive out all others.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// What a page takes beside its body, more or less.
const OVERHEAD_BYTES: usize = 512;

/// Sights that are kept at most: one of seven columns takes about a kilobyte.
const SIGHTS_MAX: usize = 4096;

/// All that a page depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AnswerKey {
    /// Which dataset.
    pub(crate) dataset: DatasetId,
    /// The number of its last commit.
    pub(crate) revision: u64,
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
}

/// What is kept. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answers {
    pages: Arc<Mutex<Pages>>,
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
}

#[derive(Debug, Default)]
struct Sights {
    version: i64,
    seen: HashMap<(KeyId, DatasetRef), Arc<Sight>>,
}

impl Answers {
    /// The page, if it is kept.
    pub(crate) fn get(&self, key: &AnswerKey) -> Option<Answer> {
        let mut pages = self.pages.lock();
        if let Some(answer) = pages.young.get(key) {
            return Some(answer.clone());
        }
        let (key, answer) = pages.old.remove_entry(key)?;
        pages.put(key, answer.clone());
        Some(answer)
    }

    /// Keeps a page, unless it is very long.
    pub(crate) fn put(&self, key: AnswerKey, answer: Answer) {
        if answer.body.len() <= ANSWER_BYTES_MAX {
            self.pages.lock().put(key, answer);
        }
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
        if self.young.insert(key, answer).is_none() {
            self.n_bytes += n_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use model::timestamp::Timestamp;

    use super::*;

    fn key(revision: u64) -> AnswerKey {
        AnswerKey {
            dataset: DatasetId::new(1).unwrap(),
            revision,
            columns: Tag::of(0),
            span: Span { first: Timestamp::MIN, last: Timestamp::MAX },
            params: Params(vec![("dataset".to_owned(), "1".to_owned())]),
        }
    }

    fn answer(n_bytes: usize) -> Answer {
        Answer { body: Bytes::from(vec![b'x'; n_bytes]), n_rows: 1 }
    }

    #[test]
    fn a_page_of_another_commit_is_another_page() {
        let answers = Answers::default();
        answers.put(key(7), answer(3));
        assert_eq!(answers.get(&key(7)).unwrap().body, "xxx");
        assert!(answers.get(&key(8)).is_none());
    }

    #[test]
    fn pages_are_kept_up_to_a_number_of_bytes_and_those_asked_for_stay() {
        let answers = Answers::default();
        let n = u64::try_from(4 * BYTES_MAX / ANSWER_BYTES_MAX).unwrap();
        for revision in 0..n {
            answers.put(key(revision), answer(ANSWER_BYTES_MAX));
            assert!(answers.get(&key(0)).is_some(), "it is asked for all the time");
            let pages = answers.pages.lock();
            let kept = pages.young.values().chain(pages.old.values());
            assert!(kept.map(|page| page.body.len()).sum::<usize>() <= BYTES_MAX);
        }
        assert!(answers.get(&key(1)).is_none());
        assert!(answers.get(&key(n - 1)).is_some());
    }

    #[test]
    fn one_very_long_page_is_not_kept() {
        let answers = Answers::default();
        answers.put(key(0), answer(ANSWER_BYTES_MAX + 1));
        assert!(answers.get(&key(0)).is_none());
    }

    #[test]
    fn what_a_key_sees_holds_until_the_store_changes() {
        let answers = Answers::default();
        let dataset = DatasetId::new(1).unwrap();
        let who = (KeyId::new(1), DatasetRef::Id(dataset));
        let grant = crate::catalog::Grant { dataset, is_owner: true, matching_tags: Vec::new() };
        let sight = Sight { grant, columns: Vec::new(), revision: 3, newest: None };
        answers.saw(4, who.clone(), Arc::new(sight));
        assert_eq!(answers.sight(4, &who).unwrap().revision, 3);
        assert!(answers.sight(5, &who).is_none());
        assert!(answers.sight(4, &(KeyId::new(2), who.1)).is_none());
    }
}
