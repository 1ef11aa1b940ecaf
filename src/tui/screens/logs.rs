//! The Logs screen: log lines of local processes and of the screen itself.

pub mod state;
pub(crate) mod view;
