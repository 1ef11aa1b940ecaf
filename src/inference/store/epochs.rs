//! The end of epochs: closing an epoch and learning from it, each in one transaction.

use std::sync::Arc;

use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId};
use wire::inference::LabeledValue;

use super::engines::{LockMode, Session, values};
use super::versions::IfLocked;
use super::{CloseInput, EpochState, Input, Lesson, Result, Store, height, key, number, record};
use crate::math::outlier::Baseline;
use crate::math::pair_values::FullBundle;
use crate::math::regret::Losses;
use crate::network::close::{Closing, Signed};
use crate::network::learned::Learned;
use crate::network::selection::Withdrawn;
use crate::network::topic::Retention;

/// Learned state of a topic as read from the store.
#[derive(Debug, Clone)]
pub struct StoredLearned {
    /// Number that increases with each write of the learned state, or 0 before the first write.
    pub stamp: i64,
    /// Regrets, scores and other state that a topic learns.
    pub learned: Arc<Learned>,
}

/// Selects the snapshots of topic `?1` from which learning can be repeated: those of complete epochs. All
/// later epochs are complete, since the oldest are thinned and deleted first.
const COMPLETE: &str = "FROM snapshots JOIN epochs USING (topic_id, nonce)
                        WHERE topic_id = ?1 AND is_thin = 0";

/// Options for closing an epoch or learning from it.
#[derive(Debug, Clone)]
pub struct EndOptions {
    /// Time at which the epoch is closed.
    pub at: Timestamp,
    /// Date from which the age of epochs is counted.
    pub date: Timestamp,
    /// Retention of the topic's epochs.
    pub retention: Retention,
    /// Learned state that was read earlier. If it is `None` or outdated, the state is read again.
    pub known: Option<StoredLearned>,
}

impl Store {
    /// Closes the epoch `nonce` and stores the result of `make`. If `make` returns `None`, the epoch
    /// has no bundle. Returns the learned state, or `None` if the epoch was not open or another service
    /// is closing it.
    ///
    /// `make` sees every accepted submission: closing waits for all submissions in progress at any
    /// service, and new submissions wait until the epoch is closed, and are then refused. If several
    /// services try to close the epoch, only one service succeeds.
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
            // Does nothing if another service is closing the epoch, but waits for submissions in
            // progress.
            if !write.lock_topic(topic, IfLocked::Skip)?
                || !write.is_in(topic, nonce, EpochState::Open, LockMode::Exclusive)?
            {
                return Ok(None);
            }
            let EndOptions { at, date, retention, known } = options;
            let mut known = write.learned(topic, known.as_ref())?;
            let closing = make(CloseInput {
                arrivals: write.arrivals(topic, nonce)?,
                labels: write.labels(topic, nonce)?,
                learned: Arc::clone(&known.learned),
                baseline: write.baseline(topic)?,
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
                    known = write.put_moved_scores(topic, moved, &known)?;
                }
                write.put_closing(topic, nonce, closing, at)?;
            }
            write.count_closed(topic, nonce)?;
            write.apply_retention(topic, retention, date)?;
            write.mark_changed(topic)?;
            Ok(Some(known))
        })
    }

    /// Calls `teach` with the bundle of the epoch `nonce` and the learned state, and stores its result.
    /// If `teach` returns `None`, the epoch is given up. Returns the learned state, or `None` if the
    /// epoch is not waiting to be learned from.
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
            if !write.lock_topic(topic, IfLocked::Skip)?
                || !write.is_in(topic, nonce, EpochState::Closed, LockMode::Exclusive)?
            {
                return Ok(None);
            }
            write.mark_changed(topic)?;
            let EndOptions { date, retention, known, .. } = options;
            let bundle = write.bundle(topic, nonce)?;
            let known = write.learned(topic, known.as_ref())?;
            let lesson = bundle.and_then(|bundle| teach(&bundle, &known.learned));
            let Some(lesson) = lesson else {
                let sql = "UPDATE epochs SET state = ?3 WHERE topic_id = ?1 AND nonce = ?2";
                let [id, nonce] = key(topic, nonce);
                write.run(sql, [id, nonce, EpochState::GivenUp as i64])?;
                return Ok(Some(known));
            };
            write.take_snapshot(topic, nonce, &known.learned, retention)?;
            let Lesson { truth, losses, learned } = lesson;
            write.put_result(topic, &Relearned { nonce, truth, losses, before: None })?;
            write.recount(topic, nonce)?;
            write.apply_retention(topic, retention, date)?;
            write.put_learned(topic, learned, &known).map(Some)
        })
    }
}

