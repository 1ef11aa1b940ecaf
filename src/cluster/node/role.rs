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
}
