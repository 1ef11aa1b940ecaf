//! The screens, one folder each: `state` holds what a screen shows, `update` changes it on an
//! event, `view` draws it.

pub(crate) mod cluster;
pub(crate) mod data;
pub(crate) mod execute;
pub(crate) mod inference;
pub(crate) mod logs;
pub(crate) mod overview;
