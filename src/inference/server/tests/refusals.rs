//! Topics that cannot work: they are rejected when they are created, or their health describes the
//! failure.

use super::*;
use crate::network::problems::Failing;

#[tokio::test]
async fn invalid_source_is_rejected_with_the_existing_names() {
    let fixture = Fixture::new().await;
    for (changes, message) in [
        (
            json!({"dataset": "nowhere"}),
            "dataset nowhere does not exist, or is not readable by this service; readable datasets: machine_cpu",
        ),
        (
            json!({"dataset": "nowhere", "dataset_id": 999}),
            "dataset_id 999 does not exist, or is not readable by this service; readable datasets: machine_cpu",
        ),
        (
            json!({"column": "open"}),
            "dataset machine_cpu has no column open; numeric columns: load_percent, close",
        ),
        (
            json!({"column": "comment"}),
            "column comment of dataset machine_cpu is not numeric; numeric columns: load_percent, \
             close",
        ),
        (
            json!({"horizon_seconds": 0}),
            "invalid topic settings: horizon_seconds is missing, or not between 1 second and 366 days",
        ),
        (
            json!({"epoch_length": 5, "worker_submission_window": 2}),
            "invalid topic settings: epoch_length must be at least 12 blocks as on the chain; \
             `experimental` allows other values",
        ),
        (
            json!({"p_norm": "9"}),
            "invalid topic settings: p_norm must be from 2.5 to 4.5 as on the chain; \
             `experimental` allows other values",
        ),
        (json!({"keep_bytes": 10}), "invalid topic settings: keep_bytes must be at least 1000000"),
    ] {
        Fixture::check(create(&fixture, &changes).await, 400, 3, message);
    }
    let odd = json!({"epoch_length": 5, "worker_submission_window": 2, "ground_truth_lag": 5,
        "p_norm": "9", "experimental": true, "keep_bytes": 5_000_000, "keep_days": 3,
        "built_in_forecasters": false});
    let (status, created) = create(&fixture, &odd).await;
    assert_eq!((status, &created["topic"]["epoch_length"]), (200, &json!("5")), "{created}");
    let (_, health) = fixture.get("/api/v1/topics/3/health").await;
    let retention = &health["retention"];
    assert_eq!(retention["keep_bytes"], 5_000_000);
    assert_eq!((&retention["keep_days"], &retention["n_epochs"]), (&json!(3), &json!(0)));
}

#[tokio::test]
async fn horizon_within_the_submission_window_is_rejected_unless_experimental() {
    let fixture = Fixture::new().await;
    // A block lasts 1 s. The window includes its last block, so a window of 8 blocks lasts 9 s.
    let peek = |horizon: u64| json!({"horizon_seconds": horizon, "worker_submission_window": 8});
    let message = |horizon: u64| {
        format!(
            "invalid topic settings: horizon_seconds of {horizon} ends within the submission \
             window of 9s (9 blocks of 1s), so that workers could submit the truth itself; \
             `experimental` allows it"
        )
    };
    for horizon in [2, 9] {
        Fixture::check(create(&fixture, &peek(horizon)).await, 400, 3, &message(horizon));
    }
    let (status, created) = create(&fixture, &peek(10)).await;
    assert_eq!(status, 200, "{created}");
    let edited = fixture.put("PUT", "/api/v1/topics/3", &settings(&peek(2))).await;
    Fixture::check(edited, 400, 3, &message(2));
    let mut odd = peek(2);
    odd["experimental"] = json!(true);
    let (status, created) = create(&fixture, &odd).await;
    assert_eq!(status, 200, "{created}");
    // The same setting is rejected when it is no longer marked as experimental.
    let edited = fixture.put("PUT", "/api/v1/topics/4", &settings(&peek(2))).await;
    Fixture::check(edited, 400, 3, &message(2));
}

