//! The chain's queries, and requests about submissions, topics and consumers, after a few epochs.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use tokio::time::timeout;

use super::super::emissions::constant_queries;
use super::*;

/// Returns a fixture after `n` epochs of topic 1. The first opened at block 1.
async fn after(n: u32) -> Fixture {
    let fixture = Fixture::new().await;
    for _ in 0..n {
        fixture.epoch(1, [&[("y", "51.20")], &[("y", "55")]], 50.0).await;
    }
    fixture
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Paths of queries after the version, about the workers `allo1a` and `allo1b`.
const QUERIES: &[&str] = &[
    "latest_network_inferences_outlier_resistant/1",
    "network_inferences/1/last_inference/13",
    "network_inferences_outlier_resistant/1/last_inference/13",
    "inferences/1/13",
    "latest_inferences/1",
    "forecasts/1/25",
    "topics/1/workers/allo1a/latest_input_inference",
    "topics/1/workers/allo1a/latest_inference",
    "network_loss/1/13",
    "reputer_loss_bundles/1/13",
    "inferer_network_regret/1/allo1a",
    "forecaster_network_regret/1/FORECASTER",
    "one_in_forecaster_network_regret/1/FORECASTER/allo1a",
    "naive_inferer_network_regret?topic_id=1&inferer=allo1a",
    "native_inferer_network_regret?topic_id=1&inferer=allo1a",
    "one_out_inferer_inferer_network_regret?topic_id=1&one_out_inferer=allo1a&inferer=allo1b",
    "one_out_inferer_forecaster_network_regret?topic_id=1&one_out_inferer=allo1a&forecaster=FORECASTER",
    "one_out_forecaster_inferer_network_regret?topic_id=1&one_out_forecaster=FORECASTER&inferer=allo1a",
    "one_out_forecaster_forecaster_network_regret?topic_id=1&one_out_forecaster=FORECASTER&forecaster=FORECASTER",
    "latest_regret_stdnorm/1",
    "latest_inferer_weight/1/allo1a",
    "latest_forecaster_weight/1/FORECASTER",
    "params",
    "next_topic_id",
    "topics/1",
    "topic_exists/1",
    "is_topic_active/1",
    "active_topics_at_block/20",
    "next_churning_block_by_topic_id/1",
    "is_worker_nonce_unfulfilled/1/13",
    "is_reputer_nonce_unfulfilled/1/13",
    "unfulfilled_worker_nonces/1",
    "unfulfilled_reputer_nonces/1",
    "open_worker_submission_windows/1",
    "open_reputer_submission_windows/1",
    "worker_submission_window_status/1?address=allo1a",
    "reputer_submission_window_status/1",
    "topic_last_worker_commit_info/1",
    "topic_last_reputer_commit_info/1",
    "topic_reward_nonce/1",
    "inferer_score_ema/1/allo1a",
    "forecaster_score_ema/1/FORECASTER",
    "reputer_score_ema/1/allo1a",
    "inference_scores_until_block/1/20",
    "forecast_scores_until_block/1/20",
    "worker_inference_scores_at_block/1/13",
    "worker_forecast_scores_at_block/1/13",
    "reputers_scores_at_block/1/13",
    "current_lowest_inferer_score/1",
    "current_lowest_forecaster_score/1",
    "current_lowest_reputer_score/1",
    "count_inferer_inclusions_in_topic/1/allo1a",
    "count_forecaster_inclusions_in_topic/1/FORECASTER",
    "topic_quantile_inferer_score_ema/1",
    "topic_quantile_forecaster_score_ema/1",
    "topic_quantile_reputer_score_ema/1",
    "initial_inferer_ema_score/1",
    "initial_forecaster_ema_score/1",
    "initial_reputer_ema_score/1",
    "worker_registered/1/allo1a",
    "reputer_registered/1/allo1a",
    "worker/allo1a",
    "is_whitelisted_topic_reputer/1/allo1a",
    "can_submit_reputer_payload/1/allo1a",
    "can_update_topic_whitelist/1/allo1a",
];

#[tokio::test]
async fn all_chain_queries_succeed() {
    let fixture = after(3).await;
    let (_, body) = fixture.get("/emissions/v10/latest_network_inferences/1?leave_out=all").await;
    let forecaster = body["network_inferences"]["forecaster_values"][0]["worker"].clone();
    let f = forecaster.as_str().unwrap();
    for path in QUERIES.iter().map(|path| path.replace("FORECASTER", f)) {
        for version in ["v10", "v9"] {
            let (status, body) = fixture.get(&format!("/emissions/{version}/{path}")).await;
            assert_eq!(status, 200, "{version} {path}: {body}");
            assert!(body.is_object(), "{version} {path}: {body}");
        }
    }
}

#[tokio::test]
async fn different_chain_queries_return_consistent_values() {
    let fixture = after(3).await;
    let get = |path: &str| {
        let path = format!("/emissions/v10/{path}");
        let fixture = &fixture;
        async move { fixture.get(&path).await.1 }
    };
    let latest = get("latest_network_inferences/1").await;
    let at = get("network_inferences/1/last_inference/25").await;
    assert_eq!(latest["network_inferences"], at["network_inferences"]);
    assert!(at.get("inference_block_height").is_none());
    let full = get("latest_network_inferences/1?leave_out=all").await;
    assert_eq!(
        full["network_inferences"]["one_out_forecaster_values"].as_array().unwrap().len(),
        5
    );
    let inferences = get("inferences/1/13").await;
    let own = &inferences["inferences"]["inferences"][0];
    assert_eq!((own.get("value"), &own["values"]), (None, &json!(["51.2"])));
    let newest = get("topics/1/workers/allo1a/latest_input_inference").await;
    let newest = &newest["latest_input_inference"];
    assert_eq!(newest["values"], json!([{"label": "y", "value": "51.2"}]));
    let loss = get("network_loss/1/13").await;
    let loss = &loss["loss_bundle"];
    assert!((number(&loss["inferer_values"][0]["value"]) - 1.44_f64.log10()).abs() < 1e-9);
    let score = get("worker_inference_scores_at_block/1/13").await;
    let score = number(&score["scores"]["scores"][0]["score"]);
    let without = number(&loss["one_out_inferer_values"][0]["value"]);
    assert!((score - (without - number(&loss["combined_value"]))).abs() < 1e-12);
    let regret = get("inferer_network_regret/1/allo1a").await;
    assert_eq!(regret["regret"]["block_height"], "25");
    let newcomer = get("inferer_network_regret/1/allo1nobody").await;
    assert_eq!(newcomer["regret"]["block_height"], "0");
    let (a, b) =
        (get("latest_inferer_weight/1/allo1a").await, get("latest_inferer_weight/1/allo1b").await);
    assert!(number(&a["weight"]) > number(&b["weight"]));
    assert_eq!(get("count_inferer_inclusions_in_topic/1/allo1a").await["count"], "3");
    assert_eq!(get("topic_reward_nonce/1").await["nonce"], "25");
}

#[tokio::test]
async fn chain_queries_return_their_constant_responses() {
    let fixture = after(1).await;
    for [path, _, body] in constant_queries() {
        let path = path.replace("{topic_id}", "1").replace("{block_height}", "13");
        let parts = path.split('/');
        let parts = parts.map(|part| if part.starts_with('{') { "allo1a" } else { part });
        let path = format!("/emissions/v10{}", parts.collect::<Vec<_>>().join("/"));
        let want: Value = serde_json::from_str(body).unwrap();
        assert_eq!(fixture.get(&path).await, (200, want), "{path}");
    }
    Fixture::check(fixture.get("/emissions/v10/stake/9").await, 404, 5, "topic 9 not found");
    let version = "version v3 is not supported, use one of: v10, v9";
    Fixture::check(fixture.get("/emissions/v3/total_stake").await, 501, 12, version);
}

#[tokio::test]
async fn only_active_workers_and_the_reputer_of_the_dataset_are_returned_as_registered() {
    let fixture = after(2).await;
    let get = |path: &str| {
        let path = format!("/emissions/v10/{path}");
        let fixture = &fixture;
        async move { fixture.get(&path).await }
    };
    let (_, losses) = get("reputer_loss_bundles/1/1").await;
    let reputer = losses["loss_bundles"][0]["reputer"].as_str().unwrap().to_owned();
    for (path, member, want) in [
        ("worker_registered/1/allo1a".to_owned(), "is_registered", true),
        ("worker_registered/1/allo1nobody".to_owned(), "is_registered", false),
        (format!("reputer_registered/1/{reputer}"), "is_registered", true),
        ("reputer_registered/1/allo1a".to_owned(), "is_registered", false),
        (format!("can_submit_reputer_payload/1/{reputer}"), "can_submit_reputer_payload", true),
        (format!("is_whitelisted_topic_reputer/1/{reputer}"), "is_whitelisted_topic_reputer", true),
        ("can_update_topic_whitelist/1/allo1a".to_owned(), "can_update_topic_whitelist", false),
    ] {
        assert_eq!(get(&path).await, (200, json!({ member: want })), "{path}");
    }
    let node = json!({"node_info": {"owner": "allo1a", "node_address": "allo1a"}});
    assert_eq!(get("worker/allo1a").await, (200, node));
    assert_eq!(get(&format!("reputer/{reputer}")).await.0, 200);
    Fixture::check(get("worker/allo1nobody").await, 404, 5, "worker allo1nobody not found");
    Fixture::check(get("reputer/allo1a").await, 404, 5, "reputer allo1a not found");
    let (_, params) = get("params").await;
    assert_eq!(params["params"].as_object().unwrap().len(), 57, "{params}");
    assert_eq!(params["params"]["global_whitelist_enabled"], false);
}

#[tokio::test]
async fn score_of_an_absent_worker_is_lowered_when_it_returns() {
    let fixture = after(3).await;
    let (present, absent) = ([&[("y", "51.20")][..], &[("y", "55")]], [&[("y", "51.20")][..], &[]]);
    let score = async |worker: &str| {
        let path = format!("/emissions/v10/inferer_score_ema/1/{worker}");
        number(&fixture.get(&path).await.1["score"]["score"])
    };
    for _ in 0..4 {
        fixture.epoch(1, absent, 50.0).await;
    }
    let (_, initial) = fixture.get("/emissions/v10/initial_inferer_ema_score/1").await;
    let (before, initial) = (score("allo1b").await, number(&initial["score"]));
    fixture.epoch(1, present, 50.0).await;
    let nonce = 1 + 12 * 7;
    let path = format!("/emissions/v10/worker_inference_scores_at_block/1/{nonce}");
    let (_, scores) = fixture.get(&path).await;
    let newest = number(&scores["scores"]["scores"][1]["score"]);
    let lowered = initial + (before - initial) * 0.9_f64.powi(4);
    let want = 0.1 * newest + 0.9 * lowered;
    let got = score("allo1b").await;
    assert!((got - want).abs() < 1e-9, "{got} is not {want}, from {before}");
}

#[tokio::test]
async fn v9_query_returns_bundles_with_one_number_per_value() {
    let fixture = after(2).await;
    let (_, body) = fixture.get("/emissions/v9/latest_network_inferences/1").await;
    let bundle = &body["network_inferences"];
    assert!(number(&bundle["combined_value"]) > 51.0);
    assert_eq!(bundle["inferer_values"][0], json!({"worker": "allo1a", "value": "51.2"}));
    assert_eq!(bundle["reputer_request_nonce"]["reputer_nonce"]["block_height"], "13");
    let (_, body) = fixture.get("/emissions/v9/inferences/1/13").await;
    let own = &body["inferences"]["inferences"][0];
    assert_eq!((&own["value"], own.get("values")), (&json!("51.2"), None));
    let (_, body) = fixture.get("/emissions/v9/reputer_loss_bundles/1/13").await;
    let reported = &body["loss_bundles"]["reputer_value_bundles"][0]["value_bundle"];
    assert!(number(&reported["combined_value"]).is_finite());
    let (_, body) = fixture.get("/emissions/v9/topics/1").await;
    assert_eq!((&body["topic"]["id"], body["topic"].get("output_arity")), (&json!("1"), None));
    fixture.epoch(2, [&[("up", "1")], &[("flat", "1")]], 51.0).await;
    let nonce = fixture.inference.latest("2".parse().unwrap()).await.unwrap().bundle.nonce;
    let message = "topic 2 has several labels, which v9 cannot represent; use v10";
    for path in ["latest_network_inferences/2".to_owned(), format!("inferences/2/{nonce}")] {
        let answer = fixture.get(&format!("/emissions/v9/{path}")).await;
        Fixture::check(answer, 400, 3, message);
    }
    let resistant = "/emissions/v10/latest_network_inferences_outlier_resistant/2";
    let message = "outlier resistant network inferences are not supported for multi-label topics";
    Fixture::check(fixture.get(resistant).await, 400, 3, message);
    assert_eq!(create(&fixture, &json!({"topic_type": "classification"})).await.0, 200);
    let resistant = "/emissions/v10/latest_network_inferences_outlier_resistant/3";
    let message =
        "outlier resistant network inferences are not supported for classification topics";
    Fixture::check(fixture.get(resistant).await, 400, 3, message);
}

#[tokio::test]
async fn outlier_is_excluded_only_from_the_resistant_bundle() {
    let fixture = after(3).await;
    let nonce = fixture.open(1, 50.0).await;
    for (worker, value) in [("allo1a", "51"), ("allo1b", "55"), ("allo1c", "9000")] {
        fixture.submit_as(worker, None, (1, nonce), payload(&[("y", value)])).await;
    }
    fixture.close(1, nonce, None).await;
    let n_inferers =
        |body: &Value| body["network_inferences"]["inferer_values"].as_array().unwrap().len();
    let (_, all) = fixture.get("/emissions/v10/latest_network_inferences/1").await;
    let resistant = "/emissions/v10/latest_network_inferences_outlier_resistant/1";
    let (_, kept) = fixture.get(resistant).await;
    assert_eq!((n_inferers(&all), n_inferers(&kept)), (3, 2));
    let (_, latest) = fixture.get("/api/v1/topics/1/latest").await;
    assert_eq!(latest["has_outliers"], true);
    let weights: f64 = ["inferers", "forecasters"]
        .iter()
        .flat_map(|role| latest["weights"][role].as_object().unwrap().values())
        .map(number)
        .sum();
    assert!((weights - 1.0).abs() < 1e-9);
    assert_eq!(latest["confidence_intervals"][0]["values"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn forecast_elements_for_absent_inferers_are_not_returned() {
    let fixture = Fixture::new().await;
    fixture.open(1, 50.0).await;
    let of = |name: &str| addresses::of_model(name).to_string();
    let mixed = json!({"model": "mixed", "forecast": {of("present"): "1", of("absent"): "2"}});
    let useless = json!({"model": "useless", "forecast": {of("absent"): "2"}});
    for body in [&mixed, &useless] {
        let (status, accepted) = fixture.put("POST", "/api/v1/topics/1/submissions", body).await;
        assert_eq!(status, 200, "{accepted}");
    }
    fixture.submit_as(&of("present"), None, (1, 1), payload(&[("y", "5")])).await;
    fixture.close(1, 1, None).await;
    let (_, body) = fixture.get("/emissions/v10/forecasts/1/1").await;
    let [forecast] = body["forecasts"]["forecasts"].as_array().unwrap().as_slice() else {
        panic!("{body}")
    };
    let elements = json!([{"inferer": of("present"), "value": "1"}]);
    assert_eq!(forecast["forecast_elements"], elements, "{body}");
}

#[tokio::test]
async fn payload_is_accepted_once_per_address_and_window() {
    let fixture = Fixture::new().await;
    let path = "/api/v1/topics/1/submissions";
    let early = fixture.put("POST", path, &json!({"value": "1"})).await;
    Fixture::check(
        early,
        400,
        3,
        "no submission window of topic 1 is open at block 1; the next one opens at block 1",
    );
    fixture.inference.open_epoch(topic(1), 1).await.unwrap();
    let (status, accepted) = fixture.put("POST", path, &json!({"value": "51.20"})).await;
    assert_eq!((status, &accepted["nonce"]), (200, &json!(1)), "{accepted}");
    let other = fixture.put("POST", path, &json!({"value": 52})).await;
    let message = "worker already submitted another payload for nonce 1";
    Fixture::check(other, 409, 6, message);
    let (status, same) = fixture.put("POST", path, &json!({"value": "51.2"})).await;
    assert_eq!((status, &same), (200, &accepted), "retry after a lost response");
    let (status, other) =
        fixture.put("POST", path, &json!({"model": "other", "value": 52.50, "nonce": "1"})).await;
    assert_eq!(status, 200);
    assert_ne!(other["worker"], accepted["worker"]);
    let early = fixture.put("POST", path, &json!({"value": "1", "nonce": "2"})).await;
    let message = "submission window of nonce 2 is not open: the open nonce is 1";
    Fixture::check(early, 400, 3, message);
    for unfit in [
        json!({"value": "much"}),
        json!({"values": {"up": "1"}}),
        json!({}),
        json!({"value": "1", "nonce": "2"}),
        json!({"value": "1", "forecast": {"bob": "1"}}),
        json!({"worth": "1"}),
    ] {
        let mut unfit = unfit;
        unfit["model"] = json!("third");
        assert_eq!(fixture.put("POST", path, &unfit).await.0, 400, "{unfit}");
    }
    assert!(fixture.inference.close(topic(1), 1).await.unwrap());
    let (_, epoch) = fixture.get("/api/v1/topics/1/epochs/1").await;
    assert_eq!(epoch["network_inferences"]["combined_value"][0]["value"], "51.85");
    assert_eq!(epoch["network_inferences"]["inferer_values"].as_array().unwrap().len(), 2);
    assert!(epoch["losses"].is_null() && epoch["truth"] == json!([]));
    fixture.clock.advance(Duration::from_secs(7));
    for (body, status) in
        [(json!({"value": "51.2", "nonce": 1}), 200), (json!({"value": "51.3", "nonce": 1}), 400)]
    {
        assert_eq!(fixture.put("POST", path, &body).await.0, status, "{body}");
    }
}

#[tokio::test]
async fn topic_can_be_changed_only_with_the_key_that_created_it() {
    let fixture = Fixture::new().await;
    let settings = json!({"metadata": "direction", "dataset": "btc", "column": "close",
        "horizon_seconds": 60, "output_arity": "multi", "direction_threshold": "0.001"});
    let (status, created) = fixture.put("POST", "/api/v1/topics", &settings).await;
    assert_eq!((status, &created["topic"]["id"]), (200, &json!("3")), "{created}");
    assert!(created["topic"]["creator"].as_str().unwrap().starts_with("allo1"));
    let mut other = settings.clone();
    other["metadata"] = json!("renamed");
    let (status, updated) = fixture.put("PUT", "/api/v1/topics/3", &other).await;
    assert_eq!((status, &updated["topic"]["metadata"]), (200, &json!("renamed")));
    let (_, read) = fixture.get("/api/v1/topics/3").await;
    assert_eq!((&read["metadata"], &read["horizon_seconds"]), (&json!("renamed"), &json!(60)));
    assert_eq!(fixture.put("PUT", "/api/v1/topics/3", &read).await.0, 200, "{read}");
    other["output_arity"] = json!("single");
    assert_eq!(fixture.put("PUT", "/api/v1/topics/3", &other).await.0, 400);
    let rest = json!({"active": false});
    let (_, resting) = fixture.put("PUT", "/api/v1/topics/3/active", &rest).await;
    assert_eq!(resting["weight"], "0");
    let late = fixture.put("POST", "/api/v1/topics/3/submissions", &json!({"value": "1"})).await;
    let message = "no submission window of topic 3 is open, since it is paused";
    Fixture::check(late, 400, 3, message);
    let (_, list) = fixture.get("/api/v1/topics").await;
    let paused: Vec<_> = (0..3).map(|idx| list["topics"][idx]["is_paused"].clone()).collect();
    assert_eq!(paused, [json!(false), json!(false), json!(true)]);
    let (_, active) = fixture.get("/emissions/v10/is_topic_active/3").await;
    assert_eq!(active, json!({"is_active": false}));
    let (_, next) = fixture.get("/emissions/v10/next_churning_block_by_topic_id/3").await;
    assert_eq!(next, json!({"block_height": "0"}), "no epoch opens");
    for of in ["worker", "reputer"] {
        let (_, window) =
            fixture.get(&format!("/emissions/v10/{of}_submission_window_status/3")).await;
        let next = [&window["next_window_start_block"], &window["next_window_end_block"]];
        assert_eq!(next, ["0", "0"], "{window}");
    }
    let others = fixture.put("PUT", "/api/v1/topics/1/active", &rest).await;
    let built_in = "topic 1 is built in and cannot be changed; start the service without --demo to \
                    omit it";
    Fixture::check(others, 403, 7, built_in);
    let unfit = json!({"metadata": "x", "dataset": "d", "column": "c", "ground_truth_lag": 1});
    let (status, body) = fixture.put("POST", "/api/v1/topics", &unfit).await;
    assert_eq!(status, 400);
    assert!(body["message"].as_str().unwrap().contains("ground truth lag"), "{body}");
}

#[tokio::test]
async fn epochs_without_a_truth_are_given_up_if_the_predicted_quantity_changes() {
    for (changes, n_truths) in [
        (json!({"metadata": "renamed", "loss_method": "mae"}), 1),
        (json!({"horizon_seconds": 61}), 0),
        (json!({"column": "close"}), 0),
        (json!({"target": "log_return"}), 0),
    ] {
        let fixture = Fixture::new().await;
        assert_eq!(create(&fixture, &json!({})).await.0, 200);
        fixture.open(3, 50.0).await;
        let value = fixture.put("POST", "/api/v1/topics/3/submissions", &json!({"value": 1})).await;
        assert_eq!(value.0, 200);
        assert!(fixture.inference.close(topic(3), 1).await.unwrap());
        let settings = settings(&changes);
        assert_eq!(fixture.put("PUT", "/api/v1/topics/3", &settings).await.0, 200);
        assert!(fixture.inference.learn(topic(3), 1, Some(51.0)).await.unwrap());
        let (_, body) = fixture.get("/api/v1/topics/3/history").await;
        let truth = body["epochs"][0]["truth"].as_array().unwrap();
        assert_eq!(truth.len(), n_truths, "{changes}");
    }
}

#[tokio::test]
async fn paused_topic_stays_paused_when_its_settings_change() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({})).await.0, 200);
    let path = "/api/v1/topics/3";
    fixture.put("PUT", &format!("{path}/active"), &json!({"active": false})).await;
    let renamed = settings(&json!({"metadata": "renamed"}));
    let (status, updated) = fixture.put("PUT", path, &renamed).await;
    assert_eq!((status, &updated["weight"]), (200, &json!("0")), "{updated}");
}

#[tokio::test]
async fn change_of_a_topic_is_applied_even_if_its_request_ends_early() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({})).await.0, 200);
    let inference = &fixture.inference;
    let creator = inference.topic(topic(3)).unwrap().creator.clone().unwrap();
    let mut news = inference.news();
    let is_active = || inference.topic(topic(3)).map(|topic| topic.is_active);
    drop(inference.set_active(topic(3), false, &creator).now_or_never());
    timeout(Duration::from_mins(1), news.changed()).await.unwrap().unwrap();
    assert_eq!(is_active(), Some(false));
    // The deletion waits for the change.
    assert!(inference.delete_topic(topic(3), &creator).await.is_ok());
    assert_eq!(is_active(), None);
}

