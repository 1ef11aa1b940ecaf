//! Rate limits for attempts with passwords, for sign-ups and for changes.

use std::hash::Hash;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use web::address::Network;
use web::rate_limit::{CALLERS_MAX, Rate, RateLimiter};

use super::error::ApiError;
use crate::{AccountId, AccountName};

/// Maximum rate of attempts to log in with one account name from one network. The limit applies even if
/// no account has this name. It is enough for a user who forgot the password, and allows about three
/// thousand guesses per day. The limit is per network, since otherwise anyone could lock out the owner.
const OF_NAME: Rate = Rate { every: Duration::from_secs(30), burst: 10 };

/// Maximum rate of attempts to log in with one account name from all networks together. Networks from
/// which someone has logged in to the account before are exempt, so that the owner is not locked out.
/// The limit allows about four thousand guesses per day from many networks.
const OF_NAME_EVERYWHERE: Rate = Rate { every: Duration::from_secs(20), burst: 50 };

/// Maximum rate of attempts with passwords from one network, for all account names together.
const OF_NETWORK: Rate = Rate { every: Duration::from_secs(5), burst: 30 };

/// Maximum rate of sign-ups from one network.
const SIGN_UPS: Rate = Rate { every: Duration::from_mins(1), burst: 10 };

/// Maximum rate of changes by one account.
const CHANGES: Rate = Rate { every: Duration::from_secs(1), burst: 60 };

/// Hash of an account name, and the network from which an attempt is made.
type Target = ([u8; 32], Option<Network>);

/// Recent attempts, in bounded memory.
#[derive(Debug)]
pub(super) struct Attempts {
    names: RateLimiter<Target>,
    names_everywhere: RateLimiter<[u8; 32]>,
    /// Pairs of an account name and a network from which someone has logged in to the account.
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
    /// Counts an attempt with a password for the account called `name`.
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

    /// Resets the count of attempts for `name` from `network` after a successful attempt, and exempts
    /// `network` from [`OF_NAME_EVERYWHERE`] for this name.
    pub(super) fn clear_password(&self, name: &AccountName, network: Option<Network>) {
        let target = (hash(name), network);
        self.names.reset(&target);
        self.known.lock().put(target, ());
    }

    /// Counts a sign-up.
    pub(super) fn try_sign_up(&self, network: Option<Network>) -> Result<(), ApiError> {
        count(&self.sign_ups, network)
    }

    /// Counts an attempt with an invalid operator token.
    pub(super) fn try_token(&self, network: Option<Network>) -> Result<(), ApiError> {
        count(&self.networks, network)
    }

    /// Counts a change by an account.
    pub(super) fn try_change(&self, account: AccountId) -> Result<(), ApiError> {
        count(&self.changes, Some(account))
    }
}

/// Counts an attempt of `caller`. If the caller is unknown, the attempt is not limited.
fn count<C: Copy + Eq + Hash>(limiter: &RateLimiter<C>, caller: Option<C>) -> Result<(), ApiError> {
    let Some(caller) = caller else { return Ok(()) };
    limiter.take(caller).map(drop).map_err(|wait| ApiError::TooOften { wait })
}

/// Returns the hash of a name, so that long names need no more memory.
fn hash(name: &AccountName) -> [u8; 32] {
    Sha256::digest(name.to_lowercase().as_bytes()).into()
}
