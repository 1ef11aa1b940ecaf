//! The Inference screen: topics, combined values, actors and history.

pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod view;
