//! The end of epochs: closing them, and learning from them, each in one transaction.

use std::sync::Arc;

use model::{
    timestamp::Timestamp,
    topic::{BlockHeight, TopicId},
};

use super::{
    CloseInput, EPOCH_BYTES, Lesson, Relearned, State, Store, StoreError, insert, is_in, key,
    number, pairs, record, relearn, retention,
    session::{Lock, Session, values},
    versions::{self, Turn},
    view,
};
use crate::{
    math::{outlier::Baseline, pair_values::FullBundle},
    network::{
        close::{Closing, Signed},
        learned::Learned,
        retention::Retention,
        selection::Withdrawn,
    },
};

/// What a topic had learned when it was read.
#[derive(Debug, Clone)]
pub struct StoredLearned {
    /// Which write it was read after; 0 before the first.
    pub stamp: i64,
    /// What was learned.
    pub learned: Arc<Learned>,
}

/// How an epoch is closed, or learned from.
#[derive(Debug, Clone)]
pub struct EndOptions {
    /// The current date.
    pub at: Timestamp,
    /// What the topic keeps of its epochs.
    pub retention: Retention,
    /// What was read before; read again where it is none, or old.
    pub known: Option<StoredLearned>,
}

impl Store {
    /// Closes the epoch `nonce` with what `make` makes of its submissions and of all that was
    /// learned; without a bundle where it makes nothing. Returns what is learned then, or none where
    /// the epoch was not open.
    ///
    /// No submission is taken between the reading and the closing: of several services one closes it,
    /// after the submissions that others take at the time.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn close(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        options: EndOptions,
        make: impl FnOnce(CloseInput) -> Option<Closing> + Send + 'static,
    ) -> Result<Option<StoredLearned>, StoreError> {
        self.write_sized(EPOCH_BYTES, move |write| {
            // Another service is at it, or submissions are under way: those are waited for.
            if !versions::lock(write, topic, Turn::Skip)?
                || !is_in(write, topic, nonce, State::Open, Lock::Exclusive)?
            {
                return Ok(None);
            }
            let EndOptions { at, retention, known } = options;
            let mut known = view::learned(write, topic, known.as_ref())?;
            let closing = make(CloseInput {
                arrivals: view::arrivals(write, topic, nonce)?,
                labels: view::labels(write, topic, nonce)?,
                learned: Arc::clone(&known.learned),
                baseline: view::baseline(write, topic)?,
            });
            let next = if closing.is_some() { State::Closed } else { State::Empty };
            let summary = closing.as_ref().map(|closing| record::write_summary(&closing.bundle));
            let sql = "UPDATE epochs SET state = ?3, closed_at = ?4, summary = ?5
                       WHERE topic_id = ?1 AND nonce = ?2";
            let [id, at_nonce] = key(topic, nonce);
            let values = values![id, at_nonce, next as i64, at.micros(), summary.transpose()?];
            write.run(sql, values)?;
            if let Some(closing) = closing {
                if let Some(moved) = &closing.moved_scores {
                    known = keep_moved(write, topic, moved, &known)?;
                }
                put_closing(write, topic, nonce, closing, at)?;
            }
            retention::count_closed(write, topic, nonce)?;
            retention::apply(write, topic, retention, at)?;
            versions::change(write, topic)?;
            Ok(Some(known))
        })
    }

    /// Learns from the epoch `nonce` what `teach` makes of its bundle and of all that was learned
    /// before; gives it up where it makes nothing. Returns what is learned then, or none where the
    /// epoch was not closed or was learned from.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn learn(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        options: EndOptions,
        teach: impl FnOnce(&FullBundle, &Learned) -> Option<Lesson> + Send + 'static,
    ) -> Result<Option<StoredLearned>, StoreError> {
        self.write_sized(EPOCH_BYTES, move |write| {
            if !versions::lock(write, topic, Turn::Skip)?
                || !is_in(write, topic, nonce, State::Closed, Lock::Exclusive)?
            {
                return Ok(None);
            }
            versions::change(write, topic)?;
            let EndOptions { at, retention, known } = options;
            let bundle = view::bundle(write, topic, nonce)?;
            let known = view::learned(write, topic, known.as_ref())?;
            let lesson = bundle.and_then(|bundle| teach(&bundle, &known.learned));
            let Some(lesson) = lesson else {
                let sql = "UPDATE epochs SET state = ?3 WHERE topic_id = ?1 AND nonce = ?2";
                let [id, nonce] = key(topic, nonce);
                write.run(sql, [id, nonce, State::GivenUp as i64])?;
                return Ok(Some(known));
            };
            relearn::take_snapshot(write, topic, nonce, &known.learned, retention)?;
            let Lesson { truth, losses, learned } = lesson;
            relearn::put(write, topic, &Relearned { nonce, truth, losses })?;
            retention::recount(write, topic, nonce)?;
            retention::apply(write, topic, retention, at)?;
            relearn::put_learned(write, topic, learned, &known).map(Some)
        })
    }
}

