//! Answers of the services: the health they show, by responses, streams and probes, and the screens
//! that take them.

use std::time::Duration;

use crate::{
    action::Action,
    event::{
        Acquired, DataEvent, DatasetSearch, Effect, ExportNews, InferenceEvent, LatestBundle,
        StreamEvent, Timer,
    },
    keymap::Layer,
    screens::{Screen, overview::update::load_bundles, update::load_nodes_of},
    state::{
        Dirty, State,
        loadable::Failure,
        services::{Health, PROBE_EVERY, Service, Services},
    },
    widget::format::{self, bytes, counted},
};

/// Probes every service whose address is known, and again after [`PROBE_EVERY`].
pub(crate) fn probe(state: &mut State) {
    if state.services.is_any_known() {
        let heads = state.services.heads().collect();
        state.effects.extend([Effect::Probe(heads), Effect::SetTimer(Timer::Probe, PROBE_EVERY)]);
    }
}

/// Handles the outcome of a probe; `answer` is none after a timeout.
pub(crate) fn on_probe(
    state: &mut State,
    service: Service,
    answer: Option<&Result<(), Failure>>,
    latency: Duration,
) {
    let before = state.services.health(service).clone();
    let health = state.services.health_by_probe(service, answer, latency, state.now);
    note_health(state, service, health);
    if *state.services.health(service) == before {
        return;
    }
    state.mark_dirty(Dirty::Data);
    if before.is_away() && matches!(answer, Some(Ok(()))) {
        load_again(state, service);
    }
}

/// Reloads the lists of `service` after it recovered.
fn load_again(state: &mut State, service: Service) {
    match service {
        Service::Head(head) => {
            load_nodes_of(state, head);
            if state.nodes.run_head == Some(head) {
                state.effects.push(Effect::LoadFunctions(head));
            }
        }
        Service::Data => state.data.reload_list(state.now),
        Service::Inference => state.inference.reload_list(state.now),
    }
}

/// Records a service's answer, and notifies once when it goes down or recovers.
pub(crate) fn note<T>(
    state: &mut State,
    service: Service,
    result: &Result<T, Failure>,
    latency: Option<Duration>,
) {
    let health = Services::health_by(result, latency, state.now);
    note_health(state, service, health);
}

/// Records the state of a stream of `service`: open, or lost with an error. A stream that was closed
/// for its silence says less than the probes, which are more frequent.
pub(crate) fn note_stream(state: &mut State, service: Service, lost: Option<&Failure>) {
    match lost {
        None => note_health(state, service, Health::Live),
        Some(why) => {
            state.services.stream_closed(service);
            if !why.is_timeout {
                note(state, service, &Err::<(), _>(why.clone()), None);
            }
        }
    }
}

/// The screens with a pane that says why `service` fails: those whose list of it is empty.
fn screens_that_say(state: &State, service: Service) -> &'static [Screen] {
    match service {
        Service::Head(_) if state.services.has_several_heads() => &[Screen::Cluster],
        Service::Head(_) if state.nodes.all(&state.stack).is_empty() => {
            &[Screen::Cluster, Screen::Overview]
        }
        Service::Data if state.data.datasets.value().is_none() => &[Screen::Data, Screen::Overview],
        Service::Inference if state.inference.topics.value().is_none() => {
            &[Screen::Inference, Screen::Overview]
        }
        _ => &[],
    }
}

fn note_health(state: &mut State, service: Service, health: Health) {
    let is_bad = |health: &Health| health.is_away() || matches!(health, Health::Refused { .. });
    let is_silent = health == Health::Silent;
    let was_bad = is_bad(state.services.health(service));
    let failure = match &health {
        Health::Refused { why } => {
            let key = state.keys.key_text(Layer::Global, Action::Profiles);
            let next = match service {
                Service::Head(_) => why.next.clone(),
                Service::Data | Service::Inference => format!("press {key} to enter a key"),
            };
            Some(Failure { next, ..why.clone() })
        }
        Health::Down { why } => Some(why.clone()),
        _ => None,
    };
    let is_up = health.is_up();
    let is_news = state.services.note(service, health, state.now);
    if let Service::Head(head) = service {
        let is_away = state.services.health(service).is_away();
        state.nodes.set_away(head, is_away);
    }
    if !is_news {
        return;
    }
    match failure {
        None if is_silent => {
            let away_for = state.services.away_for(service, state.now).unwrap_or_default();
            let text = format!("{} is not responding", state.services.title(service));
            let heard_at = format::clock(state.now - away_for);
            state.notify_trouble(text, format!("last heard at {heard_at}; older values stay"));
        }
        Some(failure) => {
            let failure = match service {
                Service::Head(head) => state.services.named(head, failure),
                _ => failure,
            };
            state.notify_failure_unless_on(screens_that_say(state, service), &failure);
        }
        None if was_bad && is_up => {
            let title = state.services.title(service);
            state.notify(format!("{title} is reachable again"), String::new());
        }
        None => {}
    }
}

/// Handles an event of the dataset service.
pub(crate) fn on_data(state: &mut State, event: DataEvent) {
    if let Some(result) = event.outcome() {
        note(state, Service::Data, &result.map_err(Failure::clone), None);
    }
    match &event {
        DataEvent::Datasets { search, result: Ok(page) } if *search == DatasetSearch::ALL => {
            let names = page.datasets.iter().map(|dataset| dataset.name.clone());
            state.execute.form.set_datasets(names);
        }
        DataEvent::Export(ExportNews::Done { progress, path }) => {
            let n_rows = counted(progress.rows, "row");
            let n_bytes = bytes(progress.bytes);
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
        _ => {}
    }
    let now = state.now;
    state.data.on(event, now);
}

/// Handles an event of the inference service.
pub(crate) fn on_inference(state: &mut State, event: InferenceEvent) {
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
