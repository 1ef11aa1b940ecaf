//! The gate in front of a service: admits requests with a valid key, within its limits.
//!
//! The keys of an account share a rate limit and, where the operator sets them, limits of requests
//! and bytes a day; a key without an account, or with limits of its own, has them alone. Callers
//! without a valid key are limited by their network, before their key is looked up. What is counted
//! is kept in memory, per service: a restart resets it. Replicas of a service count on their own, so
//! that a balancer which sends each API key to one of them makes limits exact.

mod limits;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::Request,
    http::{HeaderName, HeaderValue, header::RETRY_AFTER},
    response::Response,
};
use lru::LruCache;
use model::key::{ApiKey, KeyId};
use parking_lot::Mutex;
use task::{
    clock::Clock,
    tally::{Counted, Tally},
};
use tokio::{sync::Semaphore, time::Instant};
use web::{
    address::{AddressSource, Network},
    auth::{NoKey, api_key},
    host_names::HostNames,
    metrics::requests::count_bytes,
    middleware::{Next, wrap},
    rate_limit::{CALLERS_MAX, Rate, RateLimiter, retry_seconds},
};
use wire::accounts::KeyLimits;

use self::limits::{Allowance, Usage};
pub use self::limits::{Exceeded, Limits};
use crate::{
    AccountsError,
    account::AccountId,
    key::{KeyHash, Verified},
    remote::Keys,
};

/// What a network may send without a good key: enough for a program that is being set up, too little
/// to guess keys or to keep the accounts file busy.
const STRANGERS: Rate = Rate { every: Duration::from_millis(200), burst: 100 };

/// Keys looked up at a time. More wait, and need no lookup where another request with the same key was
/// answered meanwhile. Fewer than [`STRANGERS`] may have at once, so that a program that
/// sends all its requests at once with a good key is not taken for a stranger.
const LOOKUPS_MAX: usize = 64;

/// `Retry-After`, in seconds, where a key could not be checked.
const UNKNOWN_RETRY_SECONDS: u64 = 5;

/// Header: the maximum of the limit that the caller is closest to.
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");

/// Header: what is left of that limit.
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");

/// Header: seconds until that limit is full again.
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The settings of a gate.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// The limits of an account, and of a key that belongs to none.
    pub limits: Limits,
    /// Whether the limits apply to callers on this machine.
    pub loopback: Loopback,
    /// Which proxies are trusted to give a caller's address.
    pub addresses: AddressSource,
    /// The names under which the service is reached.
    pub hosts: HostNames,
}

/// Whether limits apply to callers on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// They apply to them, too.
    Limited,
    /// They do not apply.
    Unlimited,
}

/// How a service words refusals, and where callers may send their key.
#[derive(Debug, Clone, Copy)]
pub struct GateMessages {
    /// Words a refusal. The gate adds headers.
    pub refuse: fn(Refusal) -> Response,
    /// Where the key may be in the query: paths, each with its parameter.
    pub key_in_query: &'static [(&'static str, &'static str)],
}

/// The part of all endless responses that one account may have open: no three shut others out.
const STREAMS_PART: usize = 4;

/// Limit of the endless responses of each account, or of a key that is counted alone. Cheap to clone:
/// all clones count together.
#[derive(Debug, Clone)]
pub struct StreamLimit {
    n_max: usize,
    open: Tally<Consumer>,
}

/// An endless response that counts until this is dropped.
#[derive(Debug)]
pub struct StreamPermit {
    _counted: Counted<Consumer>,
}

impl StreamLimit {
    /// Lets each account have a quarter of `n_all`.
    #[must_use]
    pub fn new(n_all: usize) -> Self {
        Self { n_max: (n_all / STREAMS_PART).max(1), open: Tally::default() }
    }

