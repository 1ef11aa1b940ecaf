//! Accounts and keys from outside: commands beside running services, and services that ask others.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use task::wait;

use crate::support::{command::Home, http::Http, running::Running};

/// How long a change may take to reach a service that runs: far more than it says.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

/// A path that every key may ask for.
const PATH: &str = "/api/datasets/";

/// The operator's token of these tests.
const TOKEN: (&str, &str) = ("TRIPTYCH_ACCOUNTS_TOKEN", "a token of these tests");

/// A home whose commands and services share one data folder.
struct Place {
    home: Home,
    data_dir: String,
}

impl Place {
    fn new() -> Self {
        let home = Home::new();
        let data_dir = home.path("data");
        let home = home.with("TRIPTYCH_DATA_DIR", &data_dir);
        Self { home, data_dir }
    }

    fn keys(&self, words: &[&str]) -> String {
        self.home.run_ok(&[&["keys"], words].concat())
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.keys(&[words, &["--json"]].concat())).unwrap()
    }

    /// A dataset service here, and where it listens.
    fn datasets(&self, flags: &[&str]) -> (Running, String) {
        let words = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &self.data_dir];
        let service = Running::start_with(&[&words, flags].concat(), &[TOKEN]);
        let address = service.wait_log_field("dataset service listening", "address");
        (service, format!("http://{address}"))
    }
}

/// Waits until a key is answered with `want`.
async fn answered(http: &Http, want: StatusCode) {
    let look = || async {
        let (status, body) = http.get(PATH).await;
        if status == want { Ok(()) } else { Err(format!("{status}: {body}")) }
    };
    wait::until(SEEN_WITHIN, look).await.unwrap();
}

#[test]
fn keys_are_managed_by_commands() {
    let place = Place::new();
    let made = place.json(&["create", "my bot"]);
    assert_eq!((made["id"].as_i64(), made["state"].as_str()), (Some(1), Some("valid")));
    let secret = made["api_key"].as_str().unwrap();
    assert!(secret.starts_with("UP-") && secret.len() == 27, "{secret}");
    place.keys(&["rename", "1", "a bot"]);
    let renewed = place.keys(&["renew", "1"]);
    assert_ne!(renewed.trim(), secret);
    let limits = place.json(&["limits", "1", "--rate", "5", "--requests-per-day", "0"]);
    assert_eq!(limits, json!({"rate": 5, "requests_per_day": 0}));
    assert_eq!(place.json(&["limits", "1", "--rate", "default"]), json!({"requests_per_day": 0}));
    place.keys(&["revoke", "1"]);
    let listed = place.json(&["list"]);
    let key = &listed["keys"][0];
    assert_eq!((key["name"].as_str(), key["state"].as_str()), (Some("a bot"), Some("revoked")));
    assert_eq!(key["prefix"].as_str(), renewed.get(..7));
    assert!(!listed.to_string().contains(renewed.trim()), "a list holds no secret");
    for words in [["rename", "1", "x"].as_slice(), &["renew", "1"], &["revoke", "1"]] {
        let why = place.home.run_err(&[&["keys"], words].concat());
        assert!(why.contains("key 1: there is none of that number that is not revoked"), "{why}");
    }
}

