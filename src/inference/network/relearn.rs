//! Learning again from past epochs, after their truth was corrected.

use std::collections::BTreeMap;

use model::topic::{BlockHeight, TopicId};
use wire::inference::network::RelearnedBody;

use crate::{
    Inference, InferenceError,
    math::regret::{Role, RoleValues},
    network::{close::lesson_of, learned::Learned, submission::numbers, topic::Topic},
    store::{Input, Lesson, Relearnable, Relearned, Store},
};

/// Lessons learned again.
struct Replay {
    learned: Learned,
    epochs: Vec<Relearned>,
    /// The newest losses of actors that took part.
    took_part: RoleValues,
    report: RelearnedBody,
}

impl Inference {
    /// Returns the epochs of `topic` from `from` on that were asked something and are over, with it.
    ///
    /// # Errors
    /// [`InferenceError::TooFarBack`]; besides those of [`Self::history`].
    pub async fn inputs_since(
        &self,
        topic: TopicId,
        from: BlockHeight,
    ) -> Result<Vec<(BlockHeight, Input)>, InferenceError> {
        self.find_topic(topic)?;
        let found = self.with_store(move |shared| relearnable(&shared.store, topic, from));
        let lessons = found.await?.lessons.into_iter();
        let since = lessons.filter(|lesson| lesson.nonce >= from);
        Ok(since.filter_map(|lesson| Some((lesson.nonce, lesson.input?))).collect())
    }

    /// Has `topic` learn again from the epoch `from` on, that its column came to `outcomes`. An epoch
    /// without one keeps the truth that it had. Bundles stay as they were served, and scores of actors
    /// that only rested since stay as they are.
    ///
    /// # Errors
    /// An [`InferenceError`] that says why not; then nothing changed.
    pub async fn relearn(
        &self,
        topic: TopicId,
        from: BlockHeight,
        outcomes: BTreeMap<BlockHeight, f64>,
    ) -> Result<RelearnedBody, InferenceError> {
        let settings = self.find_topic(topic)?;
        self.with_store(move |shared| {
            shared.catch_up(topic)?;
            let known = shared.load_learned(topic)?;
            let found = relearnable(&shared.store, topic, from)?;
            let mut replay = replay(&shared.store, &settings, found, &outcomes)?;
            keep_resting(&mut replay, &known.learned);
            let Replay { learned, epochs, report, .. } = replay;
            let kept = shared.store.put_relearned(topic, known.stamp, learned, epochs)?;
            let is_kept = kept.is_some();
            shared.cache.change(topic, |entry| entry.learn(kept));
            if is_kept { Ok(report) } else { Err(InferenceError::Relearning) }
        })
        .await
    }
}

fn relearnable(
    store: &Store,
    topic: TopicId,
    from: BlockHeight,
) -> Result<Relearnable, InferenceError> {
    match store.relearnable(topic, from)? {
        Some(found) => Ok(found),
        None => Err(InferenceError::TooFarBack { from, earliest: store.relearnable_from(topic)? }),
    }
}

fn replay(
    store: &Store,
    topic: &Topic,
    found: Relearnable,
    outcomes: &BTreeMap<BlockHeight, f64>,
) -> Result<Replay, InferenceError> {
    let mut replay = Replay {
        learned: found.before,
        epochs: Vec::new(),
        took_part: RoleValues::default(),
        report: RelearnedBody::default(),
    };
    for past in found.lessons {
        let Some(bundle) = store.bundle(topic.id, past.nonce)? else { continue };
        let labels: Vec<&str> =
            bundle.combined_value.iter().map(|value| value.label_name.as_str()).collect();
        let before = Some(numbers(&past.truth)).filter(|truth| !truth.is_empty());
        let outcome = past.input.zip(outcomes.get(&past.nonce));
        let corrected = outcome.map(|(input, after)| topic.truth_of(&labels, input.value, *after));
        let Some(truth) = corrected.or_else(|| before.clone()) else { continue };
        let Ok(lesson) = lesson_of(topic, &bundle, &replay.learned, &truth) else { continue };
        replay.report.n_epochs += 1;
        replay.report.n_changed += u64::from(before.as_ref() != Some(&truth));
        let Lesson { truth, losses, learned } = lesson;
        for role in Role::ALL {
            replay.took_part[role].extend(losses.by_actor(role).clone());
        }
        replay.learned = learned;
        replay.epochs.push(Relearned { nonce: past.nonce, truth, losses });
    }
    Ok(replay)
}

/// Puts the scores in `known` of actors that took part in none of the lessons into `replay`.
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
