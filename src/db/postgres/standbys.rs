//! Standbys: servers that replay what the primary commits, and serve reads.
//!
//! A read that may be a little behind goes to any standby that keeps up, and its caller tests whether it
//! is recent enough. Every other read is the primary's. While that cannot be reached, a standby stands in
//! for it that has replayed all that the primary had when it was last seen, and all that the standby
//! itself received until the last look: one that lags behind a primary which others reach does not.
//!
//! A standby is looked at while it is not used, so that one that is lost, paused or not of this database
//! costs no read more than one failure.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use task::{causes::chain, group::Group};
use tokio::{
    runtime::Handle,
    sync::watch,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::fault::timed_out;

/// Between two looks at all servers: as long as what is remembered of a key may differ from the store.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a server has to say where it is. One that takes longer serves nobody well.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// Bytes of the log that a standby may be behind before no read is tried on it.
const BEHIND_BYTES_MAX: i64 = 16 << 20;

/// Where a server is: the cluster it belongs to, whether it is a standby, how far it has replayed or
/// written the log, and how far it has received it.
pub(super) type Position = (i64, bool, Option<i64>, Option<i64>);

/// Asks a server where it is.
pub(super) const POSITION_SQL: &str = "SELECT system_identifier, pg_is_in_recovery(),
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
        - '0/0'::pg_lsn)::bigint,
    (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() END - '0/0'::pg_lsn)::bigint
    FROM pg_control_system()";

/// Connections to a server, which are their clones'.
pub(super) trait Server: Debug + Send + Sync + 'static {
    /// Asks the server for its position by [`POSITION_SQL`].
    fn position(&self) -> BoxFuture<'_, Result<Position, sqlx::Error>>;

    /// Whether these are the same connections.
    fn is_same(&self, other: &Self) -> bool;
}

/// The standbys of a database. They are looked at until this is dropped.
#[derive(Debug)]
pub(super) struct Standbys<S> {
    shared: Arc<Shared<S>>,
    group: Group,
}

#[derive(Debug)]
struct Shared<S> {
    /// For looks at the primary.
    primary: S,
    all: Vec<Standby<S>>,
    known: Mutex<Known>,
    /// Changes with each look, and has whether the primary is lost.
    is_lost: watch::Sender<bool>,
    next: AtomicUsize,
}

/// A server that replays the log of the primary, and what was last seen of it.
#[derive(Debug)]
pub(super) struct Standby<S> {
    place: String,
    reads: S,
    looks: S,
    state: Mutex<State>,
}

/// What is known of the primary.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The cluster, once the primary was seen.
    cluster: Option<i64>,
    /// The end of its log when it was last seen, at least.
    end: i64,
    /// Changes that have to be on a stand-in and were made after `end`, as far as is known.
    n_uncovered: u64,
}

/// What is known of a standby.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    is_up: bool,
    /// Whether no read failed on it since the last look.
    is_trusted: bool,
    replayed: i64,
    received: i64,
    /// Whether it has replayed what it had received at the look before.
    is_complete: bool,
}

/// How many standbys there are, by how they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StandbyFigures {
    /// Those that serve reads.
    pub n_used: u64,
    /// Those that are too far behind the primary for that.
    pub n_behind: u64,
    /// Those that do not answer, or are no standbys of this database.
    pub n_lost: u64,
}

impl State {
    /// Whether reads that may be a little behind are tried on it, where the primary's log ends at `end`.
    const fn keeps_up(self, end: i64) -> bool {
        self.is_trusted && end.saturating_sub(self.replayed) <= BEHIND_BYTES_MAX
    }
}

impl<S> Standby<S> {
    /// The standby at `place`, with connections for reads, and those to look at it.
    pub(super) fn new(place: String, reads: S, looks: S) -> Self {
        Self { place, reads, looks, state: Mutex::default() }
    }
}

impl<S: Server> Standbys<S> {
    /// The standbys of a primary, with the connections to look at that.
    pub(super) fn new(primary: S, all: Vec<Standby<S>>, runtime: &Handle) -> Self {
        let shared = Arc::new(Shared {
            primary,
            all,
            known: Mutex::default(),
            is_lost: watch::Sender::new(false),
            next: AtomicUsize::new(0),
        });
        let group = Group::default();
        let _context = runtime.enter();
        group.spawn("standbys", follow(Arc::clone(&shared)));
        Self { shared, group }
    }

    /// A standby that keeps up, for a read that may be a little behind: another one each time.
    pub(super) fn pick(&self) -> Option<&S> {
        let Shared { all, known, next, .. } = &*self.shared;
        let end = known.lock().end;
        let first = next.fetch_add(1, Ordering::Relaxed);
        let in_turn = all.iter().cycle().skip(first % all.len().max(1)).take(all.len());
        let mut up = in_turn.filter(|standby| standby.state.lock().keeps_up(end));
        up.next().map(|standby| &standby.reads)
    }

