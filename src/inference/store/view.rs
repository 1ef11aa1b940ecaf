//! Queries of the inference store: bundles, history and actors.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use model::timestamp::Timestamp;
use model::topic::{Address, BlockHeight, TopicId};
use serde::Deserialize;
use wire::inference::{HistoryEpoch, LabeledValue, WorkerValues};

use super::engines::{Row, Session, values};
use super::{Result, Store, StoreError, StoredLearned, height, key, number, record};
use crate::math::outlier::Baseline;
use crate::math::pair_values::FullBundle;
use crate::math::regret::{ByActor, Losses, Role, RoleValues};
use crate::network::close::{Interval, Signed};
use crate::network::selection::Arrival;
use crate::network::submission::Submission;

/// Results of closing an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Bundles {
    /// Bundle as served.
    pub bundle: FullBundle,
    /// Bundle without outliers, or `None` if the epoch has no outliers.
    pub resistant: Option<FullBundle>,
    /// Weight of each actor in the combined value.
    pub shares: RoleValues,
    /// Confidence intervals by label. Empty if no weights were computed, as with a single inferer.
    pub intervals: Vec<Interval>,
    /// Value to sign, or `None` if the combined value and its interval are to be signed.
    pub signed: Option<Signed>,
    /// Time at which the epoch closed.
    pub closed_at: Timestamp,
}

impl Bundles {
    /// Returns the approximate memory usage in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        let full = |bundle: &FullBundle| {
            let n_lists = bundle.inferer_values.len() + bundle.one_out_inferer_values.len();
            let n_values = n_lists * bundle.combined_value.len();
            // A labeled value needs about 128 bytes: two texts, an id and its share of a list.
            n_values * 128 + size_of_val(bundle.without_inferer.numbers())
        };
        full(&self.bundle) + self.resistant.as_ref().map_or(0, full)
    }
}

impl Store {
    /// Returns the results of the epoch `nonce` of `topic`, or of the latest epoch with a bundle if
    /// `nonce` is `None`.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, as for all methods below.
    pub fn bundles(&self, topic: TopicId, nonce: Option<BlockHeight>) -> Result<Option<Bundles>> {
        let sql = "SELECT b.record, b.resistant, b.shares, b.intervals, e.closed_at, b.signed,
                    b.signed_intervals, b.pairs, b.resistant_pairs
             FROM bundles b JOIN epochs e ON e.topic_id = b.topic_id AND e.nonce = b.nonce
             WHERE b.topic_id = ?1
               AND b.nonce = coalesce(?2, (SELECT max(nonce) FROM bundles WHERE topic_id = ?1))";
        let values = [Some(number(topic.get())), nonce.map(number)];
        self.read(|session| session.find(sql, values, read_bundles))
    }

