//! Topics and epochs of a network: submissions and scheduled steps.
//!
//! [`topic`] and [`epoch`] define the settings and the schedule, [`submission`] validates payloads,
//! [`selection`] and [`close`] end a window, [`learned`] learns from losses, and [`runner`] executes due
//! steps. [`backtest`] replays a topic over past rows. [`signer`] signs values for consumer contracts.

pub mod addresses;
pub mod backtest;
pub(crate) mod cache;
pub mod chain;
pub mod close;
pub mod epoch;
pub(crate) mod epoch_end;
pub mod forecast;
pub mod leaderboard;
pub mod learned;
pub mod problems;
pub mod queries;
pub mod runner;
pub mod selection;
pub mod signer;
pub mod submission;
pub mod topic;
pub mod topics;
pub mod upstream;
