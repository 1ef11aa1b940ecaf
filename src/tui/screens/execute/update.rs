//! Updates of runs, of presets and of the visible output.

use wire::executions::ClusterEventKind;
use wire::functions::{ExecuteRequest, ExecuteResponse, FunctionBody};

use crate::event::{Effect, HeadEvent, RunOrder, StreamEvent};
use crate::keymap::{Action, Layer};
use crate::local::{Level, LocalLog};
use crate::overlay::copy_as::curl_of;
use crate::overlay::form;
use crate::screens::execute::state::Pane;
use crate::screens::execute::state::presets::{Preset, Presets};
use crate::screens::update::{RUN_SCREENS, load_nodes_of, note, note_stream, send_copy};
use crate::screens::{Screen, cluster};
use crate::state::overlay::Overlay;
use crate::state::pattern::Pattern;
use crate::state::resource::{Failure, Outcome};
use crate::state::results::{self, Position, RunView};
use crate::state::runs::{Input, Phase, RunHead, RunId, Verdict, workers_text};
use crate::state::services::{HeadId, Service};
use crate::state::{State, stack};
use crate::widget::format::{counted, elapsed};

/// Maximum number of pending runs. It bounds the runs that a held key starts.
const RUNS_WAITING_MAX: usize = 16;

/// Log message of a worker that has to fetch a function before it can report to a roll call.
const FETCHES: &str = "roll call but function not installed, installing now";

/// Records that the head of a run is unreachable for the reason `trouble`. `None` if the head is
/// reachable again.
pub(crate) fn on_unreachable(state: &mut State, id: RunId, trouble: Option<Failure>) {
    let line = match &trouble {
        Some(failure) => format!("run {}: the head does not respond: {}", id.0, failure.why),
        None => format!("run {}: the head is reachable again", id.0),
    };
    if state.runs.set_unreachable(id, trouble) {
        state.logs.log(Level::Warn, state.now, line);
    }
}

/// Handles an event of the stream of a head's cluster.
pub(crate) fn on_cluster(state: &mut State, head: HeadId, news: HeadEvent) {
    let service = Service::Head(head);
    match news {
        StreamEvent::Connected => note_stream(state, service, None),
        StreamEvent::Item(event) => {
            state.runs.happened(&event, state.now);
            let kind = event.kind;
            if matches!(
                kind,
                ClusterEventKind::PeerJoined { .. } | ClusterEventKind::PeerLeft { .. }
            ) {
                load_nodes_of(state, head);
            }
        }
        StreamEvent::Lost { why, .. } => {
            if state.services.has_stream(service) {
                let Failure { what, why, .. } = state.services.named(head, why.clone());
                state.logs.log(Level::Warn, state.now, format!("failed to {what}: {why}"));
            }
            note_stream(state, service, Some(&why));
        }
        StreamEvent::NotServed | StreamEvent::Reset | StreamEvent::Heartbeat => {}
    }
}

/// Selects the first responding head for new runs. If this is another head than before, requests its
/// functions.
pub(crate) fn choose_head(state: &mut State) {
    let head = state.services.head_of_runs();
    if head != state.nodes.run_head {
        state.nodes.run_head = head;
        state.effects.extend(head.map(Effect::LoadFunctions));
    }
}

/// Handles a log line of a local process. The line can report that a worker fetches a function.
pub(crate) fn on_log(state: &mut State, log: &LocalLog) {
    if log.message != FETCHES {
        return;
    }
    let request = log.fields.pairs().find(|(name, _)| *name == "request");
    let node = state.stack.nodes().find(|(node, _)| node.name == log.process);
    if let (Some((_, request_id)), Some((node, _))) = (request, node) {
        state.runs.fetching(request_id, &node.peer_id, state.now);
    }
}

/// Executes the request of the form. If the form names a local module, uploads it first.
pub(crate) fn run(state: &mut State) {
    run_at(state, state.nodes.run_head);
}

fn run_at(state: &mut State, head: Option<HeadId>) {
    let page = state.page();
    let State { nodes, stack, runs, execute, .. } = state;
    let known = cluster::state::ClusterContext { nodes, stack, runs, page };
    let Some(request) = execute.form.request(known) else {
        state.execute.edit_form();
        if state.stack.phase == stack::Phase::Starting {
            let why = "the head is starting; its functions are listed then";
            state.notify_refused("cannot run yet", why.to_owned());
        }
        return;
    };
    if upload_file(state) {
        state.execute.is_run_next = true;
        return;
    }
    let input = state.execute.form.input();
    send(state, head, request, input);
}

