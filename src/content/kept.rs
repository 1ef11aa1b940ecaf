//! Index of the stored functions and the order of their eviction.
//!
//! Any peer can make a worker fetch functions, so a full store evicts functions instead of rejecting new
//! functions. Peers that the operator named are trusted more than unnamed peers. The order of eviction
//! is:
//!
//! 1. functions of unnamed peers that never ran here,
//! 2. other functions of unnamed peers,
//! 3. functions of named peers.
//!
//! In each group, the least recently used function is evicted first. Functions that the operator added
//! or installed are pinned. Only the operator and heads named by `--obey` or `--boot-nodes` can remove
//! them.
//!
//! An unnamed peer that reaches its quota evicts its own functions. All unnamed peers together can claim
//! one part of the store ([`SHARE`]): while they use less, their new functions evict functions of named
//! peers first. Beyond that, they evict only functions of unnamed peers. Every operation takes
//! logarithmic time in the number of functions. This module does no I/O.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use model::function::FunctionId;
use model::node::PeerId;
use tokio::time::{Duration, Instant};

use super::{FUNCTIONS_MAX, Function, FunctionsError, STORE_BYTES_MAX};

/// Number of parts into which the store is divided for unnamed peers. Each unnamed peer can use at most
/// one part, and all unnamed peers together can take one part from named peers. A part is small enough
/// that a few honest strangers can work next to a hostile one.
const SHARE: usize = 8;

/// Maximum number of addresses of a function. Each address is stored in a file, and anyone can invent
/// addresses.
const ADDRESSES_MAX: usize = 8;

/// Interval at which the last use of a function is saved, so that the order of eviction survives a
/// restart without a write for every run.
const SAVE_EVERY: Duration = Duration::from_hours(1);

/// Limits of a function store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// Maximum number of functions.
    pub functions: usize,
    /// Maximum size of all functions together, in bytes.
    pub bytes: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { functions: FUNCTIONS_MAX, bytes: STORE_BYTES_MAX }
    }
}

/// Party that caused a function to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Requester {
    /// The operator of this node. The function is pinned.
    Operator,
    /// A peer that the operator named, such as a head that a worker obeys.
    Named(PeerId),
    /// Any other peer.
    Peer(PeerId),
    /// Unknown, since the function was stored by an earlier version of this program.
    Unknown,
}

impl Requester {
    /// True for an untrusted party, which is limited by quotas.
    #[must_use]
    pub(super) const fn is_unnamed(&self) -> bool {
        matches!(self, Self::Peer(_) | Self::Unknown)
    }

    /// Returns the rank of this party's claim. A function belongs to the party with the highest claim.
    const fn claim(&self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Peer(_) => 1,
            Self::Named(_) => 2,
            Self::Operator => 3,
        }
    }
}

/// Address that a function was installed from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InstallSource {
    /// Id of the function: the SHA-256 of the address, or a name that the installer chose.
    pub(super) id: FunctionId,
    pub(super) address: String,
    pub(super) function: FunctionId,
}

/// Properties of a stored function that its record contains in addition to its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Custody {
    /// Party that caused the function to be stored.
    pub(super) requester: Requester,
    /// True after the function ran on this node.
    pub(super) has_run: bool,
}

/// Groups of functions in the order of their eviction. Pinned functions are never evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Unused,
    Used,
    Named,
    Pinned,
}

impl Rank {
    const fn of(custody: &Custody) -> Self {
        match (&custody.requester, custody.has_run) {
            (Requester::Operator, _) => Self::Pinned,
            (Requester::Named(_), _) => Self::Named,
            (_, true) => Self::Used,
            (_, false) => Self::Unused,
        }
    }
}

/// Number and total size of a set of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Number of functions.
    pub functions: usize,
    /// Total size of the functions' files, in bytes.
    pub bytes: u64,
}

impl Usage {
    fn plus(self, other: Self) -> Self {
        Self { functions: self.functions + other.functions, bytes: self.bytes + other.bytes }
    }

