//! The Logs screen: log lines of local processes and of the screen itself.

pub(crate) mod state;
mod update;
pub(crate) mod view;
