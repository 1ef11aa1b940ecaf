//! Metrics of the databases that a service uses, beside its own: those of accounts are among them.

use db::postgres::{StandbyFigures, connections::Figures};
use web::metrics::Metrics;

web::metrics! {
    /// Connections to databases, by what they are for and the server: open (`open`), and idle of these (`idle`).
    CONNECTIONS = gauge("database_connections", &["for", "server", "state"]);
    /// Requests that wait for a connection to a database, or for its standby to confirm what others wrote.
    WAITING = gauge("database_waiting", &["for", "server"]);
    /// Requests that waited for these in vain.
    TIMED_OUT = counter("database_waits_failed_total", &["for", "server"]);
    /// 1 while a database does not answer, or lets the service do nothing.
    LOST = gauge("database_lost", &["for", "server"]);
    /// Standbys of databases: those that serve reads (`used`), are too far behind (`behind`), or do not answer (`lost`).
    STANDBYS = gauge("database_standbys", &["for", "server", "state"]);
}

/// What accounts are called among these metrics.
pub const ACCOUNTS: &str = "accounts";

/// What a database is called that is not one of several.
pub const FIRST: &str = "first";

/// Sets the metrics of one server, which is used for `purpose`.
pub fn set(metrics: &Metrics, purpose: &str, server: &str, figures: Figures) {
    let Figures { n_open, n_idle, n_waiting, n_timed_out, is_lost, standbys } = figures;
    let narrow = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    for (metric, n) in [(WAITING, n_waiting), (TIMED_OUT, n_timed_out), (LOST, is_lost.into())] {
        metrics.set(metric, &[purpose, server], narrow(n));
    }
    for (state, n) in [("open", n_open), ("idle", n_idle)] {
        metrics.set(CONNECTIONS, &[purpose, server, state], narrow(n));
    }
    let Some(StandbyFigures { n_used, n_behind, n_lost }) = standbys else { return };
    for (state, n) in [("used", n_used), ("behind", n_behind), ("lost", n_lost)] {
        metrics.set(STANDBYS, &[purpose, server, state], narrow(n));
    }
}
