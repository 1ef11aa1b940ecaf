//! Tests that send requests to the router.

mod active;
mod batch;
mod epoch_actors;
mod large;
mod leaderboard;
mod losses;
mod metrics;
mod outside;
mod queries;
mod refusals;
mod several_services;
mod targets;

use std::collections::BTreeMap;

use accounts::gate::GateOptions;
use accounts::{AccountId, Accounts};
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use model::key::ApiKey;
use model::timestamp::Timestamp;
use model::topic::TopicId;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::*;
use crate::Sender;
use crate::network::signer::Domain;
use crate::network::submission::Payload;
use crate::store::Input;

struct Fixture {
    _folder: TempDir,
    accounts: Accounts,
    clock: Clock,
    inference: Inference,
    router: Router,
    group: Group,
    key: ApiKey,
}

impl Fixture {
    async fn new() -> Self {
        Self::behind(GateOptions::unlimited()).await
    }

    async fn behind(gate: GateOptions) -> Self {
        Self::on(None, gate).await
    }

    /// Creates a service with the database at the URL `database`, or with its own file if it is `None`.
    async fn on(database: Option<&str>, gate: GateOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
        let accounts =
            Accounts::open(folder.path().join("accounts.sqlite"), clock.clone()).await.unwrap();
        let (_, key) = accounts.create_key("test").await.unwrap();
        let options = InferenceOptions {
            block_time: Duration::from_secs(1),
            retention: Retention::USUAL,
            topics: crate::tests::test_topics(),
        };
        let path = folder.path().join("inference.sqlite");
        let store = match database {
            Some(url) => StorePlace::Database(url.parse().unwrap()),
            None => path.into(),
        };
        let inference = Inference::open(store, clock.clone(), options).await.unwrap();
        let gate = Gate::new(accounts.clone(), gate, clock.clone());
        let group = Group::default();
        let (_, rows) = crate::tests::fakes(&clock);
        let router = router(inference.clone(), rows, &gate, consumers(), WorkerQuota(3), &group);
        Self { _folder: folder, accounts, clock, inference, router, group, key }
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
    }

    /// Returns the response to a `GET` with `key`.
    async fn respond(&self, path: &str, key: &ApiKey) -> Response {
        self.request("GET", path, &[("x-api-key", key.reveal())], String::new()).await
    }

    async fn send(&self, method: &str, path: &str, header: Option<(&str, &str)>) -> (u16, Value) {
        read(self.request(method, path, header.as_slice(), String::new()).await).await
    }

    /// Sends `body` with the fixture's key.
    async fn put(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let key = [("x-api-key", self.key.reveal())];
        read(self.request(method, path, &key, body.to_string()).await).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        read(self.respond(path, &self.key).await).await
    }

    /// Opens an epoch of topic `id` with `input` as the latest value of its column. Returns the nonce.
    async fn open(&self, id: u64, input: f64) -> u64 {
        let nonce = self.inference.chain().height();
        assert!(self.inference.open_epoch(topic(id), nonce).await.unwrap());
        let input = Input { at: self.clock.now(), value: input };
        self.inference.put_input(topic(id), nonce, input).await.unwrap();
        nonce
    }

    async fn account(&self, name: &str) -> AccountId {
        let password = "correct horse".parse().unwrap();
        self.accounts.register(name.parse().unwrap(), password).await.unwrap().account.id
    }

    async fn key_of(&self, account: AccountId) -> ApiKey {
        self.accounts.create_account_key(account, "key").await.unwrap().1
    }

    async fn submit_as(
        &self,
        worker: &str,
        name: Option<&str>,
        (id, nonce): (u64, u64),
        payload: Payload,
    ) {
        let (worker, name) = (worker.parse().unwrap(), name.map(str::to_owned));
        let sender = Sender { topic: topic(id), nonce, worker, name };
        self.inference.submit(sender, payload).await.unwrap();
    }

