//! Document 1 from an operator's side: nodes as they are configured, restarted and stopped.

mod operator;
mod options;
mod restart;
mod scenarios;
mod stop;
mod tls;
mod traces;
mod trust;
mod watched;
