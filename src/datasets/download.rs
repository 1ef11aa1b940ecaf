//! Downloads: all rows of a range in one response, which is sent while the rows are read.
//!
//! A blocking thread reads the range, from a snapshot if the store has one, renders and compresses it, and
//! sends it in pieces. The memory does not depend on the length of the range. [`spool`] stores downloads as
//! files, so that clients can read parts of them.

pub(crate) mod spool;

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use formats::content_coding::{Coding, Encoder, pack};
use formats::write::document::{BucketFile, Document};
use model::block::Rows;
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::resolution::Resolution;
use model::row::Fill;
use task::group::Group;
use tokio::runtime::Handle;
use tokio::select;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{self};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{error, warn};
use tsdb::catalog::DatasetRef;
use tsdb::span::{Order, Span};
use tsdb::store::row_batch::RowBatch;
use tsdb::store::{Count, PageRead, Sight, Store, StoreError};
use web::metrics::Metrics;

use crate::download_cache::{DownloadCache, PieceKey};
use crate::error::{Invalid, OperationError, Result};
use crate::etag::{ETag, KnownETags};
use crate::query::params::DownloadQuery;
use crate::read::fill::{Filler, Grid};
use crate::{Datasets, metrics};

/// Maximum number of concurrent downloads, since each of them holds a connection of the store and a
/// thread. Further requests are rejected with status 503.
pub(crate) const DOWNLOADS_MAX: usize = 8;

/// Maximum number of concurrent downloads of a key: half of [`DOWNLOADS_MAX`], so that no key can block
/// all other keys.
pub(crate) const DOWNLOADS_OF_KEY_MAX: usize = 4;

/// Size of a piece. It is large enough that the overhead of a piece is negligible, and small enough that
/// a download uses only a few hundred kilobytes of memory.
const PIECE_BYTES: usize = 128 * 1024;

/// Maximum number of pieces that are queued for a slow reader. Rendering waits while the queue is full.
const PIECES_MAX: usize = 2;

/// Time limit for the client to receive a piece. A slower download is cut off, since it holds a permit.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Time limit of a download. The archive retains obsolete files for longer than this, since a download
/// can still be reading them.
const DOWNLOAD_MAX: Duration = Duration::from_hours(6);

/// Maximum number of rows of a download with filled gaps: a century of five-minute buckets.
const FILLED_ROWS_MAX: u64 = 12_000_000;

/// Error for a download that was cut off. The reason is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("download is truncated")]
pub(crate) struct Truncated;

/// Body of a download, received piece by piece from the thread that renders it.
#[derive(Debug)]
pub(crate) struct Body {
    /// Pieces of the body. An empty piece marks the end of the data.
    queue: mpsc::Receiver<Bytes>,
    is_ended: bool,
}

impl Body {
    /// Returns the next piece of the body, or `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// [`Truncated`], once, if the body is incomplete.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Truncated>> {
        if self.is_ended {
            return None;
        }
        match self.queue.recv().await {
            Some(piece) if !piece.is_empty() => Some(Ok(piece)),
            end => {
                self.is_ended = true;
                end.is_none().then_some(Err(Truncated))
            }
        }
    }
}

/// Request to download the rows or buckets of a range.
#[derive(Debug, Clone)]
pub(crate) struct DownloadRequest {
    pub(crate) query: DownloadQuery,
    /// Content coding that the client and the service agreed on for the response.
    pub(crate) coding: Coding,
    /// Entity tags of the responses that the caller already has.
    pub(crate) known: KnownETags,
    /// Latest revision of the dataset that the caller has seen, if it sent one.
    pub(crate) seen: Option<u64>,
}

/// Response to a [`DownloadRequest`].
#[derive(Debug)]
pub(crate) enum DownloadResponse {
    /// The caller already has the current response, with this entity tag. The number is the revision of
    /// the dataset.
    NotModified(String, u64),
    Range(Download),
}

