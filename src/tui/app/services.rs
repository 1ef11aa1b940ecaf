//! Answers of the dataset and the inference service: notes how the service does, then updates its
//! screen.

use super::health::{note, note_stream};
use crate::{
    event::{Acquired, DataEvent, Effect, ExportNews, InferenceEvent, LatestBundle, StreamEvent},
    state::{State, services::Service},
    widget::format::counted,
};

pub(crate) fn on_data(state: &mut State, event: DataEvent) -> Vec<Effect> {
    match &event {
        DataEvent::Datasets { search, result } => {
            if let Ok(page) = result
                && search.is_empty()
            {
                let names = page.datasets.iter().map(|dataset| dataset.name.clone());
                state.execute.form.set_datasets(names);
            }
            note(state, Service::Data, result, None);
        }
        DataEvent::Filtered { result, .. } => {
            note(state, Service::Data, result, None);
        }
        DataEvent::Columns { result, .. } => note(state, Service::Data, result, None),
        DataEvent::Rows { result, .. } | DataEvent::Table { result, .. } => {
            note(state, Service::Data, result, None);
        }
        // Not every service serves tags.
        DataEvent::Tags { .. }
        | DataEvent::Pinned { .. }
        | DataEvent::Export(ExportNews::Written(_)) => {}
        DataEvent::Export(ExportNews::Done { progress, path }) => {
            let n_rows = counted(progress.rows, "row");
            let n_bytes = crate::widget::format::bytes(progress.bytes);
            let text = format!("exported to {}", path.display());
            state.notify(text, format!("{n_rows}, {n_bytes}"));
        }
        DataEvent::Export(ExportNews::Failed(failure)) => state.notify_failure(failure),
        DataEvent::Acquired { tag, result } => match result {
            Ok(Acquired::Now) => state.notify(format!("tag {tag} acquired"), String::new()),
            Ok(Acquired::Already) => {
                state.notify(format!("tag {tag} is already held"), String::new());
            }
            Err(failure) => state.notify_failure(failure),
        },
        DataEvent::Stream { news: StreamEvent::Lost { why, .. }, .. } => {
            note_stream(state, Service::Data, Some(why));
        }
        DataEvent::Stream { .. } => note_stream(state, Service::Data, None),
    }
    let now = state.now;
    state.data.on(event, now)
}

pub(crate) fn on_inference(state: &mut State, event: InferenceEvent) -> Vec<Effect> {
    match &event {
        InferenceEvent::Topics(result) => note(state, Service::Inference, result, None),
        InferenceEvent::Latest { topic, result } => {
            note(state, Service::Inference, result, None);
            state.overview.on_latest(*topic, result, state.now);
        }
        InferenceEvent::Resistant { result, .. } => note(state, Service::Inference, result, None),
        InferenceEvent::Bundle { topic, news: StreamEvent::Item(latest) } => {
            note_stream(state, Service::Inference, None);
            state.overview.on_latest(*topic, &Ok(LatestBundle::clone(latest)), state.now);
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
        InferenceEvent::History { topic, result } => {
            note(state, Service::Inference, result, None);
            if let Ok(history) = result {
                state.overview.on_history(*topic, history);
            }
        }
    }
    let now = state.now;
    let is_listed = matches!(event, InferenceEvent::Topics(_));
    let mut effects = state.inference.on(event, now);
    if is_listed {
        let topics = state.topic_ids();
        effects.extend(state.overview.load(&topics, now));
    }
    effects
}
