//! The Overview screen: a summary of all services.

pub mod state;
pub(crate) mod update;
pub(crate) mod view;
