//! What the inference file is asked for: bundles, history, and who takes part.

use model::{
    bundle::{Bundle, LabeledValue},
    timestamp::Timestamp,
    topic::{Address, BlockHeight, TopicId},
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Store, StoreError, number, record};
use crate::{learned::Learned, regret::Standing, submission::Submission};

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

impl Store {
    /// The newest bundle of `topic`, if it has one.
    ///
    /// # Errors
    /// [`StoreError`] if the file fails; so with all that follow.
    pub fn latest(&self, topic: TopicId) -> Result<Option<Bundle>, StoreError> {
        let reader = self.reader.lock();
        let mut statement = reader.prepare_cached(
            "SELECT record FROM bundles WHERE topic_id = ?1 ORDER BY nonce DESC LIMIT 1",
        )?;
        let text: Option<String> =
            statement.query_row([number(topic.get())], |row| row.get(0)).optional()?;
        text.map(|text| record::read_bundle(&text)).transpose()
    }

    /// The newest bundle of `topic` with its actors, if it has one.
    ///
    /// # Errors
    /// As [`Self::latest`].
    pub fn recent(&self, topic: TopicId) -> Result<Option<Recent>, StoreError> {
        let reader = self.reader.lock();
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
    /// As [`Self::latest`].
    pub fn learned(&self, topic: TopicId) -> Result<Learned, StoreError> {
        learned(&self.reader.lock(), topic)
    }

    /// The submissions of the epoch `nonce`, by worker.
    ///
    /// # Errors
    /// As [`Self::latest`].
    pub fn submissions(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
    ) -> Result<Vec<Submission>, StoreError> {
        submissions(&self.reader.lock(), topic, nonce)
    }

    /// The newest `limit` epochs of `topic` that have a bundle, oldest first.
    ///
    /// # Errors
    /// As [`Self::latest`].
    pub fn history(&self, topic: TopicId, limit: u32) -> Result<Vec<EpochView>, StoreError> {
        let reader = self.reader.lock();
        let mut statement = reader.prepare_cached(
            "SELECT e.opened_at, b.record, e.truth, e.combined_loss, e.naive_loss
             FROM bundles b JOIN epochs e ON e.topic_id = b.topic_id AND e.nonce = b.nonce
             WHERE b.topic_id = ?1 ORDER BY b.nonce DESC LIMIT ?2",
        )?;
        let mut rows = statement.query(params![number(topic.get()), limit])?;
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

pub(super) fn learned(connection: &Connection, topic: TopicId) -> Result<Learned, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT record FROM learned WHERE topic_id = ?1")?;
    let text: Option<String> =
        statement.query_row([number(topic.get())], |row| row.get(0)).optional()?;
    text.map(|text| record::read_learned(&text)).transpose().map(Option::unwrap_or_default)
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
