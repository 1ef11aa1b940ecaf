//! Document 3 from outside: bundles of real predictions, epoch after epoch.

mod backtest;
mod latest_network_inferences;
mod submissions;
mod synthesize;