/// Uploads the local module that the form names. Returns false if the form names none or does not
/// have the focus.
pub(crate) fn upload_file(state: &mut State) -> bool {
    let form = &state.execute.form;
    let is_asked = state.execute.focus == Pane::Form;
    let Some(path) = form.file().filter(|_| is_asked).map(str::to_owned) else { return false };
    match state.nodes.run_head {
        None => state.notify_failure(&no_head(state)),
        Some(head) => {
            state.execute.is_adding = true;
            state.effects.push(Effect::AddFunction { head, path });
        }
    }
    true
}

/// Handles the result of an upload to `head`. If a run waits for the upload, sends it to the same
/// head.
pub(crate) fn on_function_added(state: &mut State, head: HeadId, result: Outcome<FunctionBody>) {
    state.execute.is_adding = false;
    let is_run = std::mem::take(&mut state.execute.is_run_next);
    match result {
        Ok(function) => {
            let form = &mut state.execute.form;
            let stem =
                |path: &str| Some(std::path::Path::new(path).file_stem()?.to_str()?.to_owned());
            if let Some(name) = form.file().and_then(stem) {
                form.also_named(&function.function_id, &name);
            }
            form.added(&function);
            state.notify(format!("uploaded {}", function.name), function.function_id);
            state.effects.extend(state.nodes.run_head.map(Effect::LoadFunctions));
            if is_run {
                run_at(state, Some(head));
            }
        }
        Err(failure) => state.notify_failure(&state.services.named(head, failure)),
    }
}

/// Repeats the request of the selected run, at the head that is selected for new runs.
pub(crate) fn repeat(state: &mut State) {
    let Some(run) = state.results().selected(&state.runs) else {
        state.notify_refused("no run yet", String::new());
        return;
    };
    let (request, input) = (run.request.clone(), run.input.clone());
    send(state, state.nodes.run_head, request, input);
}

fn send(state: &mut State, head: Option<HeadId>, request: ExecuteRequest, input: Input) {
    if state.runs.n_waiting() >= RUNS_WAITING_MAX {
        let text = format!("{RUNS_WAITING_MAX} runs are already waiting");
        let key = state.keys.key_text(Layer::Always, Action::Interrupt);
        return state.notify_refused(text, format!("{key} cancels them"));
    }
    let run_head = head.map_or_else(RunHead::default, |id| {
        let address = state.services.address(Service::Head(id)).map(str::to_owned);
        RunHead { id, address }
    });
    let id = state.runs.start(request.clone(), input.clone(), run_head, state.now);
    state.execute.focus = Pane::Results;
    state.execute.results.show(id);
    state.cluster.results.show(id);
    let nodes = match request.config.number_of_nodes {
        1 => "1 node".to_owned(),
        n => format!("{n} nodes"),
    };
    let workers = workers_text(&request).map(|it| format!(" of {it}")).unwrap_or_default();
    let line = format!("run {} sent: {} on {nodes}{workers}", id.0, request.method);
    state.logs.log(Level::Info, state.now, line);
    let Some(head) = head else {
        let failure = no_head(state);
        state.runs.finish(id, Err(failure.clone()), state.now);
        return state.notify_failure_unless_on(RUN_SCREENS, &failure);
    };
    // Progress is only reported by heads that also list their nodes.
    let is_followed = state.nodes.head(head).is_some_and(|nodes| nodes.listed.value().is_some());
    let order = RunOrder { head, request, input, is_followed };
    state.effects.push(Effect::Execute(id, Box::new(order)));
}

fn no_head(state: &State) -> Failure {
    let key = |layer, action| state.keys.key_text(layer, action);
    if state.stack.phase == stack::Phase::Starting {
        let next = format!("try again shortly ({})", key(Layer::Form, Action::Run));
        return Failure::new("run the function", "the local stack is still starting", next);
    }
    let cluster = key(Layer::Global, Action::Show(Screen::Cluster));
    let add = key(Layer::Cluster, Action::AddNode);
    let next = format!("name one with --head, or start one ({cluster}, then {add})");
    Failure::new("run the function", "no head is known", next)
}