    /// A standby that has all that the primary has, if that is lost.
    pub(super) fn stand_in(&self) -> Option<&S> {
        if !self.is_primary_lost() {
            return None;
        }
        let known = *self.shared.known.lock();
        if known.n_uncovered > 0 || known.cluster.is_none() {
            return None;
        }
        let has_all = |standby: &&Standby<S>| {
            let State { is_trusted, replayed, is_complete, .. } = *standby.state.lock();
            is_trusted && is_complete && replayed >= known.end
        };
        self.shared.all.iter().find(has_all).map(|standby| &standby.reads)
    }

    /// Whether the primary did not answer when it was last looked at.
    pub(super) fn is_primary_lost(&self) -> bool {
        *self.shared.is_lost.borrow()
    }

    /// Waits until a standby can stand in for the primary. Cancel-safe.
    pub(super) async fn stand_in_found(&self) {
        let mut looks = self.shared.is_lost.subscribe();
        while self.stand_in().is_none() {
            // It ends with the standbys.
            if looks.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// How the standbys are.
    pub(super) fn figures(&self) -> StandbyFigures {
        let end = self.shared.known.lock().end;
        let mut figures = StandbyFigures::default();
        for standby in &self.shared.all {
            let state = *standby.state.lock();
            let n = match (state.is_up, state.keeps_up(end)) {
                (_, true) => &mut figures.n_used,
                (true, false) => &mut figures.n_behind,
                (false, false) => &mut figures.n_lost,
            };
            *n += 1;
        }
        figures
    }

    /// Uses a standby no more until it was looked at and is well.
    pub(super) fn distrust(&self, reads: &S) {
        let is_it = |standby: &&Standby<S>| standby.reads.is_same(reads);
        if let Some(standby) = self.shared.all.iter().find(is_it) {
            standby.state.lock().is_trusted = false;
        }
    }

    /// Notes that a change was made that has to be on a standby before that stands in for the primary.
    pub(super) fn note_change(&self) {
        self.shared.known.lock().n_uncovered += 1;
    }
}

impl<S> Drop for Standbys<S> {
    fn drop(&mut self) {
        self.group.stop();
    }
}

/// Looks at all servers again and again.
async fn follow<S: Server>(shared: Arc<Shared<S>>) {
    loop {
        let looks = shared.all.iter().map(|standby| shared.look_at(standby));
        let (is_lost, _) = tokio::join!(shared.look_at_primary(), join_all(looks));
        let was_lost = shared.is_lost.send_replace(is_lost);
        if is_lost && !was_lost {
            warn!("the primary cannot be reached; standbys that have all of it serve reads");
        } else if was_lost && !is_lost {
            info!("the primary is reached again");
        }
        sleep(LOOK_EVERY).await;
    }
}

impl<S: Server> Shared<S> {
    /// Looks where the primary is; whether it is lost.
    async fn look_at_primary(&self) -> bool {
        let n_before = self.known.lock().n_uncovered;
        // What was a primary may be a standby of another one by now.
        let Ok((cluster, false, Some(end), _)) = position(&self.primary).await else { return true };
        let mut known = self.known.lock();
        let n_uncovered = known.n_uncovered.saturating_sub(n_before);
        *known = Known { cluster: Some(cluster), end, n_uncovered };
        false
    }

    async fn look_at(&self, standby: &Standby<S>) {
        let found = position(&standby.looks).await;
        let cluster = self.known.lock().cluster;
        let mut state = standby.state.lock();
        let before = *state;
        *state = match &found {
            // One that was promoted is no standby, and may have left the primary's history.
            Ok((its_cluster, true, Some(replayed), received)) if cluster == Some(*its_cluster) => {
                State {
                    is_up: true,
                    is_trusted: true,
                    replayed: *replayed,
                    received: received.unwrap_or(*replayed),
                    is_complete: before.is_up && *replayed >= before.received,
                }
            }
            _ => State::default(),
        };
        let place = &standby.place;
        match (before.is_up, state.is_up, found) {
            (false, true, _) => info!("the standby {place} serves reads"),
            (true, false, Err(error)) => {
                warn!(cause = chain(&error), "the standby {place} serves no reads");
            }
            (true, false, Ok(_)) => {
                warn!("the standby {place} serves no reads: it is no standby of this database");
            }
            _ => {}
        }
    }
}

/// Asks a server for its position, for a limited time.
async fn position(server: &impl Server) -> Result<Position, sqlx::Error> {
    timeout(LOOK_WITHIN, server.position()).await.unwrap_or_else(|_| Err(timed_out()))
}
