//! The list of past notices.

pub(crate) mod state;
pub(crate) mod view;
