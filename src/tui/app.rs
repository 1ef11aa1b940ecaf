//! Routes events: (state, event) → effects. Does no I/O and reads no clock; effects request those.
//!
//! Screens and overlays handle their own events in their `update` modules; what they share is here.

pub(crate) mod health;
mod output;
pub(crate) mod perform;
mod services;

use std::time::Duration;

use wire::functions::{FunctionBody, NodeBody};

use self::health::note;
use crate::{
    action::Action,
    event::{Effect, Event, Target, Timer},
    keymap::{Chord, Layer, Resolved},
    local::{Addresses, Level, LocalEvent, LocalFunction},
    overlay::{self, Overlay, profiles},
    screens::{Screen, cluster::update::processes, execute::update::runs, overview},
    state::{
        Dirty, State,
        loadable::Failure,
        services::{Health, PROBE_EVERY, Service},
        session, stack,
    },
};

/// How often the nodes are looked at while they are in view.
const NODES_EVERY: Duration = Duration::from_secs(2);

/// How often they are looked at otherwise, for the header's sake.
pub(crate) const NODES_HIDDEN_EVERY: Duration = Duration::from_secs(15);

/// The screens whose panes say what a run came to.
pub(crate) const RUN_SCREENS: &[Screen] = &[Screen::Cluster, Screen::Execute];

/// The screens whose panes list the local processes.
pub(crate) const PROCESS_SCREENS: &[Screen] = &[Screen::Cluster, Screen::Overview];

/// How long a second `^C` is waited for.
const INTERRUPT_WITHIN: Duration = Duration::from_secs(2);

/// Where the services are when the screen opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// At these addresses.
    Connect(Addresses),
    /// Where the profile of this name says, with its key.
    Profile(String),
    /// On this machine, once they are started.
    Local,
    /// At no known address.
    Nowhere,
}

/// Returns the effects for opening the screen.
pub(crate) fn start(state: &mut State, start: Start) -> Vec<Effect> {
    let mut effects = Vec::new();
    match start {
        Start::Connect(addresses) => effects.extend(connect(state, &addresses)),
        Start::Profile(name) => {
            state.profiles.opening = Some(name.clone());
            effects.push(Effect::OpenProfile(name));
        }
        Start::Local => {
            state.stack.begin();
            state.logs.log(Level::Info, state.now, "starting the local stack".to_owned());
            effects.push(Effect::StartLocal);
        }
        Start::Nowhere => state.notify_failure(&Failure {
            what: "find the services".to_owned(),
            why: "no profile names them, and no local stack can be started".to_owned(),
            next: "name them with --head, --datasets and --inference".to_owned(),
            ..Failure::default()
        }),
    }
    effects.extend(perform::show(state, state.screen));
    effects.extend([Effect::LoadPresets, Effect::FindDetachedNodes]);
    state.warn_low_contrast();
    state.mark_dirty(Dirty::Input);
    settled(state, effects)
}

