//! Updates that several screens share: showing a screen, connecting, loading nodes, copying,
//! health of services.

use std::time::Duration;

use model::dataset::PUBLIC_TAG;

use crate::event::{
    Acquired, DataEvent, DatasetSearch, Effect, ExportNews, InferenceEvent, StreamEvent, Timer,
};
use crate::keymap::{Action, Layer};
use crate::local::{Addresses, Level};
use crate::screens::Screen;
use crate::screens::data::state::forecast::Target;
use crate::screens::overview::state::{load_bundles, load_topics};
use crate::state::form::Purpose;
use crate::state::form::datasets::export_form;
use crate::state::overlay::Overlay;
use crate::state::resource::{Failure, Outcome};
use crate::state::services::{HeadId, Health, PROBE_EVERY, Service, Services};
use crate::state::stack::Phase;
use crate::state::{Dirty, State};
use crate::widget::format::{self, bytes, counted};

/// Screens with a pane for the outcome of a run.
pub(crate) const RUN_SCREENS: &[Screen] = &[Screen::Cluster, Screen::Execute];

/// Screens with a pane for local processes.
pub(crate) const PROCESS_SCREENS: &[Screen] = &[Screen::Cluster, Screen::Overview];

/// Maximum length of a text to be copied by the terminal. In base64, it must not exceed 74 994
/// bytes. Terminals cut longer texts.
const COPY_BYTES_MAX: usize = 56_000;

/// Closes all overlays and shows a screen.
pub(crate) fn show(state: &mut State, screen: Screen) {
    while state.close() {}
    enter(state, screen);
}

/// Shows a screen without closing overlays.
pub(crate) fn enter(state: &mut State, screen: Screen) {
    let now = state.now;
    let is_other = state.screen != screen;
    match state.screen {
        Screen::Data if is_other => state.data.hide(),
        Screen::Inference if is_other => state.inference.hide(),
        Screen::Overview if is_other => {
            state.effects.push(Effect::ClearTimer(Timer::Overview));
            state.data.set_in_overview(false);
        }
        _ => {}
    }
    state.screen = screen;
    if is_other {
        state.is_zoomed = false;
    }
    match screen {
        Screen::Data if !state.data.is_shown => state.data.show(),
        Screen::Inference if !state.inference.is_shown => state.inference.show(now),
        Screen::Cluster | Screen::Execute if is_other => load_nodes(state),
        Screen::Overview if !state.data.is_in_overview => {
            load_nodes(state);
            load_topics(state);
            state.data.set_in_overview(true);
        }
        _ => {}
    }
}

/// Connects to the services at `addresses`.
pub(crate) fn connect(state: &mut State, addresses: &Addresses) {
    let now = state.now;
    let before = state.services.addresses.datasets.take();
    state.data.change_pins(before.as_ref(), addresses.datasets.as_ref());
    if before.is_some() && before != addresses.datasets {
        state.data.deleted = None;
        state.account = None;
    }
    let is_other =
        before != addresses.datasets || state.services.addresses.inference != addresses.inference;
    state.overlays.retain(|it| match it {
        // The responses to forms of the earlier services do not arrive. A form that was filled in for
        // one service must not be submitted to another.
        Overlay::Form(form) if form.is_sent() || is_other && form.change().is_some() => false,
        // The charted dataset is no longer selected.
        Overlay::Form(form) => form.purpose != Purpose::Export,
        Overlay::Keys(_) => !is_other,
        // The node can be unknown to the new heads.
        Overlay::ConfirmNode(_) => false,
        _ => true,
    });
    state.services.connect(addresses, now);
    state.effects.push(Effect::Connect(addresses.clone()));
    // Pending calls to the earlier services are cancelled, so their runs fail.
    let run = state.keys.key_text(Layer::Form, Action::Run);
    state.runs.disconnect(now, &format!("{run} runs it again"));
    (state.execute.is_adding, state.execute.is_run_next) = (false, false);
    state.nodes.connect(&addresses.heads);
    load_nodes(state);
    state.nodes.run_head = state.services.head_of_runs();
    state.effects.extend(state.nodes.run_head.map(Effect::LoadFunctions));
    state.effects.extend(state.services.heads().map(Effect::FollowCluster));
    state.data.connect(addresses.datasets.is_some());
    state.overview.topics.clear();
    state.inference.connect(addresses.inference.is_some(), now);
    // The requests above also show the health of the services, so the first probe is later.
    state.effects.push(Effect::SetTimer(Timer::Probe, PROBE_EVERY));
}

