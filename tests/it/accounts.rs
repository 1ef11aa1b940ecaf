//! Accounts and API keys: the commands for them, and services that check keys here or on another
//! machine.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use task::wait;

use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::running::Running;

/// Maximum time until a running service applies a change.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

/// A path that every valid key can read.
const PATH: &str = "/api/datasets/";

/// Operator's token of the accounts service.
const TOKEN: (&str, &str) = ("TRIPTYCH_ACCOUNTS_TOKEN", "a token of these tests");

/// A home directory with commands and services that share a data directory.
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

    /// Starts a dataset service and returns it with its address.
    fn datasets(&self, flags: &[&str]) -> (Running, String) {
        let words = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &self.data_dir];
        let service = Running::start_with(&[&words, flags].concat(), &[TOKEN]);
        let address = service.wait_log_field("dataset service listening", "address");
        (service, format!("http://{address}"))
    }
}

/// A misspelled directory must not be created, and a database in the environment must not be used for it.
#[test]
fn accounts_are_those_in_the_directory_on_the_command_line() {
    let home = Home::new();
    let (folder, other) = (home.path("services"), home.path("other"));
    home.run_ok(&["keys", "create", "mine", "--data-dir", &folder]);
    assert!(home.run_ok(&["keys", "list", "--data-dir", &folder]).contains("mine"));
    let why = home.run_err(&["keys", "sign-up", "closed", "--data-dir", &other]);
    assert!(why.contains("does not exist") && !std::fs::exists(&other).unwrap(), "{why}");
}

/// Waits until requests with a key get status `want`.
async fn wait_status(http: &Http, want: StatusCode) {
    let look = || async {
        let (status, body) = http.get(PATH).await;
        if status == want { Ok(()) } else { Err(format!("{status}: {body}")) }
    };
    wait::until(SEEN_WITHIN, look).await.unwrap();
}

#[test]
fn keys_are_created_renamed_renewed_limited_and_revoked_by_commands() {
    let place = Place::new();
    let created = place.json(&["create", "my bot"]);
    assert_eq!((created["id"].as_i64(), created["state"].as_str()), (Some(1), Some("valid")));
    let secret = created["api_key"].as_str().unwrap();
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
    assert!(!listed.to_string().contains(renewed.trim()), "a list contains no secret");
    for words in [["rename", "1", "x"].as_slice(), &["renew", "1"], &["revoke", "1"]] {
        let why = place.home.run_err(&[&["keys"], words].concat());
        assert!(why.contains("key 1 does not exist or is revoked"), "{why}");
    }
}

