//! Calling the three services, as a library: what any user of them could do, and nothing more.
//!
//! [`Functions`](functions::Functions), [`Datasets`](datasets::Datasets) and
//! [`Inference`](inference::Inference) each speak to one service over a
//! [`Transport`](transport::Transport); [`Accounts`](accounts::Accounts) asks what a key is good for; [`stream::resume::follow`] keeps a dataset's stream open. Answers
//! come back as `model` values where there are such, errors as [`ClientError`](error::ClientError),
//! which can say what failed, why, and what to do. Absent on purpose: state between calls, retries
//! other than the stream's, and every knowledge of how the services work inside.

pub mod accounts;
pub mod datasets;
pub mod error;
pub mod executions;
pub mod functions;
pub mod inference;
pub mod stream;
pub mod transport;

#[cfg(test)]
mod tests;
