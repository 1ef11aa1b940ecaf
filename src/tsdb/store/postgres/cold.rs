//! Old chunks of rows outside of the database: in objects, such as those of an S3 bucket.
//!
//! A segment is a run of chunks that are one after another in an object; its record has their places, so
//! that a reader asks for the bytes that it needs and nothing else. What stands for a chunk in an object
//! is where it is, which nothing else ever is. Spans of segments and of the chunks in the database do
//! not overlap.
//!
//! No connection waits for an object. A statement that comes upon a chunk in one fails with
//! `InObjects`; then the bytes are fetched, and all of it begins again. A reader has them in memory
//! the second time. A writer puts such chunks back into the database first: there alone they change.
//! Only a scan keeps its connection, and with it its snapshot, while it reads objects.

mod index;
mod orphans;
pub mod owner;
mod pages;
mod read_ahead;
mod seal;
mod segments;
mod sweep;
mod thaw;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Display,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use db::postgres::connections::{Connections, Snapshot};
use futures::future::BoxFuture;
use model::dataset::DatasetId;
use sqlx::PgConnection;
use tokio::sync::Mutex;
use uuid::Uuid;

pub(super) use self::{
    orphans::adopt,
    pages::read,
    read_ahead::ReadAhead,
    seal::seal_all,
    segments::{all_places, covering, cut, expand, places, remove, since, touching},
    sweep::sweep,
    thaw::{THAWS_MAX, thaw_needed, thawing},
};
use super::{
    PostgresStore, Result, StoreError,
    place::{At, Extent, ExtentKey, Place},
};
use crate::{
    codec::DecodeError,
    store::objects::{ObjectError, Objects},
};

/// Where old chunks go, and when.
#[derive(Debug, Clone)]
pub struct ColdOptions {
    /// Where the objects are.
    pub objects: Objects,
    /// The newest chunks of each dataset that stay in the database.
    pub n_hot_chunks: usize,
    /// The fewest chunks that are worth an object.
    pub n_chunks_min: usize,
    /// How often chunks are looked for that are old enough, and objects to delete: each time those of
    /// each dataset are counted. Rounded up to the store's other maintenance.
    pub seal_every: Duration,
    /// How long an object is kept after nothing refers to it any more: longer than the longest download,
    /// and than a backup of the database is old when it is restored.
    pub grace: Duration,
}

/// Where the chunks of a store are that are not in the database.
#[derive(Debug, Clone)]
pub(super) struct Cold {
    objects: Objects,
    /// `None` where objects are read, and none is written or deleted.
    sealing: Option<Arc<Sealing>>,
}

/// How objects are written and deleted.
#[derive(Debug)]
struct Sealing {
    options: ColdOptions,
    /// Is locked while this service claims them: its own claims need not overtake each other.
    claiming: Mutex<()>,
}

/// Bytes of chunks in objects.
pub(super) type Fetched = Arc<HashMap<ExtentKey, Bytes>>;

/// A statement came upon chunks in objects whose bytes it needs.
#[derive(Debug, thiserror::Error)]
#[error("find chunks in objects; tell this service where these are, or send it again")]
pub(super) struct InObjects(Vec<Place>);

impl StoreError {
    /// Whether rows are in objects, and the store was opened without the place of these.
    pub fn lacks_objects(&self) -> bool {
        matches!(self, Self::Cold { source, .. } if source.is::<InObjects>())
    }