#[tokio::test]
async fn unity_of_a_topic_cannot_be_changed() {
    let fixture = Fixture::new().await;
    let of = |unity| json!({"direction_threshold": "0.1", "require_unity": unity});
    for (id, unity) in [(3, false), (4, true)] {
        assert_eq!(create(&fixture, &of(unity)).await.0, 200);
        let refused =
            fixture.put("PUT", &format!("/api/v1/topics/{id}"), &settings(&of(!unity))).await;
        Fixture::check(refused, 400, 3, &format!("unity of topic {id} cannot be changed"));
    }
}

#[tokio::test]
async fn rules_for_submissions_cannot_change_while_an_epoch_is_open() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({})).await.0, 200);
    let (topic, path) = ("3".parse().unwrap(), "/api/v1/topics/3");
    fixture.inference.open_epoch(topic, 1).await.unwrap();
    let stricter = [json!({"value_min": 0}), json!({"loss_method": "bce"})];
    for changes in &stricter {
        let message = "labels, unity tolerance, value range and loss of topic 3 cannot change while \
                       epoch 1 is open; retry once it has closed, or pause the topic first if it has \
                       no time between epochs";
        Fixture::check(fixture.put("PUT", path, &settings(changes)).await, 400, 3, message);
    }
    let other = settings(&json!({"metadata": "renamed"}));
    assert_eq!(fixture.put("PUT", path, &other).await.0, 200);
    assert!(fixture.inference.close(topic, 1).await.unwrap());
    for changes in &stricter {
        assert_eq!(fixture.put("PUT", path, &settings(changes)).await.0, 200);
    }
}

