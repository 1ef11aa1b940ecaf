//! The end of an epoch in the inference file: closing it, and learning from it.

use std::sync::Arc;

use model::topic::BlockHeight;
use task::causes::chain;
use tracing::{debug, error, info};

use crate::{
    math::{pair_values::FullBundle, regret::Losses, synthesis::SynthesisError},
    network::{
        close::{CloseContext, Closing, close},
        learned::{BundleError, Learned},
        selection::{Selection, select},
        submission::with_labels,
        topic::Topic,
    },
    store::{CloseInput, Input, Lesson},
};

/// Closes the epoch `nonce` of `topic` with what its active actors submitted; none where that makes
/// no bundle, which is logged.
pub(crate) fn closing(topic: &Topic, nonce: BlockHeight, closable: CloseInput) -> Option<Closing> {
    let id = topic.id;
    let CloseInput { arrivals, labels, learned: known, baseline } = closable;
    let n_arrivals = arrivals.len();
    let mut learned = Arc::clone(&known);
    let Selection { active, labels, withdrawn } =
        select(topic, nonce, arrivals, &labels, &mut learned);
    let n_resting = n_arrivals - active.len();
    let close_context = CloseContext { labels: &labels, learned: &learned, baseline };
    match close(topic, nonce, &active, close_context) {
        Ok(closing) => {
            let n_inferers = closing.bundle.inferer_values.len();
            info!(
                topic.id = %id,
                nonce,
                n_inferers,
                n_resting,
                "closed nonce {nonce} of topic {id}"
            );
            let moved_scores = (!Arc::ptr_eq(&learned, &known)).then_some(learned);
            Some(Closing { withdrawn, moved_scores, ..closing })
        }
        Err(SynthesisError::NoInferences) => {
            debug!(topic.id = %id, nonce, "closed nonce {nonce} of topic {id} without inferences");
            None
        }
        Err(error) => {
            let cause = chain(&error);
            error!(topic.id = %id, nonce, cause, "closed nonce {nonce} of topic {id} in vain");
            None
        }
    }
}

/// What `bundle` teaches, if its outcome is known.
pub(crate) fn lesson(
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
    let labels: Vec<&str> =
        bundle.combined_value.iter().map(|value| value.label_name.as_str()).collect();
    let truth = topic.truth_of(&labels, input.value, after);
    match lesson_of(topic, bundle, learned, &truth) {
        Ok(lesson) => {
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
            let cause = chain(&error);
            error!(topic.id = %id, nonce, cause, "learned nothing from nonce {nonce} of {id}");
            None
        }
    }
}

/// What `bundle` teaches where `truth` came true.
pub(crate) fn lesson_of(
    topic: &Topic,
    bundle: &FullBundle,
    learned: &Learned,
    truth: &[f64],
) -> Result<Lesson, BundleError> {
    let labels: Vec<&str> =
        bundle.combined_value.iter().map(|value| value.label_name.as_str()).collect();
    let mut learned = learned.clone();
    let losses = learned.learn(topic, bundle, truth)?;
    Ok(Lesson { truth: with_labels(&labels, truth), losses, learned })
}
