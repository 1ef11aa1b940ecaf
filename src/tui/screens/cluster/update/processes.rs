//! Local processes: started by a form, stopped, started again, ended by themselves.

use std::time::Duration;

use crate::{
    action::Action,
    event::Effect,
    keymap::Layer,
    local::{Level, LocalNode},
    overlay::Overlay,
    screens::{
        Screen,
        cluster::state::node_form::NodeForm,
        update::{PROCESS_SCREENS, connect, load_nodes},
    },
    state::{State, loadable::Failure},
};

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
            Some(process) if process.status.exited.is_some() => {
                state.stack.forget(&process.name);
                // One that is about to be restarted is not.
                if process.status.is_restarting {
                    state.effects.push(Effect::StopProcess(process.name));
                }
            }
            Some(_) => state.open(Overlay::ConfirmStop),
        },
        Action::StopNow => {
            state.close();
            if let Some(process) = state.cluster.selected_process(&state.stack) {
                state.stack.status_mut(&process.name).is_stopping = true;
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
    if process.status.exited.is_none() {
        state.stack.status_mut(&process.name).is_stopping = true;
    }
    state.logs.log(Level::Info, state.now, format!("restarting {}", process.name));
    state.effects.push(Effect::RestartProcess(process.name));
}

/// A node was started.
pub(crate) fn started(state: &mut State, node: LocalNode) {
    let detail = if node.is_kept { "keeps running when the screen is closed" } else { "" };
    let text = format!("{} runs, pid {}", node.name, node.pid);
    state.notify_unless_on(PROCESS_SCREENS, text, detail.to_owned());
    let is_head_wanted = state.services.addresses.heads.is_empty();
    match node.rest_api {
        Some(head) if is_head_wanted => {
            let mut addresses = state.services.addresses.clone();
            addresses.heads = vec![head];
            connect(state, &addresses);
        }
        _ => load_nodes(state),
    }
}

/// A process ended; it is started again after `restart_in`, or left to the user.
pub(crate) fn ended(
    state: &mut State,
    name: &str,
    code: Option<i32>,
    restart_in: Option<Duration>,
) {
    let how = match code {
        Some(code) => format!("with code {code}"),
        None => "by a signal".to_owned(),
    };
    let log = state.keys.key_text(Layer::Global, Action::Show(Screen::Logs));
    let again = state.keys.key_text(Layer::Cluster, Action::Again);
    let next = match restart_in {
        Some(wait) => format!("it restarts in {:.1} s; see its log ({log})", wait.as_secs_f64()),
        None => format!("see its log ({log}); restart it with {again}"),
    };
    if restart_in.is_none() && std::mem::take(&mut state.stack.status_mut(name).is_stopping) {
        state.notify_unless_on(PROCESS_SCREENS, format!("{name} stopped"), how);
    } else {
        let why = format!("it ended {how}");
        state.notify_failure(&Failure::new(format!("keep {name} running"), why, next));
    }
    load_nodes(state);
}

#[cfg(test)]
mod tests;
