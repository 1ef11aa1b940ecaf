//! The choice of a form to copy the selection in.

pub(crate) mod state;
pub(crate) mod view;
