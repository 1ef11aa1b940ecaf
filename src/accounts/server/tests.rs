//! Tests of the accounts API with requests like those of browsers.

use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE as COOKIES, RETRY_AFTER, SET_COOKIE};
use model::key::ApiKey;
use serde_json::{Value, json};
use task::clock::Clock;
use tempfile::{TempDir, tempdir};
use tower::ServiceExt as _;
use web::address::Caller;

use super::*;
use crate::{KeyHash, Scope};

const FAR: &str = "192.0.2.7:999";
/// Current time of the manual clock.
const NOW: &str = "2026-09-21T14:13:20Z";
const TOKEN: &str = "a token of the operator";

#[derive(Debug)]
struct Service {
    router: Router,
    accounts: Accounts,
    clock: Clock,
    _folder: TempDir,
}

/// A browser with its source address and its cookie.
#[derive(Debug, Clone)]
struct Browser<'s> {
    service: &'s Service,
    from: &'static str,
    cookie: Option<String>,
    headers: Vec<(&'static str, &'static str)>,
}

fn options(sign_up: Option<SignUp>, token: Option<OperatorToken>) -> PortalOptions {
    let hosts = HostNames::default();
    PortalOptions { sign_up, addresses: AddressSource::Connection, token, hosts }
}

impl Service {
    async fn start() -> Self {
        Self::with(None).await
    }

    async fn with(sign_up: Option<SignUp>) -> Self {
        let folder = tempdir().unwrap();
        let clock = Clock::manual(NOW.parse().unwrap());
        let accounts = Accounts::open(folder.path().join("a.db"), clock.clone()).await.unwrap();
        let token = Some(OperatorToken::new(TOKEN).unwrap());
        let options = options(sign_up, token);
        let router = router(accounts.clone(), options);
        Self { router, accounts, clock, _folder: folder }
    }

    fn browser(&self) -> Browser<'_> {
        Browser { service: self, from: FAR, cookie: None, headers: Vec::new() }
    }

    /// Returns a browser in which `name` has signed up.
    async fn signed_up(&self, name: &str) -> Browser<'_> {
        let mut browser = self.browser();
        let (status, body) = browser.post("sign_up", &credentials(name, "correct horse")).await;
        assert_eq!((status, body["name"].as_str()), (201, Some(name)));
        browser
    }
}

fn credentials(name: &str, password: &str) -> Value {
    json!({"name": name, "password": password})
}

impl Browser<'_> {
    async fn send(&mut self, method: &str, path: &str, body: Body) -> Response {
        let from: SocketAddr = self.from.parse().unwrap();
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:1");
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIES, cookie);
        }
        if !self.headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        let request = request.extension(ConnectInfo(Caller(from))).body(body).unwrap();
        let response = self.service.router.clone().oneshot(request).await.unwrap();
        if let Some(set) = response.headers().get(SET_COOKIE) {
            let pair = set.to_str().unwrap().split(';').next().unwrap();
            self.cookie = Some(pair.to_owned());
        }
        response
    }

    async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let response = self.send(method, &format!("/api/accounts/{path}"), body).await;
        let status = response.status().as_u16();
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store", "{path}");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask("GET", path, None).await
    }

    async fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, Some(body)).await
    }

    async fn delete(&mut self, path: &str) -> (u16, Value) {
        self.ask("DELETE", path, None).await
    }
}

fn refusal(error: &str) -> Value {
    json!({"details": null, "error": error})
}

#[tokio::test]
async fn unknown_query_parameters_are_rejected_by_name() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let (status, body) = browser.get("keys?limt=3").await;
    assert_eq!(status, 400, "{body}");
    assert!(body["error"].as_str().unwrap().contains("unknown parameter limt"), "{body}");
}

#[tokio::test]
async fn sign_up_on_a_full_disk_returns_507() {
    let service = Service::with(Some(SignUp::Open)).await;
    let mut browser = service.signed_up("late").await;
    service.accounts.shared.store.limit_pages(1);
    let name = json!({"name": "k".repeat(90)});
    let (status, body) = loop {
        let (status, body) = browser.post("keys", &name).await;
        if status != 201 {
            break (status, body);
        }
    };
    assert_eq!(status, 507, "{body}");
    assert!(body["error"].as_str().unwrap().contains("disk is full"), "{body}");
    service.accounts.check_file().await.unwrap_err();
    service.accounts.shared.store.limit_pages(1_000_000);
    let takes_writes = async || service.accounts.check_file().await;
    task::wait::until(Duration::from_mins(1), takes_writes).await.unwrap();
    assert_eq!(browser.post("keys", &name).await.0, 201);
}