    /// Closes an epoch, learns from its ground truth `outcome` if there is one, and advances the clock to
    /// the next epoch.
    async fn close(&self, id: u64, nonce: u64, outcome: Option<f64>) {
        assert!(self.inference.close(topic(id), nonce).await.unwrap());
        if outcome.is_some() {
            assert!(self.inference.learn(topic(id), nonce, outcome).await.unwrap());
        }
        self.clock.advance(Duration::from_secs(12));
    }

    /// Runs an epoch of topic `id` in which two workers submit `values`. The ground truth is `outcome`.
    async fn epoch(&self, id: u64, values: [&[(&str, &str)]; 2], outcome: f64) {
        self.epoch_with_names(id, values, ["peer"; 2], outcome).await;
    }

    /// Runs an epoch like [`Self::epoch`], in which the workers have these names.
    async fn epoch_with_names(
        &self,
        id: u64,
        values: [&[(&str, &str)]; 2],
        names: [&str; 2],
        outcome: f64,
    ) {
        let nonce = self.open(id, 50.0).await;
        // A worker without values does not submit.
        let workers = ["allo1a", "allo1b"].into_iter().zip(names);
        let present = values.iter().zip(workers).filter(|(values, _)| !values.is_empty());
        for (values, (worker, name)) in present {
            self.submit_as(worker, Some(name), (id, nonce), payload(values)).await;
        }
        self.close(id, nonce, Some(outcome)).await;
    }

    /// Compares the status, the gRPC code and the message of an error with the expected values.
    #[track_caller]
    fn check((got_status, got): (u16, Value), status: u16, code: u32, message: &str) {
        let want = json!({"code": code, "message": message, "details": []});
        assert_eq!((got_status, got), (status, want));
    }
}

fn topic(id: u64) -> TopicId {
    TopicId::new(id).unwrap()
}

/// Returns a payload with a value for each label.
fn payload(values: &[(&str, &str)]) -> Payload {
    let owned = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
    Payload { values: values.iter().map(owned).collect(), ..Payload::default() }
}

async fn body_of(response: Response) -> Vec<u8> {
    to_bytes(response.into_body(), 1 << 24).await.unwrap().to_vec()
}

/// Returns the status and the JSON of `response`, which is null for an empty body.
async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = body_of(response).await;
    (status, if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() })
}

/// Returns `settings` with the members of `changes`.
fn changed(mut settings: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        settings[name] = value.clone();
    }
    settings
}

/// Returns valid settings of a topic, changed by `changes`.
fn settings(changes: &Value) -> Value {
    let valid = json!({"metadata": "load", "dataset": "machine_cpu", "column": "load_percent",
        "horizon_seconds": 60});
    changed(valid, changes)
}

async fn create(fixture: &Fixture, changes: &Value) -> (u16, Value) {
    fixture.put("POST", "/api/v1/topics", &settings(changes)).await
}

/// Returns consumers with one chain, one price and a known signer.
fn consumers() -> Consumers {
    let contract = "0x8E45fbef38DaC54e32AfB27AC8cBab30E6818ce6".parse().unwrap();
    Consumers {
        signer: crate::network::signer::Signer::from_bytes(&[7; 32]).unwrap(),
        chains: [("ethereum-11155111".to_owned(), Domain { chain_id: 11_155_111, contract })]
            .into(),
        prices: [("BTC/8h".to_owned(), topic(1))].into(),
    }
}

const LATEST: &str = "/emissions/v10/latest_network_inferences";

#[tokio::test]
async fn key_is_required_except_for_the_health_check() {
    let fixture = Fixture::new().await;
    let path = format!("{LATEST}/1");
    let missing = "API key missing in header x-api-key";
    Fixture::check(fixture.send("GET", &path, None).await, 401, 16, missing);
    Fixture::check(fixture.send("GET", "/nowhere", None).await, 401, 16, missing);
    for key in ["UP-000000000000000000000000", "let me in"] {
        let got = fixture.send("GET", &path, Some(("x-api-key", key))).await;
        Fixture::check(got, 401, 16, "invalid API key");
    }
    assert_eq!(fixture.send("GET", "/health", None).await.0, 200);
    for name in ["x-api-key", "X-API-Key", "X-Api-Key"] {
        let header = Some((name, fixture.key.reveal()));
        assert_eq!(fixture.send("GET", "/api/v1/topics", header).await.0, 200);
    }
}

