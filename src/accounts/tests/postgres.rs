//! Tests of accounts in a PostgreSQL database, including failures of the database.

use std::future::pending;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::RETRY_AFTER;
use axum::routing::get;
use db::format::FormatError;
use db::postgres::fault::diagnose;
use db::postgres::schema::{SchemaSeen, late_sequences};
use db::postgres::{self};
use futures::FutureExt as _;
use task::causes::chain;
use task::group::Group;
use test_postgres::{new_database, number, run};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::*;
use crate::gate::{Gate, GateMessages, GateOptions, Refusal};

/// Terminates all other connections to a database.
fn end_connections(url: &str) {
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    run(url, sql);
}

/// Proxy to the database server. It can stop forwarding, to simulate a server that does not respond.
pub(crate) struct Line {
    pub(crate) near: String,
    pub(crate) is_silent: watch::Sender<bool>,
    group: Group,
}

impl Line {
    pub(crate) async fn start(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (start, rest) = url.rsplit_once('@').unwrap();
        let (server, name) = rest.split_once('/').unwrap();
        let (server, group) = (server.to_owned(), Group::default());
        let connections = group.clone();
        let (is_silent, silent) = watch::channel(false);
        group.spawn("line", async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (server, mut silent) = (server.clone(), silent.clone());
                connections.spawn("connection", async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        biased;
                        () = silent.wait_for(|is_silent| *is_silent).map(drop) => pending().await,
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        let near = format!("{start}@127.0.0.1:{port}/{name}");
        Self { near, is_silent, group }
    }
}

#[tokio::test]
async fn lost_idle_connections_are_replaced() {
    let Some(url) = new_database() else { return };
    let accounts = Place::Database(url.clone()).open().await;
    let (id, key) = accounts.create_key("a client").await.unwrap();
    end_connections(&url);
    assert_eq!(accounts.verify(&key).await.unwrap(), Some(id));
    end_connections(&url);
    assert!(accounts.revoke_key(Scope::All, id).await.unwrap());
    accounts.check_file().await.unwrap();
}

#[tokio::test]
async fn tables_of_another_version_are_rejected() {
    let Some(url) = new_database() else { return };
    drop(Place::Database(url.clone()).open().await);
    run(&url, "UPDATE accounts.format SET version = 99");
    let error = Accounts::connect(&url.parse().unwrap(), clock()).await.unwrap_err();
    assert!(matches!(error, AccountsError::Format(FormatError { found: 99, .. })), "{error:?}");
}

#[tokio::test]
async fn rows_can_be_changed_while_all_tables_are_published() {
    let Some(url) = new_database() else { return };
    let accounts = Place::Database(url.clone()).open().await;
    let (id, key) = accounts.create_key("a client").await.unwrap();
    run(&url, "CREATE PUBLICATION everything FOR ALL TABLES");
    assert!(accounts.revoke_key(Scope::All, id).await.unwrap());
    assert_eq!(accounts.verify(&key).await.unwrap(), None);
    let sql = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'accounts' AND c.relkind = 'r' AND NOT EXISTS
        (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)";
    assert_eq!(number(&url, sql), 0, "each table has a primary key");
}

#[tokio::test]
async fn database_of_another_encoding_is_rejected() {
    let Some(url) = new_database() else { return };
    let (server, name) = url.rsplit_once('/').unwrap();
    let latin = format!("{name}_latin");
    run(&url, &format!("CREATE DATABASE {latin} ENCODING LATIN1 LOCALE 'C' TEMPLATE template0"));
    let url = format!("{server}/{latin}").parse().unwrap();
    let error = Accounts::connect(&url, clock()).await.unwrap_err();
    assert!(chain(&error).contains("encoding LATIN1, expected UTF8"), "{}", chain(&error));
}

#[tokio::test]
async fn id_sequence_below_the_highest_id_is_detected() {
    let Some(url) = new_database() else { return };
    let accounts = Place::Database(url.clone()).open().await;
    for name in ["one", "two"] {
        accounts.create_key(name).await.unwrap();
    }
    let mut connection = postgres::connect(&url.parse().unwrap()).await.unwrap();
    assert!(late_sequences(&mut connection, "accounts").await.unwrap().is_empty());
    run(&url, "SELECT setval('accounts.keys_id_seq', 1)");
    assert_eq!(late_sequences(&mut connection, "accounts").await.unwrap(), ["accounts.keys"]);
}

#[tokio::test]
async fn check_fails_with_the_name_of_a_missing_table() {
    let Some(url) = new_database() else { return };
    let accounts = Place::Database(url.clone()).open().await;
    accounts.check_file().await.unwrap();
    run(&url, "DROP TABLE accounts.sessions");
    let text = chain(&accounts.check_file().await.unwrap_err());
    assert!(text.contains("relation \"accounts.sessions\" does not exist"), "{text}");
}

#[tokio::test]
async fn read_only_accounts_check_keys_and_refuse_changes() {
    let Some(url) = new_database() else { return };
    let accounts = Place::Database(url.clone()).open().await;
    let (id, key) = accounts.create_key("a client").await.unwrap();
    let name = url.rsplit('/').next().unwrap();
    run(&url, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let reader = Accounts::connect_read_only(&url.parse().unwrap(), clock()).await.unwrap();
    assert_eq!(reader.verify(&key).await.unwrap(), Some(id));
    reader.check_file().await.unwrap();
    let refused = reader.create_key("another client").await.unwrap_err();
    assert!(matches!(refused, AccountsError::ReadOnly), "{refused:?}");
}

/// A wrong password, a missing permission, a TLS failure and an unreachable server result in different
/// advice.
#[tokio::test]
async fn diagnosis_distinguishes_password_tls_and_permission_errors() {
    let Some(url) = new_database() else { return };
    let role = "DO $$ BEGIN CREATE ROLE scram; EXCEPTION WHEN duplicate_object THEN END $$;
        DO $$ BEGIN CREATE ROLE guest LOGIN PASSWORD 'guest' IN ROLE scram;
            EXCEPTION WHEN duplicate_object THEN END $$";
    run(&url, role);
    drop(Place::Database(url.clone()).open().await);
    let (_, place) = url.rsplit_once('@').unwrap();
    let (_, name) = place.split_once('/').unwrap();
    for (url, text, next) in [
        (format!("postgres://guest:wrong@{place}"), "password authentication failed", "PGPASSWORD"),
        (format!("{url}?sslmode=require"), "TLS failed", "PGSSLMODE"),
        (format!("postgres://guest:guest@{place}"), "permission denied", "GRANT"),
        (format!("postgres://guest@127.0.0.1:1/{name}"), "cannot connect to it", "that it runs"),
    ] {
        let error = Accounts::connect(&url.parse().unwrap(), clock()).await.unwrap_err();
        let found = diagnose(&error).unwrap();
        assert!(found.text.contains(text) && found.next.contains(next), "{found:?} {error:?}");
    }
}

/// The stored tables have format 3, the oldest format that can be upgraded. With
/// `TRIPTYCH_WRITE_STORED_FILE=1`, the test replaces the stored tables with tables in the current
/// format.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_tables_in_an_old_format_are_valid() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/accounts/format_3.sql");
    if std::env::var_os("TRIPTYCH_WRITE_STORED_FILE").is_some_and(|value| value == "1") {
        let Some(url) = new_database() else { return };
        drop(Place::Database(url.clone()).open().await);
        test_postgres::dump(&url, &path);
    }
    let Some(url) = test_postgres::stored_database(&path) else { return };
    let key = ApiKey::from_random([8; 12]);
    for (key, name, revoked_at) in
        [(key.clone(), "old", "NULL"), (ApiKey::from_random([9; 12]), "gone", "2000000")]
    {
        let hash = data_encoding::HEXLOWER.encode(&KeyHash::from_key(&key).to_bytes());
        let insert = format!(
            "INSERT INTO accounts.keys (hash, name, created_at, revoked_at)
             VALUES ('\\x{hash}', '{name}', 1000000, {revoked_at})"
        );
        run(&url, &insert);
    }
    check_stored_keys(&Place::Database(url), &key).await;
}

#[tokio::test]
async fn inspection_reports_tables_and_permission_to_create_them() {
    let Some(url) = new_database() else { return };
    let schema = Accounts::copied_tables().database;
    let look = async |url: &str| {
        let mut connection = postgres::connect(&url.parse().unwrap()).await.unwrap();
        schema.look(&mut connection).await.unwrap()
    };
    let create = "DO $$ BEGIN CREATE ROLE poor LOGIN PASSWORD 'poor'; EXCEPTION WHEN duplicate_object THEN END $$";
    run(&url, create);
    let (_, place) = url.rsplit_once('@').unwrap();
    let poor = format!("postgres://poor:poor@{place}");
    assert_eq!(look(&url).await, SchemaSeen::Missing { can_create: true });
    assert_eq!(look(&poor).await, SchemaSeen::Missing { can_create: false });
    for (url, part, next) in [
        (&poor, "permission denied for database", "GRANT"),
        (&format!("{url}_nope"), "does not exist", "createdb"),
    ] {
        let error = Accounts::connect(&url.parse().unwrap(), clock()).await.unwrap_err();
        let text = chain(&error);
        assert!(text.matches(part).count() == 1 && !text.contains("at line"), "{text}");
        assert!(diagnose(&error).is_some_and(|fault| fault.next.contains(next)), "{text}");
    }
    drop(Place::Database(url.clone()).open().await);
    assert_eq!(look(&url).await, SchemaSeen::Format(schema.version));
}

#[tokio::test]
async fn stored_tables_contain_no_secret() {
    let Some(url) = new_database() else { return };
    let accounts = Place::Database(url).open().await;
    let (_, key) = accounts.create_key("a client").await.unwrap();
    let password: Password = "correct horse".parse().unwrap();
    let ada = accounts.register("ada".parse().unwrap(), password).await.unwrap();
    let token = accounts.begin_session(ada, "a browser").await.unwrap().token;
    for table in ["keys", "accounts", "sessions"] {
        let sql = format!("SELECT t::text FROM {table} t");
        let rows = accounts.shared.store.query(sql, [], |row| row.get::<String>(0));
        let text = rows.await.unwrap().concat();
        assert!(!text.is_empty());
        let digits = key.reveal().trim_start_matches("UP-");
        for secret in [digits, "correct horse", token.reveal()] {
            assert!(!text.contains(secret), "{table}");
        }
    }
}

/// Sends a request with `key` and returns its status and `Retry-After`.
async fn ask(router: &Router, key: &ApiKey) -> (u16, Option<String>) {
    let request = Request::builder().uri("/").header("x-api-key", key.reveal());
    let request = request.body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let retry_after = response.headers().get(RETRY_AFTER);
    let retry_after = retry_after.map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), retry_after)
}

