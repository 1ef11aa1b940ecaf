//! The rendezvous: finding the peers of a topic, and being found, through the Kademlia table of
//! providers. When to do what, and under which key; no I/O.
//!
//! As with go-libp2p's routing discovery, a topic's key is the multihash of its name's SHA-256, and
//! who belongs to the topic provides that key. Peers are looked for until there are enough.

use std::{borrow::Cow, collections::HashMap, iter, time::Duration, vec};

use libp2p::{
    PeerId,
    kad::{
        self, ProviderRecord, Record, RecordKey,
        store::{Error, RecordStore, Result},
    },
};
use rand::seq::SliceRandom as _;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::{
    WANTED_PEERS_OF_HEAD,
    address::{Scope, is_circuit},
    dialer::ADDRESSES_MAX,
};

/// The protocol of the public table, which b7s nodes use too.
pub(super) const PROTOCOL: &str = "/ipfs/kad/1.0.0";

/// How often peers are looked for while there are too few, as b7s nodes do. A worker waits twice as
/// long after each look that found too few, until it loses a peer: in a large cluster, those that the
/// table names first have no room for all others.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How long a worker that is connected to a head waits before it looks for neighbors, at least and at
/// most: by chance between the two, so that workers that started together do not dial one another
/// together. Its head gives it work and functions; neighbors carry gossip of heads farther away.
const SETTLE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(90));

/// How often they are looked for when there are enough, and how often the topic is provided again:
/// who keeps the record may have restarted. It would be kept for a day.
const AGAIN_EVERY: Duration = Duration::from_mins(15);

/// Topics that are looked after. A node of ours has its subgroups and the general one.
const TOPICS_MAX: usize = 256;

/// Returns the Kademlia behavior: a server of providers alone, since nothing here needs records.
pub(super) fn behaviour(own: PeerId) -> kad::Behaviour<ProviderStore> {
    let mut config = kad::Config::new(libp2p::StreamProtocol::new(PROTOCOL));
    config
        .set_record_filtering(kad::StoreInserts::FilterBoth)
        .set_query_timeout(Duration::from_secs(20))
        .set_caching(kad::Caching::Disabled)
        // Topics are looked for; to fill the table beside that would connect every node to every other.
        .set_periodic_bootstrap_interval(None);
    let mut kad = kad::Behaviour::with_config(own, ProviderStore::new(own), config);
    kad.set_mode(Some(kad::Mode::Server));
    kad
}

/// Keeps what a peer at `scope` provides, with a bounded number of addresses.
pub(super) fn keep(
    kad: &mut kad::Behaviour<ProviderStore>,
    mut record: ProviderRecord,
    scope: Scope,
) {
    record.addresses.retain(|address| scope.may_name(address));
    // What is behind NAT is reached in no other way.
    record.addresses.sort_by_key(|address| !is_circuit(address));
    record.addresses.truncate(ADDRESSES_MAX);
    // Full, the table keeps what it has, and the peer provides again later.
    drop(kad.store_mut().add_provider(record));
}

/// Returns the key under which members of `topic` are found.
pub(super) fn key(topic: &str) -> RecordKey {
    // The multihash: SHA-256 is 0x12, its length 0x20. The table is keyed by it, not by the CID
    // around it.
    let mut multihash = vec![0x12, 0x20];
    multihash.extend_from_slice(&Sha256::digest(topic.as_bytes()));
    RecordKey::from(multihash)
}

/// What to do now.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Tell the table that we belong to the topic of this key.
    Provide(RecordKey),
    /// Ask it who else does.
    Look(RecordKey),
}

/// The topics and when they were last provided and looked for.
#[derive(Debug, Default)]
pub(super) struct Rendezvous {
    topics: Vec<Topic>,
    wanted: usize,
    /// Whether a peer that keeps the table has come since the topics were last provided.
    is_table_new: bool,
    provided: Option<Instant>,
    /// How long to wait until the next look while there are too few peers.
    wait: Duration,
    /// How many peers were connected at the last look.
    n_peers: usize,
    /// How many peers may still be dialed of those that the last look finds.
    n_invitations: usize,
    /// How long this node waits with its first look once it is connected to a head.
    settle_for: Duration,
    /// Until when it waits, while it is connected to one.
    settled_at: Option<Instant>,
}