#[tokio::test]
async fn service_on_a_full_disk_returns_507_and_is_unhealthy_until_there_is_space() {
    let fixture = Fixture::new().await;
    fixture.inference.open_epoch(topic(1), 1).await.unwrap();
    fixture.inference.limit_pages(1);
    // The forecast needs more space than a page of the file, so that storing it requires a new page.
    let forecast: BTreeMap<_, _> =
        (0..400).map(|n| (addresses::of_model(&n.to_string()).to_string(), "1.5")).collect();
    let body = json!({"model": "a", "forecast": forecast});
    let path = "/api/v1/topics/1/submissions";
    let (status, refused) = fixture.put("POST", path, &body).await;
    assert_eq!(status, 507, "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("disk of the service is full"),
        "{refused}"
    );
    assert_eq!(fixture.get("/api/v1/topics").await.0, 200, "reads still work");
    for _ in 0..3 {
        assert_eq!(fixture.send("GET", "/health", None).await.0, 507);
    }
    fixture.inference.limit_pages(1_000_000);
    let healthy = async || match fixture.send("GET", "/health", None).await {
        (200, _) => Ok(()),
        answer => Err(answer),
    };
    task::wait::until(Duration::from_mins(1), healthy).await.unwrap();
    assert_eq!(fixture.put("POST", path, &body).await.0, 200);
}

#[tokio::test]
async fn errors_for_missing_resources_equal_errors_of_the_chains_gateway() {
    let fixture = Fixture::new().await;
    let check = Fixture::check;
    check(fixture.get(&format!("{LATEST}/9")).await, 404, 5, "topic 9 not found");
    check(fixture.get("/emissions/v10/topics/9").await, 404, 5, "topic 9 not found");
    let no_bundle = "network inference not available for topic 1";
    check(fixture.get(&format!("{LATEST}/1")).await, 404, 5, no_bundle);
    let mismatch = "type mismatch, parameter: topic_id, error: parsing \"x\": invalid syntax";
    check(fixture.get(&format!("{LATEST}/x")).await, 400, 3, mismatch);
    check(fixture.get(&format!("{LATEST}/0")).await, 400, 3, "invalid topic id");
    let plus = "type mismatch, parameter: topic_id, error: parsing \"+1\": invalid syntax";
    check(fixture.get("/emissions/v10/topics/+1").await, 400, 3, plus);
    let backwards = "from 5 exceeds to 4";
    check(fixture.get("/api/v1/topics/1/history?from=5&to=4").await, 400, 3, backwards);
    let version = "version v3 is not supported, use one of: v10, v9";
    check(fixture.get("/emissions/v3/latest_network_inferences/1").await, 501, 12, version);
    check(fixture.get("/nowhere").await, 501, 12, "Not Implemented");
    let key = Some(("x-api-key", fixture.key.reveal()));
    let post = fixture.send("POST", &format!("{LATEST}/1"), key).await;
    check(post, 501, 12, "Not Implemented");
    check(fixture.send("POST", paths::HEALTH, None).await, 501, 12, "Not Implemented");
    let limit = "type mismatch, parameter: limit, error: expected a number from 1 to 1000";
    for text in ["0", "1001", "x"] {
        let path = format!("/api/v1/topics/1/history?limit={text}");
        check(fixture.get(&path).await, 400, 3, limit);
    }
}

