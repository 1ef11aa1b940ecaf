//! A network's topics and epochs: what is submitted, and what is due at each height.
//!
//! [`topic`] and [`epoch`] hold the settings and the schedule, [`submission`] checks payloads,
//! [`selection`] and [`close`] end a window, [`learned`] takes the losses in, [`runner`] does what
//! is due. [`backtest`] replays a topic over past rows, and [`signer`] signs values for consumer
//! contracts. Absent on purpose: SQL and HTTP.

pub mod addresses;
pub mod backtest;
pub(crate) mod cache;
pub mod chain;
pub mod close;
pub mod epoch;
pub(crate) mod epoch_end;
pub mod follow;
pub mod forecast;
pub mod leaderboard;
pub mod learned;
pub mod problems;
pub mod queries;
pub mod retention;
pub mod runner;
pub mod selection;
pub mod signer;
pub mod submission;
pub mod topic;
pub mod topics;
pub mod upstream;