#[tokio::test]
async fn signing_up_starts_a_session_and_logging_out_ends_it() {
    let service = Service::start().await;
    let mut browser = service.browser();
    assert_eq!(browser.get("me").await, (200, json!({"account": null, "sign_up": "open"})));
    let ada = credentials("ada@example.org", "correct horse");
    let body = Body::from(ada.to_string());
    let response = browser.send("POST", "/api/accounts/sign_up", body).await;
    assert_eq!(response.status(), 201);
    let cookie = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    let (value, rest) = cookie.split_once("; ").unwrap();
    assert_eq!(value.len(), "triptych_session=".len() + 64);
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Lax; Max-Age=1209600");
    let account = json!({"id": 1, "name": "ada@example.org", "created_at": NOW});
    assert_eq!(browser.get("me").await.1["account"], account);
    let old = browser.clone();
    assert_eq!(browser.post("log_out", &json!({})).await, (200, json!({"n_done": 1})));
    assert_eq!(browser.cookie.as_deref(), Some("triptych_session="));
    assert_eq!(old.clone().get("me").await.1["account"], Value::Null);
    assert_eq!(old.clone().get("keys").await, (401, refusal("log in first")));
    assert_eq!(browser.post("log_in", &ada).await, (200, account));
    assert_eq!(browser.get("keys").await, (200, json!({"keys": []})));
}

#[tokio::test]
async fn session_cookie_is_marked_secure_on_tls() {
    let service = Service::start().await;
    for headers in [("origin", "https://localhost:1"), ("x-forwarded-proto", "https")] {
        let name = headers.0;
        let mut browser = service.browser();
        browser.headers = vec![headers];
        let body = Body::from(credentials(name, "correct horse").to_string());
        let response = browser.send("POST", "/api/accounts/sign_up", body).await;
        assert!(response.headers()[SET_COOKIE].to_str().unwrap().ends_with("; Secure"), "{name}");
    }
}

#[tokio::test]
async fn logging_in_reveals_no_account_names() {
    let service = Service::start().await;
    service.signed_up("ada").await;
    let mut browser = service.browser();
    let wrong = (401, refusal("wrong name or password"));
    for (name, password) in
        [("ada", "correct house"), ("bob", "correct house"), ("ada", "x"), ("", "")]
    {
        assert_eq!(browser.post("log_in", &credentials(name, password)).await, wrong, "{name}");
    }
    assert_eq!(browser.cookie, None);
}

#[tokio::test]
async fn invalid_names_passwords_and_bodies_are_rejected() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let taken = browser.post("sign_up", &credentials("ADA", "correct horse")).await;
    assert_eq!(taken, (409, refusal("account name is taken")));
    for (name, password) in
        [("a b", "correct horse"), ("bob", "short"), ("bob", ""), ("bob", "Password123")]
    {
        assert_eq!(browser.post("sign_up", &credentials(name, password)).await.0, 400, "{name}");
    }
    assert_eq!(browser.post("sign_up", &json!({"name": "bob"})).await.0, 400);
    let (status, body) = browser.post("sign_up", &credentials("bob", &"x".repeat(20_000))).await;
    assert_eq!(status, 413, "{body}");
    assert!(!body.to_string().contains("xxxx"), "{body}");
    assert_eq!(browser.get("sign_up").await, (405, refusal("method not allowed")));
}

#[tokio::test]
async fn existing_account_can_log_in_while_sign_up_is_closed() {
    let service = Service::start().await;
    service.signed_up("ada").await;
    service.accounts.set_sign_up(SignUp::Closed).await.unwrap();
    let mut browser = service.browser();
    assert_eq!(browser.get("me").await.1["sign_up"], "closed");
    let closed = (403, refusal("sign-up is closed"));
    let bob = credentials("bob", "correct horse");
    assert_eq!(browser.post("sign_up", &bob).await, closed);
    assert_eq!(browser.post("log_in", &credentials("ada", "correct horse")).await.0, 200);
    let closed_service = Service::with(Some(SignUp::Closed)).await;
    assert_eq!(closed_service.browser().post("sign_up", &bob).await, closed);
}

