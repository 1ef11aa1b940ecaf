//! Tests that send requests to the router.

mod active;
mod batch;
mod epoch_actors;
mod large;
mod losses;
mod metrics;
mod one_actor;
mod outside;
mod queries;
mod refusals;
mod several_services;
mod targets;

use std::collections::BTreeMap;

use accounts::Accounts;
use accounts::gate::GateOptions;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use model::key::ApiKey;
use model::timestamp::Timestamp;
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

    async fn send(&self, method: &str, path: &str, header: Option<(&str, &str)>) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 24).await.unwrap();
        let body =
            if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        (status, body)
    }

    /// Sends `body` with the fixture's key.
    async fn put(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("x-api-key", self.key.reveal());
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, Some(("X-Api-Key", self.key.reveal()))).await
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
        let topic = id.to_string().parse().unwrap();
        let nonce = self.inference.chain().height();
        assert!(self.inference.open_epoch(topic, nonce).await.unwrap());
        let input = Input { at: self.clock.now(), value: 50.0 };
        self.inference.put_input(topic, nonce, input).await.unwrap();
        // A worker without values does not submit.
        let workers = ["allo1a", "allo1b"].into_iter().zip(names);
        let present = values.iter().zip(workers).filter(|(values, _)| !values.is_empty());
        for (values, (worker, name)) in present {
            let owned = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
            let payload =
                Payload { values: values.iter().map(owned).collect(), ..Payload::default() };
            let worker = worker.parse().unwrap();
            let sender = Sender { topic, nonce, worker, name: Some(name.to_owned()) };
            self.inference.submit(sender, payload).await.unwrap();
        }
        assert!(self.inference.close(topic, nonce).await.unwrap());
        assert!(self.inference.learn(topic, nonce, Some(outcome)).await.unwrap());
        self.clock.advance(Duration::from_secs(12));
    }

    /// Compares the status, the gRPC code and the message of an error with the expected values.
    #[track_caller]
    fn check((got_status, got): (u16, Value), status: u16, code: u32, message: &str) {
        let want = json!({"code": code, "message": message, "details": []});
        assert_eq!((got_status, got), (status, want));
    }
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
        prices: [("BTC/8h".to_owned(), "1".parse().unwrap())].into(),
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
    fixture.inference.open_epoch("1".parse().unwrap(), 1).await.unwrap();
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
    fixture.inference.open_epoch("1".parse().unwrap(), 25).await.unwrap();
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
async fn leaderboard_contains_learned_and_plain_losses_and_a_baseline() {
    let fixture = Fixture::new().await;
    let (_, body) = fixture.get("/api/v1/topics/1/leaderboard").await;
    let none = json!({"topic_id": 1, "epochs": [], "min_epochs": 10, "n_common_epochs": 0,
        "is_logarithmic": true, "actors": []});
    assert_eq!(body, none);
    for outcome in [50.0, 51.0, 52.0].into_iter().cycle().take(13) {
        fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], outcome).await;
    }
    let (_, body) = fixture.get("/api/v1/topics/1/leaderboard").await;
    let actors = body["actors"].as_array().unwrap();
    let of = |worker: &str| actors.iter().find(|actor| actor["worker"] == worker).unwrap();
    let near = |value: &Value, want: f64| (value.as_f64().unwrap() - want).abs() < 1e-9;
    // `allo1a` has squared errors of 1, 0 (bounded to 0.01) and 1. The errors of `allo1b` are 5, 4 and
    // 3.
    assert!(near(&of("allo1a")["mean_plain_loss"], 2.01 / 3.0), "{body}");
    assert!(near(&of("allo1a")["mean_loss"], -2.0 / 3.0), "{body}");
    assert!(near(&of("allo1b")["mean_plain_loss"], 50.0 / 3.0), "{body}");
    // The naive value of the first epoch is the mean of both values. In later epochs it is close to the
    // value of the better worker, which then is not better than the naive value.
    let (near_one, far_one) = (of("allo1a"), of("allo1b"));
    assert!(near(&near_one["better_than_naive"], 1.0 / 12.0), "{body}");
    assert!(near(&far_one["better_than_naive"], 0.0), "{body}");
    assert_eq!((&near_one["median_loss"], &near_one["missed_epochs"]), (&json!(0.0), &json!(0)));
    assert!(near_one["contribution"].as_f64().unwrap() > 0.0, "{body}");
    assert!(far_one["contribution"].as_f64().unwrap() < near_one["contribution"].as_f64().unwrap());
    let (_, day) = fixture.get("/api/v1/topics/1/leaderboard?period=24h").await;
    assert_eq!(day["actors"], body["actors"]);
    assert_eq!(fixture.get("/api/v1/topics/1/leaderboard?period=1h").await.0, 400);
    assert_eq!((&of("allo1a")["name"], &of("allo1a")["n_epochs"]), (&json!("peer"), &json!(13)));
    let n_better = |own: &Value| {
        let is_better = |it: &&Value| it["mean_loss"].as_f64() < own["mean_loss"].as_f64();
        actors.iter().filter(is_better).count()
    };
    assert!(actors.iter().all(|actor| actor["rank"] == n_better(actor) + 1), "{body}");
    let losses: Vec<f64> = actors.iter().map(|a| a["mean_loss"].as_f64().unwrap()).collect();
    assert!(losses.is_sorted() && actors.iter().any(|a| a["role"] == "forecaster"), "{body}");
    let epochs = body["epochs"].as_array().unwrap();
    // The horizon of the first epoch passes when the sixth epoch opens.
    let uninformed = epochs.iter().skip(4).take(3).map(|epoch| &epoch["uninformed"]);
    assert_eq!(uninformed.collect::<Vec<_>>(), [&json!(null), &json!(4.0), &json!(0.25)]);
    assert_eq!(body["n_common_epochs"], 12, "forecasters are inactive in the first");
    // Without regrets, the values of the first epoch are the mean of both inferences.
    assert!(near(&epochs[0]["combined"], 9.0) && near(&epochs[0]["naive"], 9.0), "{body}");

    let (_, body) = fixture.get("/api/v1/topics/1/leaderboard?epochs=1").await;
    assert_eq!((&body["min_epochs"], body["epochs"].as_array().unwrap().len()), (&json!(1), 1));
    for unfit in ["0", "501", "some"] {
        let (status, _) =
            fixture.get(&format!("/api/v1/topics/1/leaderboard?epochs={unfit}")).await;
        assert_eq!(status, 400, "{unfit}");
    }
    assert_eq!(fixture.get("/api/v1/topics/9/leaderboard").await.0, 404);
}

