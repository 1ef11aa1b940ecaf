//! The rendezvous: finding the peers of a topic, and being found, by provider records of the
//! Kademlia table. Decides which keys are looked up or provided, and when. No I/O.
//!
//! As in go-libp2p's routing discovery, the key of a topic is the multihash of the SHA-256 of its
//! name. Members of the topic provide that key. A node looks for peers until it has enough.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;
use std::{iter, vec};

use libp2p::PeerId;
use libp2p::kad::store::{Error, RecordStore, Result};
use libp2p::kad::{self, ProviderRecord, Record, RecordKey};
use rand::seq::SliceRandom as _;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::WANTED_PEERS_OF_HEAD;
use super::address::Scope;
use super::dialer::ADDRESSES_MAX;

/// Protocol of the Kademlia table, which b7s nodes use too.
pub(super) const PROTOCOL: &str = "/ipfs/kad/1.0.0";

/// Interval between lookups while there are too few peers, as for b7s nodes. A worker doubles it after
/// each lookup, up to [`AGAIN_EVERY`], since in a large cluster the first peers that the table names do
/// not have room for all other nodes. When the worker loses a peer, this interval applies again.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Minimum and maximum delay before a worker that is connected to a head looks for neighbors. The delay
/// is random, so that workers that start together do not all dial one another at the same time. The
/// delay can be long, since the head gives the worker work and functions. Neighbors only forward the
/// gossip of heads farther away.
const SETTLE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(90));

/// Interval between lookups when there are enough peers. A topic is also provided again at this
/// interval, since the nodes that store its record for a day might have restarted.
const AGAIN_EVERY: Duration = Duration::from_mins(15);

/// Maximum number of topics. A node only joins its subgroups and the general topic.
const TOPICS_MAX: usize = 256;

/// Returns the Kademlia behavior, which stores provider records only.
pub(super) fn behaviour(own: PeerId) -> kad::Behaviour<ProviderStore> {
    let mut config = kad::Config::new(libp2p::StreamProtocol::new(PROTOCOL));
    config
        .set_record_filtering(kad::StoreInserts::FilterBoth)
        .set_query_timeout(Duration::from_secs(20))
        .set_caching(kad::Caching::Disabled)
        // Periodic bootstraps would eventually connect every node to every other. Lookups fill the table
        // sufficiently.
        .set_periodic_bootstrap_interval(None);
    let mut kad = kad::Behaviour::with_config(own, ProviderStore::new(own), config);
    kad.set_mode(Some(kad::Mode::Server));
    kad
}

/// Stores the provider record of a peer at `scope`, with a limited number of its addresses.
pub(super) fn keep(
    kad: &mut kad::Behaviour<ProviderStore>,
    mut record: ProviderRecord,
    scope: Scope,
) {
    record.addresses.retain(|address| scope.may_name(address));
    record.addresses.truncate(ADDRESSES_MAX);
    // A full table rejects new records. The peer will provide the key again later.
    drop(kad.store_mut().add_provider(record));
}

/// Returns the key of `topic`.
pub(super) fn key(topic: &str) -> RecordKey {
    // In a multihash, 0x12 stands for SHA-256 and 0x20 is its length. The table uses the multihash, not
    // the CID that contains it.
    let mut multihash = vec![0x12, 0x20];
    multihash.extend_from_slice(&Sha256::digest(topic.as_bytes()));
    RecordKey::from(multihash)
}

/// An action that is due.
#[derive(Debug, PartialEq)]
pub(super) enum TableAction {
    /// Tell the table that this node belongs to the topic.
    Provide(RecordKey),
    /// Ask the table for members of the topic.
    Look(RecordKey),
}

/// Topics and the times at which they were last provided and looked for.
#[derive(Debug, Default)]
pub(super) struct Rendezvous {
    topics: Vec<Topic>,
    wanted: usize,
    /// True if a peer that stores provider records has connected since the topics were last provided.
    is_table_new: bool,
    provided: Option<Instant>,
    /// Interval before the next lookup while there are too few peers.
    wait: Duration,
    /// Number of connected peers at the last lookup.
    n_peers: usize,
    /// Number of providers from the last lookup that can still be dialed.
    n_invitations: usize,
    /// Delay of the first lookup after connecting to a head.
    settle_for: Duration,
    /// End of the delay `settle_for`; `None` while no head is connected.
    settled_at: Option<Instant>,
}

