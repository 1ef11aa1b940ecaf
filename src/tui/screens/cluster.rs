//! The Cluster screen: nodes, runs, result groups and local processes.

pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod view;
