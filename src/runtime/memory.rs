//! Limits and usage of a guest's memory.

use std::mem;

use wasmtime::ResourceLimiter;

/// Maximum total number of elements in all tables. A table contains the functions that a guest calls by
/// pointer. Large C++ programs have some ten thousand.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Maximum number of tables: one in C, a few in languages with references, one for each module of a
/// component.
pub(crate) const TABLES_MAX: u32 = 8;

/// Maximum number of memories, excluding the memory of garbage-collected objects. Few modules have more
/// than one memory. Components made of several programs have a memory for each program.
pub(crate) const MEMORIES_MAX: u32 = 2;

/// Maximum number of module instances in a component. A program has about four, including its adapters.
pub(crate) const INSTANCES_MAX: u32 = 16;

/// Denies growth beyond a limit and records the first denial.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimit {
    /// Maximum total size of all memories, including garbage-collected objects.
    pub(crate) bytes_max: usize,
    /// Total size of all memories.
    bytes: usize,
    /// Peak of `bytes`.
    pub(crate) peak_bytes: usize,
    /// Number of elements in all tables.
    n_elements: usize,
    /// Latest growth, to be undone if the system refuses it.
    last: Growth,
    /// The first denied growth.
    pub(crate) denied: Option<DeniedGrowth>,
    /// True once the guest is instantiated.
    pub(crate) has_started: bool,
}

/// A growth that was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeniedGrowth {
    /// The module's initial size was denied, so the guest cannot start.
    AtStart,
    /// A later growth was denied. The guest's instruction returned -1.
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
        // Growth beyond the maximum that the module declares fails regardless of the limit.
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
