//! Runs: sent, followed, repeated, and the presets they are made of; and reading their output.

use wire::{
    executions::ClusterEventKind,
    functions::{ExecuteRequest, ExecuteResponse, FunctionBody},
};

use crate::{
    action::Action,
    event::{Effect, HeadEvent, RunOrder, StreamEvent},
    keymap::Layer,
    local::{Level, LocalLog},
    overlay::{Overlay, copy_as::state::curl_of, save::state::SaveForm},
    screens::{
        Screen, cluster,
        execute::state::{
            Pane,
            presets::{self, Preset},
        },
        update::{RUN_SCREENS, load_nodes_of, note, note_stream, send_copy},
    },
    state::{
        Dirty, State,
        field::Field,
        loadable::Failure,
        pattern::Pattern,
        results::{self, Position, RunView},
        runs::{Input, Phase, RunHead, RunId, Verdict, workers_text},
        services::{HeadId, Service},
        stack,
    },
    widget::format::counted,
};

/// Runs awaited at once. A person cannot follow more, and a held key starts no flood.
const RUNS_WAITING_MAX: usize = 16;

/// What a worker writes when it gets a function before it says that it can run it.
const FETCHES: &str = "roll call but function not installed, installing now";

/// The head stopped answering for a run that goes on, or answers again.
pub(crate) fn on_unreachable(state: &mut State, id: RunId, trouble: Option<Failure>) {
    let line = match &trouble {
        Some(failure) => format!("run {}: the head does not answer: {}", id.0, failure.why),
        None => format!("run {}: the head is reachable again", id.0),
    };
    if state.runs.set_unreachable(id, trouble) {
        state.logs.log(Level::Warn, state.now, line);
    }
}

/// How urgent a redraw after an event of the head is.
pub(crate) fn urgency(state: &State, news: &HeadEvent) -> Dirty {
    match news {
        // A heartbeat and the like change nothing that is shown.
        StreamEvent::Item(_) if state.runs.n_waiting() > 0 => match state.screen {
            Screen::Cluster | Screen::Execute => Dirty::Data,
            _ => Dirty::Clean,
        },
        StreamEvent::Connected | StreamEvent::Lost { .. } => Dirty::Data,
        _ => Dirty::Clean,
    }
}

pub(crate) fn on_cluster(state: &mut State, head: HeadId, news: HeadEvent) {
    let is_live = state.nodes.head(head).is_some_and(|nodes| nodes.is_live);
    let is_live = match news {
        StreamEvent::Connected => {
            note_stream(state, Service::Head(head), None);
            true
        }
        StreamEvent::Item(event) => {
            state.runs.happened(&event, state.now);
            if let ClusterEventKind::PeerJoined { .. } | ClusterEventKind::PeerLeft { .. } =
                event.kind
            {
                load_nodes_of(state, head);
            }
            is_live
        }
        StreamEvent::Lost { why: failure, .. } => {
            if is_live {
                let failure = state.services.named(head, failure.clone());
                let line = format!("failed to {}: {}", failure.what, failure.why);
                state.logs.log(Level::Warn, state.now, line);
            }
            note_stream(state, Service::Head(head), Some(&failure));
            false
        }
        StreamEvent::NotServed => false,
        StreamEvent::Reset | StreamEvent::Heartbeat => is_live,
    };
    if let Some(nodes) = state.nodes.head_mut(head) {
        nodes.is_live = is_live;
    }
}

/// Has runs go to the first head that serves, and asks that one for its functions where it is another.
pub(crate) fn choose_head(state: &mut State) {
    let head = state.services.head_of_runs();
    if head != state.nodes.run_head {
        state.nodes.run_head = head;
        state.effects.extend(head.map(Effect::LoadFunctions));
    }
}

/// Handles a log line of a local process: a worker may report progress.
pub(crate) fn on_log(state: &mut State, log: &LocalLog) {
    if log.message != FETCHES {
        return;
    }
    let request = log.fields.pairs().find(|(name, _)| *name == "request");
    let node = state.stack.ready.nodes.iter().find(|node| node.name == log.process);
    if let (Some((_, request_id)), Some(node)) = (request, node) {
        state.runs.fetching(request_id, &node.peer_id, state.now);
    }
}

/// Runs the form's request; uploads a module of this machine first, if the form names one.
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
            state.notify_refused("cannot run yet".to_owned(), why.to_owned());
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

/// Uploads the local module that the form names; returns whether it names one.
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

