//! The choice of a theme, with a live preview.

pub(crate) mod state;
pub(crate) mod view;
