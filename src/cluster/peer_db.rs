//! The peer store: a file with the peers that a node was connected to, so that it finds its cluster
//! again when every boot node is gone.
//!
//! The file is a JSON array of records. It is replaced atomically. An invalid file is renamed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io, mem};

use model::node::PeerId;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use task::clock::Clock;
use task::file::{FileMode, read_at_most, write_atomic};
use task::group::Group;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, warn};

/// Maximum number of remembered peers, as in b7s. If there are more, peers that were never reached are
/// evicted first, then the least recently seen peers.
pub const PEERS_MAX: usize = 100;

/// Maximum number of addresses per peer.
const ADDRESSES_MAX: usize = 8;

/// Maximum length of an address, in bytes.
const ADDRESS_BYTES_MAX: usize = 512;

/// Name of the file in its directory.
const FILE: &str = "peers.json";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct StoredPeer {
    id: String,
    /// Addresses without the peer's id, those at which this node reached the peer first.
    #[serde(default)]
    addresses: Vec<String>,
    /// Addresses in records of earlier versions.
    #[serde(default, skip_serializing)]
    addrinfo: EarlierAddresses,
    /// Time of the latest connection, in microseconds since 1970.
    #[serde(default)]
    last_seen: i64,
    /// True if this node reached the peer.
    #[serde(default)]
    is_reached: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
struct EarlierAddresses {
    #[serde(rename = "Addrs", default)]
    addresses: Vec<String>,
}

/// Error for a peer store that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} the peer store {path}")]
pub struct PeerDbError {
    /// Failed step, as a verb.
    step: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Handle to the peer store. Clones share the records.
#[derive(Debug, Clone)]
pub struct PeerDb {
    path: Arc<Path>,
    records: Arc<Mutex<Records>>,
    clock: Clock,
}

#[derive(Debug)]
struct Records {
    by_peer: BTreeMap<PeerId, StoredPeer>,
    is_changed: bool,
}

impl PeerDb {
    /// Opens the store in the directory `dir`, which is created if missing. Blocks on the disk.
    ///
    /// # Errors
    /// Returns [`PeerDbError`] if the directory or the file cannot be used. An invalid file is
    /// renamed with a warning, and the store starts empty.
    pub fn open(dir: &Path, clock: Clock) -> Result<Self, PeerDbError> {
        let path = dir.join(FILE);
        let failed = |step| {
            let path = path.clone();
            move |source| PeerDbError { step, path, source }
        };
        fs::create_dir_all(dir).map_err(failed("create the directory of"))?;
        let decode = |bytes: Vec<u8>| Ok(decode(&bytes, clock.now())?);
        // `PEERS_MAX` records need a fraction of this limit.
        let by_peer = match read_at_most(&path, 4 * 1024 * 1024).and_then(decode) {
            Ok(by_peer) => by_peer,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) if is_invalid(&error) => {
                warn!(%error, "renamed an invalid peer store");
                fs::rename(&path, dir.join(format!("{FILE}.broken"))).map_err(failed("rename"))?;
                BTreeMap::new()
            }
            Err(error) => return Err(failed("read")(error)),
        };
        let records = Arc::new(Mutex::new(Records { by_peer, is_changed: false }));
        Ok(Self { path: path.into(), records, clock })
    }

    /// Starts a task of `group` that writes changes to the disk periodically, and once more when it
    /// stops.
    pub fn keep(&self, group: &Group) {
        let (db, stopped) = (self.clone(), group.clone());
        group.spawn_to_end("peer store", async move {
            // If the machine fails, the changes of this interval are lost.
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
                    Err(error) => debug!(%error, "writing the peer store was stopped"),
                }
            }
        });
    }

    /// Returns the addresses of the remembered peers, each with the peer's id. Peers that this node
    /// reached come first, then the other peers, in both cases the most recently seen first.
    pub fn addresses(&self) -> Vec<String> {
        let mut records: Vec<StoredPeer> = self.records.lock().by_peer.values().cloned().collect();
        records.sort_by_key(|record| std::cmp::Reverse((record.is_reached, record.last_seen)));
        let with_id = |record: &StoredPeer| {
            let id = record.id.clone();
            let addresses = record.addresses.clone();
            addresses.into_iter().map(move |address| format!("{address}/p2p/{id}"))
        };
        records.iter().flat_map(with_id).collect()
    }

    /// Remembers addresses of connected `peer`: the address at which it was reached, or its listen
    /// addresses. The addresses do not contain the peer's id.
    pub fn note(&self, peer: &PeerId, mut addresses: Vec<String>, is_reached: bool) {
        addresses.retain(|address| address.len() <= ADDRESS_BYTES_MAX);
        if addresses.is_empty() {
            return;
        }
        let mut records = self.records.lock();
        let record = records
            .by_peer
            .entry(peer.clone())
            .or_insert_with(|| StoredPeer { id: peer.to_string(), ..StoredPeer::default() });
        // Addresses that were reached come before addresses that the peer named.
        let known = mem::take(&mut record.addresses);
        let (front, back) = if is_reached { (addresses, known) } else { (known, addresses) };
        record.addresses = merge_bounded(front, back);
        record.last_seen = self.clock.now().micros();
        record.is_reached |= is_reached;
        records.is_changed = true;
        prune(&mut records.by_peer);
    }

    /// Writes the records if they have changed.
    fn write(&self) -> io::Result<()> {
        let encoded = {
            let mut records = self.records.lock();
            if !mem::take(&mut records.is_changed) {
                return Ok(());
            }
            serde_json::to_vec_pretty(&records.by_peer.values().collect::<Vec<_>>())?
        };
        let written = write_atomic(&self.path, &encoded, FileMode::Public);
        if written.is_err() {
            self.records.lock().is_changed = true;
        }
        written
    }
}

