//! Calls to the heads: its nodes and functions, its cluster's events, runs.

use std::time::Duration;

use client::{
    executions::{self, ClusterStreamEvent},
    functions::Functions,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Runner,
    calls::{NEWS_MAX, ask, forward},
    failure, machine, run,
};
use crate::{
    event::{Effect, Event},
    state::{
        nodes::{GroupChange, NodeChange},
        services::HeadId,
    },
};

impl Runner {
    /// Performs an effect of this service; returns any other.
    pub(super) fn call_head(&mut self, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::LoadNodes(id) => {
                self.call(format!("nodes at {}", id.idx), nodes(id, self.clients.head(id)));
            }
            Effect::ChangeNode(id, change) => {
                let name = format!("nodes {} at {}", change.peer_ids.join(" "), id.idx);
                self.call(name, change_nodes(id, self.clients.head(id), change));
            }
            Effect::LoadFunctions(id) => {
                self.call("functions", functions(id, self.clients.head(id)));
            }
            Effect::FollowCluster(id) => {
                let work = cluster(id, self.clients.head(id), self.events.clone());
                self.start(format!("cluster of {}", id.idx), work);
            }
            Effect::AddFunction { head: id, path } => {
                let head = self.clients.head(id);
                let adding = machine::add_function(self.local.clone(), head, path);
                self.call("new function", async move { Event::FunctionAdded(id, adding.await) });
            }
            Effect::Execute(id, order) => {
                let clients = self.clients.clone();
                let run = run::execute(clients, id, order, self.events.clone());
                self.call(format!("run {}", id.0), run);
            }
            effect => return Some(effect),
        }
        None
    }
}

async fn nodes(id: HeadId, head: Option<Functions>) -> Event {
    let started = Instant::now();
    let result = ask(head, "list the nodes", |head| async move { head.nodes().await }).await;
    Event::Nodes(id, result, started.elapsed())
}

/// Changes one node after another. A head that does not answer is not asked for the rest.
async fn change_nodes(id: HeadId, head: Option<Functions>, change: NodeChange) -> Event {
    let (mut n_changed, mut failure) = (0, None);
    for peer_id in &change.peer_ids {
        let (peer_id, patch) = (peer_id.clone(), change.patch);
        let call = |head: Functions| async move {
            head.change_node(&peer_id, patch, Duration::ZERO).await
        };
        let result = ask(head.clone(), "change the node", call).await;
        if change.group.is_none() {
            return Event::NodeChanged(id, result);
        }
        match result {
            Ok(_) => n_changed += 1,
            Err(why) => {
                let is_answered = why.status.is_some();
                failure.get_or_insert(why);
                if !is_answered {
                    break;
                }
            }
        }
    }
    Event::GroupChanged(id, GroupChange { change, n_changed, failure })
}

async fn functions(id: HeadId, head: Option<Functions>) -> Event {
    let call = |head: Functions| async move { head.functions().await };
    Event::Functions(id, ask(head, "list the functions", call).await)
}

/// Sends the events of the head's cluster, until there is no receiver. A head without such a stream
/// is not asked again.
async fn cluster(id: HeadId, head: Option<Functions>, events: mpsc::Sender<Event>) {
    let Some(head) = head else { return };
    let (sender, inbox) = mpsc::channel(NEWS_MAX);
    let happened = move |event: ClusterStreamEvent| {
        Event::Cluster(id, event.map(Box::new, |why| failure("follow the cluster", &why)))
    };
    tokio::join!(executions::follow(head, sender), forward(inbox, events, happened));
}
