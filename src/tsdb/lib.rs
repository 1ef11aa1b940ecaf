//! Rows, kept: a store of time series, the buckets made of them, and the catalog that names them.
//!
//! [`Store`](store::Store) is what the dataset service needs of an engine: `store/sqlite/` keeps it in
//! a file, `store/postgres/` in a database that several services share. Rows are sealed in chunks, whose bytes are the matter of `codec`; `rollup` folds
//! rows into buckets. [`admin`] verifies, copies and restores a store's file. Absent on purpose:
//! HTTP, how rows look in files and bodies, and what a key is: its number is enough here.

pub mod admin;
pub mod archive;
pub mod catalog;
mod codec;
pub mod report;
mod rollup;
pub mod span;
pub mod store;
