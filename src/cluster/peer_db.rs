//! The peer store: the peers a node was connected to, kept in a file, so that it finds its cluster
//! again when every boot node is gone.
//!
//! One JSON array of records in the shape b7s gives them (`id`, `multiaddress`, `addrinfo`), with
//! ours beside. It is written whole to a new file that then takes the old one's place, so it is
//! there at any time; a file that cannot be read is set aside. Absent on purpose: what peers do.

use std::{
    collections::BTreeMap,
    fs, io, mem,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use model::{node::PeerId, timestamp::Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use task::{
    clock::Clock,
    file::{FileMode, read_at_most, write_atomic},
    group::Group,
    steady_date::SteadyDate,
};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

/// The peers that are remembered, as many as b7s nodes dial back. Past it, those we never reached go
/// first, then those seen longest ago.
pub const PEERS_MAX: usize = 100;

/// Addresses remembered of one peer.
const ADDRESSES_MAX: usize = 8;

/// The longest address remembered, in bytes.
const ADDRESS_BYTES_MAX: usize = 512;

/// How long a peer that was not seen is remembered.
const KEPT_FOR: Duration = Duration::from_hours(24 * 30);

/// How long a leap of the clock holds before peers are forgotten by its date.
const FORGET_HOLD: Duration = Duration::from_hours(1);

/// The file's name in its folder.
const FILE: &str = "peers.json";

/// What is stored of one peer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Record {
    id: String,
    /// The address that worked last, or the first that the peer named.
    multiaddress: String,
    addrinfo: AddressInfo,
    /// When it was last connected, in microseconds since 1970. Ours.
    #[serde(default)]
    last_seen: i64,
    /// Whether we reached it, rather than it us. Ours.
    #[serde(default)]
    is_reached: bool,
}

/// Where a peer is, in the words of go-libp2p.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct AddressInfo {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Addrs", default)]
    addresses: Vec<String>,
}

/// Why the peer store could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{step} the peer store {path}")]
pub struct PeerDbError {
    /// Whether its folder could not be made, or its file not be read or set aside.
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Handle to the peer store. Cheap to clone; all clones share one table.
#[derive(Debug, Clone)]
pub struct PeerDb {
    path: Arc<Path>,
    table: Arc<Mutex<Table>>,
}

#[derive(Debug)]
struct Table {
    records: BTreeMap<PeerId, Record>,
    /// The date by which peers are seen and forgotten.
    date: SteadyDate,
    is_changed: bool,
}

impl PeerDb {
    /// Opens the store in the folder `dir`, which is made if it is not there. Blocks on the disk.
    ///
    /// # Errors
    /// [`PeerDbError`] if the folder or the file cannot be used. A file without sense is set aside
    /// under another name, with a warning, and the store begins empty.
    pub fn open(dir: &Path, clock: Clock) -> Result<Self, PeerDbError> {
        let path = dir.join(FILE);
        let failed = |step| {
            let path = path.clone();
            move |source| PeerDbError { step, path, source }
        };
        fs::create_dir_all(dir).map_err(failed("make the folder of"))?;
        let decode = |bytes: Vec<u8>| Ok(decode(&bytes, clock.now())?);
        // Several times the size of `PEERS_MAX` records.
        let records = match read_at_most(&path, 4 * 1024 * 1024).and_then(decode) {
            Ok(records) => records,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) if is_senseless(&error) => {
                warn!(%error, "set a peer store aside that cannot be read");
                fs::rename(&path, dir.join(format!("{FILE}.broken")))
                    .map_err(failed("set aside"))?;
                BTreeMap::new()
            }
            Err(error) => return Err(failed("read")(error)),
        };
        let last_seen = records.values().map(|record| record.last_seen).max();
        let last_seen = last_seen.map_or_else(|| clock.now(), Timestamp::from_micros);
        let date = SteadyDate::new(clock, last_seen, FORGET_HOLD);
        let table = Table { records, date, is_changed: false };
        Ok(Self { path: path.into(), table: Arc::new(Mutex::new(table)) })
    }

    /// Writes changes to the disk from now on, in a task of `group`, and once more when it stops.
    pub fn keep(&self, group: &Group) {
        let (db, stopped) = (self.clone(), group.clone());
        group.spawn_to_end("peer store", async move {
            // If the machine fails, changes since the last write are lost.
            let mut ticks = interval(Duration::from_secs(5));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut is_running = true;
            while is_running {
                tokio::select! {
                    () = stopped.stopped() => is_running = false,
                    _ = ticks.tick() => {}
                }
                let db = db.clone();
                match tokio::task::spawn_blocking(move || db.write()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => warn!(%error, "failed to write the peer store"),
                    Err(error) => debug!(%error, "the writing of the peer store was stopped"),
                }
            }
        });
    }

