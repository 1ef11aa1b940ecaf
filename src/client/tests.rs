//! Helpers shared by tests of several modules.

pub(crate) mod fake;
