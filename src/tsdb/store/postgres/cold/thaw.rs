//! Putting chunks back into the database: writers change them there alone.

use std::{collections::HashMap, future::Future};

use bytes::Bytes;
use db::postgres::connections::Connections;
use futures::FutureExt as _;
use model::dataset::DatasetId;
use sqlx::PgConnection;

use super::{Cold, in_objects, into_needed, remove};
use crate::store::{
    postgres::{
        Result, StoreError,
        chunks::{self, SealedLists},
        head::Head,
        place::{At, ExtentKey, Place},
    },
    series::SeriesId,
};

/// How often a write begins again since it came upon chunks in objects. Each time it gets further.
pub(in super::super) const THAWS_MAX: usize = 32;

/// Chunks that are put back in one transaction, of whatever segments: as many as one has. The sooner it is
/// done, the less others seal meanwhile.
const AT_ONCE_MAX: usize = 1024;

/// Runs `write`, and puts the chunks that it needs back into the database, until it is done.
pub(in super::super) async fn thawing<T, F: Future<Output = Result<T>>>(
    connections: &Connections,
    cold: Option<&Cold>,
    dataset: DatasetId,
    mut write: impl FnMut() -> F,
) -> Result<T> {
    for _ in 0..THAWS_MAX {
        match write().await {
            Ok(done) => return Ok(done),
            Err(error) => thaw_needed(connections, cold, dataset, error).await?,
        }
    }
    write().await
}

/// Puts the chunks back into the database that a write needs, which failed with `error`.
///
/// # Errors
/// `error`, if the write needs none, or that of the objects.
pub(in super::super) async fn thaw_needed(
    connections: &Connections,
    cold: Option<&Cold>,
    dataset: DatasetId,
    error: StoreError,
) -> Result<()> {
    let places = into_needed(error)?;
    let Some(cold) = cold else { return Err(in_objects(dataset, places)) };
    // Else one segment after another: a late batch may be in more than memory or a transaction holds.
    let is_short = places.len() <= AT_ONCE_MAX;
    for places in places.chunk_by(|a, b| is_short || a.id == b.id) {
        let (places, fetched) = (places.to_vec(), cold.fetch(dataset, places).await?);
        connections.write(|c| put_back(c, dataset, places, fetched).boxed()).await?;
    }
    Ok(())
}

/// Puts chunks back into the database, unless another service did meanwhile.
async fn put_back(
    c: &mut PgConnection,
    dataset: DatasetId,
    places: Vec<Place>,
    fetched: Vec<(ExtentKey, Bytes)>,
) -> Result<()> {
    Head::lock(c, dataset).await?;
    let mut fetched: HashMap<ExtentKey, Bytes> = fetched.into_iter().collect();
    let mut lists = SealedLists::default();
    for place in remove(c, dataset, &places).await? {
        let At::Object(extent) = place.at else { continue };
        // A chunk that is removed and not put back would be lost.
        let Some(bytes) = fetched.remove(&extent.key()) else {
            return Err(in_objects(dataset, vec![place]));
        };
        let (times, body) = extent.split(&bytes);
        lists.add_stored(&place, extent.last_row, times, body);
    }
    chunks::insert_lists(c, SeriesId::rows(dataset), lists).await
}
