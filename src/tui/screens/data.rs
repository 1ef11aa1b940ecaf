//! The Data screen: datasets, charts, tables and pins.

pub mod state;
pub(crate) mod view;