#[test]
fn accounts_are_managed_by_commands_that_read_passwords_from_stdin() {
    let place = Place::new();
    let add = ["keys", "account", "add", "ada@example.org", "--json"];
    let added = place.home.run_with(&add, b"correct horse\n");
    assert_eq!(added.code, 0, "{added:?}");
    let account: Value = serde_json::from_str(&added.out).unwrap();
    assert_eq!(account["name"], "ada@example.org");
    let again = place.home.run_with(&add, b"correct horse\n");
    assert!(again.code == 1 && again.err.contains("account name is taken"), "{again:?}");
    let short = place.home.run_with(&["keys", "account", "add", "bob"], b"short\n");
    assert!(short.code == 1 && short.err.contains("8 to 256 characters"), "{short:?}");
    assert!(!short.err.contains("short"), "{short:?}");
    let created = place.json(&["create", "hers", "--account", "ADA@example.org"]);
    assert_eq!(created["account_id"], account["id"]);
    place.keys(&["create", "nobody's"]);
    let hers = place.json(&["list", "--account", "ada@example.org"]);
    assert_eq!(hers["keys"].as_array().unwrap().len(), 1);
    let change = ["keys", "account", "password", "ada@example.org"];
    let changed = place.home.run_with(&change, b"another horse\n");
    assert_eq!((changed.code, changed.out.as_str()), (0, "changed; 0 sessions ended\n"));
    let why = place.home.run_err(&["keys", "account", "remove", "ada@example.org"]);
    assert!(why.contains("pass --yes"), "{why}");
    let removed = place.keys(&["account", "remove", "ada@example.org", "--yes"]);
    assert_eq!(removed, "deleted; 1 key revoked\n");
    assert_eq!(place.json(&["account", "list"]), json!({"accounts": []}));
    assert_eq!(place.keys(&["sign-up"]), "open\n");
    place.keys(&["sign-up", "closed"]);
    assert_eq!(place.keys(&["sign-up"]), "closed\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_service_applies_key_changes_of_commands() {
    let place = Place::new();
    let (_service, base) = place.datasets(&[]);
    let first = place.keys(&["create", "mine"]);
    let http = Http::new(&base, Some(first.trim()));
    assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    place.keys(&["limits", "1", "--requests-per-day", "1"]);
    wait_status(&http, StatusCode::TOO_MANY_REQUESTS).await;
    let refused = http.open(PATH).await;
    for name in ["retry-after", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"] {
        assert!(refused.headers().contains_key(name), "{name}");
    }
    let body: Value = refused.json().await.unwrap();
    let text = body["error"].as_str().unwrap();
    assert!(text.starts_with("daily quota exceeded: at most 1 requests per day"), "{text}");
    assert!(text.ends_with(": too many requests") && body["details"].is_null(), "{body}");
    place.keys(&["limits", "1", "--requests-per-day", "default"]);
    wait_status(&http, StatusCode::OK).await;
    let second = place.keys(&["renew", "1"]);
    wait_status(&http, StatusCode::UNAUTHORIZED).await;
    let http = Http::new(&base, Some(second.trim()));
    assert_eq!(http.get(PATH).await.0, StatusCode::OK);
    place.keys(&["revoke", "1"]);
    wait_status(&http, StatusCode::UNAUTHORIZED).await;
    let (status, body) = http.without_key().get_json(PATH).await;
    assert_eq!((status, body), (StatusCode::UNAUTHORIZED, json!({"error": "Missing API key"})));
    assert_eq!(http.without_key().get("/portal").await.0, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_on_loopback_are_limited_unless_an_option_exempts_them() {
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
async fn service_checks_keys_remotely_and_returns_503_while_the_accounts_service_is_down() {
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
    // Tags are granted to ids of keys, which only the accounts service knows.
    there.keys(&["create", "a friend's"]);
    let dataset = json!({"name": "shared", "tags": ["members"]});
    assert_eq!(http.post(PATH, &dataset).await.0, StatusCode::CREATED);
    for (id, want) in [(2, StatusCode::CREATED), (99, StatusCode::NOT_FOUND)] {
        let (status, body) = http.post("/api/tags/members/holders/", &json!({"key": id})).await;
        assert_eq!(status, want, "{body}");
    }
    there.keys(&["revoke", "1"]);
    wait_status(&http, StatusCode::UNAUTHORIZED).await;

    tokio::task::spawn_blocking(|| accounts.kill()).await.unwrap();
    let another = Http::new(&base, Some("UP-111111111111111111111111"));
    let refused = another.open(PATH).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "5");
    let want = json!({"details": null, "error": "API keys cannot be checked now: unavailable"});
    assert_eq!(refused.json::<Value>().await.unwrap(), want);
    // The log line may be written after the response.
    let look = || async {
        let log = service.stdout().concat();
        if log.contains("accounts cannot be reached") { Ok(log) } else { Err(log) }
    };
    let log = wait::until(SEEN_WITHIN, look).await.unwrap();
    for secret in [key.trim(), TOKEN.1, "UP-1111"] {
        assert!(!log.contains(secret), "the log contains no secret");
    }
    let why = here.home.run_err(&["datasets", "serve", "--accounts", &url]);
    assert!(why.contains("set TRIPTYCH_ACCOUNTS_TOKEN"), "{why}");
}

#[test]
fn command_succeeds_if_the_reader_of_its_output_exits() {
    let place = Place::new();
    // The output exceeds the capacity of a pipe, so the command still writes after the reader is gone.
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
fn commands_do_not_create_a_missing_data_directory() {
    let place = Place::new();
    for words in [&["list"][..], &["revoke", "1"], &["account", "list"], &["limits", "1"]] {
        let why = place.home.run_err(&[&["keys"], words].concat());
        assert!(why.contains("pass the directory of the services with --data-dir"), "{why}");
    }
    assert!(!std::path::Path::new(&place.data_dir).exists());
    let output = place.home.run(&["keys", "renew", "first"]);
    assert!(output.code == 2 && output.err.contains("a key's number, as"), "{output:?}");
}

#[test]
fn empty_environment_variable_is_ignored() {
    let home = Home::new().with("XDG_DATA_HOME", "/nowhere").with("TRIPTYCH_DATA_DIR", "");
    let why = home.run_err(&["keys", "list"]);
    assert!(why.contains("/nowhere/triptych/services/accounts.db"), "{why}");
}

#[test]
fn copied_accounts_have_the_same_keys_and_a_changed_copy_is_not_overwritten() {
    let (from, to) = (Place::new(), Place::new());
    from.keys(&["create", "first"]);
    let copied = from.keys(&["copy", &from.data_dir, &to.data_dir]);
    assert!(copied.contains("keys  1 row  equal\n"), "{copied}");
    assert_eq!(
        from.keys(&["copy", &from.data_dir, &to.data_dir]),
        copied,
        "a second copy changes nothing"
    );
    assert_eq!(to.json(&["list"]), from.json(&["list"]));
    to.keys(&["create", "second"]);
    let why = from.home.run_err(&["keys", "copy", &from.data_dir, &to.data_dir]);
    assert!(why.contains("table keys of the destination differs from the source"), "{why}");
    let why = from.home.run_err(&["inference", "copy", &from.data_dir, &to.data_dir]);
    assert!(why.contains("does not exist"), "{why}");
}
