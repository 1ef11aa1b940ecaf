//! Reads the bodies of inserts within a common limit of memory and a limit for each key.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::time::timeout;
use web::extract::BodyError;

use super::{
    BODY_BYTES_MAX,
    error::{CROWDED, Result, STALLED},
};
use crate::key_limit::{KeyLimit, KeyPermit};

/// Bytes of one permit.
pub(super) const PERMIT_BYTES: usize = 16 * 1024;

/// Bytes of bodies in memory at a time: two of the longest, or thousands of small ones. The rows of a
/// body take about five times its length.
const BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

/// How long a body waits for permits. It ends a deadlock of two bodies that wait for each other.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// How long the next part of a body may take to arrive, while its beginning holds permits.
const NEXT_WITHIN: Duration = Duration::from_secs(10);

/// Memory at most that is allocated for a body before it arrives.
const FIRST_BYTES_MAX: usize = 1024 * 1024;

/// A limit of [`BYTES_MAX`], of which each key may hold one of the longest bodies.
pub(super) fn new_limit() -> KeyLimit {
    KeyLimit::new(BYTES_MAX.div_ceil(PERMIT_BYTES), BODY_BYTES_MAX.div_ceil(PERMIT_BYTES))
}

/// A body, and the permits for it and for the rows made of it.
#[derive(Debug)]
pub(super) struct LimitedBody {
    pub(super) bytes: Bytes,
    permit: KeyPermit,
    /// Bytes that the permits stand for.
    n_bytes: usize,
}

/// Reads a body of at most [`BODY_BYTES_MAX`].
///
/// # Errors
/// [`BodyError`] if it is too long or truncated, [`STALLED`] if it stops arriving,
/// [`CROWDED`] if there are no permits for it in time.
pub(super) async fn read_body(body: Body, permit: KeyPermit) -> Result<LimitedBody> {
    let length_min = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if length_min > BODY_BYTES_MAX {
        return Err(BodyError::TooLarge.into());
    }
    let mut limited = LimitedBody { bytes: Bytes::new(), permit, n_bytes: 0 };
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let next = timeout(NEXT_WITHIN, parts.next()).await.map_err(|_| STALLED)?;
        let Some(part) = next else { break };
        let part = part.map_err(|_| BodyError::Broken)?;
        let n_bytes = bytes.len() + part.len();
        if n_bytes > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge.into());
        }
        limited.reserve(n_bytes).await?;
        // Most small bodies arrive in one part.
        if bytes.is_empty() && part.len() == length_min {
            limited.bytes = part;
            return Ok(limited);
        }
        if bytes.is_empty() {
            bytes.reserve(length_min.min(FIRST_BYTES_MAX).max(part.len()));
        }
        bytes.extend_from_slice(&part);
    }
    limited.bytes = bytes.into();
    Ok(limited)
}

impl LimitedBody {
    /// Waits for permits for `n_bytes` in all.
    ///
    /// # Errors
    /// [`CROWDED`] if they are not available in time.
    pub(super) async fn reserve(&mut self, n_bytes: usize) -> Result<()> {
        if n_bytes <= self.n_bytes {
            return Ok(());
        }
        let n_permits = (n_bytes - self.n_bytes).div_ceil(PERMIT_BYTES);
        let more = self.permit.acquire(u32::try_from(n_permits).unwrap_or(u32::MAX));
        timeout(ROOM_WITHIN, more).await.map_err(|_| CROWDED)?;
        self.n_bytes += n_permits * PERMIT_BYTES;
        Ok(())
    }
}