#[derive(Debug)]
struct Topic {
    key: RecordKey,
    is_provided: bool,
    looked: Option<Instant>,
}

impl Rendezvous {
    /// Looks for peers until there are `wanted`.
    pub(super) fn new(wanted: usize) -> Self {
        Self {
            wanted,
            // Nodes that start together look before the others are in the table, so the second look comes soon.
            wait: Duration::from_secs(2),
            settle_for: rand::random_range(SETTLE.0..SETTLE.1),
            ..Self::default()
        }
    }

    /// Notes whether a head is connected, which gives a worker what it needs.
    pub(super) fn set_has_head(&mut self, has_head: bool, now: Instant) {
        if !has_head {
            self.settled_at = None;
        } else if self.settled_at.is_none() {
            self.settled_at = Some(now + self.settle_for);
        }
    }

    /// Adds a topic, which is provided and looked for from now on.
    pub(super) fn join(&mut self, topic: &str) {
        let key = key(topic);
        if self.topics.len() < TOPICS_MAX && self.topics.iter().all(|known| known.key != key) {
            self.topics.push(Topic { key, is_provided: false, looked: None });
        }
    }

    /// Notes that a peer that keeps the table has connected.
    pub(super) const fn note_table_peer(&mut self) {
        self.is_table_new = true;
    }

    /// Provides the topics again at once: this node is reached under another address, too.
    pub(super) fn provide_again(&mut self) {
        self.topics.iter_mut().for_each(|topic| topic.is_provided = false);
    }

    /// Whether more peers are wanted while `n_peers` are connected.
    const fn wants(&self, n_peers: usize) -> bool {
        n_peers < self.wanted
    }

    /// Whether a provider that was found is to be dialed while `n_peers` are connected, which counts it
    /// as invited. A look dials a part of the wanted peers: where many nodes start together, the others
    /// come by themselves, and would find no room if each node had dialed all it wants.
    pub(super) const fn invite(&mut self, n_peers: usize) -> bool {
        let is_wanted = self.wants(n_peers) && self.n_invitations > 0;
        if is_wanted {
            self.n_invitations -= 1;
        }
        is_wanted
    }

    /// How long after a look for a topic the next one comes.
    fn look_wait(&self) -> Duration {
        if !self.wants(self.n_peers) {
            AGAIN_EVERY
        } else if self.settled_at.is_some() {
            // A head is connected, so neighbors are not urgent.
            self.wait.max(Duration::from_mins(1))
        } else {
            self.wait
        }
    }

    /// When topics are next looked for, if nothing changes meanwhile.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let wait = self.look_wait();
        let next = |topic: &Topic| match (topic.looked, self.settled_at) {
            (Some(looked), Some(settled)) => Some(settled.max(looked + wait)),
            (Some(looked), None) => Some(looked + wait),
            (None, settled) => settled,
        };
        self.topics.iter().filter_map(next).min()
    }

    /// Returns what to do at `now`, while `n_peers` are connected and the table has `n_routed` peers.
    /// Those are counted where it matters alone, since that takes long.
    pub(super) fn due(
        &mut self,
        now: Instant,
        n_peers: usize,
        n_routed: impl FnOnce() -> usize,
    ) -> Vec<Step> {
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
        let mut steps = Vec::new();
        if self.topics.iter().any(|topic| topic.looked.is_some() && is_look_due(topic)) {
            let is_head = self.wanted >= WANTED_PEERS_OF_HEAD;
            self.wait = (2 * self.wait).min(if is_head { LOOK_EVERY } else { AGAIN_EVERY });
        }
        for topic in &mut self.topics {
            if !topic.is_provided {
                topic.is_provided = true;
                steps.push(Step::Provide(topic.key.clone()));
            }
            if is_look_due(topic) {
                topic.looked = Some(now);
                // Each connection costs both nodes some milliseconds. Two hundred workers that each dialed half of
                // the wanted peers at one time were busy for ten seconds.
                self.n_invitations = self.wanted.div_ceil(8);
                steps.push(Step::Look(topic.key.clone()));
            }
        }
        steps
    }
}

