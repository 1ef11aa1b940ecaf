//! What the inference file is asked for: bundles, history, and who takes part.

use std::ops::RangeInclusive;

use model::{
    bundle::{Bundle, LabeledValue},
    timestamp::Timestamp,
    topic::{Address, BlockHeight, TopicId},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Store, StoreError, number, record};
use crate::{
    close::{Interval, Signed},
    learned::Learned,
    outlier::Baseline,
    regret::{Losses, Standing},
    selection::Arrival,
    submission::Submission,
};

/// A past epoch that has a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochView {
    /// When it opened.
    pub opened_at: Timestamp,
    /// What was inferred.
    pub bundle: Bundle,
    /// What came true; empty until it is known.
    pub truth: Vec<LabeledValue>,
    /// The combined value's loss, once known.
    pub combined_loss: Option<f64>,
    /// The naive value's loss, once known.
    pub naive_loss: Option<f64>,
}

/// One who took part in the newest bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorView {
    /// Its address.
    pub worker: Address,
    /// Who is behind it, where that is known.
    pub name: Option<String>,
}

/// The newest bundle of a topic, and what is known about its actors.
#[derive(Debug, Clone, PartialEq)]
pub struct Recent {
    /// The bundle.
    pub bundle: Bundle,
    /// Each actor's share in the combined value.
    pub shares: Standing,
    /// Who submitted for it.
    pub actors: Vec<ActorView>,
}

/// All that was inferred in one epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundles {
    /// What is served.
    pub bundle: Bundle,
    /// The same without outliers; none where there were none.
    pub resistant: Option<Bundle>,
    /// Each actor's share in the combined value.
    pub shares: Standing,
    /// Where the values lie, for each label; empty where there are no weights.
    pub intervals: Vec<Interval>,
    /// What is offered for signing; none where it is the combined value with its interval.
    pub signed: Option<Signed>,
    /// When the epoch closed.
    pub closed_at: Timestamp,
}

/// One payload as it was received.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// For which epoch.
    pub nonce: BlockHeight,
    /// What.
    pub submission: Submission,
}

impl Store {
    /// What was inferred for `topic` in the epoch `nonce`, or in the newest one that has a bundle.
    ///
    /// # Errors
    /// [`StoreError`] if the file fails; so with all that follow.
    pub fn bundles(
        &self,
        topic: TopicId,
        nonce: Option<BlockHeight>,
    ) -> Result<Option<Bundles>, StoreError> {
        let reader = self.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT b.record, b.resistant, b.shares, b.intervals, e.closed_at, b.signed,
                    b.signed_intervals
             FROM bundles b JOIN epochs e ON e.topic_id = b.topic_id AND e.nonce = b.nonce
             WHERE b.topic_id = ?1 AND (?2 IS NULL OR b.nonce = ?2)
             ORDER BY b.nonce DESC LIMIT 1",
        )?;
        let mut rows = statement.query(params![number(topic.get()), nonce.map(number)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (resistant, intervals): (Option<String>, Option<String>) = (row.get(1)?, row.get(3)?);
        let signed: (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
        let signed = match signed {
            (Some(value), Some(intervals)) => Some(Signed {
                value: record::read_values(&value)?,
                intervals: record::read_intervals(&intervals)?,
            }),
            _ => None,
        };
        Ok(Some(Bundles {
            bundle: record::read_bundle(&row.get::<_, String>(0)?)?,
            resistant: resistant.as_deref().map(record::read_bundle).transpose()?,
            shares: record::read_standing(&row.get::<_, String>(2)?)?,
            intervals: intervals
                .as_deref()
                .map(record::read_intervals)
                .transpose()?
                .unwrap_or_default(),
            signed,
            closed_at: Timestamp::from_micros(row.get::<_, Option<i64>>(4)?.unwrap_or_default()),
        }))
    }

    /// The labels that came for the epoch `nonce` of a topic that names none, in the order of their
    /// ids.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn labels(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<String>, StoreError> {
        let reader = self.reader()?;
        labels(&reader, topic, nonce)
    }

    /// The newest inference of `worker` for `topic`, if it ever submitted one.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn newest_of(
        &self,
        topic: TopicId,
        worker: &Address,
    ) -> Result<Option<Received>, StoreError> {
        let reader = self.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT nonce, record FROM submissions
             WHERE topic_id = ?1 AND worker = ?2 ORDER BY nonce DESC LIMIT 1",
        )?;
        let mut rows = statement.query(params![number(topic.get()), worker.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let submission = record::read_submission(worker.as_str(), &row.get::<_, String>(1)?)?;
        Ok(Some(Received { nonce: super::height(row.get(0)?), submission }))
    }

    /// The losses of epochs of `topic` that were learned from, up to the epoch `nonce`: the newest
    /// `limit` of them, newest first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn losses_until(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        limit: u32,
    ) -> Result<Vec<(BlockHeight, Losses)>, StoreError> {
        let reader = self.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT nonce, losses FROM epochs
             WHERE topic_id = ?1 AND nonce <= ?2 AND losses IS NOT NULL
             ORDER BY nonce DESC LIMIT ?3",
        )?;
        let mut rows = statement.query(params![number(topic.get()), number(nonce), limit])?;
        let mut epochs = Vec::new();
        while let Some(row) = rows.next()? {
            let losses = record::read_losses(&row.get::<_, String>(1)?)?;
            epochs.push((super::height(row.get(0)?), losses));
        }
        Ok(epochs)
    }

    /// The newest bundle of `topic` with its actors, if it has one.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn recent(&self, topic: TopicId) -> Result<Option<Recent>, StoreError> {
        let reader = self.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT record, shares FROM bundles WHERE topic_id = ?1 ORDER BY nonce DESC LIMIT 1",
        )?;
        let texts: Option<(String, String)> = statement
            .query_row([number(topic.get())], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((bundle, shares)) = texts else { return Ok(None) };
        let bundle = record::read_bundle(&bundle)?;
        let submissions = submissions(&reader, topic, bundle.nonce)?;
        let actors = submissions
            .into_iter()
            .map(|submission| ActorView { worker: submission.worker, name: submission.name })
            .collect();
        Ok(Some(Recent { bundle, shares: record::read_standing(&shares)?, actors }))
    }

    /// What `topic` has learned.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn learned(&self, topic: TopicId) -> Result<Learned, StoreError> {
        let reader = self.reader()?;
        learned(&reader, topic)
    }

    /// The submissions of the epoch `nonce`, by worker.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn submissions(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
    ) -> Result<Vec<Submission>, StoreError> {
        let reader = self.reader()?;
        submissions(&reader, topic, nonce)
    }

    /// The newest `limit` epochs of `topic` with a nonce in `nonces` that have a bundle, oldest
    /// first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn history(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<EpochView>, StoreError> {
        let reader = self.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT e.opened_at, b.record, e.truth, e.combined_loss, e.naive_loss
             FROM bundles b JOIN epochs e ON e.topic_id = b.topic_id AND e.nonce = b.nonce
             WHERE b.topic_id = ?1 AND b.nonce BETWEEN ?2 AND ?3
             ORDER BY b.nonce DESC LIMIT ?4",
        )?;
        let (from, to) = (number(*nonces.start()), number(*nonces.end()));
        let mut rows = statement.query(params![number(topic.get()), from, to, limit])?;
        let mut epochs = Vec::new();
        while let Some(row) = rows.next()? {
            let truth: Option<String> = row.get(2)?;
            epochs.push(EpochView {
                opened_at: Timestamp::from_micros(row.get(0)?),
                bundle: record::read_bundle(&row.get::<_, String>(1)?)?,
                truth: truth
                    .map(|text| record::read_values(&text))
                    .transpose()?
                    .unwrap_or_default(),
                combined_loss: row.get(3)?,
                naive_loss: row.get(4)?,
            });
        }
        epochs.reverse();
        Ok(epochs)
    }
}

