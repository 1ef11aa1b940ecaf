//! The list of past notices.

pub(crate) mod view;