/// The reducer: changes the state for `event` and returns the effects to perform.
pub(crate) fn update(state: &mut State, event: Event) -> Vec<Effect> {
    let dirty = urgency(state, &event);
    state.mark_dirty(dirty);
    let effects = match event {
        Event::Key(chord) => press(state, chord),
        Event::Paste(text) => paste(state, &text),
        Event::Click(target) => click(state, target),
        Event::Wheel(target, rows) => wheel(state, target, rows),
        Event::Resized { width, height } => {
            state.size = (width, height);
            Vec::new()
        }
        Event::Focused(is_focused) => {
            state.is_behind = !is_focused;
            Vec::new()
        }
        Event::Background(color) => {
            state.background = Some(color);
            Vec::new()
        }
        Event::TimerDue(timer) => on_timer(state, timer),
        Event::Terminate => vec![Effect::Quit],
        Event::Local(event) => on_local(state, event),
        Event::LocalFailed(failure) => {
            state.stack.phase = stack::Phase::Failed(failure.clone());
            let screens = if state.stack.has_processes() { &[] } else { PROCESS_SCREENS };
            state.notify_failure_unless_on(screens, &failure);
            Vec::new()
        }
        Event::Nodes(result, latency) => on_nodes(state, result, latency),
        Event::Probed { service, answer, latency } => {
            health::on_probe(state, service, answer.as_ref(), latency)
        }
        Event::Functions(result) => {
            runs::on_functions(state, result);
            Vec::new()
        }
        Event::RunAccepted(..)
        | Event::RunUnreachable(..)
        | Event::RunReport(..)
        | Event::Cluster(_)
        | Event::FunctionAdded(_)
        | Event::Presets(_)
        | Event::PresetsNotSaved(_) => runs::on(state, event),
        Event::Usage(_) | Event::ProcessFailed(_) => processes::on(state, event),
        Event::Paged(Ok(())) => Vec::new(),
        Event::Saved(path, Ok(what)) => {
            let text = format!("saved to {}", path.display());
            state.notify(text, what);
            Vec::new()
        }
        Event::Saved(_, Err(failure)) | Event::Paged(Err(failure)) => {
            state.notify_failure(&failure);
            Vec::new()
        }
        Event::Executed(id, result) => runs::on_executed(state, id, result),
        Event::Profile(event) => profiles::update::on(state, event),
        Event::Data(event) => services::on_data(state, event),
        Event::Inference(event) => services::on_inference(state, event),
    };
    settled(state, effects)
}

/// How urgent a redraw after `event` is.
fn urgency(state: &State, event: &Event) -> Dirty {
    let has_logs = state.screen != Screen::Data && state.screen != Screen::Inference;
    match event {
        // A probe requests a frame itself, if the health changed.
        Event::TimerDue(Timer::Probe) | Event::Probed { .. } => Dirty::Clean,
        // What is not in view is not worth a frame.
        Event::Local(LocalEvent::Log(_)) if !has_logs => Dirty::Clean,
        Event::Data(_) if !matches!(state.screen, Screen::Data | Screen::Overview) => Dirty::Clean,
        Event::Inference(_) if !matches!(state.screen, Screen::Inference | Screen::Overview) => {
            Dirty::Clean
        }
        Event::Usage(_) if state.screen != Screen::Cluster => Dirty::Clean,
        Event::Cluster(news) => runs::urgency(state, news),
        // Drawn although nothing happened, as a spinner is.
        Event::TimerDue(Timer::Age) => Dirty::Animation,
        Event::Key(_)
        | Event::Paste(_)
        | Event::Click(_)
        | Event::Wheel(..)
        | Event::Resized { .. }
        | Event::Background(_)
        | Event::Focused(true)
        | Event::Profile(_)
        | Event::Paged(_)
        | Event::Executed(..) => Dirty::Input,
        _ => Dirty::Data,
    }
}

/// Adds the effects that follow every event: expiring notices, closed streams, the saved selection.
fn settled(state: &mut State, mut effects: Vec<Effect>) -> Vec<Effect> {
    let is_close = |effect: &Effect| matches!(effect, Effect::CloseStream { .. });
    if effects.iter().any(is_close) && !state.data.has_streams() {
        state.services.stream_closed(Service::Data);
    }
    if effects.contains(&Effect::CloseBundles) {
        state.services.stream_closed(Service::Inference);
    }
    effects.extend(session::select(state));
    if let Some(wait) = state.notices.expire(state.now) {
        effects.push(Effect::SetTimer(Timer::Notice, wait));
    }
    effects
}

fn press(state: &mut State, chord: Chord) -> Vec<Effect> {
    let is_passing = std::mem::take(&mut state.execute.is_passing);
    if is_passing
        && state.layers().contains(&Layer::Form)
        && let Resolved::Action(action @ Action::Show(_)) =
            state.keys.resolve(&[Layer::Global], &[], chord)
    {
        return perform::perform(state, action);
    }
    let layers = state.layers();
    let pending = std::mem::take(&mut state.pending);
    match state.keys.resolve(layers, &pending, chord) {
        Resolved::Action(action) => perform::perform(state, action),
        Resolved::Pending => {
            state.pending = pending;
            state.pending.push(chord);
            Vec::new()
        }
        // What does not go on with a sequence may start something by itself.
        Resolved::Nothing if !pending.is_empty() => press(state, chord),
        Resolved::Nothing if matches!(state.overlays.last(), Some(Overlay::Jump(_))) => {
            overlay::update::spell(state, chord);
            Vec::new()
        }
        Resolved::Nothing => {
            let is_changed = state.field().is_some_and(|field| field.press(chord));
            if is_changed { edited(state) } else { Vec::new() }
        }
    }
}

