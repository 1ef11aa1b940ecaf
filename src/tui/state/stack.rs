//! The local stack: its phase and its processes.

use std::borrow::Cow;

use model::timestamp::Timestamp;

use crate::local::{Addresses, LocalEvent, LocalNode, Usage};
use crate::state::resource::Failure;
use crate::state::services::host_of;
use crate::widget::format;

/// The phase of the local stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    /// No local stack is in use. The services run elsewhere.
    #[default]
    Absent,
    Starting,
    /// Another process runs the local stack.
    Attached,
    /// This process has started the local stack, and its services respond.
    Ready,
    /// The local stack failed to start.
    Failed(Failure),
}

/// The local stack, according to its events.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stack {
    pub(crate) phase: Phase,
    /// Descriptions of the parts that were started so far, in order.
    pub(crate) steps: Vec<String>,
    /// Addresses of the stack. Empty until it is ready.
    pub(crate) addresses: Addresses,
    /// The processes: first the nodes, then the services.
    processes: Vec<Process>,
}

/// Exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Exit code. `None` if a signal has ended the process.
    pub(crate) code: Option<i32>,
}

/// A local process.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Details of the node. `None` if the process is a service.
    pub(crate) node: Option<LocalNode>,
    pub(crate) status: Status,
}

/// Status and resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Status {
    /// Time at which the process started.
    pub(crate) since: Option<Timestamp>,
    /// Last measurement of its resource usage.
    pub(crate) usage: Option<Usage>,
    /// Exit of the process. `None` while it is running.
    pub(crate) exited: Option<Exit>,
    /// True if the process has exited and is about to be restarted.
    pub(crate) is_restarting: bool,
    /// True if the user has requested to stop the process.
    pub(crate) is_stopping: bool,
}

impl Stack {
    /// Records that the local stack is being started.
    pub(crate) fn begin(&mut self) {
        self.phase = Phase::Starting;
        self.steps.clear();
    }

    /// Handles an event of the stack. Log lines are ignored.
    pub(crate) fn on(&mut self, event: &LocalEvent, now: Timestamp) {
        match event {
            LocalEvent::Starting { what } => {
                // The phase does not change here. A failure to start is reported separately and
                // can arrive before the event of the step that failed.
                if self.steps.last() != Some(what) {
                    self.steps.push(what.clone());
                }
            }
            // A search for a stack can end after this process has started one, and find that one.
            LocalEvent::Attached(_) if self.phase == Phase::Ready => {}
            LocalEvent::Attached(_) => self.phase = Phase::Attached,
            LocalEvent::Ready(ready) => {
                self.phase = Phase::Ready;
                self.addresses = ready.addresses.clone();
                // Nodes that were added during the start remain, after those of the stack.
                let added = std::mem::take(&mut self.processes);
                ready.nodes.iter().for_each(|node| self.add(&node.name, node.pid, Some(node), now));
                for it in added.into_iter().filter(|it| it.node.is_some()) {
                    if self.status_mut(&it.name).is_none() {
                        self.processes.push(it);
                    }
                }
                ready.services.iter().for_each(|(name, pid)| self.add(name, *pid, None, now));
            }
            LocalEvent::Node(node) | LocalEvent::Found(node) => {
                self.add(&node.name, node.pid, Some(node), now);
            }
            LocalEvent::Service { name, pid } => self.add(name, *pid, None, now),
            LocalEvent::Exited { process, code } | LocalEvent::Restarting { process, code, .. } => {
                if let Some(status) = self.status_mut(process) {
                    status.usage = None;
                    status.is_restarting = matches!(event, LocalEvent::Restarting { .. });
                    status.exited = Some(Exit { code: *code });
                }
            }
            LocalEvent::Log(_) => {}
        }
    }

    /// Adds a process that was started at `now`, or replaces the process with the same name.
    fn add(&mut self, name: &str, pid: u32, node: Option<&LocalNode>, now: Timestamp) {
        let status = Status { since: Some(now), ..Status::default() };
        let process = Process { name: name.to_owned(), pid, node: node.cloned(), status };
        match self.processes.iter_mut().find(|it| it.name == name) {
            Some(place) => *place = process,
            None => self.processes.push(process),
        }
        self.processes.sort_by_key(|it| it.node.is_none());
    }

    /// Records the current resource usage of the processes.
    pub(crate) fn measured(&mut self, usage: &[(String, Usage)]) {
        for it in &mut self.processes {
            let measured = usage.iter().find(|(name, _)| *name == it.name);
            it.status.usage = measured.map(|(_, usage)| *usage);
        }
    }

    /// Removes a process that has exited from the list.
    pub(crate) fn forget(&mut self, name: &str) {
        self.processes.retain(|it| it.name != name);
    }

    /// Returns the status of the process `name`.
    pub(crate) fn status(&self, name: &str) -> Status {
        let process = self.processes.iter().find(|it| it.name == name);
        process.map(|it| it.status).unwrap_or_default()
    }

    /// Returns the status of the process `name`, or `None` if there is no such process.
    pub(crate) fn status_mut(&mut self, name: &str) -> Option<&mut Status> {
        let process = self.processes.iter_mut().find(|it| it.name == name)?;
        Some(&mut process.status)
    }

