//! What the dataset service counts, beside what every HTTP service does.

use std::{fs, path::Path, sync::Arc};

use tsdb::store::StoreError;
use web::metrics::{Metrics, counter, gauge, histogram, process, requests};

use crate::{Datasets, run_blocking};

/// What every name begins with.
const PREFIX: &str = "triptych_datasets_";

/// Seconds at which commits are told apart: from a fast disk to one that is ill.
const COMMIT_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// What follows the name of the store's file in that of its log.
const WAL: &str = "-wal";

web::metrics! {
    /// In all.
    ROWS_IN = counter("rows_inserted_total", &[], "Rows stored, those that replaced another included");
    /// By the path that read them.
    ROWS_OUT = counter("rows_read_total", &["by"], "Rows and buckets answered, but for streams");
    /// By whether they were kept.
    PIECES = counter("compressed_pieces_total", &["found"], "Compressed pieces of downloads: kept before, or made");
    /// How long.
    COMMIT = histogram("commit_seconds", &[], COMMIT_SECONDS, "Time from rows checked to rows durable");
    /// Now.
    STREAMS = gauge("streams_open", &[], "Streams open");
    /// Now.
    DOWNLOADS = gauge("downloads_under_way", &[], "Bulk downloads under way");
    /// Now, by file.
    STORE_BYTES = gauge("store_bytes", &["file"], "Size of the store: its data, and its write-ahead log");
    /// Always 1.
    BUILD = gauge("build_info", &["version"], "The program");
}

/// The counts of a service, all zero.
pub(crate) fn new() -> Metrics {
    let metrics = Metrics::new(PREFIX, &[requests::METRICS, METRICS]);
    metrics.set(BUILD, &[env!("CARGO_PKG_VERSION")], 1);
    metrics
}

impl Datasets {
    /// The same operations, whose counts tell the size of the store's file.
    pub(crate) fn kept_in(self, file: impl Into<Arc<Path>>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// What is counted of these operations and of the requests for them.
    pub(crate) fn counts(&self) -> Metrics {
        self.metrics.clone()
    }

    /// All counts as Prometheus text, with what the process takes.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the program is stopping.
    pub(crate) async fn counts_text(&self) -> Result<String, StoreError> {
        let metrics = self.metrics.clone();
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
            metrics.text() + &process::text()
        })
        .await
    }
}

/// The size of a file in bytes; 0 where there is none.
fn size_of(file: &Path) -> usize {
    fs::metadata(file).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX))
}