#[tokio::test]
async fn keys_are_created_renamed_renewed_and_revoked() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let (status, made) = browser.post("keys", &json!({"name": "my bot"})).await;
    assert_eq!(status, 201);
    let secret: ApiKey = made["api_key"].as_str().unwrap().parse().unwrap();
    let verified = service.accounts.check(KeyHash::from_key(&secret)).await.unwrap().unwrap();
    assert_eq!(verified.id.get(), made["id"].as_i64().unwrap());
    let listed = json!({
        "id": 1, "account_id": 1, "name": "my bot", "prefix": secret.reveal().get(..7),
        "state": "valid", "created_at": NOW, "last_used_at": NOW, "limits": {},
    });
    assert_eq!(browser.get("keys").await, (200, json!({"keys": [listed]})));
    service.clock.advance(Duration::from_secs(5));
    assert_eq!(browser.get("keys").await.1["keys"][0]["last_used_at"], NOW, "the time of the use");
    let key = service.accounts.key(Scope::All, verified.id).await.unwrap().unwrap();
    assert_eq!(key.used_at, NOW.parse().ok());
    service.accounts.run_maintenance().await.unwrap();
    let key = service.accounts.key(Scope::All, verified.id).await.unwrap().unwrap();
    assert_eq!(key.used_at, NOW.parse().ok());
    let name = Some(json!({"name": "a bot"}));
    let (status, renamed) = browser.ask("PATCH", "keys/1", name.as_ref()).await;
    assert_eq!((status, renamed["name"].as_str()), (200, Some("a bot")));
    let (status, renewed) = browser.post("keys/1/renew", &json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(service.accounts.verify(&secret).await.unwrap(), None);
    let second: ApiKey = renewed["api_key"].as_str().unwrap().parse().unwrap();
    assert!(service.accounts.verify(&second).await.unwrap().is_some());
    let mut other = service.signed_up("bob").await;
    assert_eq!(other.get("keys").await, (200, json!({"keys": []})));
    let none = (404, refusal("no such key"));
    assert_eq!(other.delete("keys/1").await, none);
    assert_eq!(other.ask("PATCH", "keys/1", name.as_ref()).await, none);
    assert_eq!(other.post("keys/1/renew", &json!({})).await, none);
    assert_eq!(browser.delete("keys/nonsense").await, none);
    assert_eq!(browser.delete("keys/1").await, (200, json!({"n_done": 1})));
    assert_eq!(browser.delete("keys/1").await, none);
    assert_eq!(service.accounts.verify(&second).await.unwrap(), None);
    assert_eq!(browser.get("keys").await.1["keys"][0]["state"], "revoked");
    assert_eq!(browser.post("keys", &json!({"name": ""})).await.0, 400);
}

#[tokio::test]
async fn sessions_end_when_the_password_changes_or_the_owner_deletes_them() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let mut others = [service.browser(), service.browser(), service.browser()];
    for other in &mut others {
        other.headers = vec![("user-agent", "another browser")];
        assert_eq!(other.post("log_in", &credentials("ada", "correct horse")).await.0, 200);
    }
    let (_, body) = browser.get("sessions").await;
    let sessions = body["sessions"].as_array().unwrap();
    let seen: Vec<_> = sessions
        .iter()
        .map(|session| (session["client"].as_str().unwrap(), session["is_current"] == true))
        .collect();
    let other = ("another browser", false);
    assert_eq!(seen, [other, other, other, ("", true)]);
    let path = format!("sessions/{}", sessions[0]["id"]);
    assert_eq!(browser.delete(&path).await, (200, json!({"n_done": 1})));
    assert_eq!(browser.delete(&path).await, (404, refusal("no such session")));
    assert_eq!(others[2].get("keys").await.0, 401);
    let change = |current: &str, new: &str| json!({"current": current, "new": new});
    let wrong = browser.post("password", &change("wrong horse", "a new password")).await;
    assert_eq!(wrong, (403, refusal("the current password is wrong")));
    assert_eq!(browser.post("password", &change("correct horse", "short")).await.0, 400);
    let changed = browser.post("password", &change("correct horse", "a new password")).await;
    assert_eq!(changed, (200, json!({"n_done": 2})));
    assert_eq!(others[0].get("keys").await.0, 401);
    assert_eq!(browser.get("keys").await.0, 200);
    assert_eq!(others[0].post("log_in", &credentials("ada", "correct horse")).await.0, 401);
    assert_eq!(others[0].post("log_in", &credentials("ada", "a new password")).await.0, 200);
    assert_eq!(browser.delete("sessions").await, (200, json!({"n_done": 1})));
    assert_eq!(others[0].get("keys").await.0, 401);
}

