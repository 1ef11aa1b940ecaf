//! The choice of a theme, with a live preview.

pub mod state;
pub(crate) mod view;
