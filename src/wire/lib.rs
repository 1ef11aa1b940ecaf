//! JSON bodies of the three services' APIs, shared by servers and clients.
//!
//! Each module contains the paths and bodies of one API, and their conversions to and from `model`.
//! [`paths`] contains the shared paths and reexports all other paths.
//!
//! ```
//! use wire::error::HeadError;
//!
//! let error: HeadError = serde_json::from_str(r#"{"message":"no free slot"}"#)?;
//! assert_eq!(error.message, "no free slot");
//! # Ok::<(), serde_json::Error>(())
//! ```

pub mod accounts;
pub mod datasets;
pub mod error;
pub mod executions;
pub mod functions;
pub mod inference;
pub mod nodes;
pub mod paths;
