//! Reading the chunks of a scan in pieces of objects, each larger than the one before while all of them
//! are asked for.

use std::sync::Arc;

use model::dataset::DatasetId;

use super::{Cold, Fetched, in_objects};
use crate::store::postgres::{
    Result,
    place::{At, Place},
};

/// Chunks of a piece at most: about a megabyte, which takes longer to send than to ask for.
const CHUNKS_MAX: usize = 64;

/// Bytes of a piece from which on no more chunks are added, however long their texts are.
const BYTES_MAX: i64 = 4 << 20;

/// The chunks in objects that a scan comes to, and those of them that are at hand.
#[derive(Debug)]
pub(in super::super) struct ReadAhead {
    cold: Option<Cold>,
    dataset: DatasetId,
    /// The next ones in objects, oldest first.
    places: Vec<Place>,
    /// The index in `places` after the last one that was read.
    end: usize,
    /// How many of them are read at once.
    n_chunks: usize,
    fetched: Fetched,
}

impl ReadAhead {
    pub(in super::super) fn new(cold: Option<Cold>, dataset: DatasetId) -> Self {
        let fetched = Fetched::default();
        Self { cold, dataset, places: Vec::new(), end: 0, n_chunks: 1, fetched }
    }

    /// Notes which chunks come next.
    pub(in super::super) fn enter(&mut self, places: &[Place]) {
        let in_objects = places.iter().filter(|place| matches!(place.at, At::Object(_)));
        self.places = in_objects.copied().collect();
        self.end = 0;
    }

    /// Returns the chunks at hand, of which `place` is one if it is in an object.
    pub(in super::super) async fn read(&mut self, place: Place) -> Result<Fetched> {
        if place.key().is_none_or(|key| self.fetched.contains_key(&key)) {
            return Ok(Arc::clone(&self.fetched));
        }
        let Some(cold) = &self.cold else { return Err(in_objects(self.dataset, vec![place])) };
        let from = self.places.partition_point(|other| other.span.last < place.span.last);
        self.n_chunks = if from == self.end { (self.n_chunks * 2).min(CHUNKS_MAX) } else { 1 };
        let mut n_bytes = 0;
        let piece = self.places.iter().skip(from).take(self.n_chunks).take_while(|place| {
            let is_more = n_bytes < BYTES_MAX;
            n_bytes += place.n_bytes_fetched();
            is_more
        });
        let piece: Vec<Place> = piece.copied().collect();
        self.end = from + piece.len();
        self.fetched = Arc::new(cold.fetch(self.dataset, &piece).await?.into_iter().collect());
        Ok(Arc::clone(&self.fetched))
    }
}