/// `head` was given a module, or not. A run that waited for it goes to the same head.
pub(crate) fn on_function_added(
    state: &mut State,
    head: HeadId,
    result: Result<FunctionBody, Failure>,
) {
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

/// Repeats the selected run with the same request, at the head that runs go to now.
pub(crate) fn repeat(state: &mut State) {
    let Some(run) = state.results().selected(&state.runs) else {
        state.notify_refused("no run yet".to_owned(), String::new());
        return;
    };
    let (request, input) = (run.request.clone(), run.input.clone());
    send(state, state.nodes.run_head, request, input);
}

fn send(state: &mut State, head: Option<HeadId>, request: ExecuteRequest, input: Input) {
    if state.runs.n_waiting() >= RUNS_WAITING_MAX {
        let text = format!("{RUNS_WAITING_MAX} runs are already waiting");
        let key = state.keys.key_text(Layer::Always, Action::Interrupt);
        state.notify_refused(text, format!("{key} cancels them"));
        return;
    }
    let run_head = head.map(|id| {
        let address = state.services.address(Service::Head(id)).map(str::to_owned);
        RunHead { id, address }
    });
    let run_head = run_head.unwrap_or_default();
    let id = state.runs.start(request.clone(), input.clone(), run_head, state.now);
    state.execute.started(id);
    state.cluster.results.show(id);
    let n_nodes = request.config.number_of_nodes;
    let nodes = if n_nodes == 1 { "1 node".to_owned() } else { format!("{n_nodes} nodes") };
    let line = format!(
        "run {} sent: {} on {}{}",
        id.0,
        request.method,
        nodes,
        workers_text(&request).map(|workers| format!(" of {workers}")).unwrap_or_default()
    );
    state.logs.log(Level::Info, state.now, line);
    let Some(head) = head else {
        let failure = no_head(state);
        state.runs.finish(id, Err(failure.clone()), state.now);
        state.notify_failure_unless_on(RUN_SCREENS, &failure);
        return;
    };
    // A head that lists its nodes also reports progress.
    let is_followed = state.nodes.head(head).is_some_and(|nodes| nodes.listed.value().is_some());
    let order = RunOrder { head, request, input, is_followed };
    state.effects.push(Effect::Execute(id, Box::new(order)));
}

fn no_head(state: &State) -> Failure {
    let key = |layer, action| state.keys.key_text(layer, action);
    let (why, next) = if state.stack.phase == stack::Phase::Starting {
        let run = key(Layer::Form, Action::Run);
        ("the local stack is still starting", format!("try again shortly ({run})"))
    } else {
        let cluster = key(Layer::Global, Action::Show(Screen::Cluster));
        let add = key(Layer::Cluster, Action::AddNode);
        let next = format!("name one with --head, or start one ({cluster}, then {add})");
        ("cannot find a head to ask", next)
    };
    let (what, why) = ("run the function".to_owned(), why.to_owned());
    Failure::new(what, why, next)
}

/// Copies the run or the form as a command line for curl, without any secret of the profile.
pub(crate) fn copy_as_curl(state: &mut State) {
    let run = state.execute.results.selected(&state.runs);
    let run = run.filter(|_| state.execute.focus == Pane::Results);
    let addresses = &state.services.addresses;
    let (text, input) = if let Some(run) = run {
        let head = run.head.address.as_deref();
        (curl_of(addresses, head, &run.request), run.input.clone())
    } else {
        let form = &state.execute.form;
        (curl_of(addresses, state.form_head(), &form.preview()), form.input())
    };
    send_copy(state, Some(text));
    if input != Input::Typed {
        state.notify("standard input is not included".to_owned(), String::new());
    }
}

/// Handles an action on presets.
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
            state.open(Overlay::PresetName(Field::edited(&name)));
        }
        Action::Remove => {
            let Some(Overlay::Presets(row)) = state.overlays.last_mut() else { return };
            let presets = &mut state.execute.presets;
            let Some(name) = presets.keys().nth(*row).cloned() else { return };
            presets.remove(&name);
            *row = (*row).min(presets.len().saturating_sub(1));
            state.effects.push(Effect::SavePresets(presets.clone()));
            state.notify(format!("preset \"{name}\" removed"), String::new());
        }
        _ => {}
    }
}

/// Keeps the form under the name that was typed.
pub(crate) fn keep_preset(state: &mut State) {
    let Some(Overlay::PresetName(name)) = state.overlays.last() else { return };
    let form = &state.execute.form;
    let preset = Preset { request: form.preview(), input: form.input() };
    let kept = presets::keep_preset(&mut state.execute.presets, name.value(), preset);
    let (name, left_out) = match kept {
        Ok(kept) => kept,
        Err(why) => return state.notify(why, String::new()),
    };
    state.close();
    let detail = match left_out.as_slice() {
        [] => String::new(),
        names => format!("without the value of {}", names.join(", ")),
    };
    state.notify(format!("preset \"{name}\" saved"), detail);
    state.effects.push(Effect::SavePresets(state.execute.presets.clone()));
}

