//! Metrics of the dataset service, beside those of every HTTP service.

use std::{fs, path::Path};

use accounts::{Keys, database_metrics};
use tsdb::store::StoreError;
use web::metrics::{Metrics, process, requests};

use crate::{Datasets, run_blocking};

/// The prefix of every name.
const PREFIX: &str = "triptych_datasets_";

/// Bounds of the histogram of commits, in seconds: from a fast disk to a failing one.
const COMMIT_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The suffix of the store's write-ahead log.
const WAL: &str = "-wal";

web::metrics! {
    /// Rows stored, those that replaced another included.
    ROWS_IN = counter("rows_inserted_total", &[]);
    /// Rows and buckets answered, but for streams, by the path that read them.
    ROWS_OUT = counter("rows_read_total", &["by"]);
    /// Compressed pieces of downloads: kept before, or made.
    PIECES = counter("compressed_pieces_total", &["found"]);
    /// Time from rows checked to rows durable.
    COMMIT = histogram("commit_seconds", &[], COMMIT_SECONDS);
    /// Streams open now.
    STREAMS = gauge("streams_open", &[]);
    /// Bulk downloads under way.
    DOWNLOADS = gauge("downloads_under_way", &[]);
    /// Bytes of a store in a file: its data (`data`), and its write-ahead log (`log`).
    STORE_BYTES = gauge("store_bytes", &["file"]);
    /// Archived months, as of the last look of this service.
    ARCHIVED_MONTHS = gauge("archived_months", &[]);
    /// Rows in archived months, as of the last look of this service.
    ARCHIVED_ROWS = gauge("archived_rows", &[]);
    /// Time of the last look for rows to be archived that succeeded, in seconds of Unix time.
    ARCHIVED_AT = gauge("archived_at_seconds", &[]);
    /// Looks for rows to be archived that failed.
    ARCHIVE_FAILURES = counter("archive_failures_total", &[]);
    /// The program: always 1, with its version as label.
    BUILD = gauge("build_info", &["version"]);
}

/// The metrics of a service, all zero.
pub(crate) fn new() -> Metrics {
    let metrics = Metrics::new(PREFIX, &[requests::METRICS, METRICS]);
    metrics.set(BUILD, &[env!("CARGO_PKG_VERSION")], 1);
    metrics
}

impl Datasets {
    /// All metrics as Prometheus text, with those of the process, and of the database of `keys`.
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
            metrics.text() + &databases.text() + &process::text()
        })
        .await
    }
}

/// The size of a file in bytes; 0 where there is none.
fn size_of(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX))
}
