//! Reading rows: a page, the newest ones, a whole range.

use std::{
    error::Error,
    mem,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use accounts::KeyId;
use bytes::Bytes;
use model::{
    dataset::{Column, DatasetId},
    resolution::Resolution,
    timestamp::Timestamp,
};
use task::group::Group;
use tokio::{
    runtime::Handle,
    select,
    sync::{mpsc, mpsc::error::SendTimeoutError},
    task::spawn_blocking,
};
use tracing::{error, warn};

use crate::{
    Datasets,
    block::Rows,
    query::{
        Order, Position, QueryError, RowsQuery, Span,
        params::{DownloadQuery, LiveQuery, Output},
    },
    render::Writer,
    store::{Count, PageRead, Store, StoreError},
};

/// Downloads at a time: each holds a connection of the store and a thread. One more is asked to come
/// again.
pub(crate) const DOWNLOADS_MAX: usize = 8;

/// Bytes of a download handed on in one piece: enough that the pieces cost nothing, few enough that
/// a download takes a few hundred kilobytes of memory.
const PIECE_BYTES: usize = 128 * 1024;

/// Pieces that wait for a slow reader. Then rendering waits, too.
const PIECES_MAX: usize = 2;

/// How long a download waits for its reader to take a piece. Then it is cut off: it holds what
/// others wait for.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Why rows were not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ReadError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The query asks what it may not.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// There are too many downloads.
    #[error("too many downloads are under way")]
    Busy,
    /// The store failed.
    #[error("read rows")]
    Store(#[from] StoreError),
}

/// Where the page after this one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is none: the data ends here.
    End,
    /// After this many rows.
    Offset(u64),
    /// After the row at this moment.
    After(Timestamp),
}

/// A page of rows, and what is needed to write it.
#[derive(Debug)]
pub(crate) struct RowsPage {
    pub(crate) dataset: DatasetId,
    pub(crate) columns: Vec<Column>,
    /// How many match in all; 0 with a cursor, by document 2.
    pub(crate) count: u64,
    /// The rows, in the order asked for.
    pub(crate) rows: Rows,
    pub(crate) next: Next,
}

/// A download ends before all of it is read. The log says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read all of the download")]
pub(crate) struct BrokenOff;

/// A download under way.
#[derive(Debug)]
pub(crate) struct Pieces {
    queue: mpsc::Receiver<Bytes>,
    /// Whether the last piece has been handed on. Until then an end is not the end of the data.
    is_whole: Arc<AtomicBool>,
    is_ended: bool,
}

impl Pieces {
    /// The next piece of the body; none at the end. Cancel-safe.
    ///
    /// # Errors
    /// [`BrokenOff`], once, if the body ends too early.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        if let Some(piece) = self.queue.recv().await {
            return Some(Ok(piece));
        }
        let is_first = !mem::replace(&mut self.is_ended, true);
        (is_first && !self.is_whole.load(Ordering::Acquire)).then_some(Err(BrokenOff))
    }
}

impl Datasets {
    /// Reads a page, and makes of it what `convert` makes, on a thread that may take its time.
    ///
    /// # Errors
    /// [`ReadError::NotFound`] if `key` does not see the dataset, [`ReadError::Query`] if the query
    /// asks too much.
    pub(crate) async fn rows<T: Send + 'static>(
        &self,
        key: KeyId,
        query: RowsQuery,
        convert: impl FnOnce(RowsPage) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let now = self.clock.now();
        let page = self.blocking(move |store| {
            let Some(grant) = store.grant(key, &query.dataset)? else {
                return Ok(Err(ReadError::NotFound));
            };
            let newest = if query.is_open() { store.newest_moment(grant.dataset)? } else { None };
            let span = match query.span(newest, now) {
                Ok(span) => span,
                Err(error) => return Ok(Err(error.into())),
            };
            Ok(Ok(convert(page(store, grant.dataset, &query, span)?)))
        });
        page.await?
    }

    /// Reads the newest rows of a dataset, newest first, and makes of them what `convert` makes.
    ///
    /// # Errors
    /// As [`Self::rows`].
    pub(crate) async fn newest<T: Send + 'static>(
        &self,
        key: KeyId,
        query: LiveQuery,
        convert: impl FnOnce(RowsPage) -> T + Send + 'static,
    ) -> Result<T, ReadError> {
        let span = query.bounds.span(Resolution::Raw)?;
        let query = RowsQuery {
            dataset: query.dataset,
            resolution: Resolution::Raw,
            bounds: query.bounds,
            order: Order::Descending,
            limit: query.limit,
            position: Position::Offset(0),
        };
        let page = self.blocking(move |store| {
            let Some(grant) = store.grant(key, &query.dataset)? else { return Ok(None) };
            Ok(Some(convert(page(store, grant.dataset, &query, span)?)))
        });
        page.await?.ok_or(ReadError::NotFound)
    }

    /// Starts reading a whole range, as it is at this moment. Dropping the pieces ends it.
    ///
    /// # Errors
    /// As [`Self::rows`], and [`ReadError::Busy`] at [`DOWNLOADS_MAX`].
    pub(crate) async fn download(
        &self,
        key: KeyId,
        query: DownloadQuery,
    ) -> Result<Pieces, ReadError> {
        let span = query.bounds.span(query.resolution)?;
        let which = query.dataset.clone();
        let found = self.blocking(move |store| match store.grant(key, &which)? {
            None => Ok(None),
            Some(grant) => Ok(Some((grant.dataset, store.columns(grant.dataset)?))),
        });
        let (dataset, columns) = found.await?.ok_or(ReadError::NotFound)?;
        let permit =
            Arc::clone(&self.downloads).try_acquire_owned().map_err(|_| ReadError::Busy)?;
        let (sender, queue) = mpsc::channel(PIECES_MAX);
        let is_whole = Arc::new(AtomicBool::new(false));
        let store = Arc::clone(&self.store);
        let (writer, runtime) = (Writer::new(dataset, &columns), Handle::current());
        let group = self.group.clone();
        let sink = Sink {
            writer,
            pieces: sender,
            is_whole: Arc::clone(&is_whole),
            runtime,
            group,
            buffer: Vec::new(),
        };
        let work = move || {
            sink.run(&*store, dataset, &query, span);
            drop(permit);
        };
        self.group.spawn_to_end("download", async move {
            if let Err(error) = spawn_blocking(work).await {
                error!(%error, "a download broke");
            }
        });
        Ok(Pieces { queue, is_whole, is_ended: false })
    }
}

