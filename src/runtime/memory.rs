//! How much memory a guest may take, and how much it took.

use std::mem;

use wasmtime::ResourceLimiter;

/// Elements a guest's tables may have together. A table holds the functions a guest calls by
/// pointer: large C++ programs have some ten thousand.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Tables a guest may have: C has one, languages with references a few, a component one for each of
/// its modules.
pub(crate) const TABLES_MAX: u32 = 8;

/// Memories that a guest can have, next to the one for its garbage-collected objects: few modules
/// have more than one, and components made of several programs one for each.
pub(crate) const MEMORIES_MAX: u32 = 2;

/// Modules a component may start: a program brings some four of them, with what adapts it.
pub(crate) const INSTANCES_MAX: u32 = 16;

/// Denies growth beyond a limit and remembers that it did.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimit {
    /// The most that all memories can have together, objects that are garbage collected included.
    pub(crate) bytes_max: usize,
    /// All memories together.
    bytes: usize,
    /// The largest size the memory had.
    pub(crate) peak_bytes: usize,
    /// All tables together.
    n_elements: usize,
    /// The growth allowed last, in case the system refuses it.
    last: Growth,
    /// The first growth denied, if any was.
    pub(crate) denied: Option<DeniedGrowth>,
    /// Whether the guest has its first memory.
    pub(crate) has_started: bool,
}

/// A growth that was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeniedGrowth {
    /// The module's own first size: the guest cannot start.
    AtStart,
    /// A later growth: the guest's instruction returns -1.
    Later,
}

#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    bytes: usize,
    n_elements: usize,
}

impl MemoryLimit {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Beyond the module's own maximum a growth fails anyway, and is no matter of ours.
        let is_ours = maximum.is_none_or(|maximum| desired <= maximum);
        let growth = desired.saturating_sub(current);
        let bytes = self.bytes.saturating_add(growth);
        if bytes > self.bytes_max {
            if is_ours && self.denied.is_none() {
                let is_first = !self.has_started && current == 0;
                self.denied =
                    Some(if is_first { DeniedGrowth::AtStart } else { DeniedGrowth::Later });
            }
            return Ok(false);
        }
        self.bytes = bytes;
        self.last = Growth { bytes: growth, n_elements: 0 };
        self.peak_bytes = self.peak_bytes.max(bytes);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.bytes = self.bytes.saturating_sub(mem::take(&mut self.last).bytes);
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let n_elements = self.n_elements.saturating_add(growth);
        if n_elements > TABLE_ELEMENTS_MAX {
            return Ok(false);
        }
        self.n_elements = n_elements;
        self.last = Growth { bytes: 0, n_elements: growth };
        Ok(true)
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.n_elements = self.n_elements.saturating_sub(mem::take(&mut self.last).n_elements);
        Ok(())
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX as usize
    }

    fn tables(&self) -> usize {
        TABLES_MAX as usize
    }

    fn memories(&self) -> usize {
        MEMORIES_MAX as usize
    }
}