    const fn minus(self, other: Self) -> Self {
        Self {
            functions: self.functions.saturating_sub(other.functions),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    const fn fits(self, limits: StoreLimits) -> bool {
        self.functions <= limits.functions && self.bytes <= limits.bytes
    }
}

/// Logical time of last use: a unique number that grows with every use.
type Tick = u64;

/// Functions in the order of eviction.
type Order = BTreeMap<(Rank, Tick), FunctionId>;

#[derive(Debug)]
struct Kept {
    function: Function,
    custody: Custody,
    tick: Tick,
    /// Time at which the record was last written.
    saved_at: Instant,
    /// Id of the function's only module as one raw block, if it differs from the function's id.
    raw_id: Option<FunctionId>,
    /// Addresses from which the function was installed, oldest first.
    addresses: Vec<InstallSource>,
}

impl Kept {
    const fn usage(&self) -> Usage {
        Usage { functions: 1, bytes: self.function.kept_bytes }
    }
}

/// Usage and order of eviction of the functions of an unnamed peer.
#[derive(Debug, Default)]
struct Quota {
    usage: Usage,
    order: Order,
}

/// Index of the stored functions.
#[derive(Debug)]
pub(super) struct Index {
    limits: StoreLimits,
    kept: BTreeMap<FunctionId, Kept>,
    /// Other ids of stored functions: ids of modules as one raw block, and ids of installs from an
    /// address. The values are the ids under which the functions are stored.
    aliases: HashMap<FunctionId, FunctionId>,
    order: Order,
    /// Usage by rank.
    usage: [Usage; Rank::Pinned as usize + 1],
    quotas: HashMap<PeerId, Quota>,
    next_tick: Tick,
}

/// Files to be deleted after their function was removed from the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) id: FunctionId,
    pub(super) bytes: u64,
    /// Ids of the addresses from which the function was installed.
    pub(super) addresses: Vec<FunctionId>,
}

impl Index {
    pub(super) fn new(limits: StoreLimits) -> Self {
        Self {
            limits,
            kept: BTreeMap::new(),
            aliases: HashMap::new(),
            order: Order::new(),
            usage: Default::default(),
            quotas: HashMap::new(),
            next_tick: 0,
        }
    }

    /// Returns the id under which a function is stored, given any of its ids.
    pub(super) fn resolve(&self, id: FunctionId) -> FunctionId {
        let id = id.normalize();
        if self.kept.contains_key(&id) {
            return id;
        }
        self.aliases.get(&id).copied().unwrap_or(id)
    }

    pub(super) fn get(&self, id: FunctionId) -> Option<&Function> {
        self.kept.get(&self.resolve(id)).map(|kept| &kept.function)
    }

    /// Returns all functions, by id.
    pub(super) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.kept.values().map(|kept| &kept.function)
    }

    /// Returns the ids of the `n` functions that would be evicted last, starting with the very last.
    pub(super) fn foremost(&self, n: usize) -> Vec<FunctionId> {
        self.order.values().rev().take(n).copied().collect()
    }

    /// Returns the address from which `id` was installed, if any.
    pub(super) fn address(&self, id: FunctionId) -> Option<&InstallSource> {
        let kept = self.kept.get(&self.resolve(id))?;
        kept.addresses.iter().find(|address| address.id == id)
    }

    /// Returns the ids other than CIDs under which function `id` was installed from a manifest. Such
    /// ids do not verify the content.
    pub(super) fn ids_by_manifest(&self, id: FunctionId) -> Vec<FunctionId> {
        let kept = self.kept.get(&id).into_iter();
        kept.flat_map(|kept| kept.addresses.iter().map(|address| address.id)).collect()
    }

    pub(super) fn custody(&self, id: FunctionId) -> Option<&Custody> {
        self.kept.get(&id).map(|kept| &kept.custody)
    }

    /// Removes functions until `function` fits. Returns the removed functions.
    ///
    /// # Errors
    /// [`FunctionsError::Full`] if `function` does not fit even after all functions that `requester` can
    /// evict are removed. In this case no function is removed.
    pub(super) fn make_room(
        &mut self,
        function: &Function,
        requester: &Requester,
    ) -> Result<Vec<Removed>, FunctionsError> {
        let before = self.kept.get(&function.id).map(Kept::usage).unwrap_or_default();
        let new = Usage { functions: 1, bytes: function.kept_bytes }.minus(before);
        if new == Usage::default() {
            return Ok(Vec::new());
        }
        if !self.lasting(new, requester).plus(new).fits(self.limits) {
            return Err(FunctionsError::Full);
        }
        Ok(self.remove_each(|index| index.victim(new, requester, function.id)))
    }

