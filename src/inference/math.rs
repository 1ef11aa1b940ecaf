//! The formulas of the network, in both generations of the chain: plain functions of values.
//!
//! [`cases`] computes single epochs given by hand. Absent on purpose: topics, heights, stores and
//! clocks.

pub mod cases;
pub mod exact;
pub mod loss;
pub mod outlier;
pub mod pair_values;
pub mod regret;
pub mod sortition;
pub mod statistics;
pub mod synthesis;