/// Copies the request of the run or of the form as a curl command, without keys and tokens.
pub(crate) fn copy_as_curl(state: &mut State) {
    let (form, addresses) = (&state.execute.form, &state.services.addresses);
    let run = state.execute.results.selected(&state.runs);
    let run = run.filter(|_| state.execute.focus == Pane::Results);
    let (head, request, input) = match run {
        Some(run) => (run.head.address.as_deref(), run.request.clone(), run.input.clone()),
        None => (state.form_head(), form.preview(), form.input()),
    };
    let text = curl_of(addresses, head, &request);
    send_copy(state, Some(text));
    if input != Input::Typed {
        state.notify("standard input is not included", String::new());
    }
}

/// Performs an action on presets.
pub(crate) fn presets(state: &mut State, action: Action) {
    match action {
        Action::Presets => {
            let request = state.execute.form.preview();
            let mut presets = state.execute.presets.values();
            let row = presets.position(|preset| preset.request == request).unwrap_or(0);
            state.open(Overlay::Presets(row));
        }
        Action::SavePreset => {
            let form = &state.execute.form;
            let request = form.preview();
            let name = request.method.trim_end_matches(".wasm").to_owned();
            let workers = workers_text(&request).map(|text| format!(" {text}")).unwrap_or_default();
            let name = format!("{name} x{}{workers}", request.config.number_of_nodes);
            form::open_preset(state, &name);
        }
        Action::Remove => {
            let Some(Overlay::Presets(row)) = state.overlays.last() else { return };
            let Some(name) = state.execute.presets.keys().nth(*row).cloned() else { return };
            state.effects.push(Effect::ChangePreset { name, preset: None });
        }
        _ => {}
    }
}

/// Saves the form as the preset `name`.
pub(crate) fn keep_preset(state: &mut State, name: &str) {
    let form = &state.execute.form;
    let preset = Preset { request: form.preview(), input: form.input() };
    let name = name.chars().take(60).collect();
    state.close();
    state.effects.push(Effect::ChangePreset { name, preset: Some(Box::new(preset)) });
}

/// Handles the result of [`Effect::ChangePreset`].
pub(crate) fn on_preset_changed(
    state: &mut State,
    name: &str,
    left_out: Option<&[String]>,
    result: Outcome<Presets>,
) {
    match result {
        Ok(list) => state.execute.presets = list,
        Err(why) => return state.notify_failure(&why),
    }
    let n_presets = state.execute.presets.len();
    if let Some(Overlay::Presets(row)) = state.overlays.last_mut() {
        *row = (*row).min(n_presets.saturating_sub(1));
    }
    let done = if left_out.is_some() { "saved" } else { "removed" };
    let detail = match left_out {
        None | Some([]) => String::new(),
        Some(names) => format!("without the value of {}", names.join(", ")),
    };
    state.notify(format!("preset \"{name}\" {done}"), detail);
}

/// Fills in the form from the preset in row `row`.
pub(crate) fn take_preset(state: &mut State, row: usize) {
    if let Some(preset) = state.execute.presets.values().nth(row) {
        state.execute.form.fill(&preset.request, &preset.input);
        state.execute.focus_form();
    }
    state.close();
}

pub(crate) fn on_executed(state: &mut State, id: RunId, result: Outcome<Box<ExecuteResponse>>) {
    let now = state.now;
    // A run can fail at a healthy head. The health then follows from the request for nodes below.
    if let Ok(response) = &result {
        if let Some(head) = state.runs.get(id).map(|run| run.head.id) {
            note(state, Service::Head(head), &result, None);
        }
        state.nodes.saw(response, now);
    }
    if !state.runs.finish(id, result, now) {
        return;
    }
    let Some(run) = state.runs.get(id) else { return };
    let head = run.head.id;
    match run.phase.clone() {
        Phase::Done(response) => {
            let level = match run.verdict() {
                Verdict::Agreed if run.live.n_failed() == 0 => Level::Info,
                Verdict::BadExit(..) => Level::Error,
                _ => Level::Warn,
            };
            let text = format!("run {} done in {}", id.0, elapsed(run.elapsed(now)));
            let peers = counted(response.cluster.peers.len(), "peer");
            let detail = format!("{peers}, {}", run.words());
            state.report(RUN_SCREENS, level, text, detail);
        }
        Phase::Failed(failure) => state.notify_failure_unless_on(RUN_SCREENS, &failure),
        Phase::Waiting | Phase::Cancelled => {}
    }
    // The run has changed the counts of the nodes' runs and agreement.
    load_nodes_of(state, head);
}

