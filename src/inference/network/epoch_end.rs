//! The end of an epoch: closing, learning, and learning again after the ground truth was corrected.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use model::topic::{BlockHeight, TopicId};
use task::causes::chain;
use tracing::{debug, info};
use wire::inference::LabeledValue;
use wire::inference::network::RelearnedBody;

use crate::math::pair_values::FullBundle;
use crate::math::regret::{Losses, Role, RoleValues};
use crate::network::close::{CloseContext, Closing, close};
use crate::network::learned::{BundleError, Learned};
use crate::network::problems::Failing;
use crate::network::selection::{Selection, select};
use crate::network::submission::numbers;
use crate::network::topic::Topic;
use crate::store::{CloseInput, Input, Lesson, Relearnable, Relearned, Store};
use crate::{Inference, InferenceError, Result};

/// Result of learning again from past epochs.
struct Replay {
    learned: Learned,
    epochs: Vec<Relearned>,
    /// Latest loss of each actor that was active in one of `epochs`.
    took_part: RoleValues,
    report: RelearnedBody,
}

impl Inference {
    /// Returns the finished epochs of `topic` since `from`, each with its input. Epochs without a
    /// stored input are omitted.
    ///
    /// # Errors
    /// [`InferenceError::TooFarBack`] if the learned state before `from` is no longer stored, or
    /// [`InferenceError::NothingSince`] if all finished epochs are before `from`. Otherwise as
    /// [`Self::history`].
    pub async fn inputs_since(
        &self,
        topic: TopicId,
        from: BlockHeight,
    ) -> Result<Vec<(BlockHeight, Input)>> {
        self.find_topic(topic)?;
        let found = self.with_store(move |shared| relearnable(&shared.store, topic, from));
        let lessons = found.await?.lessons.into_iter();
        let since = lessons.filter(|lesson| lesson.nonce >= from);
        Ok(since.filter_map(|lesson| Some((lesson.nonce, lesson.input?))).collect())
    }

    /// Learns again from the epochs of `topic` since `from`, with corrected `outcomes`. An epoch
    /// without a corrected outcome keeps its ground truth. Neither served bundles nor the scores of
    /// actors that have only rested since `from` change.
    ///
    /// # Errors
    /// [`InferenceError`] with the reason. Nothing is changed in this case.
    pub async fn relearn(
        &self,
        topic: TopicId,
        from: BlockHeight,
        outcomes: BTreeMap<BlockHeight, f64>,
    ) -> Result<RelearnedBody> {
        let settings = self.find_topic(topic)?;
        self.with_store(move |shared| {
            shared.catch_up(topic)?;
            let known = shared.load_learned(topic)?;
            let found = relearnable(&shared.store, topic, from)?;
            let mut replay = replay(&shared.store, &settings, found, from, &outcomes)?;
            if known.learned.has_unit(&settings.judging.loss) {
                keep_resting(&mut replay, &known.learned);
            }
            let Replay { learned, epochs, report, .. } = replay;
            let retention = shared.retention_of(&settings);
            let kept =
                shared.store.put_relearned(topic, known.stamp, learned, epochs, retention)?;
            let is_kept = kept.is_some();
            shared.cache.change(topic, |entry| entry.learn(kept));
            if is_kept { Ok(report) } else { Err(InferenceError::Relearning) }
        })
        .await
    }
}

fn relearnable(store: &Store, topic: TopicId, from: BlockHeight) -> Result<Relearnable> {
    let Some(found) = store.relearnable(topic, from)? else {
        return Err(InferenceError::TooFarBack { from, earliest: store.relearnable_from(topic)? });
    };
    match found.lessons.last() {
        Some(last) if last.nonce < from => {
            Err(InferenceError::NothingSince { from, latest: last.nonce })
        }
        _ => Ok(found),
    }
}