    /// The error of the object store, if rows there could not be read.
    pub fn object_error(&self) -> Option<&ObjectError> {
        match self {
            Self::Cold { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}

/// The error of a statement that needs these chunks.
pub(super) fn in_objects(dataset: DatasetId, places: Vec<Place>) -> StoreError {
    StoreError::Cold { dataset, source: Box::new(InObjects(places)) }
}

/// The chunks that a statement needs; its error if it is another one.
pub(super) fn into_needed(error: StoreError) -> Result<Vec<Place>> {
    match error {
        StoreError::Cold { dataset, source } => match source.downcast::<InObjects>() {
            Ok(needed) => Ok(needed.0),
            Err(source) => Err(StoreError::Cold { dataset, source }),
        },
        error => Err(error),
    }
}

/// Tests that the bytes of all of some chunks in objects were fetched.
///
/// # Errors
/// That those of some were not.
pub(super) fn require(dataset: DatasetId, places: &[Place], fetched: &Fetched) -> Result<()> {
    let is_missing = |place: &&Place| place.key().is_none_or(|key| !fetched.contains_key(&key));
    let missing: Vec<Place> = places.iter().filter(is_missing).copied().collect();
    if missing.is_empty() { Ok(()) } else { Err(in_objects(dataset, missing)) }
}

/// The error of a place of objects.
fn cold_error(dataset: DatasetId, error: ObjectError) -> StoreError {
    StoreError::Cold { dataset, source: error.into() }
}

/// The key of an object of a dataset.
fn key_of(dataset: DatasetId, object: impl Display) -> String {
    format!("{dataset}/{object}")
}

impl Cold {
    pub(super) fn new(options: ColdOptions) -> Self {
        let objects = options.objects.clone();
        Self { objects, sealing: Some(Arc::new(Sealing { options, claiming: Mutex::default() })) }
    }

    /// Reads chunks, and writes and deletes none.
    pub(super) const fn reading(objects: Objects) -> Self {
        Self { objects, sealing: None }
    }

    /// How often chunks are looked for that are old enough.
    pub(super) fn seal_every(&self) -> Duration {
        self.sealing.as_ref().map(|sealing| sealing.options.seal_every).unwrap_or_default()
    }

    /// Reads chunks in objects.
    ///
    /// # Errors
    /// [`StoreError::Cold`] if an object cannot be read, [`StoreError::Damaged`] if it is not what was
    /// written.
    pub(super) async fn fetch(
        &self,
        dataset: DatasetId,
        places: &[Place],
    ) -> Result<Vec<(ExtentKey, Bytes)>> {
        let mut objects: BTreeMap<Uuid, Vec<Extent>> = BTreeMap::new();
        for place in places {
            if let At::Object(extent) = place.at {
                objects.entry(extent.object).or_default().push(extent);
            }
        }
        let mut fetched = Vec::with_capacity(places.len());
        for (object, chunks) in objects {
            let ranges: Vec<_> = chunks.iter().map(Extent::range).collect();
            let read = self.objects.read_ranges(&key_of(dataset, object), &ranges).await;
            let parts = read.map_err(|error| cold_error(dataset, error))?;
            for (idx, extent) in chunks.into_iter().enumerate() {
                let bytes = parts.get(idx).cloned().unwrap_or_default();
                extent.check(&bytes).map_err(|source| StoreError::Damaged { dataset, source })?;
                fetched.push((extent.key(), bytes));
            }
        }
        Ok(fetched)
    }
}

impl PostgresStore {
    /// Runs `read`, whose statements see one snapshot, with the chunks in objects that it needs. Blocks.
    pub(super) fn read_rows<T: Send>(
        &self,
        connections: &Connections,
        dataset: DatasetId,
        read: impl for<'c> Fn(&'c mut PgConnection, Fetched) -> BoxFuture<'c, Result<T>> + Sync,
    ) -> Result<T> {
        let mut fetched = Fetched::default();
        loop {
            let read = connections.read(Snapshot::Transaction, |c| read(c, Arc::clone(&fetched)));
            let places = match self.wait(read) {
                Ok(done) => return Ok(done),
                Err(error) => into_needed(error)?,
            };
            let new = match &self.cold {
                Some(cold) => self.wait(cold.fetch(dataset, &places))?,
                None => return Err(in_objects(dataset, places)),
            };
            let n_before = fetched.len();
            Arc::make_mut(&mut fetched).extend(new);
            if fetched.len() == n_before {
                return Err(StoreError::Damaged { dataset, source: DecodeError::MISSING });
            }
        }
    }
}
