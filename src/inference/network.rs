//! Topics and epochs of a network.
//!
//! [`topic`] defines the settings and [`epoch`] the schedule. [`submission`] validates payloads. When a
//! window ends, [`selection`] chooses the active actors and [`close`] combines their submissions.
//! [`learned`] learns from losses. [`runner`] executes all steps when they are due. [`backtest`]
//! replays a topic over past rows. [`signer`] signs values for consumer contracts.

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
