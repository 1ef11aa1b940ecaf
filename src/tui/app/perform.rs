//! Performs actions. Actions that work everywhere are performed here, all other actions by the current
//! screen or overlay.

use crate::app::{INTERRUPT_WITHIN, edited, point};
use crate::event::{Effect, Target, Timer};
use crate::keymap::{Action, Layer};
use crate::overlay;
use crate::screens::cluster::state::ClusterContext;
use crate::screens::cluster::{self, operator, processes};
use crate::screens::data::state::compare::COMPARED_MAX;
use crate::screens::execute;
use crate::screens::execute::state::FormField;
use crate::screens::update::{load_nodes, send_copy, show};
use crate::screens::{Screen, data, overview};
use crate::state::State;
use crate::state::field::Field;
use crate::state::overlay::{CopyMenu, Overlay};
use crate::widget::format;

pub(crate) fn perform(state: &mut State, action: Action) {
    if action != Action::Interrupt {
        state.is_interrupted = false;
    }
    if !scrub(state, action) {
        perform_live(state, action);
    }
}

/// Performs an action on the live screen.
fn perform_live(state: &mut State, action: Action) {
    match action {
        Action::Show(screen) => {
            show(state, screen);
            if screen == Screen::Execute {
                state.execute.focus_form();
            }
        }
        Action::AddAlert | Action::MuteAlert => overlay::alerts::act(state, action),
        Action::Undo if state.field().is_some_and(Field::undo) => edited(state),
        Action::Undo => {}
        Action::Help
        | Action::Palette
        | Action::Themes
        | Action::Notices
        | Action::Alerts
        | Action::Profiles
        | Action::Columns => {
            overlay::update::toggle(state, action);
        }
        Action::Export if matches!(state.screen, Screen::Logs | Screen::Inference) => export(state),
        Action::Jump => state.open(Overlay::Jump(String::new())),
        Action::Back => back(state),
        Action::Quit => quit(state),
        Action::QuitKeeping if matches!(state.overlays.last(), Some(Overlay::ConfirmQuit)) => {
            state.effects.extend([Effect::DetachNodes, Effect::Quit]);
        }
        Action::Confirm => confirm(state),
        Action::Interrupt => interrupt(state),
        Action::Suspend => state.effects.push(Effect::Suspend),
        Action::Zoom => state.is_zoomed ^= true,
        Action::EnterKey | Action::ForgetKey => overlay::profiles::act(state, action),
        Action::Narrower
        | Action::Wider
        | Action::Shorter
        | Action::Taller
        | Action::ResetLayout => state.resize_pane(action),
        Action::PaneLeft | Action::PaneDown | Action::PaneUp | Action::PaneRight => {
            if let Some(pane) = state.adjacent_pane(action) {
                point(state, Target::Pane(pane));
            }
        }
        Action::Refresh => refresh(state),
        Action::OpenForm => open_form(state),
        Action::Copy => copy(state),
        Action::CopyAs => match CopyMenu::for_selection(state) {
            menu if menu.forms.is_empty() => send_copy(state, None),
            menu => state.open(Overlay::CopyAs(menu)),
        },
        Action::ToggleMouse => {
            state.has_mouse = !state.has_mouse;
            state.effects.push(Effect::CaptureMouse(state.has_mouse));
            let state_of = if state.has_mouse { "captured" } else { "released to the terminal" };
            state.notify(format!("the mouse is {state_of}"), String::new());
        }
        Action::Redraw => state.effects.push(Effect::Redraw),
        Action::Run => execute::update::run(state),
        Action::CopyCurl => execute::update::copy_as_curl(state),
        Action::Presets | Action::SavePreset | Action::Remove => {
            execute::update::presets(state, action);
        }
        Action::AddNode | Action::StopProcess => processes::act(state, action),
        Action::CordonNode | Action::ApproveNode | Action::RefuseNode => {
            operator::act(state, action);
        }
        Action::Again => again(state),
        _ => in_view(state, action),
    }
}

