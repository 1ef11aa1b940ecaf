//! Transfer of rows between files and dataset services: [`import`] from files, [`mirror`] between
//! services, and [`find`] with past rows for backtests.
//!
//! A transfer reports its progress to a [`Reporter`](event::Reporter) of the caller and does not print.
//! A stopped import or mirror resumes from its checkpoint. Requests that fail temporarily are retried.
//!
//! Errors are of type `anyhow::Error`, since they are only shown to the user.
//!
//! ```no_run
//! # async fn example(service: client::datasets::Datasets) -> anyhow::Result<()> {
//! let dataset = transfer::find::find_dataset(&service, "btcusd").await?;
//! println!("{}", dataset.name);
//! # Ok(())
//! # }
//! ```

mod checkpoint;
pub mod event;
pub mod find;
pub mod import;
pub mod mirror;
mod retry;
