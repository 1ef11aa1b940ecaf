//! The gate, which admits requests with a valid API key as long as the key's limits are not exceeded.
//!
//! The keys of an account share a rate limit and, if configured, daily limits of requests and bytes. A
//! key without an account, or with its own limits, is counted separately. Requests without a valid key
//! are limited per network, before the key is looked up.
//!
//! Each service counts usage in memory. A restart resets the counts, and each replica counts separately.
//! Limits are exact only if a load balancer sends all requests with the same API key to the same
//! replica.

mod limits;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use lru::LruCache;
use model::key::{ApiKey, KeyId};
use parking_lot::Mutex;
use task::clock::Clock;
use task::tally::{Counted, Tally};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use web::address::{AddressSource, Network};
use web::auth::{NoKey, api_key};
use web::host_names::HostNames;
use web::metrics::requests::count_bytes;
use web::middleware::{Next, wrap};
use web::rate_limit::{CALLERS_MAX, Rate, RateLimiter, retry_seconds};
use wire::accounts::KeyLimits;

use self::limits::{Allowance, ConsumerUsage};
pub use self::limits::{Exceeded, Limits};
use crate::AccountsError;
use crate::account::AccountId;
use crate::key::{KeyHash, Verified};
use crate::remote::Keys;

/// Maximum rate of requests without a valid key from one network. This rate is enough to set up a
/// program, but too low to guess keys or to overload the accounts store.
const STRANGERS: Rate = Rate { every: Duration::from_millis(200), burst: 100 };

/// Maximum number of concurrent key lookups. A request that waited for its turn needs no lookup if
/// another request found the same key in the meantime. The number is below the burst of [`STRANGERS`],
/// since each lookup is counted as a request without a valid key until it succeeds. With a higher
/// number, a client that starts with many concurrent requests could exceed that burst although its key
/// is valid.
const LOOKUPS_MAX: usize = 64;

/// Time until the key of a stream is verified again if the accounts could not be read. Each attempt can
/// take seconds, for which the event waits.
const VERIFY_AGAIN: Duration = Duration::from_secs(15);

/// Value of `Retry-After`, in seconds, if a key could not be checked.
const UNKNOWN_RETRY_SECONDS: u64 = 5;

/// Response header with the limit of requests that is closest to being reached.
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");

/// Response header with the number of requests that are left of the limit in [`LIMIT`].
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");

/// Response header with the number of seconds until the limit in [`LIMIT`] is fully available again.
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Options of a gate.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// Limits of each account and of each key that is counted separately.
    pub limits: Limits,
    /// Treatment of clients on this machine.
    pub loopback: Loopback,
    /// Source of client addresses.
    pub addresses: AddressSource,
    /// Host names of the service.
    pub hosts: HostNames,
}

/// Treatment of clients on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// The limits apply to them as to any other client.
    Limited,
    /// Limits do not apply.
    Unlimited,
}

/// Responses to refused requests, and paths on which the key can be in the query.
#[derive(Debug, Clone, Copy)]
pub struct GateMessages {
    /// Function that converts a refusal to a response. The gate adds headers to the response.
    pub refuse: fn(Refusal) -> Response,
    /// Paths on which the key can be in the query, each with the name of the query parameter.
    pub key_in_query: &'static [(&'static str, &'static str)],
}

/// Each account can have the service's maximum number of streams divided by this number.
const STREAMS_PART: usize = 4;

/// Limit of concurrent streams for each account and each key that is counted separately. Cheap to
/// clone: all clones share the counts.
#[derive(Debug, Clone)]
pub struct StreamLimit {
    n_max: usize,
    open: Tally<Consumer>,
}

/// Permit for a stream. Dropping it releases the permit.
#[derive(Debug)]
pub struct StreamPermit {
    _counted: Counted<Consumer>,
}

impl StreamLimit {
    /// Creates a limit at which each account can have a quarter of `n_all` streams.
    #[must_use]
    pub fn new(n_all: usize) -> Self {
        Self { n_max: (n_all / STREAMS_PART).max(1), open: Tally::default() }
    }

    /// Returns a permit for one more stream with `key`, or `None` if the limit is reached.
    #[must_use]
    pub fn take(&self, key: &Verified) -> Option<StreamPermit> {
        let counted = self.open.add(&Consumer::from_key(key), |n_own, _| n_own < self.n_max)?;
        Some(StreamPermit { _counted: counted })
    }
}

/// Reason for rejecting a request.
#[derive(Debug)]
pub enum Refusal {
    /// The key is missing or malformed.
    NoKey(NoKey),
    /// The key is unknown or revoked.
    KeyUnknown,
    /// A limit is exceeded.
    Limited(Exceeded),
    /// The key could not be checked.
    Failed(AccountsError),
}

/// Request extension with the key of an admitted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Key of the request, checked at the start of the request.
    pub key: Verified,
    pub(crate) hash: KeyHash,
}

/// Key of an open stream, which must be verified before each event.
#[derive(Debug)]
pub struct StreamKey {
    keys: Keys,
    hash: KeyHash,
    /// Time of the latest verification, if it failed because the accounts could not be read.
    failed: Option<Instant>,
}

impl StreamKey {
    /// Creates the key of a stream that a request with the key `admitted` opens.
    #[must_use]
    pub fn new(keys: &Keys, admitted: &Admitted) -> Self {
        Self { keys: keys.clone(), hash: admitted.hash, failed: None }
    }

