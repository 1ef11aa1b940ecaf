//! Formats of rows, for reading and writing: CSV, NDJSON, JSON, Parquet and Arrow, in files and
//! bodies.
//!
//! [`mod@read`] parses rows from files. [`mod@write`] renders rows to files and bodies.
//! [`content_coding`] compresses bodies. Stores, services and HTTP belong to other crates.
//!
//! ```
//! use formats::read::Format;
//!
//! assert_eq!(Format::of_name("btcusd.csv.gz".as_ref()), Some(Format::Csv));
//! ```

pub mod content_coding;
pub mod read;
pub mod write;
