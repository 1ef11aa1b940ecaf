//! Connections that were just used, apart from their pool.

use std::time::Duration;

use parking_lot::Mutex;
use sqlx::{Postgres, pool::PoolConnection};
use task::group::Group;
use tokio::{runtime::Handle, time::Instant};

/// Connections that are kept at hand at most: as many as work at once most of the time.
const AT_HAND_MAX: usize = 4;

/// How long a connection is used before the pool has it again, which checks it and closes old ones.
const AT_HAND_FOR: Duration = Duration::from_mins(1);

/// Connections of a pool that were just used, the last one used first.
#[derive(Debug)]
pub(super) struct AtHand {
    pub(super) connections: Mutex<Vec<(PoolConnection<Postgres>, Instant)>>,
    pub(super) runtime: Handle,
    /// What waits for the server when nobody else does.
    pub(super) tasks: Group,
}

impl AtHand {
    /// The connection that was used last. Those used for long go back to the pool.
    pub(super) fn take(&self) -> Option<(PoolConnection<Postgres>, Instant)> {
        let (taken, old) = {
            let mut connections = self.connections.lock();
            let is_old = |(_, since): &mut (_, Instant)| since.elapsed() > AT_HAND_FOR;
            let old: Vec<_> = connections.extract_if(.., is_old).collect();
            (connections.pop(), old)
        };
        let _context = self.runtime.enter();
        drop(old);
        taken
    }

    /// Keeps a connection; returns it where there are enough.
    pub(super) fn put(
        &self,
        connection: PoolConnection<Postgres>,
        since: Instant,
    ) -> Option<PoolConnection<Postgres>> {
        let mut connections = self.connections.lock();
        if connections.len() >= AT_HAND_MAX {
            return Some(connection);
        }
        connections.push((connection, since));
        None
    }
}

impl Drop for AtHand {
    fn drop(&mut self) {
        self.tasks.stop();
        let _context = self.runtime.enter();
        self.connections.get_mut().clear();
    }
}