    /// Returns the names of the workers in the epoch `nonce`. Workers without a known name are omitted.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn names(&self, topic: TopicId, nonce: BlockHeight) -> Result<ByActor<String>> {
        let sql = "SELECT worker, record FROM submissions WHERE topic_id = ?1 AND nonce = ?2";
        let rows = self.read(|session| {
            session.all(sql, key(topic, nonce), |row| {
                Ok((row.get::<String>(0)?, row.get::<String>(1)?))
            })
        })?;
        let mut names = ByActor::new();
        for (worker, own) in rows {
            if let Some(name) = record::read_name(&own)? {
                names.insert(record::word(&worker)?, name);
            }
        }
        Ok(names)
    }

    /// Returns the labels of the epoch `nonce` in the order of their ids. Empty for a topic with a
    /// single output.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn labels(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<String>> {
        self.read(|session| session.labels(topic, nonce))
    }

    /// Returns the latest submission of `worker` for `topic` up to the epoch `until`, with its nonce, or
    /// `None` if there is no such submission.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn newest_of(
        &self,
        topic: TopicId,
        worker: &Address,
        until: BlockHeight,
    ) -> Result<Option<(BlockHeight, Submission)>> {
        // Searches one epoch after another, since an index by worker would be larger than the
        // submissions themselves.
        let sql = "SELECT s.nonce, s.record, s.forecast FROM epochs e CROSS JOIN submissions s
                   WHERE s.topic_id = e.topic_id AND s.nonce = e.nonce AND s.worker = ?2
                     AND e.topic_id = ?1 AND e.nonce <= ?3 ORDER BY e.nonce DESC LIMIT 1";
        let values = values![number(topic.get()), worker.as_str(), number(until)];
        self.read(|session| {
            session.find(sql, values, |row| {
                let (own, forecast): (String, Option<String>) = (row.get(1)?, row.get(2)?);
                let submission = record::read_submission(
                    worker.as_str(),
                    &own,
                    forecast.as_deref(),
                    &ByActor::new(),
                )?;
                Ok((height(row.get(0)?), submission))
            })
        })
    }

    /// Returns the losses of the latest epochs of `topic` up to `nonce` from which the network learned,
    /// at most `limit`, latest first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn losses_until(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        limit: u32,
    ) -> Result<Vec<(BlockHeight, Losses)>> {
        let sql = "SELECT nonce, record, pairs FROM losses WHERE topic_id = ?1 AND nonce <= ?2
                   ORDER BY nonce DESC LIMIT ?3";
        let values = [number(topic.get()), number(nonce), limit.into()];
        self.read(|session| {
            session.all(sql, values, |row| {
                let pairs: Option<Vec<u8>> = row.get(2)?;
                let losses = record::read_losses(&row.get::<String>(1)?, pairs.as_deref())?;
                Ok((height(row.get(0)?), losses))
            })
        })
    }

    /// Returns the latest epoch up to `nonce` from which the network learned and for which both actors
    /// in `pair` submitted, or `None` if there is no such epoch.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn met(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        pair: [&Address; 2],
    ) -> Result<Option<BlockHeight>> {
        let sql = "SELECT e.nonce FROM epochs e
             WHERE e.topic_id = ?1 AND e.nonce <= ?4 AND e.state = 3
               AND EXISTS (SELECT 1 FROM submissions
                           WHERE topic_id = ?1 AND nonce = e.nonce AND worker = ?2)
               AND EXISTS (SELECT 1 FROM submissions
                           WHERE topic_id = ?1 AND nonce = e.nonce AND worker = ?3)
             ORDER BY e.nonce DESC LIMIT 1";
        let [one, other] = pair.map(Address::as_str);
        let values = values![number(topic.get()), one, other, number(nonce)];
        Ok(self.read(|session| session.find(sql, values, |row| row.get(0)))?.map(height))
    }

    /// Returns the addresses of the forecasters in the epoch `nonce`, sorted.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn forecasting(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<Address>> {
        let sql = "SELECT worker FROM submissions
                   WHERE topic_id = ?1 AND nonce = ?2 AND forecast IS NOT NULL ORDER BY worker";
        self.read(|session| {
            session.all(sql, key(topic, nonce), |row| record::word(&row.get::<String>(0)?))
        })
    }

    /// Returns the nonces of the latest epochs of `topic` that have a bundle and a nonce in `nonces`,
    /// at most `limit`, oldest first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn nonces(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<BlockHeight>> {
        self.latest_epochs("nonce", topic, nonces, limit, |row| Ok(height(row.get(0)?)))
    }

    /// Reads `columns` of the latest epochs of `topic` that have a bundle and a nonce in `nonces`.
    /// Returns at most `limit`, oldest first.
    pub(super) fn latest_epochs<T>(
        &self,
        columns: &str,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
        read: impl Fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let sql = format!(
            "SELECT {columns} FROM epochs
             WHERE topic_id = ?1 AND nonce BETWEEN ?2 AND ?3 AND summary IS NOT NULL
             ORDER BY nonce DESC LIMIT ?4"
        );
        let (from, to) = (number(*nonces.start()), number(*nonces.end()));
        let values = [number(topic.get()), from, to, limit.into()];
        let mut epochs = self.read(|session| session.all(&sql, values, &read))?;
        epochs.reverse();
        Ok(epochs)
    }

    /// Returns the learned state of `topic`. Does not read it if `known` is still current.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn learned(&self, topic: TopicId, known: Option<&StoredLearned>) -> Result<StoredLearned> {
        self.read(|session| session.learned(topic, known))
    }

    /// Returns the submissions of the epoch `nonce`, sorted by worker.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn submissions(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<Submission>> {
        let arrivals = self.read(|session| session.arrivals(topic, nonce))?;
        Ok(arrivals.into_iter().map(|arrival| arrival.submission).collect())
    }

    /// Returns the latest epochs of `topic` that have a bundle and a nonce in `nonces`, at most
    /// `limit`, oldest first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub fn history(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<HistoryEpoch>> {
        let columns = "nonce, opened_at, summary, truth, combined_loss, naive_loss";
        self.latest_epochs(columns, topic, nonces, limit, |row| {
            let truth: Option<String> = row.get(3)?;
            let truth = truth.as_deref().map(record::read).transpose()?;
            let summary = record::read::<record::SummaryRecord>(&row.get::<String>(2)?)?;
            Ok(HistoryEpoch {
                nonce: height(row.get(0)?),
                opened_at: Timestamp::from_micros(row.get(1)?).to_string(),
                combined_value: summary.combined_value,
                naive_value: summary.naive_value,
                n_inferers: summary.n_inferers,
                n_forecasters: summary.n_forecasters,
                truth: truth.unwrap_or_default(),
                combined_loss: row.get(4)?,
                naive_loss: row.get(5)?,
            })
        })
    }
}