#[tokio::test]
async fn latest_bundle_of_a_single_output_has_no_forecaster_arrays() {
    let fixture = Fixture::new().await;
    for _ in 0..2 {
        fixture.epoch(1, [&[("y", "51.20")], &[("y", "55")]], 50.0).await;
    }
    let (status, body) = fixture.get(&format!("{LATEST}/1")).await;
    assert_eq!(status, 200);
    let bundle = &body["network_inferences"];
    assert_eq!(body["inference_block_height"], "13");
    assert_eq!((&bundle["topic_id"], &bundle["nonce"]), (&json!("1"), &json!("13")));
    let own = json!({"worker": "allo1a", "values": [
        {"label_id": 1, "label_name": "y", "value": "51.2"}]});
    assert_eq!(bundle["inferer_values"][0], own);
    assert_eq!(bundle["forecaster_values"].as_array().unwrap().len(), 5);
    assert_eq!(bundle["one_out_inferer_values"].as_array().unwrap().len(), 2);
    for name in ["out_forecaster", "in_forecaster", "out_inferer_forecaster"] {
        assert_eq!(bundle[format!("one_{name}_values")], json!([]));
    }
}

#[tokio::test]
async fn latest_bundle_of_a_classification_has_all_labels_and_arrays() {
    let fixture = Fixture::new().await;
    let sure = &[("up", "0.7"), ("down", "0.2"), ("flat", "0.1")];
    for _ in 0..2 {
        fixture.epoch(2, [sure, &[("flat", "1")]], 51.0).await;
    }
    let (_, body) = fixture.get(&format!("{LATEST}/2")).await;
    let bundle = &body["network_inferences"];
    let labels = bundle["combined_value"].as_array().unwrap().iter();
    let labels: Vec<_> = labels.map(|v| (&v["label_id"], &v["label_name"])).collect();
    assert_eq!(
        labels,
        [(&json!(1), &json!("up")), (&json!(2), &json!("down")), (&json!(3), &json!("flat"))]
    );
    assert_eq!(bundle["inferer_values"][1]["values"][0]["value"], "0");
    for (name, n) in [("out_forecaster", 5), ("in_forecaster", 5), ("out_inferer_forecaster", 10)] {
        assert_eq!(bundle[format!("one_{name}_values")].as_array().unwrap().len(), n, "{name}");
    }
}

#[tokio::test]
async fn topics_are_returned_with_their_settings() {
    let fixture = Fixture::new().await;
    let (_, body) = fixture.get("/emissions/v10/topics/2").await;
    let topic = &body["topic"];
    assert_eq!(topic["topic_type"], "TOPIC_TYPE_CLASSIFICATION");
    assert_eq!(topic["output_arity"], "TOPIC_OUTPUT_ARITY_MULTI");
    assert_eq!((&topic["epoch_length"], &topic["p_norm"]), (&json!("12"), &json!("3")));
    let (_, body) = fixture.get("/emissions/v10/next_topic_id").await;
    assert_eq!(body, json!({"next_topic_id": "3"}));
}

#[tokio::test]
async fn list_of_topics_contains_schedule_and_actors() {
    let fixture = Fixture::new().await;
    for _ in 0..2 {
        fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], 50.0).await;
    }
    fixture.inference.open_epoch(topic(1), 25).await.unwrap();
    let (_, body) = fixture.get("/api/v1/topics").await;
    assert_eq!((&body["block_height"], &body["block_time_ms"]), (&json!(25), &json!(1000)));
    let topic = &body["topics"][0];
    assert_eq!((&topic["dataset"], &topic["subgroup"]), (&json!("machine_cpu"), &json!(null)));
    assert_eq!((&topic["next_epoch_height"], &topic["close_height"]), (&json!(37), &json!(32)));
    assert_eq!((&topic["last_nonce"], &topic["n_learned"]), (&json!(13), &json!(2)));
    let actors = topic["actors"].as_array().unwrap();
    let roles: Vec<_> = actors.iter().map(|actor| actor["role"].as_str().unwrap()).collect();
    assert_eq!(roles, [["inferer"; 2].as_slice(), ["forecaster"; 5].as_slice()].concat());
    assert_eq!((&actors[0]["worker"], &actors[0]["name"]), (&json!("allo1a"), &json!("peer")));
    assert!(actors[2]["name"].as_str().unwrap().starts_with("built-in: "));
    assert!(actors[0]["weight"].as_f64() > actors[1]["weight"].as_f64());
    assert!(actors[0]["loss"].as_f64() < actors[1]["loss"].as_f64());
    assert_eq!(body["topics"][1]["actors"], json!([]));
}

