//! Metrics of the databases that a service uses.

use db::postgres::connections::Figures;
use web::metrics::Metrics;

web::metrics! {
    /// Connections to databases by purpose: all (`open`) or unused (`idle`).
    CONNECTIONS = gauge("database_connections", &["for", "state"]);
    /// Requests waiting for a database connection.
    WAITING = gauge("database_waiting", &["for"]);
    /// Requests that timed out waiting for a database connection.
    TIMED_OUT = counter("database_waits_failed_total", &["for"]);
    /// 1 while a database is unavailable.
    LOST = gauge("database_lost", &["for"]);
}

/// Value of the label `for` that stands for the accounts database.
pub const ACCOUNTS: &str = "accounts";

/// Sets the metrics of the database used for `purpose`, which is the value of the label `for`.
pub fn set(metrics: &Metrics, purpose: &str, figures: Figures) {
    let Figures { n_open, n_idle, n_waiting, n_timed_out, is_lost } = figures;
    for (metric, n) in [(WAITING, n_waiting), (TIMED_OUT, n_timed_out), (LOST, is_lost.into())] {
        metrics.set(metric, &[purpose], n);
    }
    for (state, n) in [("open", n_open), ("idle", n_idle)] {
        metrics.set(CONNECTIONS, &[purpose, state], n);
    }
}
