//! Transfer of rows between files and dataset services: [`import`], [`mirror`], [`replay`], and
//! past rows for backtests.
//!
//! A transfer reports its progress to a [`Reporter`](event::Reporter) of the caller, and prints
//! nothing itself. A stopped import or mirror resumes from its checkpoint. Requests that may
//! succeed later are retried.
//!
//! Errors are those of `anyhow`, since they are only shown to a person.

mod checkpoint;
pub mod event;
pub mod find;
pub mod import;
pub mod mirror;
pub mod replay;
mod retry;
