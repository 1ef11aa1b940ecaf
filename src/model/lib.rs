//! Values and rules of the domain, named as in the APIs of the upstream services.
//!
//! Defines nodes, functions, rows, buckets, topics and keys, and the rules that need nothing else,
//! such as bucket bounds and valid names. This crate has no serde (see `wire`), async, clocks or
//! locks, and no I/O except for reading the system's time zones.
//!
//! ```
//! use model::timestamp::Timestamp;
//!
//! let time: Timestamp = "2026-07-30T21:57:00Z".parse()?;
//! assert_eq!(time.to_string(), "2026-07-30T21:57:00Z");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod address;
pub mod block;
pub mod count;
pub mod dataset;
pub mod escape;
pub mod function;
pub mod idempotency;
pub mod key;
pub mod node;
pub mod page;
pub mod parse;
pub mod resolution;
pub mod row;
pub mod selector;
pub mod text;
pub mod timestamp;
pub mod topic;
