//! Shared parts of the HTTP services.
//!
//! [`serve`] binds an address and serves a router until its group stops. [`middleware`] adds time and
//! size limits and a log line to every request. [`auth`] reads the API key, [`host_names`] recognizes
//! requests of this machine's programs, [`rate_limit`] limits the frequency of events, [`shared_check`]
//! shares the outcome of a check among callers, [`open_files`] divides up file descriptors. [`extract`]
//! reads bodies and queries. [`query_names`] rejects unknown query parameters. [`mod@metrics`] counts,
//! [`openapi`] describes an API and [`api_docs`] renders the description as a page. Endpoints and the
//! format of error bodies, which differ between the services, belong to other crates.
//!
//! ```no_run
//! # async fn example() -> Result<(), web::serve::BindError> {
//! use task::group::Group;
//!
//! let group = Group::default();
//! let listener = web::serve::bind("127.0.0.1:8080").await?;
//! web::serve::serve(listener, axum::Router::new(), &group);
//! group.stopped().await;
//! # Ok(())
//! # }
//! ```

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
