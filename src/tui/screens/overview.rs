//! The Overview screen: a summary of all services.

pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod view;