    /// Removes unpinned functions until the store is within its limits.
    pub(super) fn trim(&mut self) -> Vec<Removed> {
        self.remove_each(|index| index.unpinned().filter(|_| !index.total().fits(index.limits)))
    }

    /// Adds a function, for which there must be space. A function that exists gets the new description
    /// and the higher of the two claims.
    pub(super) fn insert(
        &mut self,
        function: Function,
        raw_id: Option<FunctionId>,
        custody: Custody,
    ) {
        let id = function.id;
        let custody = self.merged(id, custody);
        let mut addresses = Vec::new();
        if let Some(before) = self.kept.remove(&id) {
            self.unlist(&before);
            addresses = before.addresses;
        }
        let raw_id = raw_id.filter(|raw_id| *raw_id != id);
        if let Some(raw_id) = raw_id {
            self.aliases.insert(raw_id, id);
        }
        let (tick, saved_at) = (self.tick(), Instant::now());
        let kept = Kept { function, custody, tick, saved_at, raw_id, addresses };
        self.list(&kept);
        self.kept.insert(id, kept);
    }

    /// Returns the custody of function `id` when it is stored again with `custody`: the requester with
    /// the higher claim, and true for `has_run` if it is true in either.
    pub(super) fn merged(&self, id: FunctionId, custody: Custody) -> Custody {
        let Some(before) = self.custody(id) else { return custody };
        let has_run = custody.has_run || before.has_run;
        let is_lower = before.requester.claim() >= custody.requester.claim();
        let requester = if is_lower { before.requester.clone() } else { custody.requester };
        Custody { requester, has_run }
    }

    /// Makes room for another address of function `id`. Returns the address to be removed, if any.
    ///
    /// # Errors
    /// [`FunctionsError::Full`] if the function has the maximum number of addresses and `requester`
    /// cannot replace any.
    pub(super) fn make_room_for_address(
        &mut self,
        id: FunctionId,
        requester: &Requester,
    ) -> Result<Option<FunctionId>, FunctionsError> {
        let kept = self.kept.get_mut(&id);
        let Some(kept) = kept.filter(|kept| kept.addresses.len() >= ADDRESSES_MAX) else {
            return Ok(None);
        };
        if requester.is_unnamed() {
            return Err(FunctionsError::Full);
        }
        let oldest = kept.addresses.remove(0).id;
        self.aliases.remove(&oldest);
        Ok(Some(oldest))
    }

    /// Records the address from which a function was installed. Returns false if the function is not
    /// stored.
    pub(super) fn insert_address(&mut self, address: InstallSource) -> bool {
        let Some(kept) = self.kept.get_mut(&address.function) else { return false };
        self.aliases.insert(address.id, address.function);
        kept.addresses.push(address);
        true
    }

    /// Removes a function.
    pub(super) fn remove(&mut self, id: FunctionId) -> Option<Removed> {
        let kept = self.kept.remove(&id)?;
        self.unlist(&kept);
        let addresses: Vec<FunctionId> = kept.addresses.iter().map(|address| address.id).collect();
        for alias in addresses.iter().chain(&kept.raw_id) {
            // The alias might already belong to a function that was added later.
            if self.aliases.get(alias) == Some(&id) {
                self.aliases.remove(alias);
            }
        }
        Some(Removed { id, bytes: kept.function.kept_bytes, addresses })
    }

    /// Removes all functions that are not pinned.
    pub(super) fn remove_unpinned(&mut self) -> Vec<Removed> {
        self.remove_each(Self::unpinned)
    }

    /// Removes functions one after the other, as long as `next` returns a function.
    fn remove_each(&mut self, next: impl Fn(&Self) -> Option<FunctionId>) -> Vec<Removed> {
        std::iter::from_fn(|| next(self).and_then(|victim| self.remove(victim))).collect()
    }

    /// Returns the usage of all functions.
    pub(super) fn total(&self) -> Usage {
        self.usage.iter().fold(Usage::default(), |sum, usage| sum.plus(*usage))
    }

