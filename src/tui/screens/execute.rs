//! The Execute screen: the form of an execution and its outcome.

pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod view;
