//! What the updates of several screens share: showing a screen, connecting, asking for the nodes,
//! copying.

pub(crate) mod answers;

use crate::{
    action::Action,
    event::{Effect, Timer},
    keymap::Layer,
    local::Addresses,
    screens::{Screen, overview::update::load_bundles},
    state::{
        State,
        loadable::Failure,
        services::{HeadId, PROBE_EVERY},
    },
    widget::format::counted,
};

/// The screens whose panes say what a run came to.
pub(crate) const RUN_SCREENS: &[Screen] = &[Screen::Cluster, Screen::Execute];

/// The screens whose panes list the local processes.
pub(crate) const PROCESS_SCREENS: &[Screen] = &[Screen::Cluster, Screen::Overview];

/// The longest text that is sent to a terminal: they cut off what exceeds 74 994 bytes in base 64.
const COPY_BYTES_MAX: usize = 56_000;

/// Shows a screen and closes all overlays.
pub(crate) fn show(state: &mut State, screen: Screen) {
    while state.close() {}
    enter(state, screen);
}

/// Shows a screen beneath the open overlays.
pub(crate) fn enter(state: &mut State, screen: Screen) {
    let now = state.now;
    let is_other = state.screen != screen;
    match state.screen {
        Screen::Data if is_other => state.data.hide(),
        Screen::Inference if is_other => state.inference.hide(),
        Screen::Overview if is_other => {
            state.overview.is_shown = false;
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
        Screen::Data if !state.data.is_shown => state.data.show(now),
        Screen::Inference if !state.inference.is_shown => state.inference.show(now),
        Screen::Cluster | Screen::Execute if is_other => load_nodes(state),
        Screen::Overview if !state.overview.is_shown => {
            load_nodes(state);
            state.overview.is_shown = true;
            load_bundles(state);
            state.data.set_in_overview(true);
        }
        _ => {}
    }
}

/// Connects to the services at `addresses`.
pub(crate) fn connect(state: &mut State, addresses: &Addresses) {
    let now = state.now;
    let before = state.services.addresses.datasets.take();
    if before.is_some() && before != addresses.datasets {
        state.data.pins.clear();
    }
    state.services.connect(addresses, now);
    state.effects.push(Effect::Connect(addresses.clone()));
    // The calls of before are dropped, and never answered.
    let run = state.keys.key_text(Layer::Form, Action::Run);
    state.runs.disconnect(now, &format!("{run} runs it again"));
    (state.execute.is_adding, state.execute.is_run_next) = (false, false);
    state.nodes.connect(state.services.heads(), &addresses.heads);
    load_nodes(state);
    state.nodes.run_head = state.services.head_of_runs();
    state.effects.extend(state.nodes.run_head.map(Effect::LoadFunctions));
    state.effects.extend(state.services.heads().map(Effect::FollowCluster));
    if addresses.datasets.is_some() {
        state.data.connected(now);
    }
    if addresses.inference.is_some() {
        state.overview.topics.clear();
        state.inference.connected(now);
    }
    // What was asked for here is the first probe.
    state.effects.push(Effect::SetTimer(Timer::Probe, PROBE_EVERY));
}

/// Asks every head for its nodes, as [`load_nodes_of`].
pub(crate) fn load_nodes(state: &mut State) {
    for head in state.services.heads() {
        load_nodes_of(state, head);
    }
}

/// Asks `head` for its nodes, unless that is under way. What local processes use is asked for with those of
/// the first head that answers, where it is shown.
pub(crate) fn load_nodes_of(state: &mut State, head: HeadId) {
    let Some(nodes) = state.nodes.head_mut(head).filter(|nodes| !nodes.is_asked) else { return };
    nodes.is_asked = true;
    nodes.listed.begin(state.now);
    state.effects.push(Effect::LoadNodes(head));
    if state.services.head_of_runs() != Some(head) {
        return;
    }
    if matches!(state.screen, Screen::Cluster | Screen::Overview) && state.stack.has_processes() {
        state.effects.push(Effect::LoadUsage);
    }
}

/// Copies `text`.
pub(crate) fn send_copy(state: &mut State, text: Option<String>) {
    match text.filter(|text| !text.is_empty()) {
        Some(text) => state.effects.push(Effect::Copy(text)),
        None => state.notify_refused("nothing to copy here".to_owned(), String::new()),
    }
}

/// Handles the outcome of a copy: reports the program that copied `text`, else sends it to the terminal,
/// which gives no confirmation.
pub(crate) fn on_copied(state: &mut State, text: String, by: Option<&'static str>) {
    let amount = counted(text.chars().count(), "letter");
    if let Some(by) = by {
        return state.notify(format!("copied {amount} with {by}"), String::new());
    }
    if text.len() > COPY_BYTES_MAX {
        state.notify_failure(&Failure::new(
            "copy",
            format!("terminals take no more than {COPY_BYTES_MAX} bytes"),
            "",
        ));
        return;
    }
    let hint = "no wl-copy, xclip, pbcopy or tmux was available".to_owned();
    state.notify(format!("sent {amount} to the terminal by OSC 52"), hint);
    state.effects.push(Effect::CopyToTerminal(text));
}
