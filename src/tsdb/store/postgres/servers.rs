//! The servers of the store: the first has the catalog, further ones have the rows of some datasets.
//!
//! A dataset is on one server. The first one knows on which, and so does any server that it was moved
//! from: what is asked of a wrong one fails with [`StoreError::Moved`], and is asked again where that
//! points. So nothing has to be looked up for a dataset that is where it was last time.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use db::postgres::{
    DatabaseUrl,
    connections::{Connections, ConnectionsOptions, Snapshot},
};
use futures::FutureExt as _;
use lru::LruCache;
use model::dataset::DatasetId;
use parking_lot::{Mutex, RwLock};
use sqlx::PgConnection;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};

use super::{CONNECTIONS, Result, StoreError};
use crate::store::{DatabaseFigures, ServerFigures};

/// The number of the first server, which has the catalog.
pub(super) const FIRST: i64 = 0;

/// Datasets on further servers whose places are remembered. Others are asked for on the first server,
/// which takes a round trip more.
const ROUTES_MAX: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// How long a dataset is followed that each server says is on another one, which is so in the last
/// step of a move: longer than that takes, shorter than a client waits.
const FOLLOW_WITHIN: Duration = Duration::from_secs(5);

/// Servers that are asked one after another at once. A dataset that is on none of them is being moved.
const HOPS_AT_ONCE: u32 = 3;

/// The pause before a dataset that is being moved is looked for again.
const HOP_PAUSE: Duration = Duration::from_millis(20);

/// Further servers that may have nothing of a dataset by the time that they are asked: it was moved on, and
/// what was left removed. More often, the one that the catalog names has lost it.
const MISSES_MAX: u32 = 8;

/// How long a server may take for what others can do without, such as its part of a listing.
const ASK_WITHIN: Duration = Duration::from_secs(1);

/// How long it is not asked for that again where it did not answer: ten times as long.
const AVOID_FOR: Duration = Duration::from_secs(10);

/// One server of the store.
#[derive(Debug)]
pub(super) struct Server {
    /// Its number, [`FIRST`] or that of its row in `stores`.
    pub(super) place: i64,
    pub(super) name: String,
    url: String,
    /// The life of its tables; see [`ChunkId`](crate::store::row_batch::ChunkId).
    pub(super) era: i64,
    pub(super) connections: Connections,
    /// Until when it is not asked for what others can do without.
    avoided_until: Mutex<Option<Instant>>,
    /// Whether maintenance could not use it when it last looked.
    is_lost: AtomicBool,
}

impl Server {
    fn new(record: Record, connections: Connections) -> Self {
        let (place, name, url, _, era) = record;
        let (avoided_until, is_lost) = Default::default();
        Self { place, name, url, era, connections, avoided_until, is_lost }
    }

    /// Notes whether maintenance could use it.
    pub(super) fn note_look(&self, look: &Result<()>) {
        let is_lost = matches!(look, Err(error) if error.is_server_lost());
        self.is_lost.store(is_lost, Ordering::Relaxed);
    }

    /// Its name and numbers.
    pub(super) fn figures(&self) -> ServerFigures {
        let mut connections = self.connections.figures();
        connections.is_lost |= self.is_lost.load(Ordering::Relaxed);
        ServerFigures { name: self.name.clone(), connections }
    }

    /// Notes that it is not lost: from now on it is asked again.
    pub(super) fn note_answer(&self) {
        *self.avoided_until.lock() = None;
    }

    /// The outcome of `read` where others can do without, unless the server is lost: then it is asked
    /// again after some seconds.
    pub(super) async fn ask<T>(&self, read: impl Future<Output = Result<T>>) -> Result<Option<T>> {
        if self.avoided_until.lock().is_some_and(|until| Instant::now() < until) {
            return Ok(None);
        }
        match timeout(ASK_WITHIN, read).await {
            Ok(Ok(done)) => Ok(Some(done)),
            Ok(Err(error)) if !error.is_server_lost() => Err(error),
            Ok(Err(_)) | Err(_) => {
                *self.avoided_until.lock() = Some(Instant::now() + AVOID_FOR);
                Ok(None)
            }
        }
    }
}