/// Handles the list of functions of a head. The list stays empty if the head is of another
/// implementation that has no such list.
pub(crate) fn on_functions(state: &mut State, head: HeadId, result: Outcome<Vec<FunctionBody>>) {
    match result {
        _ if state.nodes.run_head != Some(head) => {}
        Ok(functions) => state.execute.form.know(functions),
        Err(failure) if failure.status == Some(404) => {}
        Err(failure) => {
            let Failure { what, why, .. } = state.services.named(head, failure);
            state.logs.log(Level::Warn, state.now, format!("failed to {what}: {why}"));
        }
    }
}

/// Performs an action on the visible output. Returns false if no output has focus, or if `action`
/// is not an action on outputs.
pub(crate) fn act_on_output(state: &mut State, action: Action) -> bool {
    if !state.is_output_focused() {
        return false;
    }
    match action {
        Action::Filter => state.output_search.edit(),
        Action::NextMatch => find_match(state, true, true),
        Action::PreviousMatch => find_match(state, false, true),
        Action::Wrap => state.results_mut().look.is_wrapped ^= true,
        Action::Pretty => {
            let look = &mut state.results_mut().look;
            look.is_raw ^= true;
            look.found = None;
        }
        Action::OutputLeft => shift_output(state, -1),
        Action::OutputRight => shift_output(state, 1),
        Action::Export => match state.output() {
            Some((name, text)) => {
                form::open_save(state, Some(text), &name);
            }
            None => state.notify_refused("nothing to save yet", String::new()),
        },
        Action::OpenPager => match state.output() {
            Some((_, text)) => state.effects.push(Effect::Page(text)),
            None => state.notify_refused("nothing to page through yet", String::new()),
        },
        _ => return false,
    }
    true
}

fn shift_output(state: &mut State, by: isize) {
    let look = &mut state.results_mut().look;
    look.is_wrapped = false;
    look.n_hidden = results::shifted(look.n_hidden, by);
}

/// Scrolls to the match of the search after the current match, or before it if `is_forward` is
/// false. If `is_other` is false, scrolls to the first or the last match of the whole output
/// instead.
pub(crate) fn find_match(state: &mut State, is_forward: bool, is_other: bool) {
    let wanted = Pattern::parse_phrase(state.output_search.value());
    let Some((_, text)) = state.output() else { return };
    let look = &mut state.results_mut().look;
    let from = look.found.filter(|_| is_other);
    look.found =
        (!wanted.is_empty()).then(|| results::find(&text, &wanted, from, is_forward)).flatten();
    if let Some(line) = look.found {
        // Leaves two lines above the match.
        look.position = Position::FromTop(line.saturating_sub(2));
    }
}

impl State {
    /// Returns true if the focus is on the output of a run.
    pub(crate) fn is_output_focused(&self) -> bool {
        match self.screen {
            Screen::Cluster => self.cluster.focus == cluster::state::Pane::Groups,
            Screen::Execute => self.execute.focus == Pane::Results,
            _ => false,
        }
    }

    /// Returns the view of the run on the current screen.
    pub(crate) const fn results(&self) -> RunView {
        match self.screen {
            Screen::Cluster => self.cluster.results,
            _ => self.execute.results,
        }
    }

    /// Like [`Self::results`], mutable.
    pub(crate) const fn results_mut(&mut self) -> &mut RunView {
        match self.screen {
            Screen::Cluster => &mut self.cluster.results,
            _ => &mut self.execute.results,
        }
    }

    /// Returns the name of a file for the visible output, and the output.
    pub(crate) fn output(&self) -> Option<(String, String)> {
        let RunView { look, .. } = self.results();
        let run = self.results().selected(&self.runs)?;
        let response = run.response()?;
        let (text, is_pretty) = look.shown_text(response);
        let kind = look.output(response).file_name();
        let ending = if is_pretty { "json" } else { "txt" };
        Some((format!("run-{}-{kind}.{ending}", run.id.0), text.into_owned()))
    }
}

#[cfg(test)]
mod tests;
