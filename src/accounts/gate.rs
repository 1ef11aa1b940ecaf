//! The gate in front of a service: lets in requests with a good key, as often as they may.
//!
//! Each key has a rate and, where the operator says so, so many requests and bytes a day. Callers
//! without a good key are limited by their network, before anybody looks their key up. What is
//! counted is kept in memory, per service: a restart begins anew.

mod counted;
mod limits;

use std::{
    net::IpAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{CONTENT_LENGTH, RETRY_AFTER},
    },
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use model::key::ApiKey;
use parking_lot::Mutex;
use task::clock::Clock;
use tokio::time::Instant;
use web::{
    address::{Addresses, Network},
    auth::{NoKey, api_key},
    throttle::{Rate, Recent, Throttle, seconds},
};

pub use self::limits::{Exceeded, Limits};
use self::{
    counted::Counted,
    limits::{Standing, Usage},
};
use crate::{
    AccountsError,
    elsewhere::Keys,
    key::{KeyHash, KeyId, Verified},
};

/// What a network may send without a good key: enough for a program that is being set up, too little
/// to guess keys or to keep the accounts file busy.
const STRANGERS: Rate = Rate { every: Duration::from_millis(200), burst: 100 };

/// After how many seconds to come again where nobody could tell whether the key is good.
const UNKNOWN_RETRY_SECONDS: u64 = 5;

/// What a caller may do at most: of the limit that is nearest.
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");

/// What is left of it.
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");

/// Seconds until all of it is there again.
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// How a gate is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateOptions {
    /// The limits of keys that have none of their own.
    pub limits: Limits,
    /// Whether they hold for callers on this machine, too.
    pub loopback: Loopback,
    /// Whose word on a caller's address is taken.
    pub addresses: Addresses,
}

/// Whether limits hold for callers on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// They do.
    Limited,
    /// They do not.
    Unlimited,
}

/// How a service answers those who are not let in, and where they may show their key.
#[derive(Debug, Clone, Copy)]
pub struct GateWords {
    /// Words a refusal. The gate adds headers.
    pub refuse: fn(Refusal) -> Response,
    /// Where the key may be in the query, if anywhere: the path, and the parameter.
    pub key_in_query: Option<(&'static str, &'static str)>,
}

/// Why a request is not let in.
#[derive(Debug)]
pub enum Refusal {
    /// No key was sent, or something else in its place.
    NoKey(NoKey),
    /// The key opens nothing.
    KeyUnknown,
    /// There was too much of it.
    Limited(Exceeded),
    /// Nobody could tell whether the key is good.
    Failed(AccountsError),
}

/// The key of a request that was let in, among the request's extensions.
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
    usage: Mutex<Recent<KeyId, Usage>>,
    strangers: Throttle<Network>,
}

impl GateOptions {
    /// Lets in everyone with a good key, as often as they like: for tests and benches.
    pub const UNLIMITED: Self = Self {
        limits: Limits::NONE,
        loopback: Loopback::Unlimited,
        addresses: Addresses::OfConnections,
    };
}

impl Gate {
    /// A gate that `keys` open.
    #[must_use]
    pub fn new(keys: impl Into<Keys>, options: GateOptions, clock: Clock) -> Self {
        let (usage, strangers) = (Mutex::default(), Throttle::new(STRANGERS));
        Self { shared: Arc::new(Shared { keys: keys.into(), options, clock, usage, strangers }) }
    }

