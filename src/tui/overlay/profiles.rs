//! The choice of a profile, and the form for its key.

pub mod state;
pub(crate) mod update;
pub(crate) mod view;
