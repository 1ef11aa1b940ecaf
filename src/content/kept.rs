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
//! peers first. Beyond that, they evict only functions of unnamed peers. The order is not stored: to find
//! a function to evict, all functions are scanned, which takes less time than storing the new function.
//! This module does no I/O.

use std::cmp::Reverse;
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

    const fn rank(&self) -> Rank {
        Rank::of(&self.custody)
    }

    /// Returns the place in the order of eviction.
    const fn place(&self) -> (Rank, Tick) {
        (self.rank(), self.tick)
    }
}

/// Index of the stored functions.
#[derive(Debug)]
pub(super) struct Index {
    limits: StoreLimits,
    kept: BTreeMap<FunctionId, Kept>,
    /// Other ids of stored functions: ids of modules as one raw block, and ids of installs from an
    /// address. The values are the ids under which the functions are stored.
    aliases: HashMap<FunctionId, FunctionId>,
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
        Self { limits, kept: BTreeMap::new(), aliases: HashMap::new(), next_tick: 0 }
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
        let mut kept: Vec<&Kept> = self.kept.values().collect();
        kept.sort_by_key(|kept| Reverse(kept.place()));
        kept.into_iter().take(n).map(|kept| kept.function.id).collect()
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
        self.remove_each(|index| {
            let victim = || index.first(|kept| kept.rank() < Rank::Pinned);
            if index.total().fits(index.limits) { None } else { victim() }
        })
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
        let addresses = self.kept.remove(&id).map(|before| before.addresses).unwrap_or_default();
        let raw_id = raw_id.filter(|raw_id| *raw_id != id);
        if let Some(raw_id) = raw_id {
            self.aliases.insert(raw_id, id);
        }
        let (tick, saved_at) = (self.tick(), Instant::now());
        self.kept.insert(id, Kept { function, custody, tick, saved_at, raw_id, addresses });
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
        let unpinned = self.kept.values().filter(|kept| kept.rank() < Rank::Pinned);
        let unpinned: Vec<FunctionId> = unpinned.map(|kept| kept.function.id).collect();
        unpinned.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Removes functions one after the other, as long as `next` returns a function.
    fn remove_each(&mut self, next: impl Fn(&Self) -> Option<FunctionId>) -> Vec<Removed> {
        std::iter::from_fn(|| next(self).and_then(|victim| self.remove(victim))).collect()
    }

    /// Returns the usage of all functions.
    pub(super) fn total(&self) -> Usage {
        self.usage_of(|_| true)
    }

    fn usage_of(&self, is_counted: impl Fn(&Kept) -> bool) -> Usage {
        let counted = self.kept.values().filter(|kept| is_counted(kept));
        counted.fold(Usage::default(), |sum, kept| sum.plus(kept.usage()))
    }

    /// Records that `requester` uses function `id`, as a run if `is_run`. Returns the function and its
    /// new custody if these must be saved.
    pub(super) fn note_use(
        &mut self,
        id: FunctionId,
        requester: &Requester,
        is_run: bool,
    ) -> Option<(Function, Custody)> {
        let (id, tick) = (self.resolve(id), self.tick());
        let kept = self.kept.get_mut(&id)?;
        let before = kept.custody.clone();
        kept.custody.has_run |= is_run;
        if requester.claim() > before.requester.claim() && !requester.is_unnamed() {
            kept.custody.requester = requester.clone();
        }
        kept.tick = tick;
        let is_due = kept.custody != before || kept.saved_at.elapsed() >= SAVE_EVERY;
        if is_due {
            kept.saved_at = Instant::now();
        }
        is_due.then(|| (kept.function.clone(), kept.custody.clone()))
    }

    /// Returns the usage of the functions that `requester` cannot evict to make room for `new`.
    fn lasting(&self, new: Usage, requester: &Requester) -> Usage {
        let reaches_named = self.reaches_named(new, requester);
        let last = if reaches_named { Rank::Named } else { Rank::Used };
        self.usage_of(|kept| kept.rank() > last)
    }

    /// Returns true if `requester` can evict functions of named peers to make room for `new`.
    fn reaches_named(&self, new: Usage, requester: &Requester) -> bool {
        let unnamed = || self.usage_of(|kept| kept.rank() <= Rank::Used);
        !requester.is_unnamed() || unnamed().plus(new).fits(self.share())
    }

    /// Returns the next function to be removed to make room for `new`, other than `id`.
    fn victim(&self, new: Usage, requester: &Requester, id: FunctionId) -> Option<FunctionId> {
        let is_other = |kept: &Kept| kept.function.id != id;
        let is_own = |kept: &Kept| kept.custody.requester == *requester;
        if matches!(requester, Requester::Peer(_))
            && !self.usage_of(is_own).plus(new).fits(self.share())
            && let Some(victim) = self.first(|kept| is_own(kept) && is_other(kept))
        {
            return Some(victim);
        }
        if self.total().plus(new).fits(self.limits) {
            return None;
        }
        // While all unnamed peers together use less than their part, they evict functions of named
        // peers first. Beyond that, they evict only functions of unnamed peers.
        let reaches_named = self.reaches_named(new, requester);
        let named = || self.first(|kept| kept.rank() == Rank::Named && is_other(kept));
        let victim = if requester.is_unnamed() && reaches_named { named() } else { None };
        let last = if reaches_named { Rank::Named } else { Rank::Used };
        victim.or_else(|| self.first(|kept| kept.rank() <= last && is_other(kept)))
    }

    /// Returns the first function in the order of eviction that is a candidate.
    fn first(&self, is_candidate: impl Fn(&Kept) -> bool) -> Option<FunctionId> {
        let candidates = self.kept.values().filter(|kept| is_candidate(kept));
        candidates.min_by_key(|kept| kept.place()).map(|kept| kept.function.id)
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
}

#[cfg(test)]
mod tests;