#[tokio::test]
async fn submission_is_rejected_once_the_predicted_row_exists_unless_experimental() {
    let fixture = Fixture::new().await;
    for (id, changes) in
        (3..).zip([json!({"dataset_id": 1}), json!({"dataset_id": 1, "experimental": true})])
    {
        assert_eq!(create(&fixture, &changes).await.0, 200);
        let nonce = fixture.inference.chain().height();
        fixture.inference.open_epoch(topic(id), nonce).await.unwrap();
        // The latest row at the opening is 58 s old, and the horizon is 60 s.
        let input = Input { at: fixture.clock.now() - Duration::from_secs(58), value: 50.0 };
        fixture.inference.put_input(topic(id), nonce, input).await.unwrap();
        let submit = async |model: &str| {
            let body = json!({"model": model, "value": 50});
            fixture.put("POST", &format!("/api/v1/topics/{id}/submissions"), &body).await
        };
        fixture.clock.advance(Duration::from_secs(1));
        assert_eq!(submit("early").await.0, 200);
        fixture.clock.advance(Duration::from_secs(1));
        if id == 3 {
            let message = format!(
                "dataset machine_cpu already has the row that nonce {nonce} predicts; submit \
                 earlier in the window"
            );
            Fixture::check(submit("late").await, 400, 3, &message);
        } else {
            assert_eq!(submit("late").await.0, 200);
        }
    }
}

#[tokio::test]
async fn submission_is_rejected_once_the_predicted_row_exists_ahead_of_the_clock() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({"dataset_id": 1})).await.0, 200);
    let nonce = fixture.inference.chain().height();
    fixture.inference.open_epoch(topic(3), nonce).await.unwrap();
    let newest = fixture.clock.now();
    // The horizon is 60 s.
    let input = Input { at: newest - Duration::from_mins(1), value: 50.0 };
    fixture.inference.put_input(topic(3), nonce, input).await.unwrap();
    let message = format!(
        "dataset machine_cpu already has the row that nonce {nonce} predicts; submit earlier in the \
         window"
    );
    let submit = async |key: &ApiKey, seconds_ahead: i64| {
        // The clock is set back, so that the latest row is ahead of it.
        fixture.clock.set(Timestamp::from_seconds(newest.seconds() - seconds_ahead));
        let (key, body) = ([("x-api-key", key.reveal())], json!({"value": 50}).to_string());
        read(fixture.request("POST", "/api/v1/topics/3/submissions", &key, body).await).await
    };
    let stranger = fixture.key_of(fixture.account("stranger").await).await;
    Fixture::check(submit(&fixture.key, 3600).await, 400, 3, &message);
    Fixture::check(submit(&stranger, 3600).await, 400, 3, &message);
    Fixture::check(submit(&stranger, 30).await, 400, 3, &message);
    // The dataset is not read for a trusted worker before the time of the predicted row.
    assert_eq!(submit(&fixture.key, 30).await.0, 200);
}

#[tokio::test]
async fn topic_without_built_in_forecasters_closes_with_submitted_values_only() {
    let fixture = Fixture::new().await;
    let settings = json!({"built_in_forecasters": false});
    for (changes, n_built_in) in [(json!({}), 5), (settings, 0)] {
        let (status, created) = create(&fixture, &changes).await;
        assert_eq!(status, 200, "{created}");
        let id: u64 = created["topic"]["id"].as_str().unwrap().parse().unwrap();
        for _ in 0..3 {
            fixture.epoch(id, [&[("y", "51.20")], &[("y", "55")]], 50.0).await;
        }
        let (_, latest) = fixture.get(&format!("{LATEST}/{id}?leave_out=all")).await;
        let values = &latest["network_inferences"];
        assert_eq!(values["forecaster_values"].as_array().unwrap().len(), n_built_in, "{values}");
        assert_eq!(values["inferer_values"].as_array().unwrap().len(), 2, "{values}");
        let nonce = &latest["inference_block_height"].as_str().unwrap();
        let (_, forecasts) = fixture.get(&format!("/emissions/v10/forecasts/{id}/{nonce}")).await;
        let forecasts = &forecasts["forecasts"]["forecasts"];
        assert_eq!(forecasts.as_array().unwrap().len(), n_built_in, "{forecasts}");
        if n_built_in == 0 {
            assert_eq!(values["combined_value"], values["naive_value"]);
        }
    }
}

#[tokio::test]
async fn health_of_a_topic_lists_a_problem_from_its_failure_until_it_works_again() {
    let fixture = Fixture::new().await;
    let topic = "1".parse().unwrap();
    let (_, health) = fixture.get("/api/v1/topics/1/health").await;
    assert_eq!((&health["state"], &health["problems"]), (&json!("working"), &json!([])));
    for reason in ["no rows", "still no rows"] {
        fixture.inference.fails(topic, Failing::Inferring, reason.to_owned());
    }
    let (_, health) = fixture.get("/api/v1/topics/1/health").await;
    assert_eq!(health["state"], "failing");
    let problem = json!({"failing": "infer", "reason": "still no rows",
        "since": "2027-01-15T08:00:00Z"});
    assert_eq!(health["problems"], json!([problem]));
    let (_, list) = fixture.get("/api/v1/topics").await;
    assert_eq!(list["topics"][0]["problem"], "fails to infer: still no rows");
    let (status, all) = fixture.send("GET", "/health", None).await;
    assert_eq!((status, all), (200, json!({"failing_topics": [1], "is_read_only": false})));
    fixture.inference.works(topic, Failing::Inferring);
    let (_, health) = fixture.get("/api/v1/topics/1/health").await;
    assert_eq!(health["state"], "working");
    assert_eq!(fixture.get("/api/v1/topics/9/health").await.0, 404);
}

