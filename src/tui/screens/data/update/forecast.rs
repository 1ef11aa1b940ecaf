//! Chooses the topic whose forecasts are drawn over the chart, and loads its latest epochs.

use std::time::Duration;

use model::topic::TopicId;

use crate::event::{Effect, Timer};
use crate::screens::data::state::forecast::Forecast;
use crate::state::State as Whole;

/// Maximum number of epochs that are loaded, as for the chart of the Inference screen.
const EPOCHS: usize = 240;

/// Number of epochs that are loaded again in addition to those without a ground truth.
const EPOCHS_AGAIN: usize = 8;

/// Minimum and maximum interval between two requests for the latest epochs.
const EVERY: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(30));

/// Returns the topics that predict the charted column, in the order of the list, and classifications
/// last, since they have no forecasts to draw.
fn predicting(state: &Whole) -> Vec<TopicId> {
    let (Some(dataset), Some(shape)) = (state.data.dataset(), state.data.shape()) else {
        return Vec::new();
    };
    let column = shape.value_column();
    let topics = state.inference.topics.value().into_iter().flat_map(|list| &list.topics);
    let predicting = topics.filter(|topic| {
        let is_dataset = match topic.dataset_id {
            Some(id) => id == dataset.id.get(),
            None => topic.dataset == dataset.name,
        };
        is_dataset && Some(topic.column.as_str()) == column
    });
    let mut predicting: Vec<_> = predicting.collect();
    predicting.sort_by_key(|topic| topic.labels.len() > 1);
    predicting.into_iter().filter_map(|topic| TopicId::new(topic.topic_id)).collect()
}

/// Chooses the topic whose forecasts are drawn, and loads its target and its latest epochs if they
/// are in view and not recent.
pub(crate) fn choose(state: &mut Whole) {
    let topics = predicting(state);
    let Forecast { is_off, topic, .. } = state.data.forecast;
    let chosen = topic.filter(|topic| topics.contains(topic)).or(topics.first().copied());
    if chosen != topic {
        state.data.forecast = Forecast { is_off, topic: chosen, ..Forecast::default() };
    }
    let is_limited = state.inference.limited_until.is_some_and(|until| until > state.now);
    let is_needless = is_off || !state.data.is_shown || state.data.forecast.is_recent;
    if let Some(topic) = chosen.filter(|_| !is_limited && !is_needless) {
        load(state, topic);
    }
}

/// Loads the latest epochs of `topic`, and its target unless it is known.
fn load(state: &mut Whole, topic: TopicId) {
    let list = state.inference.topics.value();
    let listed = list.and_then(|list| list.topics.iter().find(|it| it.topic_id == topic.get()));
    let block_time = Duration::from_millis(list.map_or(0, |list| list.block_time_ms));
    let n_blocks = listed.map_or(0, |topic| u32::try_from(topic.epoch_length).unwrap_or(u32::MAX));
    let epoch = block_time.saturating_mul(n_blocks);
    let past = state.inference.pasts.get(&topic);
    let newest = past.and_then(|past| past.epochs().next_back()).map(|epoch| epoch.time);
    let forecast = &mut state.data.forecast;
    let limit = match forecast.target.zip(newest) {
        None => EPOCHS,
        // Loads the epochs since the newest one, and again those whose ground truth can have become
        // known since: as many as fit in that time plus a horizon, and a few more.
        Some((target, newest)) => {
            let span = state.now.since(newest) + target.horizon;
            let n = span.as_millis() / epoch.as_millis().max(1);
            usize::try_from(n).unwrap_or(EPOCHS).saturating_add(EPOCHS_AGAIN).min(EPOCHS)
        }
    };
    forecast.is_recent = true;
    if forecast.target.is_none() {
        state.effects.push(Effect::LoadTopicSettings { topic });
    }
    let wait = (epoch / 4).clamp(EVERY.0, EVERY.1);
    let timer = Effect::SetTimer(Timer::Forecasts, wait);
    state.effects.extend([Effect::LoadHistory { topic, limit }, timer]);
}

/// Draws the forecasts of the next topic that predicts the charted column. After the last topic,
/// draws none.
pub(crate) fn cycle(state: &mut Whole) {
    let topics = predicting(state);
    let Forecast { is_off, topic, .. } = state.data.forecast;
    if topics.is_empty() {
        return state.notify_refused("no topic predicts this column", String::new());
    }
    let next = match topics.iter().position(|it| Some(*it) == topic) {
        Some(idx) if !is_off => topics.get(idx + 1),
        _ => topics.first(),
    };
    let forecast = &mut state.data.forecast;
    match next.copied() {
        None => forecast.is_off = true,
        next if next == topic => (forecast.is_off, forecast.is_recent) = (false, false),
        next => *forecast = Forecast { topic: next, ..Forecast::default() },
    }
}
