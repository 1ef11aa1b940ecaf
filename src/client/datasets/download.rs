//! Bulk downloads: a time range of a dataset in one response, which is read while it arrives.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::BucketExtras;
use model::timestamp::Timestamp;
use tokio::time::timeout;
use wire::paths;

use super::{Datasets, comma_separated, extra_pairs};
use crate::error::ClientError;
use crate::transport::Transport;

/// Maximum time until the response begins. Clients of the upstream service wait this long for the
/// complete response.
const BEGINS_WITHIN: Duration = Duration::from_mins(5);

/// Maximum time between two parts of a response. It is twice as long as the service waits for a slow
/// reader.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Parameters of a download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadQuery {
    /// Dataset whose rows are downloaded.
    pub dataset: DatasetId,
    /// Raw rows, or buckets of this length.
    pub resolution: Resolution,
    /// Lower bound of the timestamps. `None` for the earliest that the service allows.
    pub start: Option<Timestamp>,
    /// Upper bound of the timestamps, inclusive for rows and exclusive for buckets.
    pub end: Option<Timestamp>,
    /// Name of the format: `json` and `csv` as in the upstream dataset service, or another format that
    /// the service supports.
    pub output: &'static str,
    /// Names of the columns. Empty for all.
    pub columns: Vec<String>,
    /// Additions to buckets.
    pub extras: BucketExtras,
}

/// A download in progress. Dropping it cancels it.
pub struct Download {
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>,
    transport: Transport,
    n_rows: Option<u64>,
}

impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("n_rows", &self.n_rows).finish_non_exhaustive()
    }
}

impl Datasets {
    /// Starts a download. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key cannot see the dataset, the time range is too wide, or the
    /// format is not supported, or any error of the connection.
    pub async fn download(&self, query: &DownloadQuery) -> Result<Download, ClientError> {
        let mut pairs = vec![
            ("dataset", query.dataset.to_string()),
            ("resolution", query.resolution.to_string()),
            ("output", query.output.to_owned()),
        ];
        let bounds = [("start", query.start), ("end", query.end)];
        pairs.extend(bounds.into_iter().filter_map(|(name, at)| Some((name, at?.to_string()))));
        pairs.extend(comma_separated(&query.columns).map(|columns| ("columns", columns)));
        pairs.extend(extra_pairs(query.extras));
        let call = self.transport.get(paths::ROWS_BULK_DOWNLOAD).within(None).query(&pairs);
        let call = call.seeing(&self.seen, query.dataset);
        let opened = timeout(BEGINS_WITHIN, call.open()).await;
        let response = opened.map_err(|_| self.transport.silent(BEGINS_WITHIN))??;
        let told = response.headers().get(paths::ROW_COUNT_HEADER);
        let n_rows = told.and_then(|told| told.to_str().ok()?.parse().ok());
        let chunks = response.bytes_stream().boxed();
        Ok(Download { chunks, transport: self.transport.clone(), n_rows })
    }
}

impl Download {
    /// Returns the number of rows, if the service announced it.
    #[must_use]
    pub const fn n_rows(&self) -> Option<u64> {
        self.n_rows
    }

    /// Returns the next part of the response, or `None` at its end. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Lost`] if the response is incomplete, [`ClientError::TimedOut`] if the next part
    /// does not arrive in time.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let chunk = timeout(SILENCE_MAX, self.chunks.next()).await;
        let chunk = chunk.map_err(|_| self.transport.silent(SILENCE_MAX))?;
        chunk.transpose().map_err(|source| self.transport.broken(source, SILENCE_MAX))
    }
}
