//! The choice of a form to copy the selection in.

pub mod state;
pub(crate) mod view;