fn replay(
    store: &Store,
    topic: &Topic,
    found: Relearnable,
    from: BlockHeight,
    outcomes: &BTreeMap<BlockHeight, f64>,
) -> Result<Replay> {
    let mut replay = Replay {
        learned: found.before,
        epochs: Vec::new(),
        took_part: RoleValues::default(),
        report: RelearnedBody::default(),
    };
    for past in found.lessons {
        let Some(bundle) = store.bundle(topic.id, past.nonce)? else { continue };
        let before = Some(past.truth).filter(|truth| !truth.is_empty());
        let outcome = past.input.zip(outcomes.get(&past.nonce));
        let corrected =
            outcome.map(|(input, after)| topic.truth_of(bundle.labels(), input.value, *after));
        let learn = |truth| lesson_of(topic, &bundle, &replay.learned, truth).ok();
        let corrected = corrected.and_then(&learn);
        let is_kept = corrected.is_none();
        let Some(lesson) = corrected.or_else(|| learn(before.clone()?)) else { continue };
        replay.report.n_epochs += 1;
        replay.report.n_changed += u64::from(before.as_ref() != Some(&lesson.truth));
        replay.report.n_kept += u64::from(past.nonce >= from && is_kept);
        let Lesson { truth, losses, learned } = lesson;
        for role in Role::ALL {
            replay.took_part[role].extend(losses.by_actor(role).clone());
        }
        let before = mem::replace(&mut replay.learned, learned);
        let before = Some(before).filter(Learned::is_snapshot_due);
        replay.epochs.push(Relearned { nonce: past.nonce, truth, losses, before });
    }
    Ok(replay)
}

/// Copies the scores of actors that were not active in the replayed epochs from `known` to `replay`.
fn keep_resting(replay: &mut Replay, known: &Learned) {
    let Replay { learned, took_part, .. } = replay;
    for role in Role::ALL {
        let took_part = &took_part[role];
        let resting = known.scores[role].iter().filter(|(name, _)| !took_part.contains_key(*name));
        learned.scores[role].extend(resting.map(|(name, score)| (name.clone(), *score)));
        for (name, seen) in known.experience[role].iter().filter(|(_, seen)| seen.n_epochs == 0) {
            learned.experience[role].entry(name.clone()).or_insert(*seen);
        }
    }
}

/// Chooses the active actors of the epoch `nonce` and combines their submissions. Logs the outcome.
/// Returns `None` if no bundle can be computed.
pub(crate) fn closing(topic: &Topic, nonce: BlockHeight, closable: CloseInput) -> Option<Closing> {
    let id = topic.id;
    let CloseInput { arrivals, labels, learned: known, baseline } = closable;
    let n_arrivals = arrivals.len();
    let mut learned = Arc::clone(&known);
    let Selection { active, labels, withdrawn } =
        select(topic, nonce, arrivals, &labels, &mut learned);
    let n_resting = n_arrivals - active.len();
    // Regrets and losses in another unit do not apply.
    let new = Learned::default();
    let applicable = if learned.has_unit(&topic.judging.loss) { &*learned } else { &new };
    let close_context = CloseContext { labels: &labels, learned: applicable, baseline };
    let Some(closing) = close(topic, nonce, &active, close_context) else {
        debug!(topic.id = %id, nonce, "closed nonce {nonce} of topic {id} without inferences");
        return None;
    };
    let n_inferers = closing.bundle.inferer_values.len();
    info!(topic.id = %id, nonce, n_inferers, n_resting, "closed nonce {nonce} of topic {id}");
    let moved_scores = (!Arc::ptr_eq(&learned, &known)).then_some(learned);
    Some(Closing { withdrawn, moved_scores, ..closing })
}

/// Learns from `bundle` if its `outcome` is known. Logs the outcome, and records a problem of the topic if
/// a loss cannot be computed. Returns `None` if nothing was learned.
pub(crate) fn lesson(
    inference: &Inference,
    topic: &Topic,
    bundle: &FullBundle,
    learned: &Learned,
    outcome: Option<(Input, f64)>,
) -> Option<Lesson> {
    let (id, nonce) = (topic.id, bundle.nonce);
    let Some((input, after)) = outcome else {
        debug!(topic.id = %id, nonce, "gave up on the truth of nonce {nonce} of topic {id}");
        return None;
    };
    let truth = topic.truth_of(bundle.labels(), input.value, after);
    match lesson_of(topic, bundle, learned, truth) {
        Ok(lesson) => {
            inference.works(id, Failing::Learning);
            let Losses { combined, naive, .. } = &lesson.losses;
            info!(
                topic.id = %id,
                nonce,
                combined_loss = combined,
                naive_loss = naive,
                "learned from nonce {nonce} of topic {id}"
            );
            Some(lesson)
        }
        Err(error) => {
            inference.fails(id, Failing::Learning, format!("nonce {nonce}: {}", chain(&error)));
            None
        }
    }
}

/// Computes the losses of `bundle` for the ground truth `truth` and learns from them.
pub(crate) fn lesson_of(
    topic: &Topic,
    bundle: &FullBundle,
    learned: &Learned,
    truth: Vec<LabeledValue>,
) -> Result<Lesson, BundleError> {
    let mut learned = learned.clone();
    let losses = learned.learn(topic, bundle, &numbers(&truth))?;
    Ok(Lesson { truth, losses, learned })
}
