//! The formulas of the network, in both generations of the chain: plain functions of values.
//!
//! Absent on purpose: topics, heights, stores and clocks.

pub mod loss;
pub mod outlier;
pub mod pairs;
pub mod regret;
pub mod reputer;
pub mod score;
pub mod sortition;
pub mod statistics;
pub mod synthesis;
