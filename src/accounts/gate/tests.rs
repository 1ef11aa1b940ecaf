//! Tests of the gate by the statuses and headers of its responses.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use axum::body::{Bytes, to_bytes};
use axum::extract::{ConnectInfo, Extension};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use model::timestamp::Timestamp;
use tempfile::{TempDir, tempdir};
use tower::ServiceExt as _;
use web::address::Caller;

use super::*;
use crate::{Accounts, KeyLookup, RemoteKeys, Scope};

/// Start of the tests, two hours before midnight.
const NOW: &str = "2026-07-30T22:00:00Z";

const FAR: &str = "192.0.2.7:999";

struct Fixture {
    router: Router,
    accounts: Accounts,
    clock: Clock,
    key: String,
    id: KeyId,
    _folder: TempDir,
}

/// A response as seen by a client.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    text: String,
    headers: HeaderMap,
}

fn messages() -> GateMessages {
    fn refuse(refusal: Refusal) -> Response {
        match refusal {
            Refusal::NoKey(NoKey::Missing) => (StatusCode::UNAUTHORIZED, "missing").into_response(),
            Refusal::NoKey(_) | Refusal::KeyUnknown => {
                (StatusCode::UNAUTHORIZED, "unknown").into_response()
            }
            Refusal::Limited(exceeded) => {
                (StatusCode::TOO_MANY_REQUESTS, exceeded.to_string()).into_response()
            }
            Refusal::Failed(error) => {
                (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
            }
        }
    }
    GateMessages { refuse, key_in_query: &[("/stream", "api_key")] }
}

impl Fixture {
    async fn new(limits: Limits) -> Self {
        let options =
            GateOptions { limits, loopback: Loopback::Limited, ..GateOptions::unlimited() };
        Self::with(options).await
    }

    async fn with(options: GateOptions) -> Self {
        Self::of(options, Keys::from).await
    }

    /// Creates a gate that accepts the keys that `keys` returns for new accounts with one key.
    async fn of(options: GateOptions, keys: impl FnOnce(Accounts) -> Keys) -> Self {
        let folder = tempdir().unwrap();
        let clock = Clock::manual(NOW.parse().unwrap());
        let accounts = Accounts::open(folder.path().join("a.db"), clock.clone()).await.unwrap();
        let (id, key) = accounts.create_key("test").await.unwrap();
        let gate = Gate::new(keys(accounts.clone()), options, clock.clone());
        let whose = async |Extension(Admitted { key, .. }): Extension<Admitted>| key.id.to_string();
        let router = Router::new()
            .route("/", get(whose))
            .route("/stream", get(whose))
            .route("/long", post(async |_body: Bytes| "x".repeat(600)));
        let router = gate.wrap(router, messages());
        let key = key.reveal().to_owned();
        Self { router, accounts, clock, key, id, _folder: folder }
    }

    async fn send(&self, from: &str, method: &str, path: &str, key: &str) -> Seen {
        self.send_body((from, ""), (method, path), key, Body::from("x".repeat(100))).await
    }

    /// Sends a request from the address `from`. If `forwarded` is not empty, it is the value of the
    /// header `X-Forwarded-For`.
    async fn send_body(
        &self,
        (from, forwarded): (&str, &str),
        (method, path): (&str, &str),
        key: &str,
        body: Body,
    ) -> Seen {
        let mut request =
            Request::builder().method(method).uri(path).header("host", "127.0.0.1:8081");
        if !key.is_empty() {
            request = request.header("x-api-key", key);
        }
        if !from.is_empty() {
            let from: SocketAddr = from.parse().unwrap();
            request = request.extension(ConnectInfo(Caller(from)));
        }
        if !forwarded.is_empty() {
            request = request.header("x-forwarded-for", forwarded);
        }
        let request = request.body(body).unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Seen { status: head.status.as_u16(), text, headers: head.headers }
    }

    async fn get(&self, from: &str) -> Seen {
        self.send(from, "GET", "/", &self.key).await
    }
}

impl Seen {
    /// Returns the values of the headers [`LIMIT`], [`REMAINING`], [`RESET`] and `Retry-After`.
    fn limit_headers(&self) -> [Option<&str>; 4] {
        let names = [LIMIT, REMAINING, RESET, RETRY_AFTER];
        names.map(|name| self.headers.get(name).map(|value| value.to_str().unwrap()))
    }
}

const RATE: Limits = Limits { rate: 2, burst: 3, requests_per_day: 0, bytes_per_day: 0 };

#[tokio::test]
async fn valid_key_is_admitted_and_passed_to_handlers() {
    let fixture = Fixture::new(Limits::NONE).await;
    for (path, key, want) in [
        ("/", fixture.key.as_str(), (200, fixture.id.to_string())),
        ("/", "", (401, "missing".to_owned())),
        ("/", "nonsense", (401, "unknown".to_owned())),
        ("/", "UP-000000000000000000000000", (401, "unknown".to_owned())),
        ("/nowhere", "", (401, "missing".to_owned())),
    ] {
        let seen = fixture.send(FAR, "GET", path, key).await;
        assert_eq!((seen.status, seen.text.clone()), want, "{path} {key}");
        assert_eq!(seen.limit_headers(), [None; 4]);
    }
    assert_eq!(fixture.send(FAR, "GET", "/nowhere", &fixture.key).await.status, 404);
    let path = format!("/stream?api_key={}", fixture.key);
    assert_eq!(fixture.send(FAR, "GET", &path, "").await.status, 200);
    let path = format!("/?api_key={}", fixture.key);
    assert_eq!(fixture.send(FAR, "GET", &path, "").await.status, 401);
}

#[tokio::test(start_paused = true)]
async fn rate_limit_is_enforced_and_shown_in_headers() {
    let fixture = Fixture::new(RATE).await;
    for limit_headers in [["3", "2", "1"], ["3", "1", "1"], ["3", "0", "2"]] {
        let seen = fixture.get(FAR).await;
        assert_eq!(seen.status, 200);
        let [limit, left, reset] = limit_headers.map(Some);
        assert_eq!(seen.limit_headers(), [limit, left, reset, None]);
    }
    let seen = fixture.get(FAR).await;
    assert_eq!(seen.status, 429);
    assert_eq!(seen.limit_headers(), [Some("3"), Some("0"), Some("1"), Some("1")]);
    let text = "rate limit exceeded: at most 2 requests per second and 3 at once; retry in 1 s";
    assert_eq!(seen.text, text);
    let (_, other) = fixture.accounts.create_key("other").await.unwrap();
    assert_eq!(fixture.send(FAR, "GET", "/", other.reveal()).await.status, 200);
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(fixture.get(FAR).await.status, 200);
    assert_eq!(fixture.get(FAR).await.status, 429);
}

#[tokio::test(start_paused = true)]
async fn keys_of_an_account_share_limits() {
    let limits = Limits { requests_per_day: 3, ..Limits::NONE };
    for limits in [RATE, limits] {
        let fixture = Fixture::new(limits).await;
        let mut keys = Vec::new();
        for name in ["alice", "bob"] {
            let name = name.parse().unwrap();
            let password = "correct horse".parse().unwrap();
            let account = fixture.accounts.register(name, password).await.unwrap().account.id;
            for number in 0..3 {
                let name = format!("key {number}");
                keys.push(fixture.accounts.create_account_key(account, &name).await.unwrap());
            }
        }
        let get =
            async |idx: usize| fixture.send(FAR, "GET", "/", keys[idx].1.reveal()).await.status;
        assert_eq!([get(0).await, get(1).await, get(2).await], [200; 3]);
        assert_eq!([get(0).await, get(1).await, get(2).await], [429; 3], "each key is refused");
        assert_eq!(get(3).await, 200, "another account's");
        assert_eq!(fixture.get(FAR).await.status, 200, "no account's");
        // A key's own limits do not apply to the other keys of its account.
        let own = KeyLimits { rate: Some(0), requests_per_day: Some(0), ..KeyLimits::default() };
        assert!(fixture.accounts.set_limits(keys[0].0, own).await.unwrap());
        assert_eq!([get(0).await, get(0).await, get(1).await], [200, 200, 429]);
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_a_key_override_the_limits_of_the_service() {
    let fixture = Fixture::new(RATE).await;
    let own = KeyLimits { rate: Some(1), burst: Some(1), ..KeyLimits::default() };
    assert!(fixture.accounts.set_limits(fixture.id, own).await.unwrap());
    assert_eq!(fixture.get(FAR).await.limit_headers(), [Some("1"), Some("0"), Some("1"), None]);
    assert_eq!(fixture.get(FAR).await.status, 429);
    let none = KeyLimits { rate: Some(0), ..KeyLimits::default() };
    assert!(fixture.accounts.set_limits(fixture.id, none).await.unwrap());
    for _ in 0..10 {
        assert_eq!(fixture.get(FAR).await.limit_headers(), [None; 4]);
    }
}

#[tokio::test(start_paused = true)]
async fn daily_request_count_is_reset_at_midnight() {
    let fixture = Fixture::new(Limits { requests_per_day: 2, ..Limits::NONE }).await;
    assert_eq!(fixture.get(FAR).await.limit_headers(), [Some("2"), Some("1"), Some("7200"), None]);
    assert_eq!(fixture.get(FAR).await.status, 200);
    fixture.clock.advance(Duration::from_hours(1));
    let seen = fixture.get(FAR).await;
    assert_eq!(
        (seen.status, seen.limit_headers()),
        (429, [Some("2"), Some("0"), Some("3600"), Some("3600")])
    );
    fixture.clock.advance(Duration::from_hours(1));
    assert_eq!(fixture.get(FAR).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn daily_bytes_count_request_and_response_bodies() {
    let fixture = Fixture::new(Limits { bytes_per_day: 1300, ..Limits::NONE }).await;
    let long = async || fixture.send(FAR, "POST", "/long", &fixture.key).await;
    // The body of each request has 100 bytes, and the body of each response has 600 bytes.
    for _ in 0..2 {
        let seen = long().await;
        assert_eq!((seen.status, seen.text.len()), (200, 600));
        assert_eq!(seen.headers["content-length"], "600");
    }
    let seen = long().await;
    assert_eq!((seen.status, seen.limit_headers()), (429, [None, None, None, Some("7200")]));
    fixture.clock.advance(Duration::from_hours(2));
    assert_eq!(long().await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn body_of_unknown_length_is_counted_while_read() {
    let fixture = Fixture::new(Limits { bytes_per_day: 1300, ..Limits::NONE }).await;
    let chunked = async || {
        let chunk = || Ok::<_, std::convert::Infallible>(Bytes::from("x".repeat(50)));
        let body = Body::from_stream(futures::stream::iter([chunk(), chunk()]));
        fixture.send_body((FAR, ""), ("POST", "/long"), &fixture.key, body).await.status
    };
    assert_eq!([chunked().await, chunked().await, chunked().await], [200, 200, 429]);
}

#[tokio::test(start_paused = true)]
async fn client_behind_a_proxy_is_local_only_if_the_forwarded_address_is_loopback() {
    let options =
        GateOptions { limits: RATE, addresses: AddressSource::Proxy, ..GateOptions::unlimited() };
    for (forwarded, want) in
        [("127.0.0.1", 200), ("nonsense", 429), ("", 429), ("127.0.0.1, 192.0.2.7", 429)]
    {
        let fixture = Fixture::with(options.clone()).await;
        let mut last = 0;
        for _ in 0..4 {
            let from = ("127.0.0.1:9", forwarded);
            last = fixture.send_body(from, ("GET", "/"), &fixture.key, Body::empty()).await.status;
        }
        assert_eq!(last, want, "{forwarded}");
    }
}

#[tokio::test(start_paused = true)]
async fn local_clients_are_limited_unless_exempt() {
    let options = GateOptions { limits: RATE, ..GateOptions::unlimited() };
    let free = Fixture::with(options).await;
    let limited = Fixture::new(RATE).await;
    for from in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
        for _ in 0..5 {
            let seen = free.get(from).await;
            assert_eq!((seen.status, seen.limit_headers()), (200, [None; 4]), "{from}");
        }
    }
    let statuses = async |fixture: &Fixture, from| {
        let mut statuses = Vec::new();
        for _ in 0..5 {
            statuses.push(fixture.get(from).await.status);
        }
        statuses
    };
    let cut_off = [200, 200, 200, 429, 429];
    assert_eq!(statuses(&limited, "127.0.0.1:9").await, cut_off);
    assert_eq!(statuses(&free, FAR).await, cut_off);
    for _ in 0..STRANGERS.burst * 2 {
        assert_eq!(free.send("127.0.0.1:9", "GET", "/", "").await.status, 401);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_valid_key_are_limited_per_network() {
    let fixture = Fixture::new(Limits::NONE).await;
    assert_eq!(fixture.get(FAR).await.status, 200);
    let bad = "UP-000000000000000000000000";
    for _ in 0..STRANGERS.burst {
        assert_eq!(fixture.send(FAR, "GET", "/", bad).await.status, 401);
    }
    for key in ["", bad, "nonsense"] {
        let seen = fixture.send(FAR, "GET", "/", key).await;
        assert_eq!(
            (seen.status, seen.limit_headers()),
            (429, [None, None, None, Some("1")]),
            "{key}"
        );
    }
    assert_eq!(fixture.get(FAR).await.status, 200, "a recently admitted key is not affected");
    assert_eq!(fixture.send("192.0.2.8:9", "GET", "/", "").await.status, 401);
    tokio::time::advance(STRANGERS.every).await;
    assert_eq!(fixture.send(FAR, "GET", "/", bad).await.status, 401);
}

/// Slow lookup of keys in an accounts file. Counts the lookups.
#[derive(Debug, Clone)]
struct Slow {
    accounts: Accounts,
    n_lookups: Arc<AtomicU64>,
}

#[async_trait]
impl KeyLookup for Slow {
    async fn look_up(
        &self,
        hash: KeyHash,
    ) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>> {
        self.n_lookups.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(self.accounts.check(hash).await?)
    }

    async fn knows(&self, id: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Ok(self.accounts.find_key(id).await?.is_some())
    }
}

/// Sends `n` concurrent requests. `key` returns the key of each request. Returns the sorted statuses of
/// the responses and the number of key lookups.
async fn send_concurrently(
    n: usize,
    key: impl Fn(&Fixture, usize) -> String + Send + Sync,
) -> (Vec<u16>, u64) {
    let n_lookups = Arc::new(AtomicU64::new(0));
    let options = GateOptions { loopback: Loopback::Limited, ..GateOptions::unlimited() };
    let slow = |accounts| Slow { accounts, n_lookups: Arc::clone(&n_lookups) };
    let fixture =
        Fixture::of(options, |accounts| Keys::Remote(RemoteKeys::new(slow(accounts)))).await;
    let send = async |idx| fixture.send(FAR, "GET", "/", &key(&fixture, idx)).await.status;
    let mut statuses = futures::future::join_all((0..n).map(send)).await;
    statuses.sort_unstable();
    (statuses, n_lookups.load(Ordering::SeqCst))
}

#[tokio::test(start_paused = true)]
async fn number_of_lookups_of_guessed_keys_is_limited() {
    let burst = usize::try_from(STRANGERS.burst).unwrap();
    let (statuses, n_lookups) =
        send_concurrently(3 * burst, |_, idx| format!("UP-{idx:024x}")).await;
    // During the test, the limit of the network can recover and allow a few more lookups.
    assert!(n_lookups < u64::from(STRANGERS.burst) + 10, "{n_lookups}");
    assert!(statuses.iter().filter(|status| **status == 429).count() > burst, "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn concurrent_first_requests_with_a_valid_key_are_admitted() {
    let n = 5 * usize::try_from(STRANGERS.burst).unwrap();
    let (statuses, _) = send_concurrently(n, |fixture, _| fixture.key.clone()).await;
    assert_eq!(statuses, vec![200; n]);
}

#[tokio::test]
async fn revoked_key_is_rejected() {
    let fixture = Fixture::new(Limits::NONE).await;
    assert_eq!(fixture.get(FAR).await.status, 200);
    assert!(fixture.accounts.revoke_key(Scope::All, fixture.id).await.unwrap());
    assert_eq!(fixture.get(FAR).await.text, "unknown");
}

#[test]
fn days_begin_at_midnight_even_before_1970() {
    let limits = Limits { requests_per_day: 1, ..Limits::NONE };
    let (mut usage, now) = (ConsumerUsage::default(), Instant::now());
    for (date_text, is_admitted) in [
        ("1969-12-31T23:59:59Z", true),
        ("1969-12-31T23:59:59Z", false),
        ("1970-01-01T00:00:00Z", true),
        ("1970-01-01T23:59:59Z", false),
    ] {
        let date: Timestamp = date_text.parse().unwrap();
        assert_eq!(usage.admit(limits, now, date, 0).is_ok(), is_admitted, "{date_text}");
    }
}

#[test]
fn daily_quota_is_not_granted_again_after_the_clock_is_set_back() {
    let limits = Limits { requests_per_day: 1, ..Limits::NONE };
    let (mut usage, now) = (ConsumerUsage::default(), Instant::now());
    for (date_text, is_admitted) in [
        ("2026-09-21T12:00:00Z", true),
        ("2026-09-20T12:00:00Z", false),
        ("2026-09-20T13:00:00Z", false),
        ("2026-09-21T12:00:00Z", true),
        ("2026-09-23T12:00:00Z", true),
        ("2026-09-21T12:00:00Z", false),
        ("2026-09-22T12:00:00Z", true),
    ] {
        let date: Timestamp = date_text.parse().unwrap();
        assert_eq!(usage.admit(limits, now, date, 0).is_ok(), is_admitted, "{date_text}");
    }
}
