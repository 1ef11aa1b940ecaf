//! Nodes as operators configure, observe, restart and stop them.

mod operator;
mod options;
mod restart;
mod scenarios;
mod stop;
mod tls;
mod traces;
mod trust;
mod watched;
