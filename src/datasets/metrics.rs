//! Metrics of the dataset service, in addition to the common metrics of HTTP services.

use std::fs;
use std::path::Path;

use accounts::{Keys, database_metrics};
use tsdb::store::StoreError;
use web::metrics::{Metrics, requests};

use crate::{Datasets, run_blocking};

/// Prefix of the names of all metrics.
const PREFIX: &str = "triptych_datasets_";

/// Bucket bounds of the histogram of commits in seconds, from a fast disk to a failing disk.
const COMMIT_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Suffix of the store's write-ahead log.
const WAL: &str = "-wal";

web::metrics! {
    /// Rows stored, including those that replaced another.
    ROWS_IN = counter("rows_inserted_total", &[]);
    /// Rows and buckets returned by path, except by streams.
    ROWS_OUT = counter("rows_read_total", &["by"]);
    /// Compressed pieces of downloads, from the cache (`kept`) or new (`made`).
    PIECES = counter("compressed_pieces_total", &["found"]);
    /// Time from checked rows to durable rows.
    COMMIT = histogram("commit_seconds", &[], COMMIT_SECONDS);
    /// Number of streams that clients have open.
    STREAMS = gauge("streams_open", &[]);
    /// Bulk downloads that read rows. Those that send a finished temporary file are not counted.
    DOWNLOADS = gauge("downloads_under_way", &[]);
    /// Size of the store's file (`data`) and its write-ahead log (`log`) in bytes.
    STORE_BYTES = gauge("store_bytes", &["file"]);
    /// Archived months, as of this service's last check.
    ARCHIVED_MONTHS = gauge("archived_months", &[]);
    /// Rows in archived months, as of this service's last check.
    ARCHIVED_ROWS = gauge("archived_rows", &[]);
    /// Unix time of the last successful check for rows to archive.
    ARCHIVED_AT = gauge("archived_at_seconds", &[]);
    /// Failed checks for rows to archive.
    ARCHIVE_FAILURES = counter("archive_failures_total", &[]);
    /// Always 1, with the version of the program as label.
    BUILD = gauge("build_info", &["version"]);
}

/// Creates the metrics of a service, all zero.
pub(crate) fn new() -> Metrics {
    let metrics = Metrics::new(PREFIX, &[requests::METRICS, METRICS]);
    metrics.set(BUILD, &[env!("CARGO_PKG_VERSION")], 1);
    metrics
}

impl Datasets {
    /// Renders all metrics as Prometheus text, including metrics of the database of `keys`.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the program is stopping.
    pub(crate) async fn render_metrics(&self, keys: &Keys) -> Result<String, StoreError> {
        let metrics = self.metrics.clone();
        let databases = Metrics::new(PREFIX, &[database_metrics::METRICS]);
        keys.set_metrics(&databases);
        if let Some(connections) = self.store.database() {
            database_metrics::set(&databases, "rows", connections);
        }
        metrics.set(STREAMS, &[], self.hub.n_all_readers());
        metrics.set(DOWNLOADS, &[], self.downloads.n_acquired());
        let file = self.file.clone();
        run_blocking(move || {
            if let Some(file) = file {
                metrics.set(STORE_BYTES, &["data"], size_of(&file));
                let mut log = file.as_os_str().to_owned();
                log.push(WAL);
                metrics.set(STORE_BYTES, &["log"], size_of(Path::new(&log)));
            }
            metrics.text() + &databases.text()
        })
        .await
    }
}

/// Returns the size of a file in bytes, or 0 if it does not exist.
fn size_of(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX))
}
