//! Following a dataset: its newest rows again, and then each new one.

use accounts::KeyId;
use bytes::Bytes;
use model::{dataset::DatasetId, page::REPLAY_ROWS};
use wire::datasets::EVENT_DATA;

use crate::{
    Datasets,
    block::Block,
    catalog::CatalogError,
    hub::{CutOff, HubFull, Subscription},
    query::DatasetRef,
    render::Writer,
    store::StoreError,
};

/// Why a dataset cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum FollowError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// There are too many streams.
    #[error("too many streams are open")]
    Full(#[from] HubFull),
    /// The store failed.
    #[error("read the newest rows")]
    Store(#[from] StoreError),
    /// The catalogue failed.
    #[error("find the dataset")]
    Catalog(#[from] CatalogError),
}

/// A dataset being followed.
#[derive(Debug)]
pub(crate) struct Following {
    /// Which.
    pub(crate) dataset: DatasetId,
    /// Its newest rows as events, oldest first.
    pub(crate) replay: Bytes,
    /// The last commit that the replay includes.
    revision: u64,
    live: Subscription,
}

impl Following {
    /// The next rows as events, each commit after the replay once; none when the service stops.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`CutOff`] if the reader is too slow.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CutOff> {
        loop {
            match self.live.next().await? {
                None => return Ok(None),
                // Between subscribing and reading the replay some commits came both ways.
                Some(frame) if frame.revision <= self.revision => {}
                Some(frame) => return Ok(Some(frame.events)),
            }
        }
    }
}

impl Datasets {
    /// Follows a dataset that `key` sees: the newest [`REPLAY_ROWS`] rows, and every commit after
    /// them.
    ///
    /// # Errors
    /// [`FollowError`].
    pub(crate) async fn follow(
        &self,
        key: KeyId,
        which: DatasetRef,
    ) -> Result<Following, FollowError> {
        let grant = self.grant(key, which).await?.ok_or(FollowError::NotFound)?;
        let dataset = grant.dataset;
        // In this order no commit can be missed.
        let live = self.hub.subscribe(dataset)?;
        let replay = self.blocking(move |store| {
            let columns = store.columns(dataset)?;
            let newest = store.newest(dataset, REPLAY_ROWS)?;
            let mut writer = Writer::new(dataset, &columns);
            let mut events = Vec::new();
            for row_idx in 0..newest.rows.len() {
                push_data_event(&mut events, &mut writer, &newest.rows, row_idx);
            }
            Ok((Bytes::from(events), newest.revision))
        });
        let (replay, revision) = replay.await?;
        Ok(Following { dataset, replay, revision, live })
    }
}

/// A row as a server-sent event.
pub(crate) fn push_data_event(to: &mut Vec<u8>, writer: &mut Writer, rows: &Block, row_idx: usize) {
    to.extend_from_slice(b"event: ");
    to.extend_from_slice(EVENT_DATA.as_bytes());
    to.extend_from_slice(b"\ndata: ");
    writer.flat_row(to, rows, row_idx);
    to.extend_from_slice(b"\n\n");
}