#[test]
fn accounts_are_managed_by_commands_that_never_take_a_password_as_a_word() {
    let place = Place::new();
    let add = ["keys", "account", "add", "ada@example.org", "--json"];
    let said = place.home.run_with(&add, b"correct horse\n");
    assert_eq!(said.code, 0, "{said:?}");
    let account: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(account["name"], "ada@example.org");
    let again = place.home.run_with(&add, b"correct horse\n");
    assert!(again.code == 1 && again.err.contains("account name is taken"), "{again:?}");
    let short = place.home.run_with(&["keys", "account", "add", "bob"], b"short\n");
    assert!(short.code == 1 && short.err.contains("8 to 256 characters"), "{short:?}");
    assert!(!short.err.contains("short"), "{short:?}");
    let made = place.json(&["create", "hers", "--account", "ADA@example.org"]);
    assert_eq!(made["account_id"], account["id"]);
    place.keys(&["create", "nobody's"]);
    let hers = place.json(&["list", "--account", "ada@example.org"]);
    assert_eq!(hers["keys"].as_array().unwrap().len(), 1);
    let change = ["keys", "account", "password", "ada@example.org"];
    let changed = place.home.run_with(&change, b"another horse\n");
    assert_eq!((changed.code, changed.out.as_str()), (0, "changed; 0 sessions ended\n"));
    let why = place.home.run_err(&["keys", "account", "remove", "ada@example.org"]);
    assert!(why.contains("add --yes"), "{why}");
    let removed = place.keys(&["account", "remove", "ada@example.org", "--yes"]);
    assert_eq!(removed, "deleted; 1 key revoked\n");
    assert_eq!(place.json(&["account", "list"]), json!({"accounts": []}));
    assert_eq!(place.keys(&["sign-up"]), "open\n");
    place.keys(&["sign-up", "closed"]);
    assert_eq!(place.keys(&["sign-up"]), "closed\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_service_follows_what_commands_do() {
    let place = Place::new();
    let (_service, base) = place.datasets(&[]);
    let first = place.keys(&["create", "mine"]);
    let http = Http::new(&base, Some(first.trim()));
    assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    place.keys(&["limits", "1", "--requests-per-day", "1"]);
    answered(&http, StatusCode::TOO_MANY_REQUESTS).await;
    let refused = http.open(PATH).await;
    for name in ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        assert!(refused.headers().contains_key(name), "{name}");
    }
    let body: Value = refused.json().await.unwrap();
    let text = body["error"].as_str().unwrap();
    assert!(text.starts_with("daily quota exceeded: at most 1 requests per day"), "{text}");
    assert!(text.ends_with(": too many requests") && body["details"].is_null(), "{body}");
    place.keys(&["limits", "1", "--requests-per-day", "default"]);
    answered(&http, StatusCode::OK).await;
    let second = place.keys(&["renew", "1"]);
    answered(&http, StatusCode::UNAUTHORIZED).await;
    let http = Http::new(&base, Some(second.trim()));
    assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    place.keys(&["revoke", "1"]);
    answered(&http, StatusCode::UNAUTHORIZED).await;
    let (status, body) = http.without_key().get_json(PATH).await;
    assert_eq!((status, body), (StatusCode::UNAUTHORIZED, json!({"error": "Missing API key"})));
    assert_eq!(http.without_key().get("/portal").await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_limits_callers_on_this_machine_unless_told_otherwise() {
    let place = Place::new();
    let key = place.keys(&["create", "mine"]);
    let (_limited, base) = place.datasets(&["--requests-per-day", "1"]);
    let http = Http::new(&base, Some(key.trim()));
    assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    assert_eq!(http.get(PATH).await.0, StatusCode::TOO_MANY_REQUESTS);
    let other = Place::new();
    let key = other.keys(&["create", "mine"]);
    let (_free, base) = other.datasets(&["--requests-per-day", "1", "--unlimited-loopback"]);
    let http = Http::new(&base, Some(key.trim()));
    for _ in 0..3 {
        assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_asks_another_machine_and_without_an_answer_lets_nobody_in() {
    let (here, there) = (Place::new(), Place::new());
    let key = there.keys(&["create", "theirs"]);
    let words = ["keys", "serve", "--listen", "127.0.0.1:0", "--data-dir", &there.data_dir];
    let accounts = Running::start_with(&words, &[TOKEN]);
    let address = accounts.wait_log_field("accounts listening", "address");
    let url = format!("http://{address}");
    let (service, base) = here.datasets(&["--accounts", &url]);
    let http = Http::new(&base, Some(key.trim()));
    assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    let unknown = Http::new(&base, Some("UP-000000000000000000000000"));
    assert_eq!(unknown.get(PATH).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(http.without_key().get("/portal").await.0, StatusCode::UNAUTHORIZED);
    // A tag is given to keys by their numbers, which the other machine knows, too.
    there.keys(&["create", "a friend's"]);
    let dataset = json!({"name": "shared", "tags": ["members"]});
    assert_eq!(http.post(PATH, &dataset).await.0, StatusCode::CREATED);
    for (id, want) in [(2, StatusCode::CREATED), (99, StatusCode::NOT_FOUND)] {
        let given = http.post("/api/tags/members/holders/", &json!({"key": id})).await;
        assert_eq!(given.0, want, "{}", given.1);
    }
    there.keys(&["revoke", "1"]);
    answered(&http, StatusCode::UNAUTHORIZED).await;

    tokio::task::spawn_blocking(|| accounts.kill()).await.unwrap();
    let another = Http::new(&base, Some("UP-111111111111111111111111"));
    let refused = another.open(PATH).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "5");
    let want = json!({"details": null, "error": "API keys cannot be checked now: unavailable"});
    assert_eq!(refused.json::<Value>().await.unwrap(), want);
    // A line of the log may come after the answer.
    let look = || async {
        let log = service.stdout().concat();
        if log.contains("reach the accounts and keys, which another machine") {
            Ok(log)
        } else {
            Err(log)
        }
    };
    let log = wait::until(SEEN_WITHIN, look).await.unwrap();
    for secret in [key.trim(), TOKEN.1, "UP-1111"] {
        assert!(!log.contains(secret), "the log holds no secret");
    }
    let why = here.home.run_err(&["datasets", "serve", "--accounts", &url]);
    assert!(why.contains("TRIPTYCH_ACCOUNTS_TOKEN, which is not set"), "{why}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_failure() {
    let place = Place::new();
    // More than a pipe holds, so that writing goes on after the reader is gone.
    let keys: Vec<_> = (0..8).map(|_| place.keys(&["create", &"k".repeat(100)])).collect();
    assert_eq!(keys.len(), 8);
    let words = ["keys", "list", "--json"];
    for _ in 0..3 {
        assert_eq!(place.home.run_without_stdout(&words).code, 0);
    }
    let case = r#"{"inferences":{"ann":["1.5"],"ben":["2.5"]}}"#;
    let path = place.home.write("epoch.json", case.as_bytes());
    let output = place.home.run_without_stdout(&["inference", "synthesize", &path]);
    assert_eq!((output.err.as_str(), output.code), ("", 0));
}

#[test]
fn a_folder_without_accounts_is_told_and_not_made() {
    let place = Place::new();
    for words in [&["list"][..], &["revoke", "1"], &["account", "list"], &["limits", "1"]] {
        let why = place.home.run_err(&[&["keys"], words].concat());
        assert!(why.contains("name the services' folder with --data-dir"), "{why}");
    }
    assert!(!std::path::Path::new(&place.data_dir).exists());
    let said = place.home.run(&["keys", "renew", "first"]);
    assert!(said.code == 2 && said.err.contains("a key's number, as"), "{said:?}");
}

#[test]
fn a_variable_that_is_set_to_nothing_is_not_set() {
    let home = Home::new().with("XDG_DATA_HOME", "/nowhere").with("TRIPTYCH_DATA_DIR", "");
    let why = home.run_err(&["keys", "list"]);
    assert!(why.contains("/nowhere/triptych/services/accounts.db"), "{why}");
}

#[test]
fn a_copy_of_accounts_has_the_same_keys_and_is_made_once() {
    let (from, to) = (Place::new(), Place::new());
    from.keys(&["create", "first"]);
    let copied = from.keys(&["copy", &from.data_dir, &to.data_dir]);
    assert!(copied.contains("keys  1 row  equal\n"), "{copied}");
    assert_eq!(from.keys(&["copy", &from.data_dir, &to.data_dir]), copied, "nothing is left to do");
    assert_eq!(to.json(&["list"]), from.json(&["list"]));
    to.keys(&["create", "second"]);
    let why = from.home.run_err(&["keys", "copy", &from.data_dir, &to.data_dir]);
    assert!(why.contains("whose table keys has other rows"), "{why}");
    let why = from.home.run_err(&["inference", "copy", &from.data_dir, &to.data_dir]);
    assert!(why.contains("there is no such file"), "{why}");
}
