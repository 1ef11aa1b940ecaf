//! How often names, passwords and changes may be tried.

use std::{hash::Hash, time::Duration};

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use web::{
    address::Network,
    rate_limit::{CALLERS_MAX, Rate, RateLimiter},
};

use super::error::ApiError;
use crate::{AccountId, AccountName};

/// Passwords tried for one account name from one network, whether or not there is such an account: a
/// person who has forgotten theirs gets that far, a guesser gets some three thousand a day. Counted
/// by name alone, anybody could lock an owner out.
const OF_NAME: Rate = Rate { every: Duration::from_secs(30), burst: 10 };

/// Passwords tried for one account name from all networks together that it was never logged in from:
/// a guesser with many networks gets some four thousand a day. Its owner is let in where it was before.
const OF_NAME_EVERYWHERE: Rate = Rate { every: Duration::from_secs(20), burst: 50 };

/// Passwords tried from one network.
const OF_NETWORK: Rate = Rate { every: Duration::from_secs(5), burst: 30 };

/// Accounts made from one network.
const SIGN_UPS: Rate = Rate { every: Duration::from_mins(1), burst: 10 };

/// Changes that one account makes.
const CHANGES: Rate = Rate { every: Duration::from_secs(1), burst: 60 };

/// The hash of an account's name, and the network where its password is tried.
type Target = ([u8; 32], Option<Network>);

/// Recent attempts, in bounded memory.
#[derive(Debug)]
pub(super) struct Attempts {
    names: RateLimiter<Target>,
    names_everywhere: RateLimiter<[u8; 32]>,
    /// Networks from which accounts were logged in to.
    known: Mutex<LruCache<Target, ()>>,
    networks: RateLimiter<Network>,
    sign_ups: RateLimiter<Network>,
    changes: RateLimiter<AccountId>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            names: RateLimiter::new(OF_NAME),
            names_everywhere: RateLimiter::new(OF_NAME_EVERYWHERE),
            known: Mutex::new(LruCache::new(CALLERS_MAX)),
            networks: RateLimiter::new(OF_NETWORK),
            sign_ups: RateLimiter::new(SIGN_UPS),
            changes: RateLimiter::new(CHANGES),
        }
    }
}

impl Attempts {
    /// Counts a password that is tried for the account called `name`.
    pub(super) fn try_password(
        &self,
        name: &AccountName,
        network: Option<Network>,
    ) -> Result<(), ApiError> {
        let name = hash(name);
        count(&self.networks, network)?;
        count(&self.names, Some((name, network)))?;
        let is_known = self.known.lock().contains(&(name, network));
        count(&self.names_everywhere, (!is_known).then_some(name))
    }

    /// Forgets the passwords tried for `name` from `network`: the right one was among them.
    pub(super) fn clear_password(&self, name: &AccountName, network: Option<Network>) {
        let target = (hash(name), network);
        self.names.reset(&target);
        self.known.lock().put(target, ());
    }

    /// Counts an account that is made.
    pub(super) fn try_sign_up(&self, network: Option<Network>) -> Result<(), ApiError> {
        count(&self.sign_ups, network)
    }

    /// Counts an operator's token that was not right.
    pub(super) fn try_token(&self, network: Option<Network>) -> Result<(), ApiError> {
        count(&self.networks, network)
    }

    /// Counts a change that an account makes.
    pub(super) fn try_change(&self, account: AccountId) -> Result<(), ApiError> {
        count(&self.changes, Some(account))
    }
}

/// Counts an attempt of `caller`, if it is known.
fn count<C: Copy + Eq + Hash>(limiter: &RateLimiter<C>, caller: Option<C>) -> Result<(), ApiError> {
    let Some(caller) = caller else { return Ok(()) };
    limiter.take(caller).map(drop).map_err(|wait| ApiError::TooOften { wait })
}

/// A name of any length in the same space.
fn hash(name: &AccountName) -> [u8; 32] {
    Sha256::digest(name.to_lowercase().as_bytes()).into()
}