/// A finished epoch, from which the network learned or which was given up.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLesson {
    /// Block at which the epoch opened.
    pub nonce: BlockHeight,
    /// Input of the epoch, or `None` if it has none.
    pub input: Option<Input>,
    /// Ground truth. Empty if the epoch was given up.
    pub truth: Vec<LabeledValue>,
}

/// Past epochs from which the network can learn again.
#[derive(Debug, Clone, PartialEq)]
pub struct Relearnable {
    /// Learned state before the first of `lessons`.
    pub before: Learned,
    /// Finished epochs, oldest first.
    pub lessons: Vec<PastLesson>,
}

/// Result of learning from an epoch.
#[derive(Debug)]
pub struct Relearned {
    /// Block at which the epoch opened.
    pub nonce: BlockHeight,
    /// Values that the topic predicts, once they are known.
    pub truth: Vec<LabeledValue>,
    /// Losses of all values.
    pub losses: Losses,
    /// Learned state before the epoch, or `None` if no snapshot of it is due.
    pub before: Option<Learned>,
}

impl Store {
    /// Finds the latest snapshot of `topic` at or before `from`, or the earliest if nothing was learned
    /// before it. Returns the learned state in this snapshot and the finished epochs since then, or `None`
    /// if there is no such snapshot.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn relearnable(&self, topic: TopicId, from: BlockHeight) -> Result<Option<Relearnable>> {
        self.read(|session| {
            let sql = format!(
                "SELECT nonce, record, regrets, past FROM snapshots
                 WHERE topic_id = ?1 AND nonce = coalesce(
                     (SELECT max(nonce) {COMPLETE} AND nonce <= ?2), (SELECT min(nonce) {COMPLETE}))"
            );
            let snapshot = session.find(&sql, key(topic, from), |row| {
                Ok((row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?)))
            })?;
            let Some((first, columns)) = snapshot else { return Ok(None) };
            let before = record::read_learned(columns)?;
            if height(first) > from && before.n_learned > 0 {
                return Ok(None);
            }
            let sql = "SELECT nonce, input_at, input_value, truth FROM epochs
                       WHERE topic_id = ?1 AND nonce >= ?2 AND state IN (3, 4) AND is_thin = 0
                       ORDER BY nonce";
            let lessons = session.all(sql, [number(topic.get()), first], |row| {
                let (at, value): (Option<i64>, Option<f64>) = (row.get(1)?, row.get(2)?);
                let input = |(at, value)| Input { at: Timestamp::from_micros(at), value };
                let truth: Option<String> = row.get(3)?;
                Ok(PastLesson {
                    nonce: height(row.get(0)?),
                    input: at.zip(value).map(input),
                    truth: truth.as_deref().map(record::read).transpose()?.unwrap_or_default(),
                })
            })?;
            Ok(Some(Relearnable { before, lessons }))
        })
    }

    /// Returns the earliest epoch of `topic` from which the network can learn again, or `None` if there
    /// is no such epoch.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn relearnable_from(&self, topic: TopicId) -> Result<Option<BlockHeight>> {
        let sql = format!("SELECT min(nonce) {COMPLETE}");
        let first = self.read(|session| session.value(&sql, [number(topic.get())]))?;
        Ok(Option::map(first, height))
    }

    /// Returns the bundle of the epoch `nonce`, or `None` if it has none.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn bundle(&self, topic: TopicId, nonce: BlockHeight) -> Result<Option<FullBundle>> {
        self.read(|session| session.bundle(topic, nonce))
    }

    /// Replaces the learned state of `topic` and the results of `epochs`. Changes nothing and returns
    /// `None` if the stamp of the stored state is not `stamp`, since the network has learned from
    /// another epoch in the meantime.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn put_relearned(
        &self,
        topic: TopicId,
        stamp: i64,
        learned: Learned,
        epochs: Vec<Relearned>,
        retention: Retention,
    ) -> Result<Option<StoredLearned>> {
        self.write(move |write| {
            write.lock_topic(topic, IfLocked::Wait)?;
            let known = write.learned(topic, None)?;
            if known.stamp != stamp {
                return Ok(None);
            }
            for epoch in &epochs {
                write.put_result(topic, epoch)?;
                write.recount(topic, epoch.nonce)?;
            }
            if let Some(first) = epochs.first() {
                // Deletes later snapshots, which were learned from the wrong ground truth.
                let sql = "DELETE FROM snapshots WHERE topic_id = ?1 AND nonce > ?2";
                write.run(sql, key(topic, first.nonce))?;
            }
            for epoch in &epochs {
                if let Some(before) = &epoch.before {
                    write.take_snapshot(topic, epoch.nonce, before, retention)?;
                }
            }
            write.mark_changed(topic)?;
            write.put_learned(topic, learned, &known).map(Some)
        })
    }
}