/// Fills the form with the preset of `row`.
pub(crate) fn take_preset(state: &mut State, row: usize) {
    if let Some(preset) = state.execute.presets.values().nth(row) {
        state.execute.form.fill(&preset.request, &preset.input);
        state.execute.focus_form();
    }
    state.close();
}

pub(crate) fn on_executed(
    state: &mut State,
    id: RunId,
    result: Result<Box<ExecuteResponse>, Failure>,
) {
    let now = state.now;
    // A run that fails says little about the head; the nodes are asked for next, and will tell.
    if let Ok(response) = &result {
        let head = state.runs.get(id).map(|run| run.head.id);
        if let Some(head) = head.filter(|head| state.services.is_current(*head)) {
            note(state, Service::Head(head), &result, None);
        }
        state.nodes.saw(response, now);
    }
    if !state.runs.finish(id, result, now) {
        return;
    }
    let Some(run) = state.runs.get(id) else { return };
    let took = crate::widget::format::elapsed(run.elapsed(now));
    let head = run.head.id;
    match run.phase.clone() {
        Phase::Done(response) => {
            let verdict = run.verdict();
            let level = match verdict {
                Verdict::Agreed => Level::Info,
                Verdict::BadExit(..) => Level::Error,
                _ => Level::Warn,
            };
            let peers = counted(response.cluster.peers.len(), "peer");
            let text = format!("run {} done in {took}", id.0);
            let detail = format!("{peers}, {}", verdict.words());
            state.report(RUN_SCREENS, level, text, detail);
        }
        Phase::Failed(failure) => state.notify_failure_unless_on(RUN_SCREENS, &failure),
        Phase::Waiting | Phase::Cancelled => {}
    }
    // Counts of runs and agreement are worth a fresh look.
    load_nodes_of(state, head);
}

/// Takes the list of functions of the head that runs go to; other implementations list none.
pub(crate) fn on_functions(
    state: &mut State,
    head: HeadId,
    result: Result<Vec<FunctionBody>, Failure>,
) {
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

/// Handles an action on the text in view; returns whether it was one, and such a text is in view.
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
            Some((name, text)) => state.open(Overlay::Save(SaveForm::new(&name, Some(text)))),
            None => state.notify_refused("nothing to save yet".to_owned(), String::new()),
        },
        Action::OpenPager => match state.output() {
            Some((_, text)) => state.effects.push(Effect::Page(text)),
            None => state.notify_refused("nothing to page through yet".to_owned(), String::new()),
        },
        _ => return false,
    }
    true
}

/// The search was edited: shows the first line that fits, from what is in view on.
pub(crate) fn search_output(state: &mut State) {
    find_match(state, true, false);
}

fn shift_output(state: &mut State, by: isize) {
    let look = &mut state.results_mut().look;
    look.is_wrapped = false;
    look.n_hidden = results::shifted(look.n_hidden, by);
}

/// Shows the next line that fits what is searched for; one that was found already stays in view where
/// the next one `is_other`.
fn find_match(state: &mut State, is_forward: bool, is_other: bool) {
    let wanted = Pattern::parse_phrase(state.output_search.value());
    let Some((_, text)) = state.output() else { return };
    let look = &mut state.results_mut().look;
    let from = look.found.filter(|_| is_other);
    look.found =
        if wanted.is_empty() { None } else { results::find(&text, &wanted, from, is_forward) };
    let Some(line) = look.found else { return };
    // A few lines before it, which say where one is.
    look.position = Position::FromTop(line.saturating_sub(2));
}

impl State {
    /// Whether the text of a result has focus.
    pub(crate) fn is_output_focused(&self) -> bool {
        match self.screen {
            Screen::Cluster => self.cluster.focus == cluster::state::Pane::Groups,
            Screen::Execute => self.execute.focus == Pane::Results,
            _ => false,
        }
    }

    /// The run that the screen shows.
    pub(crate) const fn results(&self) -> RunView {
        match self.screen {
            Screen::Cluster => self.cluster.results,
            _ => self.execute.results,
        }
    }

    /// As [`Self::results`], to change it.
    pub(crate) const fn results_mut(&mut self) -> &mut RunView {
        match self.screen {
            Screen::Cluster => &mut self.cluster.results,
            _ => &mut self.execute.results,
        }
    }

    /// A file name for the result in view, and its text as shown.
    pub(crate) fn output(&self) -> Option<(String, String)> {
        let RunView { look, .. } = self.results();
        let run = self.results().selected(&self.runs)?;
        let response = run.response()?;
        let (text, is_pretty) = look.shown_text(response);
        let kind = look.output(response).file_name();
        let ending = if is_pretty { "json" } else { "txt" };
        Some((format!("run-{}-{kind}.{ending}", run.id.0), text))
    }
}

#[cfg(test)]
mod tests;