/// Reads the columns selected by [`Store::bundles`].
fn read_bundles(row: &Row<'_>) -> Result<Bundles> {
    let text = |idx| row.get::<Option<String>>(idx);
    let blob = |idx| row.get::<Option<Vec<u8>>>(idx);
    let resistant = text(1)?.map(|record| full_bundle(&record, blob(8)?.as_deref())).transpose()?;
    let signed = text(5)?.zip(text(6)?).map(|(value, intervals)| {
        let value = record::read(&value)?;
        Ok::<_, StoreError>(Signed { value, intervals: record::read(&intervals)? })
    });
    Ok(Bundles {
        bundle: full_bundle(&row.get::<String>(0)?, blob(7)?.as_deref())?,
        resistant,
        shares: record::read(&row.get::<String>(2)?)?,
        intervals: record::read(&row.get::<String>(3)?)?,
        signed: signed.transpose()?,
        closed_at: Timestamp::from_micros(row.get::<Option<i64>>(4)?.unwrap_or_default()),
    })
}

/// Parses a bundle: `pairs` has its values for each pair of a forecaster and a withheld inferer, and
/// `record` has all others.
fn full_bundle(record: &str, pairs: Option<&[u8]>) -> Result<FullBundle> {
    let without_inferer = Arc::new(record::read_pairs(pairs)?);
    Ok(FullBundle { bundle: record::read_bundle(record)?, without_inferer })
}

/// Values of an actor in one epoch for one label.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochActor {
    /// Time at which the epoch opened.
    pub opened_at: Timestamp,
    /// Block at which the epoch opened.
    pub nonce: BlockHeight,
    /// Address of the actor.
    pub worker: String,
    /// Role of the actor.
    pub role: Role,
    /// Name of the actor, or `None` if it is unknown.
    pub name: Option<String>,
    /// Label of the values: `y` for a topic with a single output.
    pub label: String,
    /// Value that the actor inferred or implied.
    pub value: f64,
    /// Weight of the actor in the combined value.
    pub weight: Option<f64>,
    /// Loss of the actor, or `None` until the ground truth is known.
    pub loss: Option<f64>,
    /// Increase of the network's loss if the actor were absent, or `None` until the ground truth is
    /// known.
    pub score: Option<f64>,
    /// Ground truth, or `None` until it is known.
    pub truth: Option<f64>,
    /// Latest value of the topic's column when the epoch opened, or `None` if it is unknown.
    pub input: Option<f64>,
    /// Combined value of all actors.
    pub combined_value: Option<f64>,
    /// Combined value of the inferers without forecasters.
    pub naive_value: Option<f64>,
    /// Loss of the combined value.
    pub combined_loss: Option<f64>,
    /// Loss of the naive value.
    pub naive_loss: Option<f64>,
}

/// Part of a stored bundle that is read for an export.
#[derive(Deserialize)]
struct BundleRecord {
    network_inferences: ActorValues,
}

#[derive(Deserialize)]
struct ActorValues {
    combined_value: Vec<LabeledValue>,
    naive_value: Vec<LabeledValue>,
    inferer_values: Vec<WorkerValues>,
    forecaster_values: Vec<WorkerValues>,
}

/// Names of the workers in each epoch, by address.
type Names = BTreeMap<BlockHeight, BTreeMap<String, String>>;