    /// Returns the processes: first the nodes, then the services.
    pub(crate) fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Returns the nodes.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&LocalNode, Status)> {
        self.processes.iter().filter_map(|it| Some((it.node.as_ref()?, it.status)))
    }

    /// Returns the number of running nodes that the user has added and that stop when the screen
    /// closes.
    pub(crate) fn n_leaving(&self) -> usize {
        let is_leaving = |(node, status): &(&LocalNode, Status)| {
            node.is_added && !node.is_detached && status.exited.is_none()
        };
        self.nodes().filter(is_leaving).count()
    }

    /// Returns true if there are local processes.
    pub(crate) const fn has_processes(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Returns the node `peer_id` and the status of its process, if it is local.
    pub(crate) fn node(&self, peer_id: &str) -> Option<(&LocalNode, Status)> {
        self.nodes().find(|(node, _)| node.peer_id == peer_id)
    }

    /// Returns the name that is displayed for a node: the name of its process, or its shortened
    /// peer id if it is not local.
    pub(crate) fn node_name<'a>(&'a self, peer_id: &'a str) -> Cow<'a, str> {
        match self.node(peer_id) {
            Some((node, _)) => Cow::Borrowed(&node.name),
            None => format::short_peer(peer_id),
        }
    }

    /// Returns the description of the part that is being started. `None` unless the stack is
    /// starting.
    pub(crate) fn step(&self) -> Option<&str> {
        (self.phase == Phase::Starting)
            .then(|| self.steps.last().map_or("the local stack", String::as_str))
    }

    /// Summarizes the local stack, such as `head :41233 · 3 workers · datasets · inference`.
    pub(crate) fn summary(&self) -> Option<String> {
        if self.phase != Phase::Ready {
            let attached = (self.phase == Phase::Attached).then(|| "attached".to_owned());
            let own = match self.processes().len() {
                0 => return attached,
                1 => "1 process".to_owned(),
                n => format!("{n} processes"),
            };
            return Some(attached.map(|text| text + " · ").unwrap_or_default() + &own);
        }
        let addresses = &self.addresses;
        let mut parts = Vec::new();
        if let Some(head) = addresses.heads.first() {
            let host = host_of(head).split('/').next().unwrap_or_default();
            let port = host.rsplit_once(':').map(|(_, port)| format!(":{port}"));
            parts.push(format!("head {}", port.as_deref().unwrap_or(host)));
        }
        let n_workers = self.nodes().filter(|(node, _)| node.role == "worker").count();
        if n_workers > 0 {
            parts.push(format::counted(n_workers, "worker"));
        }
        parts.extend(addresses.datasets.as_ref().map(|_| "datasets".to_owned()));
        parts.extend(addresses.inference.as_ref().map(|_| "inference".to_owned()));
        Some(parts.join(" · "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalReady;

    #[test]
    fn summary_of_the_stack_shows_the_port_of_the_head_and_the_number_of_workers() {
        let node = |role: &str| LocalNode {
            name: role.to_owned(),
            peer_id: "12D3".to_owned(),
            role: role.split('-').next().unwrap().to_owned(),
            pid: 1,
            ..LocalNode::default()
        };
        let now = Timestamp::default();
        let mut stack = Stack::default();
        stack.begin();
        stack.on(&LocalEvent::Starting { what: "head".to_owned() }, now);
        assert_eq!((stack.step(), stack.summary()), (Some("head"), None));
        let ready = LocalReady {
            addresses: Addresses {
                heads: vec!["http://127.0.0.1:41233".to_owned()],
                datasets: Some("http://127.0.0.1:1/api".to_owned()),
                ..Addresses::default()
            },
            nodes: vec![node("head"), node("worker-1"), node("worker-2")],
            ..LocalReady::default()
        };
        stack.on(&LocalEvent::Ready(ready), now);
        assert_eq!(stack.summary().as_deref(), Some("head :41233 · 2 workers · datasets"));
    }

    #[test]
    fn attached_stack_shows_no_processes() {
        let now = Timestamp::default();
        let mut stack = Stack::default();
        stack.begin();
        stack.on(&LocalEvent::Attached(Addresses::default()), now);
        assert_eq!((stack.step(), stack.summary().as_deref()), (None, Some("attached")));
        let node = LocalNode { name: "worker-1".to_owned(), ..LocalNode::default() };
        stack.on(&LocalEvent::Node(node), now);
        assert_eq!(stack.summary().as_deref(), Some("attached · 1 process"));
        stack.begin();
        assert_eq!(stack.processes().len(), 1, "a node that was added stays");
    }

    #[test]
    fn exited_process_is_shown_as_restarting_or_removed() {
        let at = Timestamp::from_seconds;
        let node = |pid| LocalNode { name: "worker-4".to_owned(), pid, ..LocalNode::default() };
        let mut stack = Stack::default();
        stack.on(&LocalEvent::Node(node(7)), at(1));
        let usage = Usage { memory_bytes: 9, ..Usage::default() };
        stack.measured(&[("worker-4".to_owned(), usage)]);
        stack.status_mut("worker-4").unwrap().is_stopping = true;
        let exited = LocalEvent::Exited { process: "worker-4".to_owned(), code: Some(0) };
        stack.on(&exited, at(2));
        let [process] = stack.processes() else { panic!("a process") };
        let want = (Some(Exit { code: Some(0) }), None, true);
        assert_eq!((process.status.exited, process.status.usage, process.status.is_stopping), want);
        stack.on(&LocalEvent::Node(node(8)), at(3));
        let [process] = stack.processes() else { panic!("a process") };
        let want = (None, 8, Some(at(3)));
        assert_eq!((process.status.exited, process.pid, process.status.since), want);
        stack.on(&exited, at(4));
        stack.forget("worker-4");
        assert_eq!(stack.processes(), []);
    }
}
