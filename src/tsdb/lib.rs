//! Store of time series: rows, the buckets computed from them, and the catalog of datasets.
//!
//! [`Store`](store::Store) is the interface of an engine. `store/sqlite/` uses a file and
//! `store/postgres/` a database that several services share. [`archive`] moves old rows of both engines
//! to Parquet files. SQLite stores rows in chunks, which `codec` encodes. `rollup` folds rows into
//! buckets. [`admin`] verifies, copies, backs up and restores stores.
//!
//! ```no_run
//! use tsdb::{
//!     catalog::DatasetRef,
//!     store::{Catalog, sqlite::SqliteStore},
//! };
//!
//! let store = SqliteStore::open("datasets.db".as_ref())?;
//! let found = store.sight(None, &DatasetRef::Name("btcusd".to_owned()))?;
//! println!("{}", found.is_some());
//! # Ok::<(), tsdb::store::StoreError>(())
//! ```

pub mod admin;
pub mod archive;
pub mod catalog;
mod codec;
pub mod report;
mod rollup;
pub mod span;
pub mod store;
