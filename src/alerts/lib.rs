//! Alerts: rules on values, streams, epochs, executions and services, and their notifications.
//!
//! [`rules`] reads a file of rules. [`state`] decides, without I/O, which rules fire. [`watch`]
//! reads facts from the services and passes them to [`state`]. [`notify`] runs a command or calls
//! a webhook for each alert.
//!
//! ```
//! use alerts::rules::Rules;
//! use alerts::state::{Fact, Watcher};
//! use tokio::time::Instant;
//!
//! let file = "
//!     [[rules]]
//!     service = 'datasets'
//!     down_for = '10s'
//! ";
//! let mut watcher = Watcher::new(file.parse::<Rules>()?.rules, None, Instant::now());
//! let alerts = watcher.observe(&Fact::Tick, Instant::now());
//! assert!(alerts.is_empty(), "the service has not failed yet");
//! # Ok::<(), alerts::rules::RulesError>(())
//! ```

pub mod notify;
pub mod rules;
pub mod state;
pub mod watch;