/// Number of epochs that exceed the smallest size limit, so that the oldest are thinned and then deleted.
const N_EPOCHS: u64 = 75;

#[tokio::test]
async fn old_epochs_are_thinned_and_then_deleted_within_the_size_limit() {
    let fixture = Fixture::new().await;
    let small = json!({"keep_bytes": 1_000_000});
    let (status, created) = create(&fixture, &small).await;
    assert_eq!(status, 200, "{created}");
    for _ in 0..N_EPOCHS {
        fixture.epoch(3, [&[("y", "51.20")], &[("y", "55")]], 50.0).await;
    }
    let (_, health) = fixture.get("/api/v1/topics/3/health").await;
    let retention = &health["retention"];
    let number = |name: &str| -> u64 { retention[name].as_str().unwrap().parse().unwrap() };
    assert!(retention["n_bytes"].as_u64().unwrap() <= 1_000_000, "{retention}");
    assert!(retention["n_epochs"].as_u64().unwrap() < N_EPOCHS, "{retention}");
    let (oldest, full) = (number("oldest_nonce"), number("oldest_full_nonce"));
    assert!(1 < oldest && oldest < full, "{retention}");
    let path =
        |nonce| format!("/emissions/v10/network_inferences/3/last_inference/{nonce}?leave_out=all");
    let n_pairs = |bundle: &Value| {
        bundle["network_inferences"]["one_out_inferer_forecaster_values"].as_array().unwrap().len()
    };
    let (_, thin) = fixture.get(&path(oldest)).await;
    let (_, whole) = fixture.get(&path(full)).await;
    assert_eq!((n_pairs(&thin), n_pairs(&whole)), (0, 10));
    assert_eq!(fixture.get(&path(oldest - 12)).await.0, 404);
}

#[tokio::test]
async fn dry_run_is_checked_but_not_stored() {
    let fixture = Fixture::new().await;
    fixture.inference.open_epoch(topic(1), 1).await.unwrap();
    let path = "/api/v1/topics/1/submissions";
    let dry = json!({"value": "1.5", "dry_run": true});
    for _ in 0..2 {
        let (status, body) = fixture.put("POST", path, &dry).await;
        assert_eq!((status, &body["dry_run"], &body["nonce"]), (200, &json!(true), &json!(1)));
    }
    assert_eq!(fixture.put("POST", path, &json!({"value": "x", "dry_run": true})).await.0, 400);
    assert_eq!(fixture.put("POST", path, &json!({"value": "1.5"})).await.0, 200);
    assert_eq!(fixture.put("POST", path, &dry).await.0, 200, "identical payload");
    let message = "worker already submitted another payload for nonce 1";
    let other = json!({"value": "1.6", "dry_run": true});
    Fixture::check(fixture.put("POST", path, &other).await, 409, 6, message);
    let (_, list) = fixture.get("/api/v1/topics").await;
    assert_eq!(
        (&list["topics"][0]["open_nonce"], &list["topics"][0]["close_height"]),
        (&json!(1), &json!(8))
    );
}

#[tokio::test]
async fn address_with_a_wrong_checksum_is_rejected() {
    let fixture = Fixture::new().await;
    let address = addresses::of_model("mine");
    let (start, end) = address.as_str().split_at(10);
    let wrong =
        format!("{start}{}{}", if end.starts_with('q') { "p" } else { "q" }, end.split_at(1).1);
    let (status, body) = create(&fixture, &json!({"worker_whitelist": [&wrong]})).await;
    assert_eq!(status, 400, "{body}");
    let (status, created) =
        create(&fixture, &json!({"worker_whitelist": [address.as_str()]})).await;
    assert_eq!(status, 200, "{created}");
    fixture.inference.open_epoch(topic(3), 1).await.unwrap();
    for (name, want) in [(wrong.as_str(), 400), (address.as_str(), 200)] {
        let path = format!("/api/v1/topics/3/whitelist/{name}");
        let (status, body) = fixture.put("PUT", &path, &Value::Null).await;
        assert_eq!(status, want, "{body}");
        let forecast = json!({"model": name.get(..9), "forecast": {name: "-1"}});
        let (status, body) = fixture.put("POST", "/api/v1/topics/3/submissions", &forecast).await;
        assert_eq!(status, want, "{body}");
    }
}