fn paste(state: &mut State, text: &str) -> Vec<Effect> {
    let is_form = state.screen == Screen::Execute && state.field().is_some();
    let is_taken = is_form && state.overlays.is_empty() && state.execute.form.paste_command(text);
    let is_changed = is_taken || state.field().is_some_and(|field| field.paste(text));
    if is_changed { edited(state) } else { Vec::new() }
}

fn edited(state: &mut State) -> Vec<Effect> {
    if overlay::update::edited(state) {
        return Vec::new();
    }
    match state.screen {
        Screen::Data => state.data.edited(state.now),
        Screen::Cluster | Screen::Execute if state.output_search.is_edited() => {
            output::search(state);
            Vec::new()
        }
        Screen::Execute if state.overlays.is_empty() => {
            state.execute.form.edited();
            Vec::new()
        }
        _ => Vec::new(),
    }
}

fn click(state: &mut State, target: Target) -> Vec<Effect> {
    if matches!(state.overlays.last(), Some(Overlay::Jump(_))) {
        state.close();
    }
    match target {
        Target::Screen(screen) => perform::perform(state, Action::Show(screen)),
        Target::Action(action) => perform::perform(state, action),
        Target::Pane(_) | Target::Row { .. } => match overlay::update::click(state, target) {
            Some(effects) => effects,
            None => point(state, target),
        },
    }
}

/// Handles a click on the current screen.
fn point(state: &mut State, target: Target) -> Vec<Effect> {
    let State { nodes, stack, runs, cluster, execute, .. } = state;
    let page = 1;
    let known = crate::screens::cluster::state::ClusterContext { nodes, stack, runs, page };
    match state.screen {
        Screen::Cluster => cluster.click(target, known),
        Screen::Execute => execute.click(target),
        Screen::Data => return state.data.click(target, state.now),
        Screen::Inference => return state.inference.click(target, state.now),
        Screen::Logs => {}
        Screen::Overview => {
            let counts = state.overview_counts();
            match target {
                Target::Row { row, .. } => state.overview.row = row,
                Target::Pane(pane) => state.overview.enter(pane, counts),
                _ => {}
            }
        }
    }
    Vec::new()
}

fn wheel(state: &mut State, target: Target, rows: i32) -> Vec<Effect> {
    let mut effects = Vec::new();
    if state.overlays.is_empty()
        && let Target::Pane(pane) | Target::Row { pane, .. } = target
    {
        effects.extend(point(state, Target::Pane(pane)));
    }
    let action = if rows < 0 { Action::Up } else { Action::Down };
    for _ in 0..rows.unsigned_abs().min(10) {
        effects.extend(perform::perform(state, action));
    }
    effects
}

fn on_timer(state: &mut State, timer: Timer) -> Vec<Effect> {
    let now = state.now;
    match timer {
        Timer::Nodes => load_nodes(state),
        Timer::Probe => health::probe(state),
        Timer::Interrupt => {
            state.is_interrupted = false;
            Vec::new()
        }
        // Ages are drawn, and notices looked at, after each event, these too.
        Timer::Age | Timer::Notice => Vec::new(),
        Timer::Datasets | Timer::Rows => state.data.on_timer(timer, now),
        Timer::Overview => overview::update::load_topics(state),
        Timer::Topics | Timer::Latest => state.inference.on_timer(timer, now),
    }
}

