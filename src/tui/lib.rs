//! The terminal user interface of the three services.
//!
//! One loop owns the `State`. Keys, responses and timers are `Event`s. `app` applies each event to
//! the state and returns `Effect`s. `effects` performs them through the client crate and sends
//! their results as further events. A screen is a directory with its `state`, `update` and `view`.
//! `pacer` schedules frames. [`keymap`] is the table of keys, [`theme`] maps meanings to colors,
//! [`widget`] draws charts and panes from plain values. Local processes are started through
//! [`LocalStack`](stack::local::LocalStack).
//!
//! ```no_run
//! # async fn example(options: tui::TuiOptions) -> Result<(), tui::RunError> {
//! tui::run(options).await?;
//! # Ok(())
//! # }
//! ```

pub mod app;
mod effects;
mod event;
pub mod keymap;
mod overlay;
mod pacer;
pub mod profiles;
mod recording;
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

pub use effects::UserFiles;
pub use run::{RunError, TuiOptions, run};
use stack::local;
#[cfg(test)]
use view::tests::harness;
