//! The Data screen: datasets, charts, tables and pins.

pub(crate) mod state;
pub(crate) mod update;
pub(crate) mod view;
