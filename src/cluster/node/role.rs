//! What a node is: a head or a worker.

use model::node::Role;

use crate::{head::Head, worker::Worker};

/// What a node does.
#[derive(Debug, Clone)]
pub(super) enum NodeRole {
    Head(Head),
    Worker(Worker),
}

impl NodeRole {
    /// The role's name.
    pub(super) const fn role(&self) -> Role {
        match self {
            Self::Head(_) => Role::Head,
            Self::Worker(_) => Role::Worker,
        }
    }

    /// The head, if it is one.
    pub(super) const fn head(&self) -> Option<&Head> {
        match self {
            Self::Head(head) => Some(head),
            Self::Worker(_) => None,
        }
    }

    /// The worker, if it is one.
    pub(super) const fn worker(&self) -> Option<&Worker> {
        match self {
            Self::Head(_) => None,
            Self::Worker(worker) => Some(worker),
        }
    }
}
