//! Shapes: the JSON of the three documents, shared by servers and clients so they cannot disagree.
//!
//! Each file holds one document's paths, bodies and conversions to and from `model`; [`paths`]
//! holds those of several and names them all. Absent on purpose: behavior, and anything that only
//! one side needs.

pub mod accounts;
pub mod datasets;
pub mod error;
pub mod executions;
pub mod functions;
pub mod inference;
pub mod nodes;
pub mod paths;
