//! Bulk downloads: a whole range of a dataset in one streamed response.

use std::{pin::Pin, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use model::{dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use tokio::time::timeout;
use wire::paths;

use super::Datasets;
use crate::{error::ClientError, transport::Transport};

/// The longest wait for the answer to begin. Clients of the upstream wait as long for the whole.
const BEGINS_WITHIN: Duration = Duration::from_mins(5);

/// The longest silence inside an answer: twice as long as our own service waits for a reader.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Which range to read, and written as what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadQuery {
    /// Of which dataset.
    pub dataset: DatasetId,
    /// Raw rows, or buckets of this length.
    pub resolution: Resolution,
    /// Not before this.
    pub start: Option<Timestamp>,
    /// Not after this; buckets start before it.
    pub end: Option<Timestamp>,
    /// What the service calls the format: `json` and `csv` by document 2, others where it has them.
    pub output: &'static str,
}

/// A download under way. Dropping it ends it.
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
    /// Begins to read a whole range. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the dataset is not to be seen, the range is too wide for the
    /// service or the format is not one of its; and those of a broken line.
    pub async fn download(&self, query: &DownloadQuery) -> Result<Download, ClientError> {
        let mut pairs = vec![
            ("dataset", query.dataset.to_string()),
            ("resolution", query.resolution.to_string()),
            ("output", query.output.to_owned()),
        ];
        let bounds = [("start", query.start), ("end", query.end)];
        pairs.extend(bounds.into_iter().filter_map(|(name, at)| Some((name, at?.to_string()))));
        let call = self.transport.get(paths::ROWS_BULK_DOWNLOAD).within(None).query(&pairs);
        let call = call.seeing(&self.seen, query.dataset);
        let opened = timeout(BEGINS_WITHIN, call.open()).await;
        let response = opened.map_err(|_| silent(&self.transport, BEGINS_WITHIN))??;
        let told = response.headers().get(paths::ROW_COUNT_HEADER);
        let n_rows = told.and_then(|told| told.to_str().ok()?.parse().ok());
        let chunks = response.bytes_stream().boxed();
        Ok(Download { chunks, transport: self.transport.clone(), n_rows })
    }
}

impl Download {
    /// How many rows it has, where the service says so beforehand.
    #[must_use]
    pub const fn n_rows(&self) -> Option<u64> {
        self.n_rows
    }

    /// The next bytes; none at the end of the whole. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Reach`] if the answer breaks off, [`ClientError::TimedOut`] if nothing comes.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let chunk = timeout(SILENCE_MAX, self.chunks.next()).await;
        let chunk = chunk.map_err(|_| silent(&self.transport, SILENCE_MAX))?;
        chunk.transpose().map_err(|source| self.transport.broken(source, SILENCE_MAX))
    }
}

fn silent(transport: &Transport, within: Duration) -> ClientError {
    ClientError::TimedOut { address: transport.address().to_owned(), within }
}
