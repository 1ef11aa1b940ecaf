//! Serving: what the HTTP services share.
//!
//! [`serve`] binds an address and serves a router until its group stops, [`middleware`] adds time
//! and size limits and a log line to every request, [`auth`] reads the API key, [`host_names`] tells
//! requests of this machine's programs from those of others, [`rate_limit`] limits how often
//! something happens, [`shared_check`] checks for many at once, [`open_files`] shares out file descriptors, [`extract`] reads bodies and
//! queries so that each room words its own refusals, [`query_names`] rejects query parameters that an
//! endpoint does not have, [`mod@metrics`] counts, [`openapi`] describes
//! an API and [`api_docs`] renders the description as a page. Deliberately absent: any endpoint, and
//! the shape of an error body, which each document gives differently.

pub mod address;
pub mod api_docs;
pub mod auth;
pub mod cookies;
pub mod cors;
pub mod extract;
pub mod host_names;
pub mod metrics;
pub mod middleware;
pub mod open_files;
pub mod openapi;
pub mod origin;
pub mod query_names;
pub mod rate_limit;
pub mod response;
pub mod serve;
pub mod shared_check;
pub mod tls;