#[derive(Debug)]
struct Topic {
    key: RecordKey,
    is_provided: bool,
    looked: Option<Instant>,
}

impl Rendezvous {
    /// Creates a rendezvous that looks for peers until `wanted` are connected.
    pub(super) fn new(wanted: usize) -> Self {
        Self {
            wanted,
            // Nodes that start together do the first lookup before the other nodes are in the table, so
            // the second lookup follows soon.
            wait: Duration::from_secs(2),
            settle_for: rand::random_range(SETTLE.0..SETTLE.1),
            ..Self::default()
        }
    }

    /// Records whether a head is connected. A worker with a head needs its neighbors less urgently.
    pub(super) fn set_has_head(&mut self, has_head: bool, now: Instant) {
        if !has_head {
            self.settled_at = None;
        } else if self.settled_at.is_none() {
            self.settled_at = Some(now + self.settle_for);
        }
    }

    /// Adds a topic to provide and look for.
    pub(super) fn join(&mut self, topic: &str) {
        let key = key(topic);
        if self.topics.len() < TOPICS_MAX && self.topics.iter().all(|known| known.key != key) {
            self.topics.push(Topic { key, is_provided: false, looked: None });
        }
    }

    /// Records that a peer that stores provider records has connected.
    pub(super) const fn note_table_peer(&mut self) {
        self.is_table_new = true;
    }

    /// Returns true if more than the `n_peers` connected peers are wanted.
    const fn wants(&self, n_peers: usize) -> bool {
        n_peers < self.wanted
    }

    /// Returns true if a provider that was found should be dialed while `n_peers` are connected, and
    /// counts it. After one lookup, only a part of the wanted peers is dialed. If many nodes start
    /// together, the remaining peers connect by themselves and would find no room otherwise.
    pub(super) const fn invite(&mut self, n_peers: usize) -> bool {
        let is_wanted = self.wants(n_peers) && self.n_invitations > 0;
        if is_wanted {
            self.n_invitations -= 1;
        }
        is_wanted
    }

    /// Returns the interval between two lookups of a topic.
    fn look_wait(&self) -> Duration {
        if !self.wants(self.n_peers) {
            AGAIN_EVERY
        } else if self.settled_at.is_some() {
            // A worker that has a head needs neighbors less urgently.
            self.wait.max(Duration::from_mins(1))
        } else {
            self.wait
        }
    }

    /// Returns the time of the next lookup if nothing changes before.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let wait = self.look_wait();
        let next = |topic: &Topic| match (topic.looked, self.settled_at) {
            (Some(looked), Some(settled)) => Some(settled.max(looked + wait)),
            (Some(looked), None) => Some(looked + wait),
            (None, settled) => settled,
        };
        self.topics.iter().filter_map(next).min()
    }

    /// Returns the actions due at `now` while `n_peers` are connected. `n_routed` returns the number of
    /// peers in the table and is called only if necessary, since it is slow.
    pub(super) fn due(
        &mut self,
        now: Instant,
        n_peers: usize,
        n_routed: impl FnOnce() -> usize,
    ) -> Vec<TableAction> {
        let provided_before = |wait| self.provided.is_none_or(|at| now - at >= wait);
        let is_provided_again =
            provided_before(AGAIN_EVERY) || self.is_table_new && provided_before(LOOK_EVERY);
        if n_peers < self.n_peers {
            self.wait = self.wait.min(LOOK_EVERY);
        }
        self.n_peers = n_peers;
        let wait = self.look_wait();
        let is_settled = self.settled_at.is_none_or(|at| now >= at);
        let is_look_due =
            |topic: &Topic| is_settled && topic.looked.is_none_or(|at| now - at >= wait);
        let is_topic_due = |topic: &Topic| !topic.is_provided || is_look_due(topic);
        let is_due = is_provided_again || self.topics.iter().any(is_topic_due);
        if self.wanted == 0 || !is_due || n_routed() == 0 {
            return Vec::new();
        }
        if is_provided_again {
            self.topics.iter_mut().for_each(|topic| topic.is_provided = false);
            self.is_table_new = false;
            self.provided = Some(now);
        }
        let mut actions = Vec::new();
        if self.topics.iter().any(|topic| topic.looked.is_some() && is_look_due(topic)) {
            let is_head = self.wanted >= WANTED_PEERS_OF_HEAD;
            self.wait = (2 * self.wait).min(if is_head { LOOK_EVERY } else { AGAIN_EVERY });
        }
        for topic in &mut self.topics {
            if !topic.is_provided {
                topic.is_provided = true;
                actions.push(TableAction::Provide(topic.key.clone()));
            }
            if is_look_due(topic) {
                topic.looked = Some(now);
                // Each connection costs both nodes some milliseconds. If two hundred workers dialed half
                // of the wanted peers at one time, they would be busy for ten seconds.
                self.n_invitations = self.wanted.div_ceil(8);
                actions.push(TableAction::Look(topic.key.clone()));
            }
        }
        actions
    }
}

