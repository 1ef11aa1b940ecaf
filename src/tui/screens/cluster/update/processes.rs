//! Local processes: started by a form, stopped, started again, ended by themselves.

use std::time::Duration;

use crate::{
    action::Action,
    event::{Effect, Event},
    keymap::Layer,
    local::{Level, LocalNode},
    overlay::Overlay,
    screens::{Screen, cluster::state::node_form::NodeForm},
    state::{State, loadable::Failure},
};

/// Handles an event.
pub(crate) fn on(state: &mut State, event: Event) {
    match event {
        Event::Usage(usage) => state.stack.measured(usage),
        Event::ProcessFailed(failure) => state.notify_failure(&failure),
        _ => {}
    }
}

/// Handles an action on local processes.
pub(crate) fn act(state: &mut State, action: Action) {
    match action {
        Action::AddNode => {
            let nodes = state.nodes.all(&state.stack);
            state.cluster.node_form = NodeForm::new(&nodes);
            state.open(Overlay::AddNode);
        }
        Action::StartNode => {
            if let Some(wish) = state.cluster.node_form.options() {
                state.close();
                state.logs.log(Level::Info, state.now, format!("starting a {}", wish.role));
                state.effects.push(Effect::AddNode(wish));
            }
        }
        Action::StopProcess => match state.cluster.selected_process(&state.stack) {
            None => {
                let detail = "only processes of this screen can be stopped".to_owned();
                state.notify_refused("no local process is selected".to_owned(), detail);
            }
            Some(process) if process.exited.is_some() => {
                state.stack.forget(&process.name);
                // One that is about to be restarted is not.
                if process.is_restarting {
                    state.effects.push(Effect::StopProcess(process.name));
                }
            }
            Some(_) => state.open(Overlay::ConfirmStop),
        },
        Action::StopNow => {
            state.close();
            if let Some(process) = state.cluster.selected_process(&state.stack) {
                state.stack.stopping.insert(process.name.clone());
                state.effects.push(Effect::StopProcess(process.name));
            }
        }
        _ => {}
    }
}

/// Handles an action while the node form is open.
pub(crate) fn in_form(state: &mut State, action: Action) {
    let form = &mut state.cluster.node_form;
    match action {
        Action::NextField => form.move_focus(1),
        Action::PreviousField => form.move_focus(-1),
        Action::NextChoice => form.choose(1),
        Action::PreviousChoice => form.choose(-1),
        _ => {}
    }
}

/// Starts the selected process again.
pub(crate) fn restart(state: &mut State) {
    let Some(process) = state.cluster.selected_process(&state.stack) else {
        let detail = "only processes of this screen can be restarted".to_owned();
        state.notify_refused("no local process is selected".to_owned(), detail);
        return;
    };
    if process.exited.is_none() {
        state.stack.stopping.insert(process.name.clone());
    }
    state.logs.log(Level::Info, state.now, format!("restarting {}", process.name));
    state.effects.push(Effect::RestartProcess(process.name));
}

/// A node was started.
pub(crate) fn started(state: &mut State, node: LocalNode) {
    let detail = if node.is_kept { "keeps running when the screen is closed" } else { "" };
    let text = format!("{} runs, pid {}", node.name, node.pid);
    state.notify_unless_on(crate::screens::update::PROCESS_SCREENS, text, detail.to_owned());
    let is_head_wanted = state.services.addresses.head.is_none();
    match node.rest_api {
        Some(head) if is_head_wanted => {
            let mut addresses = state.services.addresses.clone();
            addresses.head = Some(head);
            crate::screens::update::connect(state, &addresses);
        }
        _ => crate::screens::update::load_nodes(state),
    }
}

/// Handles a crashed process that is about to be restarted.
pub(crate) fn restarting(state: &mut State, name: &str, code: Option<i32>, restart_in: Duration) {
    let log = state.keys.key_text(Layer::Global, Action::Show(Screen::Logs));
    state.notify_failure(&Failure {
        what: format!("keep {name} running"),
        why: format!("it ended {}", ending(code)),
        next: format!("it restarts in {:.1} s; see its log ({log})", restart_in.as_secs_f64()),
        ..Failure::default()
    });
    crate::screens::update::load_nodes(state);
}

/// How a process ended, for people.
fn ending(code: Option<i32>) -> String {
    match code {
        Some(code) => format!("with code {code}"),
        None => "by a signal".to_owned(),
    }
}

/// A process ended.
pub(crate) fn ended(state: &mut State, name: &str, code: Option<i32>) {
    let how = ending(code);
    if state.stack.stopping.remove(name) {
        state.notify_unless_on(
            crate::screens::update::PROCESS_SCREENS,
            format!("{name} stopped"),
            how,
        );
    } else {
        let log = state.keys.key_text(Layer::Global, Action::Show(Screen::Logs));
        let again = state.keys.key_text(Layer::Cluster, Action::Again);
        state.notify_failure(&Failure {
            what: format!("keep {name} running"),
            why: format!("it ended {how}"),
            next: format!("see its log ({log}); restart it with {again}"),
            ..Failure::default()
        });
    }
    crate::screens::update::load_nodes(state);
}

#[cfg(test)]
mod tests;