    /// Counts one response more for `key`; `None` if that has all it may have.
    #[must_use]
    pub fn take(&self, key: &Verified) -> Option<StreamPermit> {
        let counted = self.open.add(&Consumer::from_key(key), |n_own, _| n_own < self.n_max)?;
        Some(StreamPermit { _counted: counted })
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub enum Refusal {
    /// No key was sent, or something else in its place.
    NoKey(NoKey),
    /// The key is unknown or revoked.
    KeyUnknown,
    /// A limit is exceeded.
    Limited(Exceeded),
    /// The key could not be checked.
    Failed(AccountsError),
}

/// The key of an admitted request, among the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted(pub Verified);

/// The gate of one service. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    keys: Keys,
    options: GateOptions,
    clock: Clock,
    usage: Mutex<LruCache<Consumer, Usage>>,
    strangers: RateLimiter<Network>,
    lookups: Semaphore,
}

/// Who is counted together: more keys give an account no more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Consumer {
    /// An account, with its keys that have no limits of their own.
    Account(AccountId),
    /// A key that belongs to no account, or has limits of its own.
    Key(KeyId),
}

impl Consumer {
    fn from_key(key: &Verified) -> Self {
        match key.account {
            Some(account) if key.limits == KeyLimits::default() => Self::Account(account),
            _ => Self::Key(key.id),
        }
    }
}

impl GateOptions {
    /// Admits every valid key without limits: for tests and benches.
    #[must_use]
    pub fn unlimited() -> Self {
        Self {
            limits: Limits::NONE,
            loopback: Loopback::Unlimited,
            addresses: AddressSource::Connection,
            hosts: HostNames::default(),
        }
    }
}