#[tokio::test]
async fn history_of_bundles_is_oldest_first_and_has_truth_and_losses() {
    let fixture = Fixture::new().await;
    for outcome in [50.0, 51.0, 52.0] {
        fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], outcome).await;
    }
    let (_, body) = fixture.get("/api/v1/topics/1/history?limit=2").await;
    let epochs = body["epochs"].as_array().unwrap();
    assert_eq!(epochs.iter().map(|e| e["nonce"].as_u64().unwrap()).collect::<Vec<_>>(), [13, 25]);
    assert_eq!(epochs[0]["opened_at"], "2027-01-15T08:00:12Z");
    assert_eq!(epochs[0]["truth"][0]["value"], "51");
    assert!(epochs[0]["combined_loss"].is_number() && epochs[0]["naive_loss"].is_number());
    assert_eq!(epochs[0]["n_inferers"], 2);
    for (query, want) in [
        ("from=13", &[13, 25][..]),
        ("to=13", &[1, 13]),
        ("from=2&to=24", &[13]),
        ("to=24&limit=1", &[13]),
        ("from=26", &[]),
    ] {
        let (_, body) = fixture.get(&format!("/api/v1/topics/1/history?{query}")).await;
        let epochs = body["epochs"].as_array().unwrap().iter();
        let nonces: Vec<_> = epochs.map(|epoch| epoch["nonce"].as_u64().unwrap()).collect();
        assert_eq!(nonces, want, "{query}");
    }
    assert_eq!(fixture.get("/api/v1/topics/1/history?from=now").await.0, 400);
}

#[tokio::test]
async fn service_runs_epochs_once_it_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let accounts =
        Accounts::open(folder.path().join("accounts.sqlite"), clock.clone()).await.unwrap();
    let options = ServiceOptions {
        listen: "127.0.0.1:0".to_owned(),
        store: folder.path().join("inference.sqlite").into(),
        gate: Gate::new(accounts, GateOptions::unlimited(), clock.clone()),
        block_time: Duration::from_millis(20),
        retention: Retention::USUAL,
        topics: crate::tests::test_topics().into_iter().take(1).collect(),
        consumers: consumers(),
        quota: WorkerQuota::USUAL,
    };
    let group = Group::default();
    let (runs, rows) = crate::tests::fakes(&clock);
    let service = InferenceService::start(options, runs, rows, &group, clock).await.unwrap();
    assert_ne!(service.address.port(), 0);
    // Waits for one complete epoch, since on a busy machine a window can close before all workers have
    // responded.
    let two_epochs = || async {
        let history = service.inference.history(topic(1), 0..=u64::MAX, 10).await.unwrap();
        let is_whole = history.iter().any(|epoch| epoch.n_inferers == 8);
        if history.len() >= 2 && is_whole { Ok(history) } else { Err(history) }
    };
    let history = task::wait::until(Duration::from_secs(20), two_epochs).await.unwrap();
    assert!(history[0].nonce < history[1].nonce);
    group.shutdown().await;
}

#[test]
fn refusals_of_middleware_are_returned_with_their_status() {
    let late = error::refusal(StatusCode::GATEWAY_TIMEOUT, "timeout");
    assert_eq!(late.status(), StatusCode::GATEWAY_TIMEOUT);
    let broken = error::refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error");
    assert_eq!(broken.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
