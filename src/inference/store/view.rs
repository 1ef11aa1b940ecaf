//! What the inference file is asked for: bundles, history, and who takes part.

use std::{ops::RangeInclusive, sync::Arc};

use db::statement::Statements as _;
use model::{
    timestamp::Timestamp,
    topic::{Address, BlockHeight, TopicId},
};
use rusqlite::{Connection, params};

use wire::inference::HistoryEpoch;

use super::{Store, StoreError, StoredLearned, height, key, number, pairs, record};
use crate::{
    math::{
        outlier::Baseline,
        pair_values::FullBundle,
        regret::{ByActor, Losses, RoleValues},
    },
    network::{
        close::{Interval, Signed},
        selection::Arrival,
        submission::Submission,
    },
};

/// About how many bytes of memory a labelled value takes: two texts, an id, and its share of a list.
const VALUE_BYTES: usize = 128;

/// All that was inferred in one epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundles {
    /// What is served.
    pub bundle: FullBundle,
    /// The same without outliers; none where there were none.
    pub resistant: Option<FullBundle>,
    /// Each actor's share in the combined value.
    pub shares: RoleValues,
    /// Where the values lie, for each label; empty where there are no weights.
    pub intervals: Vec<Interval>,
    /// What is offered for signing; none where it is the combined value with its interval.
    pub signed: Option<Signed>,
    /// When the epoch closed.
    pub closed_at: Timestamp,
}