#[tokio::test]
async fn account_keys_cannot_create_topics() {
    let mut fixture = Fixture::new().await;
    let (name, password) = ("ada@example.org".parse().unwrap(), "correct horse".parse().unwrap());
    let ada = fixture.accounts.register(name, password).await.unwrap().account;
    (_, fixture.key) = fixture.accounts.create_account_key(ada.id, "mine").await.unwrap();
    let settings = json!({"metadata": "peek", "dataset": "secret", "column": "close"});
    let refused = fixture.put("POST", "/api/v1/topics", &settings).await;
    Fixture::check(refused, 403, 7, "only an operator's key can create or change a topic");
}

/// Checks the labels in responses about a topic of directions with the setting `labels`.
async fn check_labels_served(labels: &[&str]) {
    let fixture = Fixture::new().await;
    let settings = json!({"metadata": "labels", "dataset": "btc", "column": "close",
        "horizon_seconds": 60, "direction_threshold": "0.001", "label_whitelist": labels});
    assert_eq!(fixture.put("POST", "/api/v1/topics", &settings).await.0, 200);
    let (_, settings) = fixture.get("/api/v1/topics/3").await;
    assert_eq!(settings["label_whitelist"], json!(["up", "down", "flat"]));
    let topic = "3".parse().unwrap();
    fixture.inference.open_epoch(topic, 1).await.unwrap();
    let path = "/api/v1/topics/3/submissions";
    for (value, message) in [
        (
            json!({"value": "1"}),
            "a single value does not fit the topic, expected values by label: up, down, flat",
        ),
        (json!({"values": {"upp": "1"}}), "unknown label `upp`, expected up, down, flat"),
    ] {
        Fixture::check(fixture.put("POST", path, &value).await, 400, 3, message);
    }
    for (model, values) in
        [("a", json!({"Down": "0.7", "flat": "0"})), ("b", json!({"down": "0.5", "up": "0.5"}))]
    {
        let body = json!({"model": model, "values": values});
        assert_eq!(fixture.put("POST", path, &body).await.0, 200);
    }
    assert!(fixture.inference.close(topic, 1).await.unwrap());
    let (_, body) = fixture.get("/emissions/v10/latest_network_inferences/3").await;
    let combined = &body["network_inferences"]["combined_value"];
    let want = json!([{"label_id": 1, "label_name": "down", "value": "0.6"},
        {"label_id": 2, "label_name": "up", "value": "0.25"}]);
    assert_eq!(*combined, want, "{labels:?}");
    for submission in fixture.inference.submissions(topic, 1).await.unwrap() {
        let ids: Vec<u32> = submission.inference.iter().map(|value| value.label_id).collect();
        assert_eq!(ids, [1, 2], "{labels:?}");
    }
}

