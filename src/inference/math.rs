//! Formulas of the network in both generations of the chain, as plain functions.

pub mod exact;
pub mod loss;
pub mod outlier;
pub mod pair_values;
pub mod regret;
pub mod sortition;
pub mod statistics;
pub mod synthesis;

#[cfg(test)]
mod tests;
