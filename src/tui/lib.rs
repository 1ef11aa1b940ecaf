//! The screen: what the user sees of the three services, and what they can do there.
//!
//! One loop owns the [`State`](state::State). Keys, answers and timers are [`Event`](event::Event)s;
//! [`update`](update::update) turns each into a changed state and [`Effect`](event::Effect)s, which
//! `effects` performs through the client room and answers with further events; `view` draws the
//! state, and `pacer` says when. [`keymap`] is the one table of keys, [`theme`] says what colors
//! mean, [`widget`] draws charts and tables from plain values. Processes of this machine are
//! started through [`LocalStack`](stack::local::LocalStack). Absent on purpose: every knowledge of a service.

pub mod action;
pub mod app;
mod effects;
mod event;
mod guard;
pub mod keymap;
pub mod local;
mod overlay;
mod pacer;
pub mod profiles;
mod replies;
mod run;
mod screens;
pub mod state;
mod terminal;
pub mod theme;
mod view;
pub mod widget;

use stack::local;

#[cfg(debug_assertions)]
pub use run::FaultInjection;
pub use run::{RunError, TuiOptions, run};

#[cfg(test)]
mod harness;
