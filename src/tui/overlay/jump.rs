//! Labels on everything that can be clicked.

pub(crate) mod view;
