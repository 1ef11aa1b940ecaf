//! The end of epochs: closing and learning, each in one transaction.

use std::sync::Arc;

use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId};

use super::session::{Lock, Session, values};
use super::versions::{self, IfLocked};
use super::{
    CloseInput, EpochState, Lesson, Relearned, Result, Store, insert, is_in, key, number, pairs,
    record, relearn, retention, view,
};
use crate::math::outlier::Baseline;
use crate::math::pair_values::FullBundle;
use crate::network::close::{Closing, Signed};
use crate::network::learned::Learned;
use crate::network::retention::Retention;
use crate::network::selection::Withdrawn;

/// Learned state of a topic as read from the store.
#[derive(Debug, Clone)]
pub struct StoredLearned {
    /// Number of the write that stored it, or 0 before the first write.
    pub stamp: i64,
    /// Learned state.
    pub learned: Arc<Learned>,
}

/// Options for closing or learning from an epoch.
#[derive(Debug, Clone)]
pub struct EndOptions {
    /// Current time.
    pub at: Timestamp,
    /// Retention of the topic's epochs.
    pub retention: Retention,
    /// Learned state that was read earlier. It is read again if this is `None` or outdated.
    pub known: Option<StoredLearned>,
}

impl Store {
    /// Closes the epoch `nonce` with the result of `make`, or without a bundle if that is `None`.
    /// Returns the learned state, or `None` if the epoch was not open.
    ///
    /// No submission is accepted between the read and the commit. If several services try to close the
    /// epoch, only one does, after concurrent submissions to the others.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn close(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        options: EndOptions,
        make: impl FnOnce(CloseInput) -> Option<Closing> + Send + 'static,
    ) -> Result<Option<StoredLearned>> {
        self.write(move |write| {
            // Skips the epoch if another service closes it, but waits for submissions in progress.
            if !versions::lock(write, topic, IfLocked::Skip)?
                || !is_in(write, topic, nonce, EpochState::Open, Lock::Exclusive)?
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
            let next = if closing.is_some() { EpochState::Closed } else { EpochState::Empty };
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

    /// Learns from the epoch `nonce` with the result of `teach`, which is called with its bundle and the
    /// learned state. If the result is `None`, the epoch is given up. Returns the learned state, or
    /// `None` if the epoch was not closed or was already learned from.
    ///
    /// # Errors
    /// As [`Self::blocks`].
    pub fn learn(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        options: EndOptions,
        teach: impl FnOnce(&FullBundle, &Learned) -> Option<Lesson> + Send + 'static,
    ) -> Result<Option<StoredLearned>> {
        self.write(move |write| {
            if !versions::lock(write, topic, IfLocked::Skip)?
                || !is_in(write, topic, nonce, EpochState::Closed, Lock::Exclusive)?
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
                write.run(sql, [id, nonce, EpochState::GivenUp as i64])?;
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

/// Stores the scores of `moved`, which differs from `before` only in them.
fn keep_moved(
    write: &Session<'_>,
    topic: TopicId,
    moved: &Arc<Learned>,
    before: &StoredLearned,
) -> Result<StoredLearned> {
    let stamp = before.stamp.saturating_add(1);
    let sql = "UPDATE learned SET stamp = ?2, record = ?3 WHERE topic_id = ?1";
    let record = record::write(&**moved)?;
    write.run(sql, values![number(topic.get()), stamp, record])?;
    Ok(StoredLearned { stamp, learned: Arc::clone(moved) })
}

/// Stores the result of closing an epoch.
fn put_closing(
    write: &Session<'_>,
    topic: TopicId,
    nonce: BlockHeight,
    closing: Closing,
    at: Timestamp,
) -> Result<()> {
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

/// Removes submissions of resting actors and labels used only by them.
fn withdraw(
    write: &Session<'_>,
    topic: TopicId,
    nonce: BlockHeight,
    withdrawn: &Withdrawn,
) -> Result<()> {
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