/// Keeps the scores of `moved`, which are all that differs from `before`.
fn keep_moved(
    write: &Session<'_>,
    topic: TopicId,
    moved: &Arc<Learned>,
    before: &StoredLearned,
) -> Result<StoredLearned, StoreError> {
    let stamp = before.stamp.saturating_add(1);
    let sql = "UPDATE learned SET stamp = ?2, record = ?3 WHERE topic_id = ?1";
    let record = record::write(&**moved)?;
    write.run(sql, values![number(topic.get()), stamp, record])?;
    Ok(StoredLearned { stamp, learned: Arc::clone(moved) })
}

/// Keeps what closing an epoch gave.
fn put_closing(
    write: &Session<'_>,
    topic: TopicId,
    nonce: BlockHeight,
    closing: Closing,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Closing { bundle, shares, forecasts, resistant, signed, baseline, intervals, .. } = closing;
    withdraw(write, topic, nonce, &closing.withdrawn)?;
    for forecast in &forecasts {
        insert(write, topic, nonce, forecast, true, at)?;
    }
    let (signed, signed_intervals) = match &signed {
        Some(Signed { value, intervals }) => {
            (Some(record::write(value)?), Some(record::write(intervals)?))
        }
        None => (None, None),
    };
    let resistant_pairs = resistant.as_ref().and_then(|r| pairs::write(&r.without_inferer));
    let [id, nonce] = key(topic, nonce);
    write.run(
        "INSERT INTO bundles (topic_id, nonce, record, shares, intervals, resistant, signed,
                              signed_intervals, pairs, resistant_pairs)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        values![
            id,
            nonce,
            record::write_bundle(bundle.bundle)?,
            record::write(&shares)?,
            record::write(&intervals)?,
            resistant.map(|resistant| record::write_bundle(resistant.bundle)).transpose()?,
            signed,
            signed_intervals,
            pairs::write(&bundle.without_inferer),
            resistant_pairs
        ],
    )?;
    if let Some(Baseline { median, spread }) = baseline {
        let sql = "INSERT INTO baselines (topic_id, median, spread) VALUES (?1, ?2, ?3)
                   ON CONFLICT (topic_id) DO UPDATE SET
                      median = excluded.median, spread = excluded.spread";
        write.run(sql, values![id, median, spread])?;
    }
    Ok(())
}

/// Takes out what actors submitted that rest, and the labels that came with nothing else.
fn withdraw(
    write: &Session<'_>,
    topic: TopicId,
    nonce: BlockHeight,
    withdrawn: &Withdrawn,
) -> Result<(), StoreError> {
    let [topic, nonce] = key(topic, nonce);
    for rest in &withdrawn.submissions {
        let worker = rest.worker.as_str();
        if rest.is_empty() {
            let sql = "DELETE FROM submissions WHERE topic_id = ?1 AND nonce = ?2 AND worker = ?3";
            write.run(sql, values![topic, nonce, worker])?;
        } else {
            let (own, forecast) = record::write_submission(rest)?;
            let sql = "UPDATE submissions SET record = ?4, forecast = ?5
                       WHERE topic_id = ?1 AND nonce = ?2 AND worker = ?3";
            write.run(sql, values![topic, nonce, worker, own, forecast])?;
        }
    }
    for label in &withdrawn.labels {
        let sql = "DELETE FROM labels WHERE topic_id = ?1 AND nonce = ?2 AND label = ?3";
        write.run(sql, values![topic, nonce, label])?;
    }
    Ok(())
}