/// Handles an action that shows a frame of the past or the live screen again. Any other action first
/// returns to the live screen. Returns true if there is nothing else to do.
fn scrub(state: &mut State, action: Action) -> bool {
    /// Number of frames by which a page key moves: a minute, if each second had a change.
    const PAGE: isize = 60;
    let was_past = state.frames.past().is_some();
    match action {
        Action::Rewind => state.frames.step(-1),
        Action::Forward => state.frames.step(1),
        Action::PageUp if was_past => state.frames.step(-PAGE),
        Action::PageDown if was_past => state.frames.step(PAGE),
        Action::First if was_past => state.frames.step(isize::MIN),
        _ => {
            state.frames.show_live();
            return was_past && action == Action::Back;
        }
    }
    if action == Action::Rewind && state.frames.past().is_none() {
        state.notify_refused("nothing earlier was shown yet", String::new());
    }
    true
}

/// Handles an action in the overlay, the focused field, or the current screen.
fn in_view(state: &mut State, action: Action) {
    if overlay::form::begin(state, action) || overlay::keys::act(state, action) {
        return;
    }
    if overlay::update::act(state, action) {
        return;
    }
    let (now, page) = (state.now, state.page());
    if action == Action::Open && state.screen == Screen::Data && state.data.is_edited() {
        return state.data.confirm_input();
    }
    if action == Action::Open
        && let Some(field) = state.field().filter(|field| field.is_edited())
    {
        return field.confirm();
    }
    if action == Action::NextField
        && state.screen == Screen::Execute
        && state.execute.form.focus == FormField::Function
        && !state.execute.is_adding
        && execute::update::upload_file(state)
    {
        // The upload runs in the background. As in any other field, the key then moves the focus.
        return state.execute.form.move_focus(1);
    }
    if execute::update::act_on_output(state, action) || cluster::start::act(state, action) {
        return;
    }
    let is_on_groups = matches!(action, Action::NextOutput | Action::Diff | Action::Mark);
    if is_on_groups
        && matches!(state.screen, Screen::Cluster | Screen::Execute)
        && state.results().selected(&state.runs).is_none()
    {
        return state.notify_refused("no run yet", "");
    }
    let State { nodes, stack, runs, cluster, execute, .. } = state;
    let known = ClusterContext { nodes, stack, runs, page };
    match state.screen {
        Screen::Cluster => {
            let is_zoom = action == Action::Open
                && cluster.focus != cluster::state::Pane::Runs
                && !cluster.is_group_selected(known);
            cluster.act(action, known);
            state.is_zoomed ^= is_zoom;
        }
        Screen::Execute => execute.act(action, known),
        Screen::Data if action == Action::Compare => compare(state),
        Screen::Data if action == Action::Forecasts => data::update::forecast::cycle(state),
        Screen::Data => state.data.act(action, now),
        Screen::Inference
            if action == Action::Resistant
                && !state.inference.is_resistant
                && !state.inference.has_resistant() =>
        {
            let text = "this topic has no values without outliers".to_owned();
            state.notify_refused(text, "only regression topics with a single label have them");
        }
        Screen::Inference => {
            state.inference.act(action, now);
            if matches!(action, Action::AskLess | Action::AskMore) {
                let every = format::coarse_spaced(state.inference.poll_interval());
                state.notify(format!("topics are read every {every}"), "");
            }
        }
        Screen::Logs => state.logs.act(action, page),
        Screen::Overview => overview::state::act(state, action),
    }
}

/// Compares the selected dataset with others, or stops that. Reports a comparison of too many
/// datasets, and one that has no effect until another dataset is selected.
fn compare(state: &mut State) {
    let Some(name) = state.data.dataset().map(|dataset| dataset.name.clone()) else { return };
    if !state.data.can_compare() {
        let text = format!("no more than {COMPARED_MAX} datasets are compared with another");
        return state.notify_refused(text, "remove one of them first");
    }
    state.data.act(Action::Compare, state.now);
    let is_alone = !state.data.is_comparing() && !state.data.compared.is_empty();
    if is_alone {
        state.notify(format!("{name} will be compared with the dataset you select"), "");
    }
}

/// Undoes one step: closes an overlay, clears notices, ends a zoom or clears a filter.
fn back(state: &mut State) {
    if overlay::form::cancel(state) || state.close() {
        return;
    }
    // In a text field, Escape ends the edit and leaves the notices alone.
    let is_typed = !state.layers_beneath().contains(&Layer::Global);
    if !is_typed && (state.notices.clear() || std::mem::take(&mut state.is_zoomed)) {
        return;
    }
    if state.is_output_focused() && state.output_search.clear() {
        return;
    }
    match state.screen {
        Screen::Cluster => state.cluster.back(),
        Screen::Execute => state.execute.back(),
        Screen::Data => state.data.back(),
        Screen::Inference => state.inference.back(),
        Screen::Logs => state.logs.back(),
        Screen::Overview => false,
    };
}

