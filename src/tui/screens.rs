//! The screens, one folder each: `state` holds what a screen shows, `update` changes it on an
//! event, `view` draws it.

pub mod cluster;
pub mod data;
pub mod execute;
pub mod inference;
pub mod logs;
pub mod overview;