/// All servers of the store.
#[derive(Debug)]
pub(super) struct Servers {
    first: Arc<Server>,
    further: RwLock<BTreeMap<i64, Arc<Server>>>,
    /// Where datasets are that are not on the first server.
    routes: Mutex<LruCache<DatasetId, i64>>,
    /// Moves under way when maintenance last looked.
    n_moves: AtomicU64,
    runtime: Handle,
}

/// A row of `stores`: number, name, address, state and era of a server.
pub(super) type Record = (i64, String, String, String, i64);

/// All servers, the first one first.
pub(super) async fn records(c: &mut PgConnection) -> Result<Vec<Record>> {
    let sql = "SELECT id, name, url, state, era FROM stores ORDER BY id";
    Ok(sqlx::query_as(sql).fetch_all(c).await?)
}

/// The way of one operation after a dataset that is not where it was.
#[derive(Debug, Default)]
pub(super) struct Hops {
    n: u32,
    since: Option<Instant>,
    n_missed: u32,
    /// The server that was last found to be lost.
    lost: Option<i64>,
}

impl Servers {
    /// The store with its first server alone, until [`Self::refresh`] finds the further ones.
    pub(super) fn new(connections: Connections, era: i64, runtime: Handle) -> Self {
        let record = (FIRST, "first".to_owned(), String::new(), String::new(), era);
        Self {
            first: Arc::new(Server::new(record, connections)),
            further: RwLock::default(),
            routes: Mutex::new(LruCache::new(ROUTES_MAX)),
            n_moves: AtomicU64::default(),
            runtime,
        }
    }

    /// Notes how many datasets are being moved.
    pub(super) fn note_moves(&self, n_moves: u64) {
        self.n_moves.store(n_moves, Ordering::Relaxed);
    }

    /// The numbers of all servers.
    pub(super) fn figures(&self) -> DatabaseFigures {
        let servers = [self.first.figures()].into_iter();
        let servers = servers.chain(self.further().iter().map(|server| server.figures())).collect();
        DatabaseFigures { servers, n_moves: self.n_moves.load(Ordering::Relaxed) }
    }

    /// The server with the catalog.
    pub(super) const fn first(&self) -> &Arc<Server> {
        &self.first
    }

    /// The other servers, by their numbers.
    pub(super) fn further(&self) -> Vec<Arc<Server>> {
        self.further.read().values().cloned().collect()
    }

