//! The local stack: what is being started, what runs, what ended.

use std::collections::BTreeMap;

use crate::{
    local::{LocalEvent, LocalNode, LocalReady},
    state::loadable::Failure,
};

/// The most names of ended processes kept; a stack has a handful.
const EXITED_MAX: usize = 256;

/// How far the local stack is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Phase {
    /// There is none: the services run elsewhere.
    #[default]
    Absent,
    /// It starts.
    Starting,
    /// It runs.
    Ready,
    /// It did not start.
    Failed(Failure),
}

/// The local stack, as its events tell it.
#[derive(Debug, Clone, Default)]
pub struct Stack {
    /// How far it is.
    pub phase: Phase,
    /// What was started so far, in its order.
    pub steps: Vec<String>,
    /// What runs, once it does.
    pub ready: LocalReady,
    /// Name of each process that ended, and its exit code.
    pub exited: BTreeMap<String, Option<i32>>,
}

impl Stack {
    /// It is about to be started.
    pub fn begin(&mut self) {
        *self = Self { phase: Phase::Starting, ..Self::default() };
    }

    /// Takes in what happened; lines of logs are not its business.
    pub fn on(&mut self, event: &LocalEvent) {
        match event {
            LocalEvent::Starting { what } => {
                self.phase = Phase::Starting;
                if self.steps.last() != Some(what) {
                    self.steps.push(what.clone());
                }
            }
            LocalEvent::Ready(ready) => {
                self.phase = Phase::Ready;
                self.ready = ready.clone();
            }
            LocalEvent::Exited { process, code } => {
                if self.exited.len() < EXITED_MAX {
                    self.exited.insert(process.clone(), *code);
                }
            }
            LocalEvent::Log(_) => {}
        }
    }

    /// The local process of a node.
    pub fn node(&self, peer_id: &str) -> Option<&LocalNode> {
        self.ready.nodes.iter().find(|node| node.peer_id == peer_id)
    }

    /// What is being started now.
    pub fn step(&self) -> Option<&str> {
        (self.phase == Phase::Starting).then(|| self.steps.last().map_or("", String::as_str))
    }

    /// What runs, in a line: `head :41233 · 3 workers · datasets · inference`.
    pub fn summary(&self) -> Option<String> {
        if self.phase != Phase::Ready {
            return None;
        }
        let addresses = &self.ready.addresses;
        let mut parts = Vec::new();
        if let Some(head) = &addresses.head {
            parts.push(format!("head {}", port_of(head)));
        }
        let n_workers = self.ready.nodes.iter().filter(|node| node.role == "worker").count();
        match n_workers {
            0 => {}
            1 => parts.push("1 worker".to_owned()),
            n => parts.push(format!("{n} workers")),
        }
        parts.extend(addresses.datasets.as_ref().map(|_| "datasets".to_owned()));
        parts.extend(addresses.inference.as_ref().map(|_| "inference".to_owned()));
        Some(parts.join(" · "))
    }
}

/// The port of an address, as `:8080`; the whole address if it names none.
fn port_of(address: &str) -> String {
    let host = address.split("://").last().unwrap_or(address).split('/').next().unwrap_or_default();
    match host.rsplit_once(':') {
        Some((_, port)) => format!(":{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::Addresses;

    #[test]
    fn the_summary_names_the_heads_port_and_counts_workers() {
        let node = |role: &str| LocalNode {
            name: role.to_owned(),
            peer_id: "12D3".to_owned(),
            role: role.to_owned(),
            subgroup: None,
            pid: 1,
        };
        let mut stack = Stack::default();
        stack.begin();
        stack.on(&LocalEvent::Starting { what: "head".to_owned() });
        assert_eq!((stack.step(), stack.summary()), (Some("head"), None));
        stack.on(&LocalEvent::Ready(LocalReady {
            addresses: Addresses {
                head: Some("http://127.0.0.1:41233".to_owned()),
                datasets: Some("http://127.0.0.1:1/api".to_owned()),
                ..Addresses::default()
            },
            nodes: vec![node("head"), node("worker"), node("worker")],
            functions: Vec::new(),
        }));
        assert_eq!(stack.summary().as_deref(), Some("head :41233 · 2 workers · datasets"));
    }
}
