//! The inference service and its commands.

mod active_set;
mod backtest;
mod demo_networks;
mod latest_network_inferences;
mod scenarios;
mod submissions;
mod synthesize;
mod work;