impl Bundles {
    /// About how many bytes of memory it takes.
    pub(crate) fn n_bytes(&self) -> usize {
        let full = |bundle: &FullBundle| {
            let n_lists = bundle.inferer_values.len() + bundle.one_out_inferer_values.len();
            let n_values = n_lists * bundle.combined_value.len();
            n_values * VALUE_BYTES + size_of_val(bundle.without_inferer.numbers())
        };
        full(&self.bundle) + self.resistant.as_ref().map_or(0, full)
    }
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
                    b.signed_intervals, b.pairs, b.resistant_pairs
             FROM bundles b JOIN epochs e ON e.topic_id = b.topic_id AND e.nonce = b.nonce
             WHERE b.topic_id = ?1 AND (?2 IS NULL OR b.nonce = ?2)
             ORDER BY b.nonce DESC LIMIT 1",
        )?;
        let mut rows = statement.query(params![number(topic.get()), nonce.map(number)])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let text = |idx| row.get::<_, Option<String>>(idx);
        let blob = |idx| row.get::<_, Option<Vec<u8>>>(idx);
        let resistant =
            text(1)?.map(|record| full_bundle(&record, blob(8)?.as_deref())).transpose()?;
        let signed = text(5)?.zip(text(6)?).map(|(value, intervals)| {
            let value = record::read(&value)?;
            Ok::<_, StoreError>(Signed { value, intervals: record::read_intervals(&intervals)? })
        });
        Ok(Some(Bundles {
            bundle: full_bundle(&row.get::<_, String>(0)?, blob(7)?.as_deref())?,
            resistant,
            shares: record::read_role_values(&row.get::<_, String>(2)?)?,
            intervals: record::read_intervals(&row.get::<_, String>(3)?)?,
            signed: signed.transpose()?,
            closed_at: Timestamp::from_micros(row.get::<_, Option<i64>>(4)?.unwrap_or_default()),
        }))
    }

    /// Who is behind the workers of the epoch `nonce`, where that is known.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn names(&self, topic: TopicId, nonce: BlockHeight) -> Result<ByActor<String>, StoreError> {
        let sql = "SELECT worker, record FROM submissions WHERE topic_id = ?1 AND nonce = ?2";
        let rows: Vec<(String, String)> =
            self.reader()?.all(sql, key(topic, nonce), |row| row.try_into())?;
        let mut names = ByActor::new();
        for (worker, own) in rows {
            if let Some(name) = record::read_name(&own)? {
                names.insert(record::word(&worker)?, name);
            }
        }
        Ok(names)
    }

    /// The labels that came for the epoch `nonce` of a topic that names none, in the order of their
    /// ids.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn labels(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<String>, StoreError> {
        labels(&*self.reader()?, topic, nonce)
    }

    /// The newest inference of `worker` for `topic`, if it ever submitted one.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn newest_of(
        &self,
        topic: TopicId,
        worker: &Address,
    ) -> Result<Option<(BlockHeight, Submission)>, StoreError> {
        // Epoch by epoch: an index of the workers would be most of what a submission writes.
        let sql = "SELECT s.nonce, s.record, s.forecast FROM epochs e CROSS JOIN submissions s
                   ON s.topic_id = e.topic_id AND s.nonce = e.nonce AND s.worker = ?2
                   WHERE e.topic_id = ?1 ORDER BY e.nonce DESC LIMIT 1";
        let values = params![number(topic.get()), worker.as_str()];
        let found = self.reader()?.find(sql, values, |row| row.try_into())?;
        let received = |(nonce, own, forecast): (i64, String, Option<String>)| {
            let submission = record::read_submission(
                worker.as_str(),
                &own,
                forecast.as_deref(),
                &ByActor::new(),
            )?;
            Ok((height(nonce), submission))
        };
        found.map(received).transpose()
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
            "SELECT nonce, record, pairs FROM losses WHERE topic_id = ?1 AND nonce <= ?2
             ORDER BY nonce DESC LIMIT ?3",
        )?;
        let mut rows = statement.query(params![number(topic.get()), number(nonce), limit])?;
        let mut epochs = Vec::new();
        while let Some(row) = rows.next()? {
            let pairs: Option<Vec<u8>> = row.get(2)?;
            let losses = record::read_losses(&row.get::<_, String>(1)?, pairs.as_deref())?;
            epochs.push((height(row.get(0)?), losses));
        }
        Ok(epochs)
    }

    /// The newest epoch up to `nonce` that was learned from and in which both of `pair` submitted;
    /// none where there is none.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn met(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        pair: [&Address; 2],
    ) -> Result<Option<BlockHeight>, StoreError> {
        let sql = "SELECT e.nonce FROM epochs e
             WHERE e.topic_id = ?1 AND e.nonce <= ?4 AND e.state = 3
               AND EXISTS (SELECT 1 FROM submissions
                           WHERE topic_id = ?1 AND nonce = e.nonce AND worker = ?2)
               AND EXISTS (SELECT 1 FROM submissions
                           WHERE topic_id = ?1 AND nonce = e.nonce AND worker = ?3)
             ORDER BY e.nonce DESC LIMIT 1";
        let [one, other] = pair.map(Address::as_str);
        let values = params![number(topic.get()), one, other, number(nonce)];
        Ok(self.reader()?.find(sql, values, |row| row.get(0))?.map(height))
    }

    /// Who forecast in the epoch `nonce`, by address.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn forecasting(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
    ) -> Result<Vec<Address>, StoreError> {
        let sql = "SELECT worker FROM submissions
                   WHERE topic_id = ?1 AND nonce = ?2 AND forecast IS NOT NULL ORDER BY worker";
        let names = self.reader()?.all(sql, key(topic, nonce), |row| row.get::<_, String>(0))?;
        names.iter().map(|name| record::word(name)).collect()
    }

    /// The nonces of the newest `limit` epochs of `topic` in `nonces` that have a bundle, oldest
    /// first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn nonces(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<BlockHeight>, StoreError> {
        let sql = "SELECT nonce FROM bundles WHERE topic_id = ?1 AND nonce BETWEEN ?2 AND ?3
                   ORDER BY nonce DESC LIMIT ?4";
        let (from, to) = (number(*nonces.start()), number(*nonces.end()));
        let values = params![number(topic.get()), from, to, limit];
        let found = self.reader()?.all(sql, values, |row| row.get(0))?;
        Ok(found.into_iter().rev().map(height).collect())
    }

    /// What `topic` has learned; `known` where that is what it still is.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn learned(
        &self,
        topic: TopicId,
        known: Option<&StoredLearned>,
    ) -> Result<StoredLearned, StoreError> {
        learned(&*self.reader()?, topic, known)
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
        let arrivals = arrivals(&*self.reader()?, topic, nonce)?;
        Ok(arrivals.into_iter().map(|arrival| arrival.submission).collect())
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
    ) -> Result<Vec<HistoryEpoch>, StoreError> {
        let reader = self.reader()?;
        let mut statement = reader.prepare_cached(
            "SELECT nonce, opened_at, summary, truth, combined_loss, naive_loss FROM epochs
             WHERE topic_id = ?1 AND nonce BETWEEN ?2 AND ?3 AND summary IS NOT NULL
             ORDER BY nonce DESC LIMIT ?4",
        )?;
        let (from, to) = (number(*nonces.start()), number(*nonces.end()));
        let mut rows = statement.query(params![number(topic.get()), from, to, limit])?;
        let mut epochs = Vec::new();
        while let Some(row) = rows.next()? {
            let truth: Option<String> = row.get(3)?;
            let truth = truth.as_deref().map(record::read).transpose()?;
            let summary = record::read::<record::SummaryRecord>(&row.get::<_, String>(2)?)?;
            epochs.push(HistoryEpoch {
                nonce: height(row.get(0)?),
                opened_at: Timestamp::from_micros(row.get(1)?).to_string(),
                combined_value: summary.combined_value,
                naive_value: summary.naive_value,
                n_inferers: summary.n_inferers,
                n_forecasters: summary.n_forecasters,
                truth: truth.unwrap_or_default(),
                combined_loss: row.get(4)?,
                naive_loss: row.get(5)?,
            });
        }
        epochs.reverse();
        Ok(epochs)
    }
}