/// Providers kept of one key: the workers of a cluster of some hundred.
const PROVIDERS_PER_KEY_MAX: usize = 512;

/// Providers kept of all keys. With their addresses they take some 20 MB at most.
const PROVIDERS_MAX: usize = 20 * 1024;

/// The store: providers alone, no other records.
#[derive(Debug)]
pub(super) struct ProviderStore {
    own: PeerId,
    providers: HashMap<RecordKey, Vec<ProviderRecord>>,
    n_providers: usize,
}

impl ProviderStore {
    /// Returns an empty store of the node with this id.
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

    /// Keeps a provider, or replaces what is known of it. A full store keeps what it has.
    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        // This node belongs to few topics, and makes room for each.
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

    /// Returns the providers of a key in an order of chance.
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
    fn the_key_of_the_general_topic_is_the_one_go_nodes_use() {
        // Computed apart: `printf blockless/b7s/general | sha256sum`.
        let want = "122089ce6db3f2efb48a8a395a1c3a4105e9f9b975f901ac9d47d2feaf763fb3f534";
        let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap();
        let want: Vec<u8> = want.as_bytes().chunks(2).map(byte).collect();
        assert_eq!(key("blockless/b7s/general").to_vec(), want);
    }

    #[tokio::test(start_paused = true)]
    async fn a_topic_is_provided_and_looked_up_once_a_table_peer_is_known() {
        let mut rendezvous = Rendezvous::new(3);
        rendezvous.join("general");
        rendezvous.join("general");
        let mut due = |n_peers, n_routed| rendezvous.due(Instant::now(), n_peers, || n_routed);
        assert_eq!(due(0, 0), [], "nobody to ask");
        assert_eq!(due(1, 1), [Step::Provide(key("general")), Step::Look(key("general"))]);
        assert_eq!(due(1, 1), []);
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(due(3, 1), [], "enough");
        assert_eq!(due(2, 1), [Step::Look(key("general"))]);
        tokio::time::advance(AGAIN_EVERY).await;
        assert_eq!(due(3, 1).len(), 2, "now and then all the same");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_provides_its_topic_at_once_and_looks_for_neighbors_late_while_it_has_a_head()
    {
        let mut rendezvous = Rendezvous::new(16);
        rendezvous.join("general");
        rendezvous.set_has_head(true, Instant::now());
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), [Step::Provide(key("general"))]);
        tokio::time::advance(SETTLE.0 / 2).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), []);
        tokio::time::advance(SETTLE.1).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), [Step::Look(key("general"))]);
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1), [], "the mesh grows slowly");
        rendezvous.set_has_head(false, Instant::now());
        assert_eq!(rendezvous.due(Instant::now(), 0, || 1), [Step::Look(key("general"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn topics_are_provided_again_to_a_restarted_table_peer_at_most_every_ten_seconds() {
        let mut rendezvous = Rendezvous::new(1);
        rendezvous.join("general");
        rendezvous.note_table_peer();
        assert_eq!(rendezvous.due(Instant::now(), 1, || 1).len(), 2);
        rendezvous.note_table_peer();
        assert_eq!(rendezvous.due(Instant::now(), 1, || 2), []);
        tokio::time::advance(LOOK_EVERY).await;
        assert_eq!(rendezvous.due(Instant::now(), 1, || 2), [Step::Provide(key("general"))]);
        assert_eq!(rendezvous.due(Instant::now(), 1, || 2), []);
    }

    #[test]
    fn topics_are_bounded_and_none_means_off() {
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
    fn each_provider_of_a_large_topic_is_named_first_at_some_time() {
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
    fn providers_are_bounded_and_the_own_topics_are_kept_in_a_full_store() {
        let own = PeerId::random();
        let mut store = ProviderStore::new(own);
        for n_key in 0..50 {
            for _ in 0..=PROVIDERS_PER_KEY_MAX {
                // A full store refuses new keys.
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
