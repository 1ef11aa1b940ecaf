//! The index of a segment: where in its object which chunk is, and what it covers.

use db::postgres::fault::unsigned;
use model::{dataset::DatasetId, timestamp::Timestamp};
use uuid::Uuid;

use crate::{
    codec::{DecodeError, decode_lists, encode_lists},
    span::Span,
    store::postgres::{
        Result, StoreError,
        place::{At, Extent, Place},
    },
};

/// Writes the places of chunks, which are in order, one after another in one object.
pub(super) fn encode(chunks: &[(Place, Extent)]) -> Vec<u8> {
    let list = |number: fn(&Place, &Extent) -> i64| {
        chunks.iter().map(|(place, extent)| number(place, extent)).collect::<Vec<_>>()
    };
    encode_lists(&[
        list(|place, _| place.span.first.micros()),
        list(|place, _| place.span.last.micros()),
        list(|place, _| i64::try_from(place.n).unwrap_or(i64::MAX)),
        list(|_, extent| extent.last_row),
        list(|_, extent| extent.offset),
        list(|_, extent| extent.n_times),
        list(|_, extent| extent.n_body),
    ])
}

/// Reads the places of the chunks of a segment in their order.
pub(super) fn decode(
    dataset: DatasetId,
    segment: i64,
    object: &str,
    bytes: &[u8],
) -> Result<Vec<Place>> {
    let damaged = |source| StoreError::Damaged { dataset, source };
    let object: Uuid = object.parse().map_err(|_| damaged(DecodeError::MISSING))?;
    let lists: [Vec<i64>; 7] = decode_lists(bytes).map_err(damaged)?;
    let n_chunks = lists.first().map_or(0, Vec::len);
    let place = |idx: usize| {
        let [first, last, n, last_row, offset, n_times, n_body] =
            std::array::from_fn(|nth| numbers(&lists, nth, idx));
        let extent = Extent { object, last_row, offset, n_times, n_body };
        let span =
            Span { first: Timestamp::from_micros(first), last: Timestamp::from_micros(last) };
        Ok(Place { id: segment, span, n: unsigned(n)?, at: At::Object(extent) })
    };
    (0..n_chunks).map(place).collect()
}

fn numbers(lists: &[Vec<i64>], nth: usize, idx: usize) -> i64 {
    lists.get(nth).and_then(|list| list.get(idx)).copied().unwrap_or_default()
}
