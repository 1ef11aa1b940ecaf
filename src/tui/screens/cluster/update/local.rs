//! The local stack: what its processes report.

use wire::functions::FunctionBody;

use super::processes;
use crate::{
    action::Action,
    keymap::Layer,
    local::{Level, LocalEvent, LocalFunction},
    screens::{
        execute,
        update::{PROCESS_SCREENS, connect},
    },
    state::State,
};

/// A function of the local stack, in the shape of the head's list.
fn function(function: &LocalFunction) -> FunctionBody {
    let LocalFunction { name, function_id, method } = function.clone();
    FunctionBody { name, function_id, method, bytes: 0, by_manifest: Vec::new() }
}

/// Handles an event of the local stack.
pub(crate) fn on(state: &mut State, event: LocalEvent) {
    state.stack.on(&event, state.now);
    match event {
        LocalEvent::Node(node) => processes::started(state, node),
        LocalEvent::Found(node) => {
            let text = format!("{} still runs, pid {}", node.name, node.pid);
            let key = state.keys.key_text(Layer::Cluster, Action::StopProcess);
            state.notify(text, format!("it was left running; {key} stops it"));
        }
        LocalEvent::Service { name, pid } => {
            let text = format!("{name} runs, pid {pid}");
            state.notify_unless_on(PROCESS_SCREENS, text, String::new());
        }
        LocalEvent::Starting { what } => {
            state.logs.log(Level::Info, state.now, format!("starting {what}"));
        }
        LocalEvent::Attached(addresses) => {
            let detail = "another process runs it, and quitting here does not stop it".to_owned();
            state.notify("attached to the running local stack".to_owned(), detail);
            connect(state, &addresses);
        }
        LocalEvent::Ready(ready) => {
            if let Some(summary) = state.stack.summary() {
                state.notify_unless_on(PROCESS_SCREENS, "local stack".to_owned(), summary);
            }
            state.execute.form.know(ready.functions.iter().map(function).collect());
            connect(state, &ready.addresses);
        }
        LocalEvent::Log(log) => {
            execute::update::on_log(state, &log);
            state.logs.push(log);
        }
        LocalEvent::Restarting { process, code, restart_in } => {
            processes::ended(state, &process, code, Some(restart_in));
        }
        LocalEvent::Exited { process, code } => processes::ended(state, &process, code, None),
    }
}
