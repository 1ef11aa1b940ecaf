//! Storage of submissions, with limits that are enforced by counters. Each epoch has a row for each
//! counter: the number of labels, and the numbers of submissions by submitter and by standing of the
//! worker.

use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId};

use super::engines::{LockMode, Session, values};
use super::{EpochState, Result, Store, StoreError, SubmitOutcome, key, record};
use crate::math::sortition::Record;
use crate::network::submission::{Origin, Submission};
use crate::network::topic::SUBMISSIONS_MAX;

/// Maximum number of submissions by newcomers for a nonce. These submissions are counted separately, so
/// that they do not displace other submissions.
pub const NEWCOMERS_MAX: u32 = 512;

/// Name of the counter of an epoch's labels.
const LABELS: &str = "labels";

/// Name of a counter with the time until which a service has reserved the run of an epoch's workers, in
/// microseconds since 1970.
const RESERVED_UNTIL: &str = "asked until";

impl Store {
    /// Stores `submission` for the epoch `nonce`, if the epoch is open, the worker has not submitted
    /// yet, and no limit is reached.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn submit(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        submission: Submission,
        origin: Origin,
        at: Timestamp,
    ) -> Result<SubmitOutcome> {
        let taken = self.write(move |write| {
            let epoch = Epoch { write, topic, nonce };
            epoch.take(&submission, origin, at)
        });
        match taken {
            // An outcome without effect is returned inside an error, which rolls back the transaction.
            Err(StoreError::NotKept(outcome)) => Ok(outcome),
            submitted => submitted,
        }
    }

    /// Returns true if exactly this `submission` is stored for the epoch `nonce`.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn has_submission(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        submission: &Submission,
    ) -> Result<bool> {
        let sql = "SELECT record, forecast FROM submissions
                   WHERE topic_id = ?1 AND nonce = ?2 AND worker = ?3";
        let [topic, nonce] = key(topic, nonce);
        let values = values![topic, nonce, submission.worker.as_str()];
        let stored: Option<(String, Option<String>)> =
            self.read(|session| session.find(sql, values, |row| Ok((row.get(0)?, row.get(1)?))))?;
        Ok(stored == Some(record::write_submission(submission)?))
    }

    /// Reserves the run of the workers of the epoch `nonce` until the time `until`. Returns false if
    /// another service has a reservation that has not expired at `at`.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn reserve_run(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<bool> {
        self.write(move |session| {
            let sql = "INSERT INTO counters (topic_id, nonce, name, n) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (topic_id, nonce, name) DO UPDATE SET n = excluded.n
                 WHERE counters.n < ?5";
            let [topic, nonce] = key(topic, nonce);
            let values = values![topic, nonce, RESERVED_UNTIL, until.micros(), at.micros()];
            Ok(session.run(sql, values)? > 0)
        })
    }

    /// Ends the reservation for the epoch `nonce`. If `is_done`, the run succeeded and no other service
    /// can reserve it. Otherwise another service can try again.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn end_run(&self, topic: TopicId, nonce: BlockHeight, is_done: bool) -> Result<()> {
        let until = if is_done { i64::MAX } else { 0 };
        self.write(move |session| {
            let sql = "UPDATE counters SET n = ?4 WHERE topic_id = ?1 AND nonce = ?2 AND name = ?3";
            let [topic, nonce] = key(topic, nonce);
            session.run(sql, values![topic, nonce, RESERVED_UNTIL, until]).map(drop)
        })
    }
}

fn full<T>(limit: String) -> Result<T> {
    Err(StoreError::NotKept(SubmitOutcome::Full { limit }))
}

/// Epoch to which a submission is added.
struct Epoch<'a, 'c> {
    write: &'a Session<'c>,
    topic: TopicId,
    nonce: BlockHeight,
}

impl Epoch<'_, '_> {
    /// Stores a submission unless a limit is reached.
    ///
    /// # Errors
    /// [`StoreError::NotKept`] if a limit is reached or the submission is a dry run, or another error
    /// if the store fails.
    fn take(
        &self,
        submission: &Submission,
        origin: Origin,
        at: Timestamp,
    ) -> Result<SubmitOutcome> {
        if !self.write.is_in(self.topic, self.nonce, EpochState::Open, LockMode::Shared)? {
            return Ok(SubmitOutcome::NotOpen);
        }
        let is_trusted = origin.record == Record::Trusted;
        if self.write.insert(self.topic, self.nonce, submission, is_trusted, at)? == 0 {
            return Ok(SubmitOutcome::Repeated);
        }
        self.add_labels(submission)?;
        let (counter, n_max) = match origin.record {
            Record::Newcomer => ("newcomers", NEWCOMERS_MAX),
            Record::Scored => ("scored", SUBMISSIONS_MAX),
            Record::Trusted => ("trusted", SUBMISSIONS_MAX),
        };
        if self.count(counter, 1)? > n_max {
            return full("maximum number of submissions reached".to_owned());
        }
        if let Some(counter) = origin.submitter.counter()
            && !origin.quota.allows(self.count(&counter, 1)?)
        {
            let n_max = origin.quota.0;
            return full(format!("maximum of {n_max} workers per account reached"));
        }
        if origin.is_dry_run {
            return Err(StoreError::NotKept(SubmitOutcome::Taken));
        }
        Ok(SubmitOutcome::Taken)
    }

    /// Assigns ids to labels that are new in this epoch, in order of arrival.
    fn add_labels(&self, submission: &Submission) -> Result<()> {
        // The labels of topics with a single output already have an id.
        let mut labels = submission.inference.iter().filter(|value| value.label_id == 0).peekable();
        if labels.peek().is_none() {
            return Ok(());
        }
        let [topic, nonce] = key(self.topic, self.nonce);
        // Adding 0 to the counter locks it, so that other transactions cannot add labels until this
        // transaction ends.
        let n_before = self.count(LABELS, 0)?;
        let mut n_labels = n_before;
        let sql = "INSERT INTO labels (topic_id, nonce, label, label_id)
                   VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";
        for value in labels {
            let values = values![topic, nonce, value.label_name, i64::from(n_labels + 1)];
            let added = self.write.run(sql, values)?;
            n_labels += u32::from(added > 0);
        }
        self.count(LABELS, n_labels - n_before).map(drop)
    }

    /// Adds `n` to a counter of the epoch and returns its new value.
    fn count(&self, counter: &str, n: u32) -> Result<u32> {
        let sql = "INSERT INTO counters (topic_id, nonce, name, n) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (topic_id, nonce, name) DO UPDATE SET n = counters.n + excluded.n
             RETURNING n";
        let [topic, nonce] = key(self.topic, self.nonce);
        let n: i64 = self.write.value(sql, values![topic, nonce, counter, i64::from(n)])?;
        Ok(u32::try_from(n).unwrap_or(u32::MAX))
    }
}