pub(super) fn submissions(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Vec<Submission>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT worker, record FROM submissions WHERE topic_id = ?1 AND nonce = ?2 ORDER BY worker",
    )?;
    let rows = statement.query_map(params![number(topic.get()), number(nonce)], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    rows.map(|row| {
        let (worker, text) = row?;
        record::read_submission(&worker, &text)
    })
    .collect()
}

/// The submissions of the epoch `nonce` by worker, with how they came.
pub(super) fn arrivals(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Vec<Arrival>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT worker, record, received_at, trusted FROM submissions
         WHERE topic_id = ?1 AND nonce = ?2 ORDER BY worker",
    )?;
    let mut rows = statement.query(params![number(topic.get()), number(nonce)])?;
    let mut arrivals = Vec::new();
    while let Some(row) = rows.next()? {
        let (worker, text): (String, String) = (row.get(0)?, row.get(1)?);
        arrivals.push(Arrival {
            submission: record::read_submission(&worker, &text)?,
            received_at: Timestamp::from_micros(row.get(2)?),
            is_trusted: row.get(3)?,
        });
    }
    Ok(arrivals)
}

pub(super) fn learned(connection: &Connection, topic: TopicId) -> Result<Learned, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT record, regrets, past FROM learned WHERE topic_id = ?1")?;
    let mut rows = statement.query([number(topic.get())])?;
    let Some(row) = rows.next()? else { return Ok(Learned::default()) };
    let text: String = row.get(0)?;
    let (regrets, past): (Option<Vec<u8>>, Option<Vec<u8>>) = (row.get(1)?, row.get(2)?);
    record::read_learned(&text, regrets.as_deref(), past.as_deref())
}

pub(super) fn bundle(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Option<Bundle>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT record FROM bundles WHERE topic_id = ?1 AND nonce = ?2")?;
    let text: Option<String> = statement
        .query_row(params![number(topic.get()), number(nonce)], |row| row.get(0))
        .optional()?;
    text.map(|text| record::read_bundle(&text)).transpose()
}

pub(super) fn labels(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT label FROM labels WHERE topic_id = ?1 AND nonce = ?2 ORDER BY label_id",
    )?;
    let rows =
        statement.query_map(params![number(topic.get()), number(nonce)], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn baseline(
    connection: &Connection,
    topic: TopicId,
) -> Result<Option<Baseline>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT median, spread FROM baselines WHERE topic_id = ?1")?;
    let baseline = statement.query_row([number(topic.get())], |row| {
        Ok(Baseline { median: row.get(0)?, spread: row.get(1)? })
    });
    Ok(baseline.optional()?)
}