/// Repeats the selected run, or restarts the selected process if nodes or processes have focus.
fn again(state: &mut State) {
    let is_process = state.screen == Screen::Cluster
        && matches!(
            state.cluster.focus,
            cluster::state::Pane::Nodes | cluster::state::Pane::Processes
        );
    if is_process { processes::restart(state) } else { execute::update::repeat(state) }
}

/// Opens the prompt for the path of the file to which the current view is exported.
fn export(state: &mut State) {
    let name = match (state.screen, state.inference.selected) {
        (Screen::Logs, _) => "logs.csv".to_owned(),
        (_, Some(topic)) => format!("topic-{topic}.csv"),
        (_, None) => return state.notify_refused("nothing to export yet", String::new()),
    };
    overlay::form::open_save(state, None, &name);
}

fn quit(state: &mut State) {
    if state.runs.n_waiting() > 0 || state.stack.n_leaving() > 0 {
        state.open(Overlay::ConfirmQuit);
    } else {
        state.effects.push(Effect::Quit);
    }
}

/// Performs the action that the topmost overlay asks the user to confirm.
fn confirm(state: &mut State) {
    match state.overlays.pop() {
        Some(Overlay::ConfirmQuit) => state.effects.push(Effect::Quit),
        Some(Overlay::ConfirmNode(change)) => operator::send(state, &change),
        Some(Overlay::ConfirmStop(name)) => processes::stop(state, name),
        _ => {}
    }
}

/// Cancels the pending runs. If repeated within [`INTERRUPT_WITHIN`], exits.
fn interrupt(state: &mut State) {
    if state.is_interrupted {
        return state.effects.push(Effect::Quit);
    }
    state.is_interrupted = true;
    state.execute.is_run_next = false;
    state.effects.push(Effect::SetTimer(Timer::Interrupt, INTERRUPT_WITHIN));
    let waiting = state.runs.iter().filter(|run| run.is_waiting());
    let waiting: Vec<_> = waiting
        .map(|run| (run.id, run.request_id.clone().map(|request_id| (run.head.id, request_id))))
        .collect();
    for (id, at_head) in waiting {
        state.runs.cancel(id, state.now);
        state.effects.push(Effect::Cancel(id, at_head));
    }
}

fn refresh(state: &mut State) {
    let now = state.now;
    match state.screen {
        Screen::Cluster | Screen::Execute => {
            state.nodes.clear_errors();
            load_nodes(state);
            state.effects.extend(state.nodes.run_head.map(Effect::LoadFunctions));
        }
        Screen::Data => state.data.act(Action::Refresh, now),
        Screen::Inference => state.inference.act(Action::Refresh, now),
        Screen::Logs => {}
        Screen::Overview => {
            state.nodes.clear_errors();
            state.inference.topics.clear_error();
            load_nodes(state);
            overview::state::load_topics(state);
            if state.data.list().is_empty() {
                state.data.reload_list();
            }
        }
    }
}

/// Opens the form that runs a function. If runs or groups have focus, fills it in from the
/// selected run.
fn open_form(state: &mut State) {
    let is_chosen = state.screen == Screen::Cluster
        && matches!(state.cluster.focus, cluster::state::Pane::Runs | cluster::state::Pane::Groups);
    if is_chosen && let Some(run) = state.results().selected(&state.runs) {
        state.execute.form.fill(&run.request.clone(), &run.input.clone());
    }
    show(state, Screen::Execute);
    state.execute.edit_form();
}

fn copy(state: &mut State) {
    if let Some(Overlay::Form(form)) = state.overlays.last() {
        let text = form.report_text();
        return send_copy(state, text);
    }
    let known = state.cluster_context();
    let text = match state.screen {
        Screen::Cluster => state.cluster.selection(known),
        Screen::Execute => state.execute.results.text(&state.runs),
        Screen::Data => state.data.selection(),
        Screen::Inference => state.inference.selection(),
        Screen::Logs => state.logs.selection(),
        Screen::Overview => None,
    };
    send_copy(state, text);
}