impl Store {
    /// Returns the nonce and the approximate size in bytes of the latest epochs of `topic` that have a
    /// bundle and a nonce in `nonces`, at most `limit`, oldest first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub(crate) fn epoch_sizes(
        &self,
        topic: TopicId,
        nonces: RangeInclusive<BlockHeight>,
        limit: u32,
    ) -> Result<Vec<(BlockHeight, u64)>> {
        self.latest_epochs("nonce, n_bytes", topic, nonces, limit, |row| {
            Ok((height(row.get(0)?), height(row.get(1)?)))
        })
    }

    /// Returns the addresses of the actors that `actor` selects in the epochs of `topic` with a nonce in
    /// `nonces`: the actor with this address, or else all actors that used this name in the latest epoch
    /// in which it was used. A worker with a new key keeps its name.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub(crate) fn find_actors(
        &self,
        topic: TopicId,
        nonces: &RangeInclusive<BlockHeight>,
        actor: &str,
    ) -> Result<Vec<String>> {
        let sql = "SELECT worker, max(nonce) FROM submissions
             WHERE topic_id = ?1 AND nonce BETWEEN ?2 AND ?3
               AND (worker = ?4 OR substr(record, 1, length(?5)) = ?5)
             GROUP BY worker ORDER BY worker";
        let [topic, first, last] = [topic.get(), *nonces.start(), *nonces.end()].map(number);
        let prefix = record::name_prefix(actor)?;
        let values = values![topic, first, last, actor, prefix.as_str()];
        let mut found: Vec<(String, i64)> =
            self.read(|session| session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?))))?;
        if found.iter().any(|(worker, _)| worker == actor) {
            found.retain(|(worker, _)| worker == actor);
        }
        let latest = found.iter().map(|(_, nonce)| *nonce).max();
        found.retain(|(_, nonce)| Some(*nonce) == latest);
        Ok(found.into_iter().map(|(worker, _)| worker).collect())
    }

    /// Returns an entry for each actor and label in the epochs of `topic` with a nonce in `nonces`,
    /// oldest epoch first.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub(crate) fn epoch_actors(
        &self,
        topic: TopicId,
        nonces: &RangeInclusive<BlockHeight>,
    ) -> Result<Vec<EpochActor>> {
        let key = [topic.get(), *nonces.start(), *nonces.end()].map(number);
        let epochs_sql = "SELECT b.nonce, e.opened_at, b.record, b.shares, e.truth, l.record,
                    e.input_value
             FROM bundles b JOIN epochs e ON e.topic_id = b.topic_id AND e.nonce = b.nonce
             LEFT JOIN losses l ON l.topic_id = b.topic_id AND l.nonce = b.nonce
             WHERE b.topic_id = ?1 AND b.nonce BETWEEN ?2 AND ?3 ORDER BY b.nonce";
        let names_sql = "SELECT nonce, worker, record FROM submissions
             WHERE topic_id = ?1 AND nonce BETWEEN ?2 AND ?3";
        self.read(|session| {
            let mut names = Names::new();
            session.all(names_sql, key, |row| {
                if let Some(name) = record::read_name(&row.get::<String>(2)?)? {
                    names.entry(height(row.get(0)?)).or_default().insert(row.get(1)?, name);
                }
                Ok(())
            })?;
            let epochs = session.all(epochs_sql, key, |row| read_epoch(row, &names))?;
            Ok(epochs.into_iter().flatten().collect())
        })
    }
}

