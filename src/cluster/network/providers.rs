//! Who provides which key, for the Kademlia table: bounded, and answered by chance.
//!
//! An answer of the table names twenty providers at most. Named in the order in which they came, the
//! first twenty workers of a cluster would be dialed by all others, which they have no room for.

use std::{borrow::Cow, collections::HashMap, iter, vec};

use libp2p::{
    PeerId,
    kad::{
        ProviderRecord, Record, RecordKey,
        store::{Error, RecordStore, Result},
    },
};
use rand::seq::SliceRandom as _;

/// Keys whose providers are kept.
const KEYS_MAX: usize = 1024;

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
        if is_new && (is_full || self.providers.len() >= KEYS_MAX && !is_own) {
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