    /// Where connections live.
    pub(super) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }

    /// The server that has the dataset, as far as is known.
    pub(super) fn route(&self, dataset: DatasetId) -> Arc<Server> {
        let place = self.routes.lock().get(&dataset).copied();
        place.and_then(|place| self.get(place)).unwrap_or_else(|| Arc::clone(&self.first))
    }

    /// Notes where a dataset is.
    pub(super) fn note(&self, dataset: DatasetId, place: i64) {
        let mut routes = self.routes.lock();
        if place == FIRST {
            routes.pop(&dataset);
        } else {
            routes.put(dataset, place);
        }
    }

    fn get(&self, place: i64) -> Option<Arc<Server>> {
        if place == FIRST {
            return Some(Arc::clone(&self.first));
        }
        self.further.read().get(&place).cloned()
    }

    /// The server of a number, which another service may have added just now. `None` if there is none.
    pub(super) async fn find(&self, place: i64) -> Result<Option<Arc<Server>>> {
        if let Some(server) = self.get(place) {
            return Ok(Some(server));
        }
        self.refresh().await?;
        Ok(self.get(place))
    }

    /// Reads which servers there are.
    pub(super) async fn refresh(&self) -> Result<()> {
        let read = self.first.connections.read(Snapshot::Statement, |c| records(c).boxed());
        let records: Vec<Record> = read.await?;
        let mut further = self.further.write();
        further.retain(|place, _| records.iter().any(|record| record.0 == *place));
        for record in records {
            let (place, _, url, _, era) = &record;
            let (place, era) = (*place, *era);
            let is_known = |known: &Arc<Server>| known.url == *url && known.era == era;
            if place == FIRST || further.get(&place).is_some_and(is_known) {
                continue;
            }
            let address: DatabaseUrl =
                url.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
            let options = ConnectionsOptions { era: Some(era), ..CONNECTIONS };
            let connections = Connections::new(&address, options, self.runtime.clone());
            further.insert(place, Arc::new(Server::new(record, connections)));
        }
        Ok(())
    }

    /// Runs `work` on the server that has the dataset: again on another one as long as it is moved.
    pub(super) async fn routed<T, W: Future<Output = Result<T>>>(
        &self,
        dataset: DatasetId,
        mut work: impl FnMut(Arc<Server>) -> W,
    ) -> Result<T> {
        let mut hops = Hops::default();
        loop {
            let server = self.route(dataset);
            match work(Arc::clone(&server)).await {
                Err(error) => self.follow(dataset, &server, error, &mut hops).await?,
                done => return done,
            }
        }
    }

    /// Notes where a dataset is by `error`, with which `server` refused an operation.
    ///
    /// # Errors
    /// The same error if it does not say where the dataset is, or after some seconds.
    pub(super) async fn follow(
        &self,
        dataset: DatasetId,
        server: &Server,
        error: StoreError,
        hops: &mut Hops,
    ) -> Result<()> {
        match &error {
            StoreError::Moved { place, .. } => {
                if self.find(*place).await?.is_none() {
                    return Err(error);
                }
                self.note(dataset, *place);
            }
            // It may have been moved, and what was left of it removed.
            StoreError::NoDataset { .. } if server.place != FIRST && hops.n_missed < MISSES_MAX => {
                hops.n_missed += 1;
                self.note(dataset, FIRST);
            }
            _ if server.place == FIRST => return Err(error),
            // It may have been moved before the server was lost.
            _ if error.is_unasked() && hops.lost != Some(server.place) => {
                hops.lost = Some(server.place);
                self.note(dataset, FIRST);
            }
            _ => return Err(error.on_server(&server.name)),
        }
        hops.n += 1;
        if hops.n > HOPS_AT_ONCE {
            let waited = hops.since.get_or_insert_with(Instant::now).elapsed();
            // After a miss the first server says whether there is such a dataset at all.
            if waited > FOLLOW_WITHIN && matches!(error, StoreError::Moved { .. }) {
                return Err(error);
            }
            sleep(HOP_PAUSE).await;
        }
        Ok(())
    }
}

/// The one of `places` for a new dataset: that with the highest weight for its number, so that each gets
/// its share, and a place more or less changes the choice only where it is itself the choice.
pub(super) fn choose(dataset: DatasetId, places: &[i64]) -> i64 {
    let weight = |place: &&i64| mix(mix(dataset.get().cast_unsigned()) ^ place.cast_unsigned());
    places.iter().max_by_key(weight).copied().unwrap_or(FIRST)
}

/// Spreads numbers that are close to each other evenly: the last steps of `SplitMix64`.
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_gets_its_share_and_a_place_more_takes_from_all_alike() {
        let choices = |places: &[i64]| -> Vec<i64> {
            (1..=3000).map(|id| choose(DatasetId::new(id).unwrap(), places)).collect()
        };
        let (two, three) = (choices(&[0, 1]), choices(&[0, 1, 2]));
        let n = |choices: &[i64], place| choices.iter().filter(|one| **one == place).count();
        assert!((1400..1600).contains(&n(&two, 1)), "{}", n(&two, 1));
        for place in 0..3 {
            assert!((900..1100).contains(&n(&three, place)), "{}", n(&three, place));
        }
        assert!(two.iter().zip(&three).all(|(before, after)| before == after || *after == 2));
        assert_eq!(choices(&[]), vec![FIRST; 3000]);
    }
}