/// Maximum number of providers per key: enough for the workers of a cluster of some hundred nodes.
const PROVIDERS_PER_KEY_MAX: usize = 512;

/// Maximum number of providers over all keys. With their addresses they need up to 20 MB.
const PROVIDERS_MAX: usize = 20 * 1024;

/// Store of provider records. Rejects other kinds of records.
#[derive(Debug)]
pub(super) struct ProviderStore {
    own: PeerId,
    providers: HashMap<RecordKey, Vec<ProviderRecord>>,
    n_providers: usize,
}

impl ProviderStore {
    /// Creates an empty store of the node with this id.
    pub(super) fn new(own: PeerId) -> Self {
        Self { own, providers: HashMap::new(), n_providers: 0 }
    }
}

impl RecordStore for ProviderStore {
    type RecordsIter<'a> = iter::Empty<Cow<'a, Record>>;
    type ProvidedIter<'a> = vec::IntoIter<Cow<'a, ProviderRecord>>;

    fn get(&self, _key: &RecordKey) -> Option<Cow<'_, Record>> {
        None
    }

    fn put(&mut self, _record: Record) -> Result<()> {
        Err(Error::MaxRecords)
    }

    fn remove(&mut self, _key: &RecordKey) {}

    fn records(&self) -> Self::RecordsIter<'_> {
        iter::empty()
    }

    /// Stores or replaces a record. A full store rejects new records.
    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        // This node belongs to few topics and always stores its own records.
        let is_own = record.provider == self.own;
        let is_full = self.n_providers >= PROVIDERS_MAX && !is_own;
        let is_new = !self.providers.contains_key(&record.key);
        if is_new && (is_full || self.providers.len() >= 1024 && !is_own) {
            return Err(Error::MaxProvidedKeys);
        }
        let of_key = self.providers.entry(record.key.clone()).or_default();
        if let Some(known) = of_key.iter_mut().find(|known| known.provider == record.provider) {
            *known = record;
        } else if is_own || !is_full && of_key.len() < PROVIDERS_PER_KEY_MAX {
            of_key.push(record);
            self.n_providers += 1;
        }
        Ok(())
    }

    /// Returns the providers of a key in random order.
    fn providers(&self, key: &RecordKey) -> Vec<ProviderRecord> {
        let mut providers = self.providers.get(key).cloned().unwrap_or_default();
        providers.shuffle(&mut rand::rng());
        providers
    }

    fn provided(&self) -> Self::ProvidedIter<'_> {
        let own = self.providers.values().flatten().filter(|record| record.provider == self.own);
        own.map(Cow::Borrowed).collect::<Vec<_>>().into_iter()
    }

    fn remove_provider(&mut self, key: &RecordKey, provider: &PeerId) {
        let Some(of_key) = self.providers.get_mut(key) else { return };
        let n_before = of_key.len();
        of_key.retain(|record| record.provider != *provider);
        self.n_providers -= n_before - of_key.len();
        if of_key.is_empty() {
            self.providers.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_the_general_topic_equals_the_key_of_go_nodes() {
        // Computed by `printf blockless/b7s/general | sha256sum`.
        let want = "122089ce6db3f2efb48a8a395a1c3a4105e9f9b975f901ac9d47d2feaf763fb3f534";
        let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
        let want: Vec<u8> = want.as_bytes().chunks(2).map(byte).collect();
        assert_eq!(key("blockless/b7s/general").to_vec(), want);
    }

    #[tokio::test(start_paused = true)]
    async fn topic_is_provided_and_looked_up_as_soon_as_the_table_has_a_peer() {
        let mut rendezvous = Rendezvous::new(3);
        rendezvous.join("general");
        rendezvous.join("general");
        let mut due = |n_peers, n_routed| rendezvous.due(Instant::now(), n_peers, || n_routed);
        assert_eq!(due(0, 0), [], "no peer can be queried");
        assert_eq!(
            due(1, 1),
            [TableAction::Provide(key("general")), TableAction::Look(key("general"))]
        );
        assert_eq!(due(1, 1), []);
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(due(3, 1), [], "enough");
        assert_eq!(due(2, 1), [TableAction::Look(key("general"))]);
        tokio::time::advance(AGAIN_EVERY).await;
        assert_eq!(due(3, 1).len(), 2, "also with enough peers");
    }

    #[tokio::test(start_paused = true)]
    async fn worker_connected_to_a_head_provides_its_topic_immediately_and_looks_up_peers_later() {
        let mut rendezvous = Rendezvous::new(16);
        rendezvous.join("general");
        rendezvous.set_has_head(true, Instant::now());
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), [TableAction::Provide(key("general"))]);
        tokio::time::advance(SETTLE.0 / 2).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), []);
        tokio::time::advance(SETTLE.1).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), [TableAction::Look(key("general"))]);
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), [], "the mesh grows slowly");
        rendezvous.set_has_head(false, Instant::now());
        assert_eq!(rendezvous.due(Instant::now(), 0, || 1), [TableAction::Look(key("general"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn topics_are_provided_again_to_a_new_table_peer_at_most_every_ten_seconds() {
        let mut rendezvous = Rendezvous::new(1);
        rendezvous.join("general");
        rendezvous.note_table_peer();
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1).len(), 2);
        rendezvous.note_table_peer();
        assert_eq!(rendezvous.due(Instant::now(), 1, || 2), []);
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 2), [TableAction::Provide(key("general"))]);
        assert_eq!(rendezvous.due(Instant::now(), 1, || 2), []);
    }

    #[test]
    fn rendezvous_limits_the_number_of_topics_and_does_nothing_if_no_peers_are_wanted() {
        let mut rendezvous = Rendezvous::new(0);
        (0..TOPICS_MAX + 10).for_each(|n| rendezvous.join(&n.to_string()));
        assert_eq!(rendezvous.topics.len(), TOPICS_MAX);
        assert_eq!(rendezvous.due(Instant::now(), 0, || 9), []);
    }
}