    /// Returns false if the key was revoked or renewed. While the accounts cannot be read, the key counts
    /// as valid, and the next attempt to read them is 15 s later.
    pub async fn is_valid(&mut self) -> bool {
        if self.failed.is_some_and(|failed| failed.elapsed() < VERIFY_AGAIN) {
            return true;
        }
        let found = self.keys.check(self.hash).await;
        self.failed = found.is_err().then(Instant::now);
        !matches!(found, Ok(None))
    }
}

/// Gate of a service. Cheap to clone: all clones share the counts.
#[derive(Debug, Clone)]
pub struct Gate {
    shared: Arc<GateState>,
}

#[derive(Debug)]
struct GateState {
    keys: Keys,
    options: GateOptions,
    clock: Clock,
    usage: Mutex<LruCache<Consumer, ConsumerUsage>>,
    strangers: RateLimiter<Network>,
    lookups: Semaphore,
}

/// Account or key whose requests are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Consumer {
    /// An account with all its keys, except keys with their own limits.
    Account(AccountId),
    /// A key without an account, or with its own limits.
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
    /// Returns options that admit every valid key without limits, for tests and benches.
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
    /// Creates a gate that checks requests against `keys`.
    #[must_use]
    pub fn new(keys: impl Into<Keys>, options: GateOptions, clock: Clock) -> Self {
        let shared = GateState {
            keys: keys.into(),
            options,
            clock,
            usage: Mutex::new(LruCache::new(CALLERS_MAX)),
            strangers: RateLimiter::new(STRANGERS),
            lookups: Semaphore::new(LOOKUPS_MAX),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &GateOptions {
        &self.shared.options
    }

    /// Returns the keys against which requests are checked.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.shared.keys
    }

    /// Lets only admitted requests reach `router`, including requests for unknown paths. An admitted
    /// request has the extension [`Admitted`].
    pub fn wrap(&self, router: Router, messages: GateMessages) -> Router {
        let gate = self.clone();
        wrap(router, move |request, next| pass(gate.clone(), messages, request, next))
    }

    /// Returns the verified `key` of a request from `network` with its hash, or the reason why it is
    /// refused. Without a `network`, requests without a valid key are not limited.
    async fn identify(
        &self,
        key: Result<ApiKey, NoKey>,
        network: Option<Network>,
    ) -> Result<Admitted, Refusal> {
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
        // For a key that was valid recently, the limit of its network is not checked. So other clients
        // in the network that send invalid keys do not affect the client with this key.
        let is_known = || self.shared.keys.is_remembered(&hash);
        if !is_known() {
            if let Some(wait) = network.and_then(|network| strangers.wait(&network)) {
                return Err(limited(wait));
            }
            // Cannot fail, since the semaphore is never closed.
            let _turn = self.shared.lookups.acquire().await.ok();
            if !is_known() {
                // Counts the request before the lookup and gives the count back if the key is valid, so
                // that concurrent requests with invalid keys cannot exceed the limit.
                charge(network)?;
                let found = self.shared.keys.check(hash).await;
                if let (Ok(Some(_)) | Err(_), Some(network)) = (&found, network) {
                    strangers.give_back(&network);
                }
                let key = found.map_err(Refusal::Failed)?.ok_or(Refusal::KeyUnknown)?;
                return Ok(Admitted { key, hash });
            }
        }
        match self.shared.keys.check(hash).await.map_err(Refusal::Failed)? {
            Some(key) => Ok(Admitted { key, hash }),
            None => charge(network).and(Err(Refusal::KeyUnknown)),
        }
    }

    /// Counts a request with `key` and a body of `n_bytes`, if the limits allow it.
    fn count(&self, key: &Verified, n_bytes: u64) -> Result<Allowance, Refusal> {
        let limits = self.shared.options.limits.overridden(key.limits);
        let (now, date) = (Instant::now(), self.shared.clock.now());
        let mut usage = self.shared.usage.lock();
        let usage = usage.get_or_insert_mut(Consumer::from_key(key), ConsumerUsage::default);
        usage.admit(limits, now, date, n_bytes).map_err(Refusal::Limited)
    }
}

async fn pass(gate: Gate, messages: GateMessages, mut request: Request, next: Next) -> Response {
    let GateOptions { addresses, loopback, ref hosts, .. } = gate.shared.options;
    let is_unlimited = loopback == Loopback::Unlimited && hosts.is_local_by(addresses, &request);
    let address = addresses.caller(request.headers(), request.extensions());
    let network = address.filter(|_| !is_unlimited).map(Network::from_address);
    let admitted = match gate.identify(messages.key(&request), network).await {
        Ok(admitted) => admitted,
        Err(refusal) => return messages.respond(refusal),
    };
    request.extensions_mut().insert(admitted);
    if is_unlimited {
        return next.run(request).await;
    }
    // Counts the bytes of the body now if their number is known, otherwise while they are read.
    let n_bytes = request.body().size_hint().exact();
    let allowance = match gate.count(&admitted.key, n_bytes.unwrap_or(0)) {
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
    /// Returns the API key in the headers or in the query of a request.
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

/// Wraps `body` so that its bytes are added to `n_bytes` when they are read.
fn counting(body: Body, n_bytes: Arc<AtomicU64>) -> Body {
    count_bytes(body, move |n| {
        n_bytes.fetch_add(n, Ordering::Relaxed);
    })
}

#[cfg(test)]
mod tests;