    /// Returns the addresses of the peers that are remembered, each ending in its peer's id: those
    /// reached last come first.
    pub fn addresses(&self) -> Vec<String> {
        let mut records: Vec<Record> = self.table.lock().records.values().cloned().collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.is_reached, record.last_seen)));
        let ending = |record: &Record| {
            let id = record.id.clone();
            let addresses = record.addrinfo.addresses.clone();
            addresses.into_iter().map(move |address| format!("{address}/p2p/{id}"))
        };
        records.iter().flat_map(ending).collect()
    }

    /// Remembers the addresses, which do not name it, of connected `peer`: the one that it was reached
    /// under, or those that it says it listens on.
    pub fn note(&self, peer: &PeerId, addresses: Vec<String>, is_reached: bool) {
        let mut addresses = addresses;
        addresses.retain(|address| address.len() <= ADDRESS_BYTES_MAX);
        let Some(first) = addresses.first().cloned() else { return };
        let mut table = self.table.lock();
        // Not the clock's: a time of the future would let go of all others at the next start.
        let now = table.date.read();
        let id = peer.to_string();
        let record = table.records.entry(peer.clone()).or_insert_with(|| Record {
            addrinfo: AddressInfo { id: id.clone(), addresses: Vec::new() },
            id,
            multiaddress: first.clone(),
            ..Record::default()
        });
        // What worked stays in front of what is said.
        let known = mem::take(&mut record.addrinfo.addresses);
        let (front, back) = if is_reached { (addresses, known) } else { (known, addresses) };
        record.addrinfo.addresses = merge_bounded(front, back);
        if is_reached {
            record.multiaddress = first;
        }
        record.last_seen = now.micros();
        record.is_reached |= is_reached;
        table.is_changed = true;
        prune(&mut table.records, now);
    }

    /// Writes the table if it has changed.
    fn write(&self) -> io::Result<()> {
        let encoded = {
            let mut table = self.table.lock();
            // A leap of the clock is seen here, where no peer comes.
            table.date.read();
            if !table.is_changed {
                return Ok(());
            }
            table.is_changed = false;
            serde_json::to_vec_pretty(&table.records.values().collect::<Vec<_>>())?
        };
        let written = write_atomic(&self.path, &encoded, FileMode::Public);
        if written.is_err() {
            self.table.lock().is_changed = true;
        }
        written
    }
}

/// Whether an error of reading a store is of what it holds: too much, or no JSON as it should be.
fn is_senseless(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, UnexpectedEof};
    matches!(error.kind(), FileTooLarge | InvalidData | UnexpectedEof)
}

/// Joins lists of addresses without repeating one, up to [`ADDRESSES_MAX`].
fn merge_bounded(front: Vec<String>, back: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for address in front.into_iter().chain(back) {
        if all.len() < ADDRESSES_MAX && !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// Drops who was not seen for long, and who is least worth keeping past [`PEERS_MAX`].
fn prune(records: &mut BTreeMap<PeerId, Record>, now: Timestamp) {
    records.retain(|_, record| now.since(Timestamp::from_micros(record.last_seen)) <= KEPT_FOR);
    while records.len() > PEERS_MAX {
        let worth = |record: &Record| (record.is_reached, record.last_seen);
        let least = records.iter().min_by_key(|(_, record)| worth(record));
        let Some(least) = least.map(|(peer, _)| peer.clone()) else { return };
        records.remove(&least);
    }
}

/// Reads records. Those of no peer, and those past the bounds, are left out.
fn decode(bytes: &[u8], now: Timestamp) -> serde_json::Result<BTreeMap<PeerId, Record>> {
    let list: Vec<Record> = serde_json::from_slice(bytes)?;
    let mut records = BTreeMap::new();
    for mut record in list {
        let Ok(peer) = record.id.parse::<PeerId>() else { continue };
        // A clock that was wrong then must not make it stay for ever.
        record.last_seen = record.last_seen.min(now.micros());
        let addresses = mem::take(&mut record.addrinfo.addresses);
        let fits = |address: &String| address.len() <= ADDRESS_BYTES_MAX;
        record.addrinfo.addresses =
            merge_bounded(addresses.into_iter().filter(fits).collect(), vec![]);
        if !record.addrinfo.addresses.is_empty() && fits(&record.multiaddress) {
            records.insert(peer, record);
        }
    }
    // The clock may be wrong now: the time since a peer was last seen is not counted yet.
    let last_seen = records.values().map(|record| record.last_seen).max();
    prune(&mut records, last_seen.map_or(now, Timestamp::from_micros));
    Ok(records)
}

#[cfg(test)]
mod tests;