#[tokio::test]
async fn direction_of_a_value_is_measured_from_the_latest_value_at_the_opening() {
    let fixture = Fixture::new().await;
    // The latest value at each opening is 50. The worker that repeats it predicts no direction.
    for outcome in [53.0, 49.0, 52.0, 51.0].into_iter().cycle().take(12) {
        fixture.epoch(1, [&[("y", "50")], &[("y", "52")]], outcome).await;
    }
    let actors = ranked(&fixture, "1/leaderboard").await;
    let accuracy = |worker: &str| {
        let actor = actors.iter().find(|actor| actor["worker"] == worker).unwrap();
        actor["directional_accuracy"].as_f64().unwrap()
    };
    assert_eq!((accuracy("allo1a"), accuracy("allo1b")), (0.0, 8.0 / 11.0), "{actors:?}");
}

/// Returns the actors of the leaderboard at `query`.
async fn ranked(fixture: &Fixture, query: &str) -> Vec<Value> {
    let (status, body) = fixture.get(&format!("/api/v1/topics/{query}")).await;
    assert_eq!(status, 200, "{body}");
    body["actors"].as_array().unwrap().clone()
}

#[tokio::test]
async fn rank_history_of_an_actor_equals_its_ranks_in_earlier_leaderboards() {
    let fixture = Fixture::new().await;
    let standing = |it: &Value| json!([it["rank"], it["mean_loss"]]);
    let mut want = Vec::new();
    for idx in 0..16 {
        let error = if idx < 8 { 2.0 } else { 6.0 };
        fixture.epoch_of(&[("one", error), ("other", 4.0)]).await;
        let board = ranked(&fixture, "1/leaderboard?epochs=12").await;
        want.extend(board.iter().find(|actor| actor["worker"] == "allo1one").map(standing));
    }
    let one = ranked(&fixture, "1/leaderboard?epochs=12&actor=one").await;
    let points = one[0]["rank_history"].as_array().unwrap();
    assert_eq!(points.iter().map(standing).collect::<Vec<_>>(), want[4..]);
    let ranks = [&points[0]["rank"], &points[7]["rank"], &points[11]["rank"]];
    assert!(ranks[0].is_null() && ranks[1].as_u64() < ranks[2].as_u64(), "{points:?}");
    assert_eq!(points[11]["opened_at"], "2027-01-15T08:03:00Z");
    let day = ranked(&fixture, "1/leaderboard?period=24h&actor=one").await;
    let points = day[0]["rank_history"].as_array().unwrap();
    assert_eq!((points.len(), &points[15]["rank"]), (16, &day[0]["rank"]));
}