/// Returns true if reading failed because the file is too long or is not the expected JSON.
fn is_invalid(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, InvalidData, UnexpectedEof};
    matches!(error.kind(), FileTooLarge | InvalidData | UnexpectedEof)
}

/// Joins lists of addresses without duplicates, up to [`ADDRESSES_MAX`].
fn merge_bounded(front: Vec<String>, back: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for address in front.into_iter().chain(back) {
        if all.len() < ADDRESSES_MAX && !all.contains(&address) {
            all.push(address);
        }
    }
    all
}

/// Evicts the least valuable records beyond [`PEERS_MAX`].
fn prune(records: &mut BTreeMap<PeerId, StoredPeer>) {
    while records.len() > PEERS_MAX {
        let worth = |record: &StoredPeer| (record.is_reached, record.last_seen);
        let least = records.iter().min_by_key(|(_, record)| worth(record));
        let Some(least) = least.map(|(peer, _)| peer.clone()) else { return };
        records.remove(&least);
    }
}

/// Parses the records. Omits records without a valid id or address.
fn decode(bytes: &[u8], now: Timestamp) -> serde_json::Result<BTreeMap<PeerId, StoredPeer>> {
    let list: Vec<StoredPeer> = serde_json::from_slice(bytes)?;
    let mut records = BTreeMap::new();
    for mut record in list {
        let Ok(peer) = record.id.parse::<PeerId>() else { continue };
        // A record with a time in the future would never be evicted.
        record.last_seen = record.last_seen.min(now.micros());
        record.addresses.append(&mut record.addrinfo.addresses);
        record.addresses.retain(|address| address.len() <= ADDRESS_BYTES_MAX);
        record.addresses = merge_bounded(mem::take(&mut record.addresses), vec![]);
        if !record.addresses.is_empty() {
            records.insert(peer, record);
        }
    }
    prune(&mut records);
    Ok(records)
}

#[cfg(test)]
mod tests;