/// A download that has begun, with the properties of its response.
#[derive(Debug)]
pub(crate) struct Download {
    /// File name that the response suggests to a browser.
    pub(crate) file_name: String,
    /// Entity tag and number of rows. `None` if the range changed before it was read.
    pub(crate) facts: Option<RangeFacts>,
    /// Revision of the dataset up to which the download has all rows.
    pub(crate) revision: u64,
    pub(crate) body: Body,
}

/// Entity tag and number of rows of a range, which are known before the range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeFacts {
    pub(crate) tag: ETag,
    pub(crate) n_rows: u64,
    /// Revision at which the entity tag and the number of rows are valid.
    revision: u64,
}

impl Datasets {
    async fn find_source(
        &self,
        key: KeyId,
        query: &DownloadQuery,
        seen: Option<u64>,
    ) -> Result<Source> {
        let span = query.bounds.span(query.resolution)?;
        self.reach(key, &query.dataset, seen).await?;
        let sight = self.sight(key, query.dataset.clone()).await?;
        let DownloadQuery { resolution, extras, output, .. } = *query;
        let columns = query.columns.of(&sight, resolution, extras.complete)?.into_owned();
        let dataset = sight.dataset;
        let range = Range { dataset: dataset.id, resolution, span, fill: extras.fill };
        let current = extras.complete.then(|| resolution.bucket_start(self.clock.now()));
        let buckets = BucketFile { has_nulls: extras.fill == Fill::Null, current };
        let names = names_of(&columns);
        let form = ETag::hash((self.era, dataset.id, names, output, extras.fill, current));
        Ok(Source { dataset, columns, range, buckets, form })
    }

    /// Returns the entity tag and the number of rows of a range.
    ///
    /// # Errors
    /// [`OperationError::Invalid`] if the range is too long for filling its gaps.
    async fn facts(&self, range: Range, form: ETag) -> Result<RangeFacts> {
        let facts = self.read_store(move |store| range.facts(store, form)).await?;
        if range.fill != Fill::None && facts.n_rows > FILLED_ROWS_MAX {
            return Err(Invalid::from(format!(
                "range with filled gaps has {} buckets, the maximum is {FILLED_ROWS_MAX}; use \
                 narrower bounds or a coarser resolution",
                facts.n_rows
            ))
            .into());
        }
        Ok(facts)
    }

    /// Begins to read a range. Dropping the body cancels the download.
    ///
    /// # Errors
    /// The same as for [`Self::rows`], and [`OperationError::BUSY`] if [`DOWNLOADS_MAX`] or the limit of
    /// the key is reached.
    pub(crate) async fn download(
        &self,
        key: KeyId,
        wanted: DownloadRequest,
    ) -> Result<DownloadResponse> {
        let DownloadRequest { query, coding, known, seen } = wanted;
        let Source { dataset, columns, range, buckets, form } =
            self.find_source(key, &query, seen).await?;
        let place = self.downloads.try_acquire(key).ok_or(OperationError::BUSY)?;
        let facts = self.facts(range, form).await?;
        if let Some(tag) = known.find(facts.tag) {
            return Ok(DownloadResponse::NotModified(tag, facts.revision));
        }
        let (pieces, queue) = mpsc::channel(PIECES_MAX);
        let (started, start) = oneshot::channel();
        let file_name = file_name(&dataset.name, &query);
        let (runtime, group) = (Handle::current(), self.group.clone());
        let buckets = query.resolution.bucket().map(|_| buckets);
        let writer = DownloadWriter {
            document: Document::new(query.output, dataset.id, &columns, buckets),
            encoder: Encoder::new(coding),
            plain: Vec::new(),
            cache: Arc::clone(&self.download_cache),
            metrics: self.metrics.clone(),
            form,
            range,
            revision: facts.revision,
            started: Some(started),
            out: OutputQueue {
                bytes: Vec::new(),
                pieces,
                runtime,
                group,
                end: Instant::now() + DOWNLOAD_MAX,
            },
        };
        let store = Arc::clone(&self.store);
        let work = move || {
            writer.run(&*store);
            drop(place);
        };
        self.group.spawn_to_end("download", async move {
            if let Err(error) = spawn_blocking(work).await {
                error!(%error, "a download broke");
            }
        });
        let is_current = start.await.map_err(|_| OperationError::lost_task(&self.group))??;
        let body = Body { queue, is_ended: false };
        let (facts, revision) = (is_current.then_some(facts), facts.revision);
        Ok(DownloadResponse::Range(Download { file_name, facts, revision, body }))
    }
}