/// Requests the nodes of every head.
pub(crate) fn load_nodes(state: &mut State) {
    for head in state.services.heads() {
        load_nodes_of(state, head);
    }
}

/// Requests the nodes of `head`, unless such a request is pending. Together with the nodes of the
/// head that executes new runs, requests the resource usage of local processes if the current
/// screen shows it.
pub(crate) fn load_nodes_of(state: &mut State, head: HeadId) {
    if !state.nodes.head_mut(head).is_some_and(|nodes| nodes.listed.begin()) {
        return;
    }
    state.effects.push(Effect::LoadNodes(head));
    if state.services.head_of_runs() != Some(head) {
        return;
    }
    if matches!(state.screen, Screen::Cluster | Screen::Overview) && state.stack.has_processes() {
        state.effects.push(Effect::LoadUsage);
    }
}

/// Requests that `text` is copied to the clipboard. If there is no text, reports that.
pub(crate) fn send_copy(state: &mut State, text: Option<String>) {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => state.effects.push(Effect::Copy(text)),
        None => state.notify_refused("nothing to copy here", String::new()),
    }
}

/// Reports that a program copied `text`. If no program did, sends the text to the terminal, which
/// does not confirm a copy.
pub(crate) fn on_copied(state: &mut State, text: String, by: Option<&'static str>) {
    let amount = counted(text.chars().count(), "letter");
    if let Some(by) = by {
        return state.notify(format!("copied {amount} with {by}"), String::new());
    }
    if text.len() > COPY_BYTES_MAX {
        let why = format!("terminals take no more than {COPY_BYTES_MAX} bytes");
        return state.notify_failure(&Failure::new("copy", why, ""));
    }
    let hint = "no wl-copy, xclip, pbcopy or tmux was available".to_owned();
    state.notify(format!("sent {amount} to the terminal by OSC 52"), hint);
    state.effects.push(Effect::CopyToTerminal(text));
}

/// Checks the health of every service with an address, now and again after [`PROBE_EVERY`].
pub(crate) fn probe(state: &mut State) {
    if state.services.is_any_known() {
        state.effects.extend([Effect::Probe, Effect::SetTimer(Timer::Probe, PROBE_EVERY)]);
        // The process that ran the stack might have ended, and another one might run it now.
        let is_attached = state.stack.phase == Phase::Attached && state.profiles.current.is_none();
        if is_attached && state.services.is_all_away() {
            state.effects.push(Effect::FindLocal);
        }
    }
}

/// Handles the result of a health check. `response` is `None` after a timeout.
pub(crate) fn on_probe(
    state: &mut State,
    service: Service,
    response: Option<&Outcome<()>>,
    latency: Duration,
) {
    let before = state.services.health(service).clone();
    let health = state.services.health_by_probe(service, response, latency, state.now);
    note_health(state, service, health);
    if *state.services.health(service) == before {
        return;
    }
    // Without a response, only the reason can differ, which is often not visible.
    state.mark_dirty(Dirty::Poll);
    if before.is_away() && matches!(response, Some(Ok(()))) {
        load_again(state, service);
    }
}

/// Loads the lists of `service` again, since the service has recovered.
fn load_again(state: &mut State, service: Service) {
    match service {
        Service::Head(head) => {
            load_nodes_of(state, head);
            if state.nodes.run_head == Some(head) {
                state.effects.push(Effect::LoadFunctions(head));
            }
        }
        Service::Data => state.data.reload_list(),
        Service::Inference => state.inference.reload_list(state.now),
    }
}

/// Records the health of a service that follows from a response. Notifies the user if the service
/// has failed or recovered.
pub(crate) fn note<T>(
    state: &mut State,
    service: Service,
    result: &Outcome<T>,
    latency: Option<Duration>,
) {
    let health = Services::health_by(result, latency, state.now);
    note_health(state, service, health);
}

/// Records the health of a service that follows from its stream, which was opened, or lost for the
/// reason `lost`. A timeout of a stream does not count, since health checks notice it earlier.
pub(crate) fn note_stream(state: &mut State, service: Service, lost: Option<&Failure>) {
    match lost {
        None => {
            // Opening the stream was a request, which succeeded.
            note_health(state, service, Health::Idle { latency: None });
            note_health(state, service, Health::Live);
        }
        Some(why) => {
            state.services.stream_closed(service);
            if !why.is_timeout {
                note(state, service, &Err::<(), _>(why.clone()), None);
            }
        }
    }
}