impl Gate {
    /// A gate that checks keys against `keys`.
    #[must_use]
    pub fn new(keys: impl Into<Keys>, options: GateOptions, clock: Clock) -> Self {
        let shared = Shared {
            keys: keys.into(),
            options,
            clock,
            usage: Mutex::new(LruCache::new(CALLERS_MAX)),
            strangers: RateLimiter::new(STRANGERS),
            lookups: Semaphore::new(LOOKUPS_MAX),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Its settings. What the service allows without a key, it allows under one of its names.
    #[must_use]
    pub fn options(&self) -> &GateOptions {
        &self.shared.options
    }

    /// The keys that it admits, whatever they have used.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// Puts the gate around every path of `router`, and around those it does not have.
    ///
    /// An admitted request carries an [`Admitted`].
    pub fn wrap(&self, router: Router, messages: GateMessages) -> Router {
        let gate = self.clone();
        wrap(router, move |request, next| pass(gate.clone(), messages, request, next))
    }

    /// The key of a request, if it is valid. Limits apply to callers with a `network`.
    async fn identify(
        &self,
        key: Result<ApiKey, NoKey>,
        network: Option<Network>,
    ) -> Result<Verified, Refusal> {
        let strangers = &self.shared.strangers;
        let limited = |wait| Refusal::Limited(Exceeded::by_strangers(wait));
        let charge = |network: Option<Network>| match network {
            Some(network) => strangers.take(network).map(drop).map_err(limited),
            None => Ok(()),
        };
        let hash = match key {
            Ok(key) => KeyHash::from_key(&key),
            Err(no_key) => {
                charge(network)?;
                return Err(Refusal::NoKey(no_key));
            }
        };
        // A key that was admitted before is not refused because of others on the same network.
        let is_known = || self.shared.keys.is_remembered(&hash);
        if !is_known() {
            if let Some(wait) = network.and_then(|network| strangers.wait(&network)) {
                return Err(limited(wait));
            }
            // The semaphore is never closed.
            let _turn = self.shared.lookups.acquire().await.ok();
            if !is_known() {
                // Charged before the lookup: else many at once would all be looked up.
                charge(network)?;
                let found = self.shared.keys.check(hash).await;
                if let (Ok(Some(_)) | Err(_), Some(network)) = (&found, network) {
                    strangers.give_back(&network);
                }
                return found.map_err(Refusal::Failed)?.ok_or(Refusal::KeyUnknown);
            }
        }
        match self.shared.keys.check(hash).await.map_err(Refusal::Failed)? {
            Some(key) => Ok(key),
            None => charge(network).and(Err(Refusal::KeyUnknown)),
        }
    }

    /// Counts a request with `key`, whose body has `n_bytes`, if the limits allow it.
    fn count(&self, key: &Verified, n_bytes: u64) -> Result<Allowance, Refusal> {
        let limits = self.shared.options.limits.overridden(key.limits);
        let (now, date) = (Instant::now(), self.shared.clock.now());
        let mut usage = self.shared.usage.lock();
        let usage = usage.get_or_insert_mut(Consumer::from_key(key), Usage::default);
        usage.admit(limits, now, date, n_bytes).map_err(Refusal::Limited)
    }
}

async fn pass(gate: Gate, messages: GateMessages, mut request: Request, next: Next) -> Response {
    let GateOptions { addresses, loopback, ref hosts, .. } = gate.shared.options;
    let is_unlimited = loopback == Loopback::Unlimited && hosts.is_local_by(addresses, &request);
    let address = addresses.caller(request.headers(), request.extensions());
    let network = address.filter(|_| !is_unlimited).map(Network::from_address);
    let key = match gate.identify(messages.key(&request), network).await {
        Ok(key) => key,
        Err(refusal) => return messages.respond(refusal),
    };
    request.extensions_mut().insert(Admitted(key));
    if is_unlimited {
        return next.run(request).await;
    }
    // A body of known length counts at once, any other as it is read.
    let n_bytes = request.body().size_hint().exact();
    let allowance = match gate.count(&key, n_bytes.unwrap_or(0)) {
        Ok(allowance) => allowance,
        Err(refusal) => return messages.respond(refusal),
    };
    if let (None, Some(bytes)) = (n_bytes, &allowance.bytes) {
        request = request.map(|body| counting(body, Arc::clone(bytes)));
    }
    let mut response = next.run(request).await;
    if let Some(nearest) = allowance.nearest {
        let headers = response.headers_mut();
        headers.insert(LIMIT, nearest.limit.into());
        headers.insert(REMAINING, nearest.n_left.into());
        headers.insert(RESET, retry_seconds(nearest.full_in).into());
    }
    match allowance.bytes {
        Some(bytes) => response.map(|body| counting(body, bytes)),
        None => response,
    }
}

impl GateMessages {
    /// The key of a request.
    fn key(&self, request: &Request) -> Result<ApiKey, NoKey> {
        let path = request.uri().path();
        if let Some((_, parameter)) = self.key_in_query.iter().find(|(of, _)| *of == path)
            && let Ok(pairs) = web::extract::pairs(request.uri())
            && let Some((_, text)) = pairs.into_iter().find(|(name, _)| name == parameter)
        {
            return text.parse().map_err(NoKey::Unreadable);
        }
        api_key(request.headers())
    }

    fn respond(&self, refusal: Refusal) -> Response {
        let (limit, wait_seconds) = match &refusal {
            Refusal::Limited(exceeded) => (exceeded.limit, Some(retry_seconds(exceeded.wait))),
            Refusal::Failed(AccountsError::Unreachable(_) | AccountsError::Replaced) => {
                (None, Some(UNKNOWN_RETRY_SECONDS))
            }
            Refusal::NoKey(_) | Refusal::KeyUnknown | Refusal::Failed(_) => (None, None),
        };
        let mut response = (self.refuse)(refusal);
        let headers = response.headers_mut();
        if let Some(wait_seconds) = wait_seconds {
            headers.insert(RETRY_AFTER, wait_seconds.into());
        }
        if let (Some(limit), Some(wait_seconds)) = (limit, wait_seconds) {
            headers.insert(LIMIT, limit.into());
            headers.insert(REMAINING, HeaderValue::from_static("0"));
            headers.insert(RESET, wait_seconds.into());
        }
        response
    }
}

/// A body whose bytes are counted as they go.
fn counting(body: Body, n_bytes: Arc<AtomicU64>) -> Body {
    count_bytes(body, move |n| {
        n_bytes.fetch_add(n, Ordering::Relaxed);
    })
}

#[cfg(test)]
mod tests;
