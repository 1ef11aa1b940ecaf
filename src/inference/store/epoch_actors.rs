//! Past epochs actor by actor, for exports: values, truth, losses and weights.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId};
use serde::Deserialize;
use wire::inference::{LabeledValue, WorkerValues};

use super::session::Row;
use super::{Result, Store, height, number, record};
use crate::math::regret::{Losses, Role, RoleValues};

/// An actor in one epoch, under one label.
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
    /// Name of the actor, if it is known.
    pub name: Option<String>,
    /// Label of the values, `y` on a topic with a single output.
    pub label: String,
    /// Value that the actor inferred or implied.
    pub value: f64,
    /// Weight of the actor in the combined value.
    pub weight: Option<f64>,
    /// Loss of the actor, once the truth is known.
    pub loss: Option<f64>,
    /// How much more the network would have lost without the actor, once the truth is known.
    pub score: Option<f64>,
    /// True value.
    pub truth: Option<f64>,
    /// Combined value of all actors.
    pub combined_value: Option<f64>,
    /// Combined value of the inferers without forecasters.
    pub naive_value: Option<f64>,
    /// Loss of the combined value.
    pub combined_loss: Option<f64>,
    /// Loss of the naive value.
    pub naive_loss: Option<f64>,
}

/// The part of a stored bundle that an export has.
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

/// Names of workers by address, by epoch.
type Names = BTreeMap<BlockHeight, BTreeMap<String, String>>;

impl Store {
    /// Returns the nonces of the latest `limit` epochs of `topic` in `nonces` that have a bundle, oldest
    /// first, each with its approximate size in bytes.
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

    /// Returns the actors of the epochs of `topic` in `nonces`, oldest epoch first, with a row for each
    /// label.
    ///
    /// # Errors
    /// As [`Self::bundles`].
    pub(crate) fn epoch_actors(
        &self,
        topic: TopicId,
        nonces: &RangeInclusive<BlockHeight>,
    ) -> Result<Vec<EpochActor>> {
        let key = [topic.get(), *nonces.start(), *nonces.end()].map(number);
        let epochs_sql = "SELECT b.nonce, e.opened_at, b.record, b.shares, e.truth, l.record
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

/// Reads the actors of an epoch from the columns that [`Store::epoch_actors`] selects.
fn read_epoch(row: &Row<'_>, names: &Names) -> Result<Vec<EpochActor>> {
    let (nonce, opened_at) = (height(row.get(0)?), Timestamp::from_micros(row.get(1)?));
    let bundle: BundleRecord = record::read(&row.get::<String>(2)?)?;
    let shares: RoleValues = record::read(&row.get::<String>(3)?)?;
    let truth: Option<String> = row.get(4)?;
    let truth: Vec<LabeledValue> =
        truth.as_deref().map(record::read).transpose()?.unwrap_or_default();
    let losses: Option<String> = row.get(5)?;
    let losses = losses.map(|text| record::read_losses(&text, None)).transpose()?;
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

/// Returns the value of `values` with the label of `like`, which is most often at `idx`.
fn find(values: &[LabeledValue], idx: usize, like: &LabeledValue) -> Option<f64> {
    let is_same = |value: &&LabeledValue| value.label_name == like.label_name;
    let found = values.get(idx).filter(is_same).or_else(|| values.iter().find(is_same));
    found.map(|value| value.value)
}