#[cfg(test)]
mod providers_tests {
    use std::collections::HashSet;

    use super::*;

    fn record(key: &str, provider: PeerId) -> ProviderRecord {
        ProviderRecord::new(RecordKey::new(&key), provider, Vec::new())
    }

    #[test]
    fn providers_are_returned_in_random_order() {
        let mut store = ProviderStore::new(PeerId::random());
        for _ in 0..100 {
            store.add_provider(record("general", PeerId::random())).unwrap();
        }
        let key = RecordKey::new(&"general");
        let first = |_| store.providers(&key).into_iter().take(20).map(|record| record.provider);
        let named: HashSet<PeerId> = (0..100).flat_map(first).collect();
        assert_eq!(named.len(), 100);
    }

    #[test]
    fn full_provider_store_rejects_new_keys_of_peers_but_accepts_own_records() {
        let own = PeerId::random();
        let mut store = ProviderStore::new(own);
        for n_key in 0..50 {
            for _ in 0..=PROVIDERS_PER_KEY_MAX {
                // A full store rejects new keys.
                drop(store.add_provider(record(&n_key.to_string(), PeerId::random())));
            }
        }
        assert!(store.providers.values().all(|providers| !providers.is_empty()));
        assert_eq!(store.providers(&RecordKey::new(&"0")).len(), PROVIDERS_PER_KEY_MAX);
        assert_eq!(store.providers.values().map(Vec::len).sum::<usize>(), PROVIDERS_MAX);
        store.add_provider(record("0", own)).unwrap();
        store.add_provider(record("0", own)).unwrap();
        assert_eq!(store.provided().count(), 1);
        store.remove_provider(&RecordKey::new(&"0"), &own);
        assert_eq!((store.provided().count(), store.n_providers), (0, PROVIDERS_MAX));
        store.add_provider(record("own", own)).unwrap();
        assert_eq!(store.provided().count(), 1);
    }
}