/// Range of a dataset that a download reads, and the form in which it renders the rows.
struct Source {
    dataset: Dataset,
    columns: Vec<Column>,
    range: Range,
    /// Form in which buckets are rendered. Ignored for raw rows.
    buckets: BucketFile,
    /// Hash of everything besides the rows that determines the bytes of the response.
    form: ETag,
}

/// Returns the names and types of the columns, which determine the bytes of a file.
fn names_of(columns: &[Column]) -> Vec<(&str, Dtype)> {
    columns.iter().map(|column| (column.name.as_str(), column.dtype)).collect()
}

/// Returns the file name of a download, made of the dataset, the resolution, the time zone and the days
/// of the bounds. It can have letters that are not ASCII.
fn file_name(dataset: &str, query: &DownloadQuery) -> String {
    let plain = |letter: char| {
        if letter.is_alphanumeric() || "-_.".contains(letter) { letter } else { '_' }
    };
    let mut parts = vec![dataset.to_owned(), query.resolution.to_string()];
    parts.extend(query.extras.time_zone.map(|zone| zone.to_string()));
    let days = [query.bounds.start, query.bounds.end].into_iter().flatten();
    parts.extend(days.filter_map(|day| Some(day.to_string().split('T').next()?.to_owned())));
    let name: String = parts.join("_").chars().map(plain).collect();
    format!("{name}.{}", query.output.extension())
}

/// A time range of a dataset, as raw rows or as buckets of a resolution.
#[derive(Debug, Clone, Copy)]
struct Range {
    dataset: DatasetId,
    resolution: Resolution,
    span: Span,
    fill: Fill,
}

impl Range {
    /// Returns the dataset as it is visible to the service now.
    fn sight(self, store: &dyn Store) -> Result<Sight, StoreError> {
        let sight = store.sight(None, &DatasetRef::Id(self.dataset))?;
        sight.ok_or(StoreError::NoDataset { dataset: self.dataset })
    }