/// Returns the screens on which a pane already shows the failure of `service`, because its list is
/// empty.
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
    let before = state.services.health(service);
    let was_bad = before.is_away() || matches!(before, Health::Refused { .. });
    let is_news = state.services.note(service, health.clone(), state.now);
    if let Service::Head(head) = service
        && let Some(nodes) = state.nodes.head_mut(head)
    {
        nodes.is_away = state.services.health(service).is_away();
    }
    if !is_news {
        return;
    }
    let title = state.services.title(service);
    let failure = match (service, health) {
        (_, Health::Silent) => {
            let away_for = state.services.away_for(service, state.now).unwrap_or_default();
            let heard_at = format::clock(state.now - away_for);
            let detail = format!("last heard at {heard_at}; older values stay");
            return state.report(&[], Level::Error, format!("{title} is not responding"), detail);
        }
        (Service::Head(head), Health::Refused { why } | Health::Down { why }) => {
            state.services.named(head, why)
        }
        (_, Health::Refused { why }) => {
            let key = state.keys.key_text(Layer::Global, Action::Profiles);
            Failure { next: format!("press {key} to enter a key"), ..why }
        }
        (_, Health::Down { why }) => why,
        (_, health) => {
            if was_bad && health.is_up() {
                state.notify(format!("{title} is reachable again"), String::new());
            }
            return;
        }
    };
    state.notify_failure_unless_on(screens_that_say(state, service), &failure);
}

/// Handles an event of the dataset service: records the health, reports failures, and updates the
/// screen.
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
            let amount = format!("{}, {}", counted(progress.rows, "row"), bytes(progress.bytes));
            state.notify(format!("exported to {}", path.display()), amount);
        }
        DataEvent::Acquired(Ok(Acquired::Now)) => {
            state.notify(format!("tag {PUBLIC_TAG} acquired"), "");
        }
        DataEvent::Acquired(Ok(Acquired::Already)) => {
            state.notify(format!("tag {PUBLIC_TAG} is already held"), "");
        }
        DataEvent::Export(ExportNews::NotCreated { dataset, failure }) => {
            state.notify_failure(failure);
            // Another path can be entered.
            if state.data.is_shown
                && state.data.selected == Some(*dataset)
                && state.overlays.is_empty()
            {
                state.open_form(export_form(&state.data.export.path));
            }
        }
        DataEvent::Export(ExportNews::Failed(failure)) | DataEvent::Acquired(Err(failure)) => {
            state.notify_failure(failure);
        }
        DataEvent::Stream { dataset, news: StreamEvent::Lost { .. } }
            if state.data.deleted == Some(*dataset) =>
        {
            state.services.stream_closed(Service::Data);
        }
        DataEvent::Stream { news: StreamEvent::Lost { why, .. }, .. } => {
            note_stream(state, Service::Data, Some(why));
        }
        DataEvent::Stream { news: StreamEvent::Connected, .. } => {
            note_stream(state, Service::Data, None);
        }
        DataEvent::Stream { .. } => note_health(state, Service::Data, Health::Live),
        _ => {}
    }
    if let Some(name) = state.data.remove_gone(&event) {
        let why = "it was deleted, or the API key does not grant access to it";
        state.notify_refused(format!("{name} is no longer compared"), why);
    }
    state.data.on(event, state.now);
}

/// Handles an event of the inference service: records the health, and updates the screens with
/// topics.
pub(crate) fn on_inference(state: &mut State, event: InferenceEvent) {
    let service = Service::Inference;
    match &event {
        InferenceEvent::Topics(result) => note(state, service, result, None),
        InferenceEvent::History { result, .. } => note(state, service, result, None),
        InferenceEvent::Settings { topic, result: Ok(settings) } => {
            let forecast = &mut state.data.forecast;
            if forecast.topic == Some(*topic) {
                forecast.target = Some(Target::of_settings(settings));
            }
        }
        InferenceEvent::Latest { topic, is_resistant, result } => {
            note(state, service, result, None);
            if !is_resistant {
                state.overview.on_latest(*topic, result.clone(), state.now);
            }
        }
        // A service can lack these parts of the API, so their failure does not make it unhealthy.
        // Only a rate limit is recorded.
        InferenceEvent::Confidence { result: Err(why), .. }
        | InferenceEvent::PastActors { result: Err(why), .. }
        | InferenceEvent::Leaderboard { result: Err(why), .. }
        | InferenceEvent::Actor { result: Err(why), .. }
        | InferenceEvent::Settings { result: Err(why), .. }
            if why.retry_after.is_some() =>
        {
            note(state, service, &Err::<(), _>(why.clone()), None);
        }
        _ => {}
    }
    let is_listed = matches!(event, InferenceEvent::Topics(_));
    state.inference.on(event, state.now);
    if is_listed {
        load_bundles(state);
    }
}