/// Converts an epoch from the columns that [`Store::epoch_actors`] selects.
fn read_epoch(row: &Row<'_>, names: &Names) -> Result<Vec<EpochActor>> {
    let (nonce, opened_at) = (height(row.get(0)?), Timestamp::from_micros(row.get(1)?));
    let bundle: BundleRecord = record::read(&row.get::<String>(2)?)?;
    let shares: RoleValues = record::read(&row.get::<String>(3)?)?;
    let truth: Option<String> = row.get(4)?;
    let truth: Vec<LabeledValue> =
        truth.as_deref().map(record::read).transpose()?.unwrap_or_default();
    let losses: Option<String> = row.get(5)?;
    let losses = losses.map(|text| record::read_losses(&text, None)).transpose()?;
    let input: Option<f64> = row.get(6)?;
    let ActorValues { combined_value, naive_value, inferer_values, forecaster_values } =
        bundle.network_inferences;
    let mut actors = Vec::new();
    for (role, workers) in Role::ALL.into_iter().zip([inferer_values, forecaster_values]) {
        let scores = losses.as_ref().map(|losses: &Losses| losses.scores(role)).unwrap_or_default();
        for WorkerValues { worker, values } in workers {
            let name = names.get(&nonce).and_then(|names| names.get(worker.as_str()));
            let loss = losses.as_ref().and_then(|losses| losses.by_actor(role).get(&worker));
            actors.extend(values.into_iter().enumerate().map(|(idx, value)| EpochActor {
                opened_at,
                nonce,
                worker: worker.to_string(),
                role,
                name: name.cloned(),
                value: value.value,
                weight: shares[role].get(&worker).copied(),
                loss: loss.copied(),
                score: scores.get(&worker).copied(),
                truth: find(&truth, idx, &value),
                input,
                combined_value: find(&combined_value, idx, &value),
                naive_value: find(&naive_value, idx, &value),
                combined_loss: losses.as_ref().map(|losses| losses.combined),
                naive_loss: losses.as_ref().map(|losses| losses.naive),
                label: value.label_name,
            }));
        }
    }
    Ok(actors)
}

/// Returns the value in `values` that has the label of `like`. Looks at `idx` first, where it usually
/// is.
fn find(values: &[LabeledValue], idx: usize, like: &LabeledValue) -> Option<f64> {
    let is_same = |value: &&LabeledValue| value.label_name == like.label_name;
    let found = values.get(idx).filter(is_same).or_else(|| values.iter().find(is_same));
    found.map(|value| value.value)
}

impl Session<'_> {
    /// Returns the submissions of the epoch `nonce`, sorted by worker, each with its time of arrival
    /// and whether its worker is trusted.
    pub(super) fn arrivals(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<Arrival>> {
        let sql = "SELECT worker, record, received_at, trusted, forecast FROM submissions
                   WHERE topic_id = ?1 AND nonce = ?2 ORDER BY worker";
        let mut known: Arc<ByActor<f64>> = Arc::default();
        self.all(sql, key(topic, nonce), |row| {
            let (worker, text): (String, String) = (row.get(0)?, row.get(1)?);
            let forecast: Option<String> = row.get(4)?;
            let submission = record::read_submission(&worker, &text, forecast.as_deref(), &known)?;
            if !submission.forecast.is_empty() {
                known = Arc::clone(&submission.forecast);
            }
            Ok(Arrival {
                submission,
                received_at: Timestamp::from_micros(row.get(2)?),
                is_trusted: row.get::<i64>(3)? != 0,
            })
        })
    }

    /// Returns the learned state of `topic`. Reads only its stamp if `known` is still current.
    pub(super) fn learned(
        &self,
        topic: TopicId,
        known: Option<&StoredLearned>,
    ) -> Result<StoredLearned> {
        let id = [number(topic.get())];
        let sql = "SELECT stamp FROM learned WHERE topic_id = ?1";
        let stamp: i64 = self.find(sql, id, |row| row.get(0))?.unwrap_or_default();
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return Ok(known.clone());
        }
        let sql = "SELECT record, regrets, past FROM learned WHERE topic_id = ?1";
        let learned = self
            .find(sql, id, |row| record::read_learned((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let learned = learned.unwrap_or_default();
        Ok(StoredLearned { stamp, learned: Arc::new(learned) })
    }

    pub(super) fn bundle(&self, topic: TopicId, nonce: BlockHeight) -> Result<Option<FullBundle>> {
        let sql = "SELECT record, pairs FROM bundles WHERE topic_id = ?1 AND nonce = ?2";
        self.find(sql, key(topic, nonce), |row| {
            full_bundle(&row.get::<String>(0)?, row.get::<Option<Vec<u8>>>(1)?.as_deref())
        })
    }

    pub(super) fn labels(&self, topic: TopicId, nonce: BlockHeight) -> Result<Vec<String>> {
        let sql = "SELECT label FROM labels WHERE topic_id = ?1 AND nonce = ?2 ORDER BY label_id";
        self.all(sql, key(topic, nonce), |row| row.get(0))
    }

    pub(super) fn baseline(&self, topic: TopicId) -> Result<Option<Baseline>> {
        let sql = "SELECT median, spread FROM baselines WHERE topic_id = ?1";
        self.find(sql, [number(topic.get())], |row| {
            Ok(Baseline { median: row.get(0)?, spread: row.get(1)? })
        })
    }
}
