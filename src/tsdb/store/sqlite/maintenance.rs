//! Background maintenance in small steps between writes: frees the space of deleted datasets, and
//! compacts old rows and buckets.
//!
//! One thread hands the steps to the writer, one at a time, so that a write waits for one step at most.

use std::{error::Error, sync::Arc, thread, time::Duration};

use db::files::DatabaseFiles;
use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tracing::warn;

use super::{Result, StoreError, Writer, compaction, delete};

/// How often the thread looks for work of which nobody tells it, and whether the store's file is in
/// place. Rows grow old slowly.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Jobs of others between two looks up to which the store is quiet. Then packing goes on until the
/// next job comes.
const QUIET_JOBS: u64 = 50;

/// Steps at each look while the store is busy: enough to keep up with a few thousand rows a second,
/// too few to be felt.
const BUSY_STEPS: u64 = 4;

/// Handle to the thread, which ends with it.
#[derive(Debug)]
pub(super) struct Maintenance {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_over: bool,
    is_due: bool,
}

impl Maintenance {
    /// Starts the thread, which looks first at what an earlier run of the program left.
    pub(super) fn start(writer: Writer, files: Arc<DatabaseFiles>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.state.lock().is_due = true;
        let work = Arc::clone(&shared);
        thread::Builder::new()
            .name("datasets-maintenance".to_owned())
            .spawn(move || run(&work, &writer, &files))
            .map_err(StoreError::Prepare)?;
        Ok(Self { shared })
    }

    /// Says that there is something to do.
    pub(super) fn wake(&self) {
        self.shared.state.lock().is_due = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.changed.notify_one();
    }
}

fn run(shared: &Shared, writer: &Writer, files: &DatabaseFiles) {
    let mut seen = None;
    while shared.wait() {
        if !files.check() {
            return;
        }
        let n_jobs = writer.n_jobs();
        // Nothing was written since all was done.
        if seen == Some(n_jobs) {
            continue;
        }
        let n_new = n_jobs.wrapping_sub(seen.unwrap_or(n_jobs));
        let n_steps_max = if n_new < QUIET_JOBS { u64::MAX } else { BUSY_STEPS };
        let done = delete_all(shared, writer).and_then(|()| pack_some(shared, writer, n_steps_max));
        match done {
            Ok(Done::All) => seen = Some(writer.n_jobs()),
            Ok(Done::Some) => seen = Some(writer.n_jobs().wrapping_sub(1)),
            Err(StoreError::Closed) => return,
            Err(error) => {
                // Nothing is lost: it is tried again after the next write.
                warn!(error = &error as &dyn Error, "maintenance of the dataset store failed");
                seen = Some(writer.n_jobs());
            }
        }
    }
}

/// Whether anything is left.
enum Done {
    All,
    Some,
}

fn delete_all(shared: &Shared, writer: &Writer) -> Result<()> {
    while !shared.state.lock().is_over {
        if !writer.run_blocking(0, |connection: &Connection| delete::step(connection))? {
            break;
        }
    }
    Ok(())
}

/// Packs and gives back space until nothing is left, somebody writes, or so many steps are done.
fn pack_some(shared: &Shared, writer: &Writer, n_steps_max: u64) -> Result<Done> {
    let start = writer.n_jobs();
    for n_steps in 0..n_steps_max {
        let is_disturbed = writer.n_jobs() != start.wrapping_add(n_steps);
        if shared.state.lock().is_over || (n_steps_max > BUSY_STEPS && is_disturbed) {
            return Ok(Done::Some);
        }
        let step = |connection: &Connection| {
            Ok(compaction::step(connection, compaction::HOT_CHUNKS)?
                || compaction::shrink(connection)?)
        };
        if !writer.run_blocking(0, step)? {
            return Ok(Done::All);
        }
    }
    Ok(Done::Some)
}

impl Shared {
    /// Waits until there may be something to do; false if it is over.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        if !state.is_due && !state.is_over {
            self.changed.wait_for(&mut state, LOOK_EVERY);
        }
        state.is_due = false;
        !state.is_over
    }
}
