//! Bodies of inserts, taken as they arrive: as much at a time as there is room for, of which each key
//! has a share.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::time::timeout;
use web::extract::BodyError;

use super::{BODY_BYTES_MAX, error::ApiError};
use crate::shares::{Share, Shares};

/// Bytes that one place stands for.
pub(super) const PLACE_BYTES: usize = 16 * 1024;

/// Bytes of bodies taken at a time: two of the longest, or thousands of small ones. As rows a body
/// takes about five times its length of memory.
const BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

/// How long a body waits for room. Two that wait for each other both end by it, one before the other.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// How long the next part of a body may take to arrive: what is there of it holds room.
const NEXT_WITHIN: Duration = Duration::from_secs(10);

/// The longest beginning of a body that memory is taken for before it is there.
const FIRST_BYTES_MAX: usize = 1024 * 1024;

/// Room for [`BYTES_MAX`], of which a key has that of the longest body.
pub(super) fn room() -> Shares {
    Shares::new(BYTES_MAX.div_ceil(PLACE_BYTES), BODY_BYTES_MAX.div_ceil(PLACE_BYTES))
}

/// A body, and the room that it and what is made of it take.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) bytes: Bytes,
    room: Share,
    /// Bytes that there is room for.
    n_bytes: usize,
}

/// Takes a body, at most [`BODY_BYTES_MAX`] long.
///
/// # Errors
/// [`BodyError`] if it is too long or breaks off, [`ApiError::Stalled`] if it stops arriving,
/// [`ApiError::Crowded`] if there is no room for it in time.
pub(super) async fn whole(body: Body, room: Share) -> Result<Arrived, ApiError> {
    let told = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if told > BODY_BYTES_MAX {
        return Err(BodyError::TooLarge.into());
    }
    let mut arrived = Arrived { bytes: Bytes::new(), room, n_bytes: 0 };
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let next = timeout(NEXT_WITHIN, parts.next()).await.map_err(|_| ApiError::Stalled)?;
        let Some(part) = next else { break };
        let part = part.map_err(|_| BodyError::Broken)?;
        let n_bytes = bytes.len() + part.len();
        if n_bytes > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge.into());
        }
        arrived.make_room(n_bytes).await?;
        // Most small bodies come in one part.
        if bytes.is_empty() && part.len() == told {
            arrived.bytes = part;
            return Ok(arrived);
        }
        if bytes.is_empty() {
            bytes.reserve(told.min(FIRST_BYTES_MAX).max(part.len()));
        }
        bytes.extend_from_slice(&part);
    }
    arrived.bytes = bytes.into();
    Ok(arrived)
}

impl Arrived {
    /// Waits until there is room for so many bytes.
    ///
    /// # Errors
    /// [`ApiError::Crowded`] if there is not in time.
    pub(super) async fn make_room(&mut self, n_bytes: usize) -> Result<(), ApiError> {
        if n_bytes <= self.n_bytes {
            return Ok(());
        }
        let n_places = (n_bytes - self.n_bytes).div_ceil(PLACE_BYTES);
        let more = self.room.more(u32::try_from(n_places).unwrap_or(u32::MAX));
        timeout(ROOM_WITHIN, more).await.map_err(|_| ApiError::Crowded)?;
        self.n_bytes += n_places * PLACE_BYTES;
        Ok(())
    }
}