#[tokio::test]
async fn signer_and_its_contracts_are_returned() {
    let fixture = Fixture::new().await;
    let signer = consumers().signer.account().to_string();
    let (status, body) = fixture.get("/api/v1/signer").await;
    assert_eq!((status, &body["address"]), (200, &json!(signer)));
    assert!(body["contracts"]["ethereum-11155111"].as_str().unwrap().starts_with("0x"));
}

#[tokio::test]
async fn relearned_topic_equals_a_topic_with_correct_rows() {
    let values: [&[(&str, &str)]; 2] = [&[("y", "51.20")], &[("y", "55")]];
    let path = "/api/v1/topics/3/relearn";
    let learned_of = async |wrong: f64| {
        let fixture = Fixture::new().await;
        assert_eq!(create(&fixture, &json!({})).await.0, 200);
        // Values of the dataset. The last is wrong if `wrong` is not 0, and is corrected later.
        for outcome in [50.06, 50.072, 50.084 + wrong] {
            fixture.epoch(3, values, outcome).await;
        }
        fixture.clock.advance(Duration::from_mins(5));
        fixture
    };
    let (right, wrong) = (learned_of(0.0).await, learned_of(5.0).await);
    let regret = "/emissions/v10/inferer_network_regret/3/allo1b";
    assert_ne!(right.get(regret).await, wrong.get(regret).await);
    let (status, body) = wrong.put("POST", path, &json!({"from_nonce": "25"})).await;
    assert_eq!((status, body), (200, json!({"n_epochs": 3, "n_changed": 1, "n_kept": 0})));
    for query in [
        regret,
        "/emissions/v10/latest_regret_stdnorm/3",
        "/emissions/v10/network_loss/3/25",
        "/emissions/v10/inferer_score_ema/3/allo1b",
        "/api/v1/topics/3/history",
    ] {
        assert_eq!(right.get(query).await, wrong.get(query).await, "{query}");
    }
    let (status, body) = wrong.put("POST", path, &json!({"from_nonce": 1})).await;
    assert_eq!((status, body), (200, json!({"n_epochs": 3, "n_changed": 0, "n_kept": 0})));
    let all = wrong.put("POST", path, &json!({"from_nonce": 0})).await;
    assert_eq!(all, (200, json!({"n_epochs": 3, "n_changed": 0, "n_kept": 0})));
    let later = wrong.put("POST", path, &json!({"from_nonce": 99_999})).await;
    let message = "no epoch since nonce 99999 can be relearned; the latest is 25";
    Fixture::check(later, 400, 3, message);
    let others = wrong.put("POST", "/api/v1/topics/1/relearn", &json!({"from_nonce": 1})).await;
    assert_eq!(others.0, 403);
}

#[tokio::test]
async fn relearning_reports_epochs_whose_ground_truth_is_missing() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({})).await.0, 200);
    for _ in 0..3 {
        fixture.epoch(3, [&[("y", "51.20")], &[("y", "55")]], 50.0).await;
    }
    // The dataset has no row at the horizons yet.
    let path = "/api/v1/topics/3/relearn";
    let (status, body) = fixture.put("POST", path, &json!({"from_nonce": 13})).await;
    assert_eq!((status, body), (200, json!({"n_epochs": 3, "n_changed": 0, "n_kept": 2})));
}

#[tokio::test]
async fn relearning_takes_snapshots_and_is_exclusive() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({})).await.0, 200);
    for _ in 0..34 {
        fixture.epoch(3, [&[("y", "51.20")], &[("y", "55")]], 50.0).await;
    }
    let relearn = async |from: u64| {
        fixture.put("POST", "/api/v1/topics/3/relearn", &json!({"from_nonce": from})).await
    };
    assert_eq!(relearn(0).await.1["n_epochs"], 34);
    assert_eq!(relearn(1 + 12 * 33).await.1["n_epochs"], 2, "learned from the 33rd epoch");
    let (first, second) = tokio::join!(relearn(0), relearn(0));
    assert_eq!((first.0, second.0), (200, 503));
}
