//! The list of past notices.

pub mod state;
pub(crate) mod view;
