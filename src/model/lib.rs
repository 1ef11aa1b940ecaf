//! Words: the domain's values and rules, named as the three documents name them.
//!
//! Here is what a node, a function, a row, a bucket, a topic or a key *is*, and the rules that need
//! nothing else: grouping results, bounding buckets, checking names. Absent on purpose: serde (see
//! `wire`), async, clocks, locks and every kind of I/O.

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
