//! What a node does, and what that is made of.

use std::{collections::BTreeMap, num::NonZeroU32};

use model::node::{Role, Subgroup};
use runtime::run::Limits;
use task::{clock::Clock, group::Group};
use web::metrics::Metrics;

use super::WorkOptions;
use crate::{
    head::{Head, HeadOptions, HeadParts},
    identity::Identity,
    network::Network,
    peers::Peers,
    worker::{ExecutionOptions, StartError, Worker, WorkerOptions, WorkerParts},
};
use content::Functions;

/// What a node does.
#[derive(Debug, Clone)]
pub(super) enum NodeRole {
    Head(Head),
    Worker(Worker),
}

/// What heads and workers are made of.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) network: Network,
    pub(super) functions: Functions,
    pub(super) peers: Peers,
    pub(super) identity: Identity,
    pub(super) metrics: Metrics,
    pub(super) clock: Clock,
    pub(super) group: Group,
}

impl Parts {
    pub(super) fn head(self, subgroups: Vec<Subgroup>, work: &WorkOptions) -> NodeRole {
        let Self { network, functions, peers, metrics, clock, group, .. } = self;
        let WorkOptions { signatures, answer_within, .. } = *work;
        let parts = HeadParts { network, functions, peers, metrics, clock, group };
        NodeRole::Head(Head::new(parts, HeadOptions { subgroups, signatures, answer_within }))
    }

    pub(super) fn worker(
        self,
        concurrency: NonZeroU32,
        limits: Limits,
        execution: ExecutionOptions,
        attributes: BTreeMap<String, String>,
    ) -> Result<NodeRole, StartError> {
        let Self { network, functions, peers, identity, metrics, group, .. } = self;
        let parts = WorkerParts { network, functions, peers, identity, metrics, group };
        let options = WorkerOptions { concurrency, limits, execution, attributes };
        Worker::new(parts, options).map(NodeRole::Worker)
    }
}

impl NodeRole {
    pub(super) const fn role(&self) -> Role {
        match self {
            Self::Head(_) => Role::Head,
            Self::Worker(_) => Role::Worker,
        }
    }
}
