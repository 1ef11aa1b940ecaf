//! The Data screen: datasets, charts, tables and pins.

pub mod state;
mod update;
pub(crate) mod view;
