//! A body that counts its bytes as they are read.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};

/// A body and where its bytes are added up.
#[derive(Debug)]
pub(super) struct CountingBody {
    body: Body,
    n_bytes: Arc<AtomicU64>,
}

impl CountingBody {
    pub(super) fn new(body: Body, n_bytes: Arc<AtomicU64>) -> Self {
        Self { body, n_bytes }
    }
}

impl http_body::Body for CountingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            let n_bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
            self.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
