//! The choice of a profile, and the form for its key.

pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod view;
