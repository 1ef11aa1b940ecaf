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

/// Bytes from which on no more chunks are put back in the same transaction: they are in memory meanwhile.
const BYTES_MAX: i64 = 32 << 20;

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
    for places in parts(&places) {
        let (places, fetched) = (places.to_vec(), cold.fetch(dataset, places).await?);
        connections.write(|c| put_back(c, dataset, places, fetched).boxed()).await?;
    }
    Ok(())
}

/// Divides what is put back into the part of each transaction: a late batch may need more than memory or
/// a transaction holds. Where there are many, none has chunks of several segments.
fn parts(places: &[Place]) -> impl Iterator<Item = &[Place]> {
    let is_short = places.len() <= AT_ONCE_MAX;
    let mut n_bytes = 0;
    places.chunk_by(move |place, next| {
        n_bytes += place.n_bytes_fetched();
        let is_one = (is_short || place.id == next.id) && n_bytes < BYTES_MAX;
        if !is_one {
            n_bytes = 0;
        }
        is_one
    })
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

#[cfg(test)]
mod tests {
    use model::timestamp::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::{span::Span, store::postgres::place::Extent};

    /// Chunks of `n_body` bytes, `n_chunks` in each of `n_segments`.
    fn chunks(n_segments: i64, n_chunks: i64, n_body: i64) -> Vec<Place> {
        let place = |id, nth| {
            let time = Timestamp::from_seconds(id * 1_000_000 + nth);
            let offset = nth * n_body;
            let extent = Extent { object: Uuid::nil(), last_row: 1, offset, n_times: 0, n_body };
            let span = Span { first: time, last: time };
            Place { id, span, n: 1, at: At::Object(extent) }
        };
        (0..n_segments).flat_map(|id| (0..n_chunks).map(move |nth| place(id, nth))).collect()
    }

    fn lengths(places: &[Place]) -> Vec<usize> {
        parts(places).map(<[Place]>::len).collect()
    }

    #[test]
    fn what_is_put_back_at_once_is_bounded_in_chunks_and_bytes() {
        assert!(lengths(&[]).is_empty());
        assert_eq!(lengths(&chunks(3, 10, 45_000)), [30]);
        assert_eq!(lengths(&chunks(3, 600, 100)), [600, 600, 600]);
        assert_eq!(lengths(&chunks(1, 10, 10 << 20)), [4, 4, 2]);
        assert_eq!(lengths(&chunks(2, 2, 40 << 20)), [1, 1, 1, 1]);
    }
}
