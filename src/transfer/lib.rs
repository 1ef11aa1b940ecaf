//! Moving rows between files and dataset services: [`import`], [`mirror`],
//! [`replay`], and past rows for a backtest.
//!
//! A transfer reports what it does to the caller's [`Reporter`](event::Reporter), which draws it;
//! it prints nothing itself and knows no command line. A stopped import or mirror goes on from its
//! `checkpoint`; calls that may succeed later are retried.
//!
//! Errors are `anyhow`'s: each ends before a person, none is looked into.

mod checkpoint;
pub mod event;
pub mod find;
pub mod import;
pub mod mirror;
pub mod replay;
mod retry;
