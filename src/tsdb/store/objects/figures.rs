//! Counts of requests for objects, for metrics and the state of the service.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::ObjectError;

/// What was done with objects since they were opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectFigures {
    /// Objects that the server has acknowledged.
    pub n_written: u64,
    /// Bytes of these.
    pub bytes_written: u64,
    /// Bytes of the ranges that were asked for and read.
    pub bytes_read: u64,
    /// Objects deleted, or found to be gone.
    pub n_deleted: u64,
    /// Requests that failed, after their retries.
    pub n_failed: u64,
    /// Whether nothing can be read or written: so the last request had it.
    pub is_lost: bool,
    /// Whether another database owns them: nothing is written or deleted.
    pub is_foreign: bool,
}

/// The counts behind [`ObjectFigures`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    n_written: AtomicU64,
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
    n_deleted: AtomicU64,
    n_failed: AtomicU64,
    is_lost: AtomicBool,
    is_foreign: AtomicBool,
}

impl Counts {
    pub(super) fn add_written(&self, n_bytes: usize) {
        self.n_written.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(wide(n_bytes), Relaxed);
    }

    pub(super) fn add_read(&self, n_bytes: usize) {
        self.bytes_read.fetch_add(wide(n_bytes), Relaxed);
    }

    pub(super) fn add_deleted(&self) {
        self.n_deleted.fetch_add(1, Relaxed);
    }

    /// Takes in how a request ended.
    pub(super) fn add_outcome(&self, error: Option<&ObjectError>) {
        use ObjectError::{Denied, NoBucket, NoCredentials, Unreachable};
        if error.is_some() {
            self.n_failed.fetch_add(1, Relaxed);
        }
        let is_lost =
            matches!(error, Some(Unreachable(_) | NoCredentials(_) | Denied(_) | NoBucket(_)));
        self.is_lost.store(is_lost, Release);
    }

    /// Takes in whether another database owns the objects; whether that is new.
    pub(super) fn note_foreign(&self, is_foreign: bool) -> bool {
        self.is_foreign.swap(is_foreign, AcqRel) != is_foreign
    }

    pub(super) fn read(&self) -> ObjectFigures {
        ObjectFigures {
            n_written: self.n_written.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            n_deleted: self.n_deleted.load(Relaxed),
            n_failed: self.n_failed.load(Relaxed),
            is_lost: self.is_lost.load(Acquire),
            is_foreign: self.is_foreign.load(Acquire),
        }
    }
}

fn wide(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes).unwrap_or(u64::MAX)
}