#[tokio::test]
async fn deleting_an_account_requires_its_password_and_revokes_its_keys() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let (_, made) = browser.post("keys", &json!({"name": "my bot"})).await;
    let wrong = Some(json!({"password": "wrong horse"}));
    assert_eq!(browser.ask("DELETE", "me", wrong.as_ref()).await.0, 403);
    let right = Some(json!({"password": "correct horse"}));
    assert_eq!(browser.ask("DELETE", "me", right.as_ref()).await, (200, json!({"n_done": 1})));
    let secret: ApiKey = made["api_key"].as_str().unwrap().parse().unwrap();
    assert_eq!(service.accounts.verify(&secret).await.unwrap(), None);
    assert_eq!(browser.get("me").await.1["account"], Value::Null);
}

#[tokio::test]
async fn change_requests_of_other_sites_are_rejected() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let name = json!({"name": "stolen"});
    for header in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        browser.headers = vec![header];
        let refused = (403, refusal("another site's page made this request"));
        assert_eq!(browser.post("keys", &name).await, refused, "{header:?}");
        assert_eq!(browser.post("log_out", &json!({})).await, refused, "{header:?}");
    }
    browser.headers = vec![("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin")];
    assert_eq!(browser.post("keys", &name).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn password_attempts_are_limited() {
    let service = Service::start().await;
    service
        .accounts
        .register("ada".parse().unwrap(), "correct horse".parse().unwrap())
        .await
        .unwrap();
    let log_in = async |from, name: &str, password: &str| {
        let mut browser = Browser { from, ..service.browser() };
        let body = Body::from(credentials(name, password).to_string());
        let response = browser.send("POST", "/api/accounts/log_in", body).await;
        let retry = response.headers().get(RETRY_AFTER).cloned();
        (response.status().as_u16(), retry.map(|value| value.to_str().unwrap().to_owned()))
    };
    for _ in 0..7 {
        assert_eq!(log_in(FAR, "ada", "correct house").await.0, 401);
    }
    assert_eq!(log_in(FAR, "ada", "correct horse").await.0, 200, "success resets the attempts");
    for name in ["ada", "nobody"] {
        for _ in 0..10 {
            assert_eq!(log_in(FAR, name, "correct house").await.0, 401);
        }
        let limited = log_in(FAR, &name.to_uppercase(), "correct horse").await;
        assert_eq!((limited.0, limited.1.is_some()), (429, true), "{name}");
        let elsewhere = log_in("198.51.100.9:1", name, "correct horse").await.0;
        assert_eq!(
            elsewhere,
            if name == "ada" { 200 } else { 401 },
            "only the guesser is locked out"
        );
    }
    // The network has used up its thirty attempts.
    let limited = log_in(FAR, "someone", "correct horse").await;
    assert_eq!((limited.0, limited.1.is_some()), (429, true));
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(log_in(FAR, "ada", "correct horse").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn password_guesses_from_many_networks_do_not_lock_out_the_owner() {
    let service = Service::start().await;
    let log_in = async |from: String, name: &str, password: &str| {
        let mut browser = Browser { from: from.leak(), ..service.browser() };
        browser.post("log_in", &credentials(name, password)).await.0
    };
    let (name, password) = ("ada".parse().unwrap(), "correct horse".parse().unwrap());
    service.accounts.register(name, password).await.unwrap();
    assert_eq!(log_in(FAR.to_owned(), "ada", "correct horse").await, 200);
    let guess = async |n: usize| {
        log_in(format!("198.{}.{}.1:1", n / 256, n % 256), "ada", "correct house").await
    };
    let mut statuses = Vec::new();
    for n in 0..60 {
        statuses.push(guess(n).await);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 49, "{statuses:?}");
    assert_eq!(statuses.last(), Some(&429));
    assert_eq!(log_in("198.51.100.9:1".to_owned(), "bob", "correct house").await, 401);
    assert_eq!(log_in(FAR.to_owned(), "ada", "correct horse").await, 200, "its network is known");
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!((guess(100).await, guess(101).await), (401, 429));
}

#[tokio::test(start_paused = true)]
async fn sign_ups_are_limited_per_network() {
    let service = Service::start().await;
    let sign_up = async |from, name: &str| {
        let mut browser = Browser { from, ..service.browser() };
        browser.post("sign_up", &credentials(name, "correct horse")).await.0
    };
    let mut statuses = Vec::new();
    for n in 0..12 {
        statuses.push(sign_up("[2001:db8::1]:9", &format!("name-{n}")).await);
    }
    assert_eq!(statuses.first(), Some(&201));
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    assert_eq!(sign_up("[2001:db8::2]:9", "neighbor").await, 429, "of the same network");
    assert_eq!(sign_up(FAR, "stranger").await, 201);
}

#[tokio::test]
async fn remote_service_verifies_keys_with_the_operators_token() {
    let service = Service::start().await;
    let (id, key) = service.accounts.create_key("far").await.unwrap();
    let question = json!({"key_hash": KeyHash::from_key(&key).to_string()});
    let mut asking = service.browser();
    for header in [None, Some("Bearer wrong"), Some("Basic a token of the operator")] {
        asking.headers = header.map(|value| ("authorization", value)).into_iter().collect();
        let refused = (401, refusal("the operator's token is required"));
        assert_eq!(asking.post("verify", &question).await, refused, "{header:?}");
    }
    asking.headers = vec![("authorization", "Bearer a token of the operator")];
    let known = json!({"key": {"id": id.get(), "account_id": null, "limits": {}}});
    assert_eq!(asking.post("verify", &question).await, (200, known));
    let by_number = asking.post("verify", &json!({"id": 1})).await;
    assert_eq!(by_number, asking.post("verify", &question).await, "the key has number 1");
    assert_eq!(asking.post("verify", &json!({"id": 99})).await, (200, json!({"key": null})));
    assert_eq!(asking.post("verify", &json!({})).await.0, 400);
    let unknown = json!({"key_hash": "00".repeat(32)});
    assert_eq!(asking.post("verify", &unknown).await, (200, json!({"key": null})));
    assert_eq!(asking.post("verify", &json!({"key_hash": "00"})).await.0, 400);
    let router = router(service.accounts.clone(), options(None, None));
    let tokenless = Service { router, ..Service::start().await };
    let mut asking = tokenless.browser();
    asking.headers = vec![("authorization", "Bearer ")];
    assert_eq!(
        asking.post("verify", &question).await.0,
        401,
        "a missing token differs from an empty one"
    );
}

#[tokio::test]
async fn request_for_a_rebound_host_name_is_rejected() {
    let service = Service::start().await;
    let mut rebound = service.browser();
    rebound.from = "127.0.0.1:9";
    rebound.headers = vec![("host", "evil.example:1"), ("origin", "http://evil.example:1")];
    let bob = credentials("bob", "correct horse");
    let refused = rebound.send("POST", "/api/accounts/sign_up", Body::from(bob.to_string())).await;
    assert_eq!(refused.status(), 403);
    for path in ["/portal", "/api/accounts/me", "/api/accounts/openapi.json"] {
        assert_eq!(rebound.send("GET", path, Body::empty()).await.status(), 403, "{path}");
    }
    assert!(service.accounts.account("bob".parse().unwrap()).await.unwrap().is_none());
    // A service that sends the operator's token can use any host name.
    rebound.headers =
        vec![("host", "keys.example"), ("authorization", "Bearer a token of the operator")];
    assert_eq!(rebound.post("verify", &json!({"id": 99})).await.0, 200);
}

#[tokio::test]
async fn portal_loads_nothing_from_other_sites() {
    let service = Service::start().await;
    let mut browser = service.browser();
    for (path, kind) in [
        ("/portal", "text/html; charset=utf-8"),
        ("/portal/style.css", "text/css; charset=utf-8"),
        ("/portal/script.js", "text/javascript; charset=utf-8"),
    ] {
        let response = browser.send("GET", path, Body::empty()).await;
        assert_eq!(response.status(), 200, "{path}");
        assert_eq!(response.headers()["content-type"], kind);
        let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let is_foreign = |word: &&str| {
            word.contains("://") && !word.contains("www.w3.org/2000/svg") && !word.contains("${")
        };
        assert_eq!(text.split_whitespace().find(is_foreign), None, "{path}");
    }
}

#[tokio::test]
async fn api_description_is_served_as_a_page() {
    let service = Service::start().await;
    let response = service.browser().send("GET", "/api/accounts/docs/", Body::empty()).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let page = String::from_utf8(body.to_vec()).unwrap();
    for text in ["/api/accounts/keys/{id}/renew", "id=\"log_in\"", "schema-KeyWithSecret"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("src=") && !page.contains("<script"));
}

#[test]
fn debug_output_hides_secrets() {
    let token = OperatorToken::new(TOKEN).unwrap();
    let options = options(None, Some(token.clone()));
    assert!(format!("{options:?}").contains("OperatorToken(…)"));
    assert!(token.is(TOKEN) && !token.is("a token of the operators"));
    assert!(OperatorToken::new("short").is_err());
    let body: wire::accounts::Credentials =
        serde_json::from_value(credentials("ada", "correct horse")).unwrap();
    assert_eq!(format!("{body:?}"), r#"Credentials { name: "ada", password: … }"#);
}

#[tokio::test]
async fn every_described_operation_is_served() {
    let service = Service::start().await;
    let (status, document) = service.browser().get("openapi.json").await;
    assert_eq!(status, 200);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 10, "{paths:?}");
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys() {
            let path = path.replace("{id}", "7");
            let mut browser = service.browser();
            let response = browser.send(&method.to_uppercase(), &path, Body::from("{}")).await;
            let status = response.status().as_u16();
            assert!([200, 400, 401].contains(&status), "{method} {path}: {status}");
        }
    }
}

#[tokio::test]
async fn unknown_paths_and_members_are_rejected() {
    let service = Service::start().await;
    let mut browser = service.browser();
    for path in ["keys/", "nothing", "keys/1/nothing"] {
        assert_eq!(browser.get(path).await, (404, refusal("path not found")), "{path}");
    }
    let mut browser = service.signed_up("ada").await;
    let (status, body) = browser.post("keys", &json!({"name": "bot", "limits": {"rate": 1}})).await;
    assert_eq!(status, 400);
    assert!(body["error"].as_str().unwrap().contains("unknown field `limits`"), "{body}");
}

#[tokio::test]
async fn health_and_metrics_of_the_accounts_service_need_no_key() {
    let Service { router, accounts, _folder: folder, .. } = Service::start().await;
    let get = async |path: &str| {
        // A new router, since a router checks the health at most twice a second.
        let router = with_status(router.clone(), accounts.clone());
        let request = Request::builder().uri(path).header("host", "10.0.0.1:8083");
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(get("/health").await, (200, r#"{"status":"healthy"}"#.to_owned()));
    let (status, text) = get("/metrics").await;
    assert_eq!(status, 200);
    assert!(text.contains("\nprocess_start_time_seconds "), "{text}");
    std::fs::remove_file(folder.path().join("a.db")).unwrap();
    assert_eq!(get("/health").await.0, 503);
}

#[tokio::test]
async fn body_that_a_form_can_send_is_rejected() {
    let service = Service::start().await;
    let mut browser = service.signed_up("ada").await;
    let name = json!({"name": "form"});
    for media_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        browser.headers = vec![("content-type", media_type)];
        let want = (415, refusal("content-type must be application/json"));
        assert_eq!(browser.post("keys", &name).await, want, "{media_type}");
    }
    browser.headers = vec![("content-type", "application/json; charset=utf-8")];
    assert_eq!(browser.post("keys", &name).await.0, 201);
}