    /// Records that `requester` uses function `id`, as a run if `is_run`. Returns the function and its
    /// new custody if these must be saved.
    pub(super) fn note_use(
        &mut self,
        id: FunctionId,
        requester: &Requester,
        is_run: bool,
    ) -> Option<(Function, Custody)> {
        let mut kept = self.kept.remove(&self.resolve(id))?;
        self.unlist(&kept);
        let before = kept.custody.clone();
        kept.custody.has_run |= is_run;
        if requester.claim() > before.requester.claim() && !requester.is_unnamed() {
            kept.custody.requester = requester.clone();
        }
        kept.tick = self.tick();
        let is_due = kept.custody != before || kept.saved_at.elapsed() >= SAVE_EVERY;
        if is_due {
            kept.saved_at = Instant::now();
        }
        let saved = is_due.then(|| (kept.function.clone(), kept.custody.clone()));
        self.list(&kept);
        self.kept.insert(kept.function.id, kept);
        saved
    }

    /// Returns the usage of the functions that `requester` cannot evict to make room for `new`.
    fn lasting(&self, new: Usage, requester: &Requester) -> Usage {
        let lasting: &[Rank] = if self.reaches_named(new, requester) {
            &[Rank::Pinned]
        } else {
            &[Rank::Named, Rank::Pinned]
        };
        lasting.iter().fold(Usage::default(), |sum, rank| sum.plus(self.usage[*rank as usize]))
    }

    /// Returns true if `requester` can evict functions of named peers to make room for `new`.
    fn reaches_named(&self, new: Usage, requester: &Requester) -> bool {
        let unnamed = self.usage[Rank::Unused as usize].plus(self.usage[Rank::Used as usize]);
        !requester.is_unnamed() || unnamed.plus(new).fits(self.share())
    }

    /// Returns the next function to be removed to make room for `new`, other than `id`.
    fn victim(&self, new: Usage, requester: &Requester, id: FunctionId) -> Option<FunctionId> {
        if let Requester::Peer(peer) = requester
            && let Some(own) = self.quotas.get(peer)
            && !own.usage.plus(new).fits(self.share())
            && let Some(victim) = own.order.values().copied().find(|other| *other != id)
        {
            return Some(victim);
        }
        if self.total().plus(new).fits(self.limits) {
            return None;
        }
        // While all unnamed peers together use less than their part, they evict functions of named
        // peers first. Beyond that, they evict only functions of unnamed peers.
        let named = || self.first_other(Rank::Named, Rank::Named, id);
        let reserved = requester.is_unnamed() && self.reaches_named(new, requester);
        let victim = if reserved { named() } else { None };
        let last = if self.reaches_named(new, requester) { Rank::Named } else { Rank::Used };
        victim.or_else(|| self.first_other(Rank::Unused, last, id))
    }

    /// Returns the next function to be evicted.
    fn unpinned(&self) -> Option<FunctionId> {
        self.order.range(..(Rank::Pinned, 0)).map(|(_, id)| *id).next()
    }

    fn first_other(&self, from: Rank, to: Rank, id: FunctionId) -> Option<FunctionId> {
        let order = self.order.range((from, 0)..=(to, Tick::MAX));
        order.map(|(_, victim)| *victim).find(|victim| *victim != id)
    }

    const fn share(&self) -> StoreLimits {
        // The share is at least one function, even in a very small store.
        let functions =
            if self.limits.functions < SHARE { 1 } else { self.limits.functions / SHARE };
        StoreLimits { functions, bytes: self.limits.bytes / SHARE as u64 }
    }

    const fn tick(&mut self) -> Tick {
        self.next_tick += 1;
        self.next_tick
    }

    fn list(&mut self, kept: &Kept) {
        let (key, id, usage) =
            ((Rank::of(&kept.custody), kept.tick), kept.function.id, kept.usage());
        self.order.insert(key, id);
        let of_rank = &mut self.usage[key.0 as usize];
        *of_rank = of_rank.plus(usage);
        if let Requester::Peer(peer) = &kept.custody.requester {
            let quota = self.quotas.entry(peer.clone()).or_default();
            quota.order.insert(key, id);
            quota.usage = quota.usage.plus(usage);
        }
    }

    fn unlist(&mut self, kept: &Kept) {
        let (key, usage) = ((Rank::of(&kept.custody), kept.tick), kept.usage());
        self.order.remove(&key);
        let of_rank = &mut self.usage[key.0 as usize];
        *of_rank = of_rank.minus(usage);
        if let Requester::Peer(peer) = &kept.custody.requester
            && let Entry::Occupied(mut quota) = self.quotas.entry(peer.clone())
        {
            quota.get_mut().order.remove(&key);
            quota.get_mut().usage = quota.get().usage.minus(usage);
            if quota.get().order.is_empty() {
                quota.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests;
