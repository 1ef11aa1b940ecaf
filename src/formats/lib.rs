//! Rows, written: CSV, NDJSON, JSON, Parquet and Arrow, in and out, files and bodies alike.
//!
//! [`mod@read`] makes rows of files, [`mod@write`] makes files and bodies of rows, and
//! [`content_coding`] compresses bodies. Absent on purpose: stores, services and HTTP.

pub mod content_coding;
pub mod read;
pub mod write;