/// The bundle in `record` with its values of `pairs`.
fn full_bundle(record: &str, pairs: Option<&[u8]>) -> Result<FullBundle, StoreError> {
    let without_inferer = Arc::new(pairs::read(pairs)?);
    Ok(FullBundle { bundle: record::read_bundle(record)?, without_inferer })
}

/// The submissions of the epoch `nonce` by worker, with how they came.
pub(super) fn arrivals(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Vec<Arrival>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT worker, record, received_at, trusted, forecast FROM submissions
         WHERE topic_id = ?1 AND nonce = ?2 ORDER BY worker",
    )?;
    let mut rows = statement.query(key(topic, nonce))?;
    let mut arrivals = Vec::new();
    let mut known: Arc<ByActor<f64>> = Arc::default();
    while let Some(row) = rows.next()? {
        let (worker, text): (String, String) = (row.get(0)?, row.get(1)?);
        let forecast: Option<String> = row.get(4)?;
        let submission = record::read_submission(&worker, &text, forecast.as_deref(), &known)?;
        if !submission.forecast.is_empty() {
            known = Arc::clone(&submission.forecast);
        }
        arrivals.push(Arrival {
            submission,
            received_at: Timestamp::from_micros(row.get(2)?),
            is_trusted: row.get(3)?,
        });
    }
    Ok(arrivals)
}

/// What `topic` has learned; `known` where that is what it still is, which costs nothing.
pub(super) fn learned(
    connection: &Connection,
    topic: TopicId,
    known: Option<&StoredLearned>,
) -> Result<StoredLearned, StoreError> {
    let id = [number(topic.get())];
    let sql = "SELECT stamp FROM learned WHERE topic_id = ?1";
    let stamp: i64 = connection.find(sql, id, |row| row.get(0))?.unwrap_or_default();
    if let Some(known) = known.filter(|known| known.stamp == stamp) {
        return Ok(known.clone());
    }
    let sql = "SELECT record, regrets, past FROM learned WHERE topic_id = ?1";
    let columns = connection.find(sql, id, |row| row.try_into())?;
    let learned = columns.map(record::read_learned).transpose()?.unwrap_or_default();
    Ok(StoredLearned { stamp, learned: Arc::new(learned) })
}

pub(super) fn bundle(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Option<FullBundle>, StoreError> {
    let sql = "SELECT record, pairs FROM bundles WHERE topic_id = ?1 AND nonce = ?2";
    let found: Option<(String, Option<Vec<u8>>)> =
        connection.find(sql, key(topic, nonce), |row| row.try_into())?;
    found.map(|(record, pairs)| full_bundle(&record, pairs.as_deref())).transpose()
}

pub(super) fn labels(
    connection: &Connection,
    topic: TopicId,
    nonce: BlockHeight,
) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT label FROM labels WHERE topic_id = ?1 AND nonce = ?2 ORDER BY label_id";
    Ok(connection.all(sql, key(topic, nonce), |row| row.get(0))?)
}

pub(super) fn baseline(
    connection: &Connection,
    topic: TopicId,
) -> Result<Option<Baseline>, StoreError> {
    let sql = "SELECT median, spread FROM baselines WHERE topic_id = ?1";
    Ok(connection.find(sql, [number(topic.get())], |row| {
        Ok(Baseline { median: row.get(0)?, spread: row.get(1)? })
    })?)
}
