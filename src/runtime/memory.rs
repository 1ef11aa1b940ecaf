//! How much memory a guest may take, and how much it took.

use std::mem;

use wasmtime::ResourceLimiter;

/// Elements a guest's tables may have, each. A table holds the functions a guest calls by
/// pointer: large C++ programs have some ten thousand.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Denies growth beyond a limit and remembers that it did.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    bytes_max: usize,
    peak_bytes: usize,
    denied: Option<Denied>,
    has_started: bool,
}

/// A growth that was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The module's own first size: the guest cannot start.
    AtStart,
    /// A later growth, which the guest is told of.
    Later,
}

impl MemoryLimit {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, peak_bytes: 0, denied: None, has_started: false }
    }

    /// The limit.
    pub(crate) const fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The largest size the memory had.
    pub(crate) const fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }

    /// The first growth denied, if any was.
    pub(crate) const fn denied(&self) -> Option<Denied> {
        self.denied
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // The first question is about the module's own size, be it zero.
        let has_started = mem::replace(&mut self.has_started, true);
        // Beyond the module's own maximum a growth fails anyway, and is no matter of ours.
        let is_ours = maximum.is_none_or(|maximum| desired <= maximum);
        if desired > self.bytes_max {
            if is_ours && self.denied.is_none() {
                self.denied = Some(if has_started { Denied::Later } else { Denied::AtStart });
            }
            return Ok(false);
        }
        self.peak_bytes = self.peak_bytes.max(desired);
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }
}
