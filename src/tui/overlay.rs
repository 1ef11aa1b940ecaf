//! Modal overlays: how they react to events, and how they are drawn on top of the current screen.
//!
//! Their state is in [`state::overlay`](crate::state::overlay). Their keys are in
//! `keymap/table.rs`.

pub(crate) mod alerts;
pub(crate) mod choices;
pub(crate) mod copy_as;
pub(crate) mod form;
pub(crate) mod help;
pub(crate) mod keys;
pub(crate) mod palette;
pub(crate) mod profiles;
pub(crate) mod save;
pub(crate) mod update;
pub(crate) mod view;
