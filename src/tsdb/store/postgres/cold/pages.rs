//! Reading chunks for a page, from the database and from objects.

use model::{dataset::DatasetId, resolution::Resolution};
use sqlx::PgConnection;

use super::{Fetched, in_objects, places};
use crate::{
    span::{Order, Span},
    store::{
        postgres::{
            Result,
            chunks::{self, Chunk, READ_BYTES_MAX},
            place::Place,
        },
        series::SeriesId,
    },
};

/// The first chunks of those that touch a span, in the given order, as [`chunks::read`] returns them,
/// with those in objects, whose bytes are among the `fetched` ones.
///
/// # Errors
/// That some are not.
pub(in super::super) async fn read(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
    order: Order,
    limit: i64,
    fetched: &Fetched,
) -> Result<(Vec<Chunk>, bool)> {
    let (hot, mut is_all) = chunks::read(c, series, span, order, limit).await?;
    if series.resolution != Resolution::Raw {
        return Ok((hot, is_all));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let in_objects = places(c, series, span, order, limit).await?;
    if in_objects.is_empty() {
        return Ok((hot, is_all));
    }
    // Where a list goes on, what is after its last chunk has to wait.
    let end_of_hot = hot.last().filter(|_| !is_all).map(|chunk| chunk.place.span.last);
    let goes_on = in_objects.len() == limit;
    let end_of_cold = in_objects.last().filter(|_| goes_on).map(|place| place.span.last);
    is_all &= !goes_on;
    let mut all: Vec<(Place, Option<Chunk>)> =
        hot.into_iter().map(|chunk| (chunk.place, Some(chunk))).collect();
    all.extend(in_objects.into_iter().map(|place| (place, None)));
    all.sort_unstable_by_key(|(place, _)| place.span.last);
    if order == Order::Descending {
        all.reverse();
    }
    for end in [end_of_hot, end_of_cold].into_iter().flatten() {
        let end = all.iter().position(|(place, _)| place.span.last == end);
        all.truncate(end.map_or(all.len(), |end| end + 1));
    }
    let n_found = all.len();
    all.truncate(limit.min(n_first(&all)));
    is_all &= all.len() == n_found;
    resolve(series.dataset, all, fetched).map(|chunks| (chunks, is_all))
}

/// How many of the first chunks have together no more bytes in objects than one statement reads.
fn n_first(chunks: &[(Place, Option<Chunk>)]) -> usize {
    let mut n_bytes = 0;
    let n_within = chunks.iter().take_while(|(place, _)| {
        let passed = n_bytes;
        n_bytes += place.n_bytes_fetched();
        passed <= READ_BYTES_MAX
    });
    n_within.count()
}

/// Chunks with those that were fetched.
fn resolve(
    dataset: DatasetId,
    chunks: Vec<(Place, Option<Chunk>)>,
    fetched: &Fetched,
) -> Result<Vec<Chunk>> {
    let (mut found, mut missing) = (Vec::with_capacity(chunks.len()), Vec::new());
    for (place, chunk) in chunks {
        match chunk.or_else(|| Chunk::from_fetched(place, fetched)) {
            Some(chunk) => found.push(chunk),
            None => missing.push(place),
        }
    }
    if missing.is_empty() { Ok(found) } else { Err(in_objects(dataset, missing)) }
}
