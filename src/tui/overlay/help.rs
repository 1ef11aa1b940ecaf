//! The help: all keys in force, with a filter.

pub mod state;
pub(crate) mod view;
