//! The form that asks for a file to write to.

pub mod state;
pub(crate) mod view;
