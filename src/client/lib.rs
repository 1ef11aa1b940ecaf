//! Client library of the three services.
//!
//! [`Functions`](functions::Functions), [`Datasets`](datasets::Datasets) and
//! [`Inference`](inference::Inference) each call one service over a [`Transport`](transport::Transport).
//! [`Accounts`](accounts::Accounts) verifies keys. [`stream::resume::follow`] holds a dataset's stream
//! open. Responses are `model` types where possible. [`ClientError`](error::ClientError) has the failed
//! operation, the reason and advice. Only streams are retried.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::error::ClientError> {
//! use client::{datasets::{Datasets, DatasetsQuery}, transport::Transport};
//! let key = std::env::var("TRIPTYCH_API_KEY").ok().and_then(|key| key.parse().ok());
//! let datasets = Datasets::new(Transport::new("http://127.0.0.1:8081/api", key)?);
//! for dataset in datasets.list(&DatasetsQuery::default()).await?.datasets {
//!     println!("{}", dataset.name);
//! }
//! # Ok(())
//! # }
//! ```

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
