//! The form that asks for a file to write to.

pub(crate) mod state;