impl Fixture {
    /// Runs an epoch of topic 1 with the ground truth 50. The worker of each name in `errors` submits
    /// 50 plus its error.
    async fn epoch_of(&self, errors: &[(&str, f64)]) {
        let (topic, nonce) = ("1".parse().unwrap(), self.inference.chain().height());
        assert!(self.inference.open_epoch(topic, nonce).await.unwrap());
        let input = Input { at: self.clock.now(), value: 50.0 };
        self.inference.put_input(topic, nonce, input).await.unwrap();
        for (name, error) in errors {
            let values = vec![("y".to_owned(), (50.0 + error).to_string())];
            let worker = format!("allo1{name}").parse().unwrap();
            let sender = Sender { topic, nonce, worker, name: Some((*name).to_owned()) };
            self.inference.submit(sender, Payload { values, ..Payload::default() }).await.unwrap();
        }
        assert!(self.inference.close(topic, nonce).await.unwrap());
        assert!(self.inference.learn(topic, nonce, Some(50.0)).await.unwrap());
        self.clock.advance(Duration::from_secs(12));
    }

    /// Returns the name, the rank and the number of counted epochs of each inferer on the leaderboard.
    async fn standings(&self) -> Vec<(String, Option<u64>, u64)> {
        let (status, body) = self.get("/api/v1/topics/1/leaderboard").await;
        assert_eq!(status, 200, "{body}");
        let actors = body["actors"].as_array().unwrap().iter();
        let inferers = actors.filter(|actor| actor["role"] == "inferer");
        let standing = |actor: &Value| {
            let name = actor["name"].as_str().unwrap().to_owned();
            (name, actor["rank"].as_u64(), actor["n_counted_epochs"].as_u64().unwrap())
        };
        inferers.map(standing).collect()
    }
}

/// Checks the order of the inferers and whether each has a rank. The ranks themselves are not compared,
/// since forecasters have ranks, too.
#[track_caller]
fn check_order(standings: &[(String, Option<u64>, u64)], want: &[(&str, bool, u64)]) {
    let got: Vec<_> =
        standings.iter().map(|(name, rank, n)| (name.as_str(), rank.is_some(), *n)).collect();
    assert_eq!(got, want);
}

#[tokio::test]
async fn actor_with_one_lucky_submission_is_listed_but_not_ranked() {
    let fixture = Fixture::new().await;
    for _ in 0..11 {
        fixture.epoch_of(&[("good", 1.0), ("bad", 5.0)]).await;
    }
    fixture.epoch_of(&[("good", 1.0), ("bad", 5.0), ("lucky", 0.0)]).await;
    // The first of the 12 epochs does not count, since no forecaster was active in it.
    let want = [("good", true, 11), ("bad", true, 11), ("lucky", false, 1)];
    check_order(&fixture.standings().await, &want);
    fixture.epoch_of(&[("good", 1.0)]).await;
    check_order(&fixture.standings().await, &want);
    // An actor that left is not ranked and does not restrict the epochs that the other actors have in
    // common.
    for _ in 0..12 {
        fixture.epoch_of(&[("good", 1.0), ("late", 2.0)]).await;
    }
    let left = [("good", true, 12), ("late", true, 12), ("bad", false, 7), ("lucky", false, 1)];
    check_order(&fixture.standings().await, &left);
}

#[tokio::test]
async fn actors_are_ranked_by_learned_loss_in_common_epochs() {
    let fixture = Fixture::new().await;
    // These difficult epochs are not compared, since `newcomer` does not take part.
    for _ in 0..10 {
        fixture.epoch_of(&[("always", 10.0), ("steady", 10.0)]).await;
    }
    for idx in 0..10 {
        // The mean of plain losses is higher for `steady` than for `always`, but the mean of their
        // logarithms is lower.
        let rarely_wrong = if idx == 0 { 5.0 } else { 0.5 };
        let errors = [("always", 1.0), ("steady", rarely_wrong), ("newcomer", 2.0)];
        fixture.epoch_of(&errors).await;
    }
    let want = [("steady", true, 10), ("always", true, 10), ("newcomer", true, 10)];
    check_order(&fixture.standings().await, &want);
    let (_, body) = fixture.get("/api/v1/topics/1/leaderboard").await;
    assert_eq!(body["n_common_epochs"], 10);
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
    let topic = "1".parse().unwrap();
    // Waits for one complete epoch, since on a busy machine a window can close before all workers have
    // responded.
    let two_epochs = || async {
        let history = service.inference.history(topic, 0..=u64::MAX, 10).await.unwrap();
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
