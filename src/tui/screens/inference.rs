//! The Inference screen: topics, combined values, actors and history.

pub mod state;
pub(crate) mod view;