#[tokio::test]
async fn labels_with_nonzero_values_are_numbered_in_the_order_of_their_first_use() {
    check_labels_served(&[]).await;
    check_labels_served(&["up", "down", "flat"]).await;
}

#[tokio::test]
async fn consumer_query_returns_a_signed_value_or_an_error() {
    let fixture = after(2).await;
    let path = "/v2/allora/consumer/ethereum-11155111?allora_topic_id=1";
    let (status, body) = fixture.get(path).await;
    assert_eq!((status, &body["status"]), (200, &json!(true)), "{body}");
    let data = &body["data"]["inference_data"];
    let (exact, plain) = (&data["network_inference"], &data["network_inference_normalized"]);
    let moved = number(exact) / 1e18;
    assert!((moved - number(plain)).abs() < 1e-9);
    assert_eq!(data["confidence_interval_percentiles"][0], "2280000000000000000");
    assert_eq!(data["confidence_interval_values"].as_array().unwrap().len(), 5);
    assert_eq!(body["data"]["signature"].as_str().unwrap().len(), 132);
    let (_, price) = fixture.get("/v2/allora/consumer/price/ethereum-11155111/BTC/8h").await;
    assert_eq!(price["data"]["inference_data"]["topic_id"], "1");
    for (path, status) in [
        ("/v2/allora/consumer/ethereum-1?allora_topic_id=1", 404),
        ("/v2/allora/consumer/ethereum-11155111", 400),
        ("/v2/allora/consumer/ethereum-11155111?allora_topic_id=9", 404),
        ("/v2/allora/consumer/price/ethereum-11155111/ETH/5m", 404),
        ("/v2/allora/elsewhere/topics", 404),
    ] {
        let (got, body) = fixture.get(path).await;
        assert_eq!((got, &body["status"]), (status, &json!(false)), "{path}: {body}");
        assert!(body["apiResponseMessage"].is_string(), "{path}: {body}");
    }
    let (_, topics) = fixture.get("/v2/allora/allora-testnet-1/topics").await;
    assert_eq!(topics["data"]["topics"].as_array().unwrap().len(), 2);
    assert!(topics["data"].get("continuation_token").is_none());
}

#[tokio::test]
async fn consumer_query_rejects_a_negative_value_instead_of_signing_it() {
    let fixture = Fixture::new().await;
    fixture.epoch(1, [&[("y", "-2")], &[("y", "-3")]], 50.0).await;
    let path = "/v2/allora/consumer/ethereum-11155111?allora_topic_id=1";
    let (status, body) = fixture.get(path).await;
    assert_eq!(status, 400);
    assert_eq!(body["apiResponseMessage"], "-2.5 is negative, which contracts cannot represent");
}

#[tokio::test]
async fn epochs_query_returns_the_latest_epochs_of_a_range() {
    let fixture = after(5).await;
    for (query, want) in [("from=5&limit=2", [37, 49]), ("from=5&to=25&limit=2", [13, 25])] {
        let (_, rows) = fixture.get(&format!("/api/v1/topics/1/epochs/?{query}")).await;
        let nonces = rows.as_array().unwrap().iter().map(|row| row["nonce"].as_u64().unwrap());
        assert_eq!(nonces.collect::<BTreeSet<_>>(), want.into());
    }
}