/// Reads a page; one row more than asked for tells whether there is a next one.
fn page(
    store: &dyn Store,
    dataset: DatasetId,
    query: &RowsQuery,
    span: Span,
) -> Result<RowsPage, StoreError> {
    let limit = query.limit.get();
    let (skip, count) = match query.position {
        Position::Offset(skip) => (skip, Count::All),
        Position::After(_) => (0, Count::Nothing),
    };
    let RowsQuery { resolution, order, .. } = *query;
    let read = PageRead { resolution, span, order, skip, limit: limit + 1, count };
    let columns = store.columns(dataset)?;
    let mut page = store.page(dataset, &read)?;
    let last = match &mut page.rows {
        Rows::Raw(block) if block.len() > limit => {
            *block = block.part(0..limit);
            block.times.last().copied()
        }
        Rows::Buckets(buckets) if buckets.len() > limit => {
            buckets.truncate(limit);
            buckets.last().map(|bucket| bucket.timestamp)
        }
        Rows::Raw(_) | Rows::Buckets(_) => None,
    };
    let next = match (last, query.position) {
        (None, _) => Next::End,
        (Some(last), Position::After(_)) => Next::After(last),
        (Some(_), Position::Offset(skip)) => {
            Next::Offset(skip.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX)))
        }
    };
    Ok(RowsPage { dataset, columns, count: page.count.unwrap_or(0), rows: page.rows, next })
}

/// Writes a download, piece by piece.
struct Sink {
    writer: Writer,
    pieces: mpsc::Sender<Bytes>,
    is_whole: Arc<AtomicBool>,
    runtime: Handle,
    group: Group,
    buffer: Vec<u8>,
}

impl Sink {
    /// Writes all of it, unless the reader or the store fails, and says so before it lets go of the
    /// channel.
    fn run(mut self, store: &dyn Store, dataset: DatasetId, query: &DownloadQuery, span: Span) {
        let (output, resolution) = (query.output, query.resolution);
        self.writer.header(&mut self.buffer, output, resolution.bucket().is_some());
        let mut is_wanted = true;
        let scanned = store.scan(dataset, resolution, span, &mut |piece| {
            match &piece {
                Rows::Raw(block) => self.writer.rows(&mut self.buffer, block, output),
                Rows::Buckets(buckets) => {
                    self.writer.buckets(&mut self.buffer, buckets, output);
                }
            }
            is_wanted = self.buffer.len() < PIECE_BYTES || self.flush();
            if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Err(error) = scanned {
            error!(error = &error as &dyn Error, dataset.id = %dataset, "a download failed");
        } else if is_wanted {
            if output == Output::Json {
                self.buffer.push(b']');
            }
            let is_whole = self.flush();
            self.is_whole.store(is_whole, Ordering::Release);
        }
    }

    /// Hands on what is written; whether the reader takes more.
    fn flush(&mut self) -> bool {
        let piece = Bytes::from(mem::take(&mut self.buffer));
        let sent = self.pieces.send_timeout(piece, STALL_MAX);
        let group = &self.group;
        let sent = self.runtime.block_on(async {
            select! {
                sent = sent => Some(sent),
                () = group.stopped() => None,
            }
        });
        match sent {
            Some(Ok(())) => true,
            Some(Err(SendTimeoutError::Closed(_))) | None => false,
            Some(Err(SendTimeoutError::Timeout(_))) => {
                warn!("cut off a download whose reader took nothing for {} s", STALL_MAX.as_secs());
                false
            }
        }
    }
}