fn refuse(refusal: Refusal) -> axum::response::Response {
    let (status, body) = match refusal {
        Refusal::NoKey(_) | Refusal::KeyUnknown => (401, Body::empty()),
        Refusal::Limited(exceeded) => (429, exceeded.to_string().into()),
        Refusal::Failed(error) => (503, error.to_string().into()),
    };
    axum::response::Response::builder().status(status).body(body).unwrap()
}

/// Starts a service that uses the database at the address `near`. Returns its accounts, its router and
/// a valid key.
async fn start_service(near: &str) -> (Accounts, Router, ApiKey) {
    let accounts = Accounts::connect(&near.parse().unwrap(), clock()).await.unwrap();
    let gate = Gate::new(accounts.clone(), GateOptions::unlimited(), clock());
    let router = Router::new().route("/", get(async || "let in"));
    let router = gate.wrap(router, GateMessages { refuse, key_in_query: &[] });
    let (_, key) = accounts.create_key("a client").await.unwrap();
    assert_eq!(ask(&router, &key).await, (200, None));
    (accounts, router, key)
}

/// Sends requests with a valid and an unknown key while the database does not respond.
async fn check_refusals(router: &Router, [key, strange]: [&ApiKey; 2]) {
    wait_out_the_cache().await;
    // Pauses the clock of tokio, so that the timeout of a connection passes immediately.
    tokio::time::pause();
    let come_again = Some("5".to_owned());
    assert_eq!(ask(router, strange).await, (503, come_again.clone()));
    let many = (0..100).map(|_| ask(router, key));
    for answer in futures::future::join_all(many).await {
        assert_eq!(answer, (503, come_again.clone()));
    }
    tokio::time::resume();
}

#[tokio::test]
async fn unreachable_database_does_not_invalidate_keys() {
    let Some(url) = new_database() else { return };
    let line = Line::start(&url).await;
    let (_, router, key) = start_service(&line.near).await;
    let strange = ApiKey::from_random([7; 12]);
    assert_eq!(ask(&router, &strange).await, (401, None));
    line.group.shutdown().await;
    check_refusals(&router, [&key, &strange]).await;
}

#[tokio::test]
async fn requests_succeed_again_after_the_database_hung() {
    let Some(url) = new_database() else { return };
    let line = Line::start(&url).await;
    let (accounts, router, key) = start_service(&line.near).await;
    line.is_silent.send_replace(true);
    tokio::time::pause();
    let error = accounts.create_key("another client").await.unwrap_err();
    assert!(matches!(error, AccountsError::Unreachable(_)), "{error}");
    tokio::time::resume();
    check_refusals(&router, [&key, &ApiKey::from_random([7; 12])]).await;
    line.is_silent.send_replace(false);
    let is_back = async {
        while ask(&router, &key).await != (200, None) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), is_back).await.unwrap();
}
