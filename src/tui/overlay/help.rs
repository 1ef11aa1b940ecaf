//! The help: all keys in force, with a filter.

pub(crate) mod state;
pub(crate) mod view;