    /// The limits of keys that have none of their own.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.shared.options.limits
    }

    /// Returns the number of `key` if it exists and is not revoked, whatever it used up.
    ///
    /// # Errors
    /// As [`Keys::check`].
    pub async fn verify(&self, key: &ApiKey) -> Result<Option<KeyId>, AccountsError> {
        self.shared.keys.verify(key).await
    }

    /// Whether there is a key `id` that is not revoked.
    ///
    /// # Errors
    /// As [`Keys::knows`].
    pub async fn knows(&self, id: KeyId) -> Result<bool, AccountsError> {
        self.shared.keys.knows(id).await
    }

    /// Puts the gate around every path of `router`, and around those it does not have.
    ///
    /// A request that is let in carries an [`Admitted`].
    pub fn around(&self, router: Router, words: GateWords) -> Router {
        router.layer(from_fn_with_state((self.clone(), words), pass))
    }

    /// Whether limits hold for a caller from `address`.
    fn is_unlimited(&self, address: Option<IpAddr>) -> bool {
        self.shared.options.loopback == Loopback::Unlimited
            && address.is_some_and(|address| address.to_canonical().is_loopback())
    }

    /// The key that a request shows, if it is good.
    async fn known(
        &self,
        key: Result<ApiKey, NoKey>,
        address: Option<IpAddr>,
    ) -> Result<Verified, Refusal> {
        let network = address.filter(|_| !self.is_unlimited(address)).map(Network::of);
        let hash = key.map(|key| KeyHash::of(&key));
        // Who was let in before is not kept out because of others on the same network.
        let is_known = hash.is_ok_and(|hash| self.shared.keys.is_remembered(&hash));
        if !is_known
            && let Some(wait) = network.and_then(|network| self.shared.strangers.wait(&network))
        {
            return Err(Refusal::Limited(Exceeded::Strangers { wait }));
        }
        let refusal = match hash {
            Ok(hash) => match self.shared.keys.check(hash).await {
                Ok(Some(key)) => return Ok(key),
                Ok(None) => Refusal::KeyUnknown,
                Err(error) => return Err(Refusal::Failed(error)),
            },
            Err(no_key) => Refusal::NoKey(no_key),
        };
        match network.map_or(Ok(()), |network| self.shared.strangers.take(network).map(drop)) {
            Ok(()) => Err(refusal),
            Err(wait) => Err(Refusal::Limited(Exceeded::Strangers { wait })),
        }
    }

    /// Counts a request of `key`, whose body has `n_bytes`, if it may have another one.
    fn count(&self, key: &Verified, n_bytes: u64) -> Result<Standing, Exceeded> {
        let limits = self.shared.options.limits.with(key.limits);
        let now = (Instant::now(), self.shared.clock.now());
        self.shared.usage.lock().entry(key.id, Usage::default).admit(limits, now, n_bytes)
    }
}

async fn pass(
    State((gate, words)): State<(Gate, GateWords)>,
    mut request: Request,
    next: Next,
) -> Response {
    let addresses = gate.shared.options.addresses;
    let address = addresses.caller(request.headers(), request.extensions());
    let key = match gate.known(words.key(&request), address).await {
        Ok(key) => key,
        Err(refusal) => return words.refused(refusal),
    };
    request.extensions_mut().insert(Admitted(key));
    if gate.is_unlimited(address) {
        return next.run(request).await;
    }
    let standing = match gate.count(&key, content_length(request.headers())) {
        Ok(standing) => standing,
        Err(exceeded) => return words.refused(Refusal::Limited(exceeded)),
    };
    let mut response = next.run(request).await;
    if let Some(nearest) = standing.nearest {
        let headers = response.headers_mut();
        headers.insert(LIMIT, nearest.limit.into());
        headers.insert(REMAINING, nearest.n_left.into());
        headers.insert(RESET, seconds(nearest.full_in).into());
    }
    match standing.bytes {
        Some(bytes) => counting(response, bytes),
        None => response,
    }
}

impl GateWords {
    /// The key that a request shows.
    fn key(&self, request: &Request) -> Result<ApiKey, NoKey> {
        if let Some((path, parameter)) = self.key_in_query
            && request.uri().path() == path
            && let Ok(pairs) = web::extract::pairs(request.uri())
            && let Some((_, text)) = pairs.into_iter().find(|(name, _)| name == parameter)
        {
            return text.parse().map_err(NoKey::Unreadable);
        }
        api_key(request.headers())
    }

    fn refused(&self, refusal: Refusal) -> Response {
        let (limit, retry_seconds) = match &refusal {
            Refusal::Limited(exceeded) => (exceeded.limit(), Some(seconds(exceeded.wait()))),
            Refusal::Failed(AccountsError::Unreachable(_)) => (None, Some(UNKNOWN_RETRY_SECONDS)),
            Refusal::NoKey(_) | Refusal::KeyUnknown | Refusal::Failed(_) => (None, None),
        };
        let mut response = (self.refuse)(refusal);
        let headers = response.headers_mut();
        if let Some(retry_seconds) = retry_seconds {
            headers.insert(RETRY_AFTER, retry_seconds.into());
        }
        if let (Some(limit), Some(retry_seconds)) = (limit, retry_seconds) {
            headers.insert(LIMIT, limit.into());
            headers.insert(REMAINING, HeaderValue::from_static("0"));
            headers.insert(RESET, retry_seconds.into());
        }
        response
    }
}

/// How long a request's body is, as far as it says.
fn content_length(headers: &HeaderMap) -> u64 {
    let text = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The answer, whose bytes are counted as they go.
fn counting(response: Response, n_bytes: Arc<AtomicU64>) -> Response {
    response.map(|body| Body::new(Counted::new(body, n_bytes)))
}

#[cfg(test)]
mod tests;
