//! The screen: what the user sees of the three services, and what they can do there.
//!
//! One loop owns the `State`. Keys, answers and timers are `Event`s; `app` turns each into a changed
//! state and `Effect`s, which `effects` performs through the client room and answers with further
//! events. A screen or an overlay is a folder with its `state`, `update` and `view`; `pacer` decides
//! when to draw. [`keymap`] is the table of keys, [`theme`] defines what colors mean, [`widget`]
//! draws charts and tables from plain values. Local processes are started through
//! [`LocalStack`](stack::local::LocalStack). Absent on purpose: any knowledge of a service.

pub mod action;
pub mod app;
mod effects;
mod event;
mod guard;
pub mod keymap;
mod mouse;
mod overlay;
mod pacer;
pub mod profiles;
mod replies;
mod run;
mod screens;
pub mod state;
mod terminal;
pub mod theme;
pub mod time_zone;
pub mod user_file;
mod view;
pub mod widget;

#[cfg(debug_assertions)]
pub use run::FaultInjection;
pub use run::{RunError, TuiOptions, run};
use stack::local;
#[cfg(test)]
use view::tests::harness;
