//! One fetch at a time for each function.

use std::{collections::hash_map::Entry, mem, sync::Arc};

use model::function::FunctionId;

use super::Functions;

/// A share in the fetching of one function. The last to leave takes the lock with it.
pub(super) struct Flight<'a> {
    functions: &'a Functions,
    id: FunctionId,
    pub(super) lock: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Flight<'a> {
    pub(super) fn join(functions: &'a Functions, id: FunctionId) -> Self {
        let lock = Arc::clone(functions.0.flights.lock().entry(id).or_default());
        Self { functions, id, lock }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = self.functions.0.flights.lock();
        // Before the count: of two that leave at once, the later one is the last.
        drop(mem::take(&mut self.lock));
        if let Entry::Occupied(entry) = flights.entry(self.id)
            && Arc::strong_count(entry.get()) == 1
        {
            entry.remove();
        }
    }
}
