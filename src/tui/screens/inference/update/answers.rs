//! Answers of the inference service: notes how it does, then updates the screens that show topics.

use crate::{
    event::{InferenceEvent, LatestBundle, StreamEvent},
    screens::{
        overview::update::load_bundles,
        update::health::{note, note_stream},
    },
    state::{State, services::Service},
};

/// Handles an event of the inference service.
pub(crate) fn on(state: &mut State, event: InferenceEvent) {
    match &event {
        InferenceEvent::Topics(result) => note(state, Service::Inference, result, None),
        InferenceEvent::Latest { topic, is_resistant, result } => {
            note(state, Service::Inference, result, None);
            if !is_resistant {
                state.overview.on_latest(*topic, result.clone(), state.now);
            }
        }
        InferenceEvent::Bundle { topic, news: StreamEvent::Item(latest) } => {
            note_stream(state, Service::Inference, None);
            state.overview.on_latest(*topic, Ok(LatestBundle::clone(latest)), state.now);
        }
        InferenceEvent::Bundle { news: StreamEvent::Connected, .. } => {
            note_stream(state, Service::Inference, None);
        }
        InferenceEvent::Bundle { news: StreamEvent::Lost { why, .. }, .. } => {
            note_stream(state, Service::Inference, Some(why));
        }
        InferenceEvent::Confidence { result: Err(why), .. }
        | InferenceEvent::PastBundles { result: Err(why), .. }
        | InferenceEvent::Leaderboard { result: Err(why), .. }
            if why.retry_after.is_some() =>
        {
            note(state, Service::Inference, &Err::<(), _>(why.clone()), None);
        }
        // Otherwise what not every service has says nothing about how it is doing.
        InferenceEvent::Confidence { .. }
        | InferenceEvent::PastBundles { .. }
        | InferenceEvent::Leaderboard { .. }
        | InferenceEvent::Bundle { .. } => {}
        InferenceEvent::History { result, .. } => note(state, Service::Inference, result, None),
    }
    let now = state.now;
    let is_listed = matches!(event, InferenceEvent::Topics(_));
    state.inference.on(event, now);
    if is_listed {
        load_bundles(state);
    }
}
