//! The palette: commands and objects, found by fuzzy search.

pub(crate) mod state;
pub(crate) mod view;