impl Session<'_> {
    /// Stores `moved`, which differs from `before` only in the scores of resting actors.
    fn put_moved_scores(
        &self,
        topic: TopicId,
        moved: &Arc<Learned>,
        before: &StoredLearned,
    ) -> Result<StoredLearned> {
        let stamp = before.stamp.saturating_add(1);
        let sql = "UPDATE learned SET stamp = ?2, record = ?3 WHERE topic_id = ?1";
        let record = record::write(&**moved)?;
        self.run(sql, values![number(topic.get()), stamp, record])?;
        Ok(StoredLearned { stamp, learned: Arc::clone(moved) })
    }

    /// Stores the result of closing an epoch.
    fn put_closing(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        closing: Closing,
        at: Timestamp,
    ) -> Result<()> {
        let Closing { bundle, shares, forecasts, resistant, signed, baseline, intervals, .. } =
            closing;
        self.withdraw(topic, nonce, &closing.withdrawn)?;
        for forecast in &forecasts {
            self.insert(topic, nonce, forecast, true, at)?;
        }
        let (signed, signed_intervals) = match &signed {
            Some(Signed { value, intervals }) => {
                (Some(record::write(value)?), Some(record::write(intervals)?))
            }
            None => (None, None),
        };
        let resistant_pairs =
            resistant.as_ref().and_then(|r| record::write_pairs(&r.without_inferer));
        let [id, nonce] = key(topic, nonce);
        self.run(
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
                record::write_pairs(&bundle.without_inferer),
                resistant_pairs
            ],
        )?;
        if let Some(Baseline { median, spread }) = baseline {
            let sql = "INSERT INTO baselines (topic_id, median, spread) VALUES (?1, ?2, ?3)
                       ON CONFLICT (topic_id) DO UPDATE SET
                          median = excluded.median, spread = excluded.spread";
            self.run(sql, values![id, median, spread])?;
        }
        Ok(())
    }

    /// Removes the submissions of resting actors and the labels that only they used.
    fn withdraw(&self, topic: TopicId, nonce: BlockHeight, withdrawn: &Withdrawn) -> Result<()> {
        let [topic, nonce] = key(topic, nonce);
        for rest in &withdrawn.submissions {
            let worker = rest.worker.as_str();
            if rest.is_empty() {
                let sql =
                    "DELETE FROM submissions WHERE topic_id = ?1 AND nonce = ?2 AND worker = ?3";
                self.run(sql, values![topic, nonce, worker])?;
            } else {
                let (own, forecast) = record::write_submission(rest)?;
                let sql = "UPDATE submissions SET record = ?4, forecast = ?5
                           WHERE topic_id = ?1 AND nonce = ?2 AND worker = ?3";
                self.run(sql, values![topic, nonce, worker, own, forecast])?;
            }
        }
        for label in &withdrawn.labels {
            let sql = "DELETE FROM labels WHERE topic_id = ?1 AND nonce = ?2 AND label = ?3";
            self.run(sql, values![topic, nonce, label])?;
        }
        Ok(())
    }

    /// Stores `learned` in place of `before`.
    fn put_learned(
        &self,
        topic: TopicId,
        learned: Learned,
        before: &StoredLearned,
    ) -> Result<StoredLearned> {
        let stamp = before.stamp.saturating_add(1);
        let sql = "INSERT INTO learned (topic_id, stamp, record, regrets, past)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (topic_id) DO UPDATE SET stamp = excluded.stamp,
                      record = excluded.record, regrets = excluded.regrets, past = excluded.past";
        let (record, regrets, past) = record::write_learned(&learned)?;
        self.run(sql, values![number(topic.get()), stamp, record, regrets, past])?;
        Ok(StoredLearned { stamp, learned: Arc::new(learned) })
    }

    /// Stores the result of learning from an epoch.
    fn put_result(&self, topic: TopicId, epoch: &Relearned) -> Result<()> {
        let Relearned { nonce, truth, losses, .. } = epoch;
        let [id, nonce] = key(topic, *nonce);
        let sql = "UPDATE epochs SET state = ?3, truth = ?4, combined_loss = ?5, naive_loss = ?6
                   WHERE topic_id = ?1 AND nonce = ?2";
        let (state, truth) = (EpochState::Learned as i64, record::write(truth)?);
        self.run(sql, values![id, nonce, state, truth, losses.combined, losses.naive])?;
        let sql = "INSERT INTO losses (topic_id, nonce, record, pairs) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT (topic_id, nonce) DO UPDATE SET
                      record = excluded.record, pairs = excluded.pairs";
        let pairs = record::write_pairs(&losses.one_out_inferer_forecaster);
        self.run(sql, values![id, nonce, record::write(losses)?, pairs])?;
        Ok(())
    }

    /// Stores `learned` as the snapshot before the epoch `nonce`, if a snapshot is due. Then deletes
    /// snapshots beyond the limits, except the latest.
    fn take_snapshot(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        learned: &Learned,
        retention: Retention,
    ) -> Result<()> {
        if !learned.is_snapshot_due() {
            return Ok(());
        }
        let [id, nonce] = key(topic, nonce);
        // Limits snapshots to a quarter of the topic's maximum size.
        let bytes_max = number(retention.bytes / 4);
        let (record, regrets, past) = record::write_learned(learned)?;
        let sql = "INSERT INTO snapshots (topic_id, nonce, record, regrets, past)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (topic_id, nonce) DO UPDATE SET
                      record = excluded.record, regrets = excluded.regrets, past = excluded.past";
        self.run(sql, values![id, nonce, record, regrets, past])?;
        // Deletes snapshots before the first complete epoch, since the network cannot learn again from
        // epochs without values of pairs. Also deletes snapshots beyond the number and the size limit.
        self.run(
            "DELETE FROM snapshots WHERE topic_id = ?1 AND (
                    nonce < (SELECT min(nonce) FROM epochs
                             WHERE topic_id = ?1 AND is_thin = 0 AND state > 1)
                    OR nonce <= (SELECT nonce FROM snapshots WHERE topic_id = ?1
                                 ORDER BY nonce DESC LIMIT 1 OFFSET ?2)
                    OR nonce <= (SELECT max(nonce) FROM (
                                    SELECT nonce, row_number() OVER newest AS n, sum(
                                        octet_length(record) + octet_length(regrets)
                                        + octet_length(past)) OVER newest AS n_bytes
                                    FROM snapshots WHERE topic_id = ?1
                                    WINDOW newest AS (ORDER BY nonce DESC)) AS sizes
                                 WHERE n > 1 AND n_bytes > ?3))",
            // With 32 snapshots, learning can be repeated from an epoch about a thousand epochs ago.
            [id, 32.into(), bytes_max],
        )?;
        Ok(())
    }
}
