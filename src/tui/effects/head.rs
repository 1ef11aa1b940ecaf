//! Calls to the head: its nodes and functions, its cluster's events, runs.

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
    state::nodes::{GroupChange, NodeChange},
};

impl Runner {
    /// Performs an effect of this service; returns any other.
    pub(super) fn call_head(&mut self, effect: Effect) -> Option<Effect> {
        let head = self.clients.head.clone();
        match effect {
            Effect::LoadNodes => self.call("nodes", nodes(head)),
            Effect::ChangeNode(change) => {
                let name = format!("nodes {}", change.peer_ids.join(" "));
                self.call(name, change_nodes(head, change));
            }
            Effect::LoadFunctions => self.call("functions", functions(head)),
            Effect::FollowCluster => self.start("cluster", cluster(head, self.events.clone())),
            Effect::AddFunction { path } => {
                let call = machine::add_function(self.local.clone(), head, path);
                self.call("new function", call);
            }
            Effect::Execute(id, order) => {
                let run = run::execute(self.clients.clone(), id, order, self.events.clone());
                self.call(format!("run {}", id.0), run);
            }
            effect => return Some(effect),
        }
        None
    }
}

async fn nodes(head: Option<Functions>) -> Event {
    let started = Instant::now();
    let result = ask(head, "list the nodes", |head| async move { head.nodes().await }).await;
    Event::Nodes(result, started.elapsed())
}

/// Changes one node after another. A head that does not answer is not asked for the rest.
async fn change_nodes(head: Option<Functions>, change: NodeChange) -> Event {
    let (mut n_changed, mut failure) = (0, None);
    for peer_id in &change.peer_ids {
        let (peer_id, patch) = (peer_id.clone(), change.patch);
        let call = |head: Functions| async move {
            head.change_node(&peer_id, patch, Duration::ZERO).await
        };
        let result = ask(head.clone(), "change the node", call).await;
        if change.group.is_none() {
            return Event::NodeChanged(result);
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
    Event::GroupChanged(GroupChange { change, n_changed, failure })
}

async fn functions(head: Option<Functions>) -> Event {
    Event::Functions(
        ask(head, "list the functions", |head| async move { head.functions().await }).await,
    )
}

/// Sends the events of the head's cluster, until there is no receiver. A head without such a stream
/// is not asked again.
async fn cluster(head: Option<Functions>, events: mpsc::Sender<Event>) {
    let Some(head) = head else { return };
    let (sender, inbox) = mpsc::channel(NEWS_MAX);
    let happened = |event: ClusterStreamEvent| {
        Event::Cluster(event.map(Box::new, |why| failure("follow the cluster", &why)))
    };
    tokio::join!(executions::follow(head, sender), forward(inbox, events, happened));
}