/// Connects to the services at `addresses`.
pub(crate) fn connect(state: &mut State, addresses: &Addresses) -> Vec<Effect> {
    let now = state.now;
    let before = state.services.addresses.datasets.take();
    if before.is_some() && before != addresses.datasets {
        state.data.clear_pins();
    }
    state.services.connect(addresses);
    let mut effects = vec![Effect::Connect(addresses.clone())];
    if addresses.head.is_some() {
        state.nodes.is_asked = false;
        state.nodes.listed.clear_error();
        effects.extend(load_nodes(state));
        effects.extend([Effect::LoadFunctions, Effect::FollowCluster]);
    }
    if addresses.datasets.is_some() {
        effects.extend(state.data.connected(now));
    }
    if addresses.inference.is_some() {
        effects.extend(state.inference.connected(now));
    }
    // What was asked for here is the first probe.
    effects.push(Effect::SetTimer(Timer::Probe, PROBE_EVERY));
    effects
}

/// Asks for the nodes, unless that is under way, and for what local processes use where that is
/// seen.
pub(crate) fn load_nodes(state: &mut State) -> Vec<Effect> {
    if state.nodes.is_asked || state.services.addresses.head.is_none() {
        return Vec::new();
    }
    state.nodes.is_asked = true;
    state.nodes.listed.begin(state.now);
    let mut effects = vec![Effect::LoadNodes];
    if matches!(state.screen, Screen::Cluster | Screen::Overview) && state.stack.has_processes() {
        effects.push(Effect::LoadUsage);
    }
    effects
}

fn on_nodes(
    state: &mut State,
    result: Result<Vec<NodeBody>, Failure>,
    latency: Duration,
) -> Vec<Effect> {
    state.nodes.is_asked = false;
    let was_down = matches!(state.services.health(Service::Head), Health::Down { .. });
    note(state, Service::Head, &result, Some(latency));
    state.nodes.settle(result, state.now);
    if matches!(state.overlays.last(), Some(Overlay::AddNode)) {
        let nodes = state.nodes.all(&state.stack);
        state.cluster.node_form.learn(&nodes);
    }
    let is_seen = matches!(state.screen, Screen::Cluster | Screen::Execute | Screen::Overview);
    let wait = if is_seen { NODES_EVERY } else { NODES_HIDDEN_EVERY };
    // Back off exponentially from a head that is down, capped at `NODES_HIDDEN_EVERY`.
    let wait =
        wait.saturating_mul(1 << state.nodes.n_failures.min(4)).min(NODES_HIDDEN_EVERY.max(wait));
    let mut effects = vec![Effect::SetTimer(Timer::Nodes, wait)];
    // Another head may have come up at the address, with other functions.
    if was_down && state.nodes.listed.failure().is_none() {
        effects.push(Effect::LoadFunctions);
    }
    effects
}

/// A function of the local stack, in the shape of the head's list.
fn function(function: &LocalFunction) -> FunctionBody {
    let LocalFunction { name, function_id, method } = function.clone();
    FunctionBody { name, function_id, method, bytes: 0, by_manifest: Vec::new() }
}

fn on_local(state: &mut State, event: LocalEvent) -> Vec<Effect> {
    state.stack.on(&event, state.now);
    match event {
        LocalEvent::Node(node) => processes::started(state, node),
        LocalEvent::Found(node) => {
            let text = format!("{} still runs, pid {}", node.name, node.pid);
            let key = state.keys.key_text(Layer::Cluster, Action::StopProcess);
            state.notify(text, format!("it was left running; {key} stops it"));
            Vec::new()
        }
        LocalEvent::Service { name, pid } => {
            let text = format!("{name} runs, pid {pid}");
            state.notify_unless_on(PROCESS_SCREENS, text, String::new());
            Vec::new()
        }
        LocalEvent::Starting { what } => {
            state.logs.log(Level::Info, state.now, format!("starting {what}"));
            Vec::new()
        }
        LocalEvent::Ready(ready) => {
            if let Some(summary) = state.stack.summary() {
                state.notify_unless_on(PROCESS_SCREENS, "local stack".to_owned(), summary);
            }
            state.execute.form.know(ready.functions.iter().map(function).collect());
            connect(state, &ready.addresses)
        }
        LocalEvent::Log(log) => {
            runs::on_log(state, &log);
            state.logs.push(log);
            Vec::new()
        }
        LocalEvent::Restarting { process, code, restart_in } => {
            processes::restarting(state, &process, code, restart_in)
        }
        LocalEvent::Exited { process, code } => processes::ended(state, &process, code),
    }
}

#[cfg(test)]
mod tests;
