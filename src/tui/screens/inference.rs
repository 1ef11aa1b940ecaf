//! The Inference screen: topics, combined values, actors and history.

pub mod state;
mod update;
pub(crate) mod view;
