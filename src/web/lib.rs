//! Serving: what the HTTP services share.
//!
//! [`serve`] binds an address and serves a router until its group stops, [`request`] puts limits
//! and a log line around every request, [`auth`] reads the API key, [`local`]
//! tells programs of this machine from others, [`open_files`] shares out file descriptors,
//! [`extract`] reads bodies and queries so that a room can answer refusals in its own words, [`answer`] names statuses, [`mod@metrics`]
//! counts, [`openapi`] describes an API and [`reference`](mod@reference) shows the description as a page. Absent on
//! purpose: any endpoint, and the form of an error body, which each document gives differently.

pub mod address;
pub mod answer;
pub mod auth;
pub mod cookies;
pub mod cors;
pub mod extract;
pub mod local;
pub mod metrics;
pub mod open_files;
pub mod openapi;
pub mod origin;
pub mod reference;
pub mod request;
pub mod serve;
pub mod throttle;
pub mod tls;
