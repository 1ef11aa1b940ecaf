//! The palette: commands and objects, found by fuzzy search.

pub mod state;
pub(crate) mod view;