    /// Returns the entity tag and the number of rows of the range at the latest revision. They can be
    /// wrong if a commit is made meanwhile, so the caller must compare revisions when it reads the rows.
    ///
    /// The tag of rows is a hash of the ids of their chunks and of the numbers of unsealed rows, so
    /// commits to rows outside of the range do not change it. The tag of buckets changes with every
    /// commit.
    fn facts(self, store: &dyn Store, form: ETag) -> Result<RangeFacts, StoreError> {
        let Self { dataset, resolution, span, fill } = self;
        let sight = self.sight(store)?;
        let revision = sight.revision;
        if resolution.bucket().is_some() {
            let order = Order::Ascending;
            let read = PageRead { resolution, span, order, skip: 0, limit: 0, count: Count::All };
            // Also fails early, before the response begins, if too many rows are needed to compute the
            // buckets.
            let n_stored = store.page_at(&sight, &read)?.count.unwrap_or(0);
            let n_rows = match fill {
                Fill::None => n_stored,
                _ => Grid::find(store, &sight, resolution, span)?.n_buckets,
            };
            let parts = (form, resolution, span.first, span.last, revision);
            return Ok(RangeFacts { tag: ETag::hash(parts), n_rows, revision });
        }
        let (mut names, mut n_rows) = (Vec::new(), 0_u64);
        store.scan(dataset, resolution, span, &mut |piece| {
            n_rows = n_rows.saturating_add(u64::try_from(piece.n_rows).unwrap_or(u64::MAX));
            names.push(match piece.chunk_id {
                Some(name) => ETag::hash(name),
                None => match piece.rows()? {
                    Rows::Raw(block) => ETag::hash(block.ids),
                    Rows::Buckets(_) => ETag::hash(revision),
                },
            });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(RangeFacts { tag: ETag::hash((form, names)), n_rows, revision })
    }
}

/// Renders, compresses and sends the rows of a download.
struct DownloadWriter {
    document: Document,
    encoder: Encoder,
    /// Rendered bytes that are not compressed yet.
    plain: Vec<u8>,
    cache: Arc<DownloadCache>,
    metrics: Metrics,
    form: ETag,
    range: Range,
    /// Revision at which the entity tag and the number of rows were determined.
    revision: u64,
    /// Receives one message once the rows are being read: true if the dataset still has the revision
    /// `revision`, or an error of the store.
    started: Option<oneshot::Sender<Result<bool, StoreError>>>,
    out: OutputQueue,
}

impl DownloadWriter {
    /// Writes the download and the end marker. If the client or the store fails, the end marker is
    /// missing.
    fn run(mut self, store: &dyn Store) {
        match self.write(store) {
            Ok(true) => drop(self.out.flush()),
            Ok(false) => {}
            Err(error) => {
                if let Some(started) = self.started.take() {
                    drop(started.send(Err(error)));
                } else {
                    let id = self.range.dataset;
                    error!(error = &error as &dyn Error, dataset.id = %id, "a download failed");
                }
            }
        }
    }

    /// Writes the download without the end marker. Returns true if all of it was sent.
    fn write(&mut self, store: &dyn Store) -> Result<bool, StoreError> {
        self.encoder.begin(&mut self.out.bytes);
        self.document.begin(&mut self.plain);
        let Range { resolution, span, fill, .. } = self.range;
        let sight = self.range.sight(store)?;
        let mut filler = Filler::new(fill, resolution);
        let mut is_reading = self.encoder.coding() != Coding::Identity || self.compress();
        store.scan_at(&sight, resolution, span, &mut |piece| {
            self.start(store);
            is_reading = match fill {
                Fill::None => self.write_piece(piece)?,
                _ => match piece.rows()? {
                    Rows::Buckets(buckets) => filler.feed(&buckets, |rows| self.write_rows(rows)),
                    Rows::Raw(_) => true,
                },
            };
            Ok(if is_reading { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        self.start(store);
        if !is_reading {
            return Ok(false);
        }
        self.document.end(&mut self.plain);
        if !self.compress() {
            return Ok(false);
        }
        self.encoder.end(&mut self.out.bytes);
        Ok(self.out.bytes.is_empty() || self.out.flush())
    }

    /// Signals, only once, that the rows are being read.
    fn start(&mut self, store: &dyn Store) {
        let Some(started) = self.started.take() else { return };
        let is_current = self.range.sight(store).is_ok_and(|now| now.revision == self.revision);
        // Sending fails only if the caller was cancelled, in which case nobody reads the body either.
        drop(started.send(Ok(is_current)));
    }

    /// Writes a batch of rows. Returns false if the client is gone.
    ///
    /// In formats that can be assembled from pieces, the rows of a sealed chunk are compressed once and
    /// cached.
    fn write_piece(&mut self, piece: RowBatch<'_>) -> Result<bool, StoreError> {
        let n_rows = u64::try_from(piece.n_rows).unwrap_or(u64::MAX);
        self.metrics.add_n(metrics::ROWS_OUT, &["bulk_download"], n_rows);
        let coding = self.encoder.coding();
        let Some(name) = piece.chunk_id.filter(|_| coding != Coding::Identity) else {
            return Ok(self.write_rows(&piece.rows()?));
        };
        let Some(joint) = self.document.joint() else { return Ok(self.write_rows(&piece.rows()?)) };
        if !self.compress() {
            return Ok(false);
        }
        let key = PieceKey { rows: name, form: self.form, coding };
        let cached = self.cache.get(key);
        let found = if cached.is_some() { "kept" } else { "made" };
        self.metrics.add(metrics::PIECES, &[found]);
        let packed = if let Some(packed) = cached {
            Ok(packed)
        } else {
            self.document.bare(&mut self.plain, &piece.rows()?);
            let packed = pack(coding, &self.plain);
            self.plain.clear();
            packed.inspect(|packed| self.cache.put(key, packed))
        };
        let out = &mut self.out.bytes;
        let written = packed.and_then(|packed| {
            self.encoder.glue(out, joint)?;
            self.encoder.push_packed(out, &packed);
            Ok(())
        });
        Ok(is_compressed(&written) && self.out.flush_if_long())
    }

    /// Renders rows, and compresses and sends them once a piece is complete. Returns false if the client
    /// is gone.
    fn write_rows(&mut self, rows: &Rows) -> bool {
        if self.encoder.coding() == Coding::Identity {
            self.document.rows(&mut self.out.bytes, rows);
            return self.out.flush_if_long();
        }
        self.document.rows(&mut self.plain, rows);
        self.plain.len() < PIECE_BYTES || self.compress()
    }

    /// Compresses the rendered bytes. Returns false if the client is gone.
    fn compress(&mut self) -> bool {
        let packed = self.encoder.push(&mut self.out.bytes, &self.plain);
        self.plain.clear();
        is_compressed(&packed) && self.out.flush_if_long()
    }
}

fn is_compressed(written: &io::Result<()>) -> bool {
    if let Err(error) = written {
        error!(%error, "a download could not be compressed");
    }
    written.is_ok()
}

/// Collects the bytes of a body and sends them to the response as pieces.
struct OutputQueue {
    bytes: Vec<u8>,
    pieces: mpsc::Sender<Bytes>,
    runtime: Handle,
    group: Group,
    /// Deadline of the download, after which it is cut off.
    end: Instant,
}

impl OutputQueue {
    fn flush_if_long(&mut self) -> bool {
        self.bytes.len() < PIECE_BYTES || self.flush()
    }

    /// Sends the collected bytes as a piece. Returns false if the client is gone or too slow.
    fn flush(&mut self) -> bool {
        let capacity = self.bytes.capacity();
        let piece = Bytes::from(mem::replace(&mut self.bytes, Vec::with_capacity(capacity)));
        let left = self.end.saturating_duration_since(Instant::now());
        let sent = self.pieces.send_timeout(piece, STALL_MAX.min(left));
        let group = &self.group;
        let sent = self.runtime.block_on(async {
            select! {
                biased; // nothing more is sent once the service stops
                () = group.stopped() => None,
                sent = sent => Some(sent),
            }
        });
        match sent {
            Some(Ok(())) if !left.is_zero() => true,
            Some(Err(SendTimeoutError::Closed(_))) | None => false,
            Some(Err(SendTimeoutError::Timeout(_))) if STALL_MAX <= left => {
                warn!("cut off a download whose reader stalled for {} s", STALL_MAX.as_secs());
                false
            }
            Some(_) => {
                let hours = DOWNLOAD_MAX.as_secs() / 3600;
                warn!("cut off a download that took longer than {hours} hours");
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn download_ends_at_its_deadline() {
        let (pieces, mut queue) = mpsc::channel(PIECES_MAX);
        let end = Instant::now() + Duration::from_millis(50);
        let (runtime, group) = (Handle::current(), Group::default());
        let mut out = OutputQueue { bytes: Vec::new(), pieces, runtime, group, end };
        let writing = spawn_blocking(move || ((0..=PIECES_MAX).all(|_| out.flush()), out));
        let written = timeout(Duration::from_secs(9), writing).await;
        let (is_taken, mut out) = written.expect("it waits for its reader").unwrap();
        assert!(!is_taken);
        queue.recv().await.unwrap();
        assert!(!spawn_blocking(move || out.flush()).await.unwrap(), "there is space again");
    }
}
