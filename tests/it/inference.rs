//! Document 3 from outside: bundles of real predictions, epoch after epoch.

mod active_set;
mod backtest;
mod latest_network_inferences;
mod scenarios;
mod submissions;
mod synthesize;
mod work;
