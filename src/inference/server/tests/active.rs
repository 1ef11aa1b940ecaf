//! Selection of active actors, and limits on the influence of a single account.

use accounts::Scope;

use super::*;

const SUBMISSIONS: &str = "/api/v1/topics/1/submissions";

impl Fixture {
    /// Submits `value` with `key` for its model `model`, or for the key itself if `model` is `None`.
    async fn submit(&self, key: &ApiKey, model: Option<&str>, value: &str) -> (u16, Value) {
        let mut body = json!({"value": value});
        if let Some(model) = model {
            body["model"] = json!(model);
        }
        let key = [("x-api-key", key.reveal())];
        read(self.request("POST", SUBMISSIONS, &key, body.to_string()).await).await
    }

    async fn combined(&self) -> f64 {
        let (_, body) = self.get(&format!("{LATEST}/1")).await;
        number(&body["network_inferences"]["combined_value"][0]["value"])
    }

    async fn signed(&self) -> f64 {
        let path = "/v2/allora/consumer/ethereum-11155111?allora_topic_id=1";
        let (status, body) = self.get(path).await;
        assert_eq!(status, 200, "{body}");
        let data = &body["data"]["inference_data"];
        for value in data["confidence_interval_values_normalized"].as_array().unwrap() {
            assert!(number(value) < 10.0, "{data}");
        }
        number(&data["network_inference_normalized"])
    }
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

#[track_caller]
fn assert_near(value: f64, want: f64) {
    assert!((value - want).abs() < 0.2, "{value} is near {want}");
}

#[tokio::test]
async fn many_keys_of_one_account_cannot_exclude_other_workers_or_move_the_combined_value() {
    let fixture = Fixture::new().await;
    let stranger = fixture.account("stranger").await;
    let mut keys = Vec::new();
    for _ in 0..66 {
        keys.push(fixture.key_of(stranger).await);
    }
    for _ in 0..3 {
        let nonce = fixture.open(1, 4.0).await;
        let mut statuses = Vec::new();
        for key in &keys {
            for model in [None, Some("a"), Some("b")] {
                statuses.push(fixture.submit(key, model, "1000000").await.0);
            }
        }
        assert_eq!(
            statuses.iter().filter(|status| **status == 200).count(),
            3,
            "the limit of an account"
        );
        for (model, value) in [("a", "4.2"), ("b", "4.3"), ("c", "4.4")] {
            let (status, body) = fixture.submit(&fixture.key, Some(model), value).await;
            assert_eq!(status, 200, "{body}");
        }
        fixture.close(1, nonce, None).await;
        assert_near(fixture.combined().await, 4.3);
        assert_near(fixture.signed().await, 4.3);
        assert!(fixture.inference.learn(topic(1), nonce, Some(4.3)).await.unwrap());
    }
    let (_, body) = fixture.get("/emissions/v10/active_inferers/1").await;
    assert_eq!(body["inferers"].as_array().unwrap().len(), 3);
    // An actor that was never active has 0 inclusions, although it has a score.
    let (_, accepted) = {
        let nonce = fixture.open(1, 4.0).await;
        let accepted = fixture.submit(&keys[0], None, "1000000").await;
        fixture.submit(&fixture.key, None, "4.3").await;
        fixture.close(1, nonce, None).await;
        accepted
    };
    let worker = accepted["worker"].as_str().unwrap();
    let (_, count) =
        fixture.get(&format!("/emissions/v10/count_inferer_inclusions_in_topic/1/{worker}")).await;
    assert_eq!(count, json!({"count": "0"}));
}

#[tokio::test]
async fn outlier_does_not_affect_the_signed_value() {
    for others in [["1", "2", "3", "4"], ["2.5", "2.5", "2.5", "2.5"]] {
        let fixture = Fixture::new().await;
        for key in ["c", "d"] {
            fixture.accounts.create_key(key).await.unwrap();
        }
        let (_, far_off) = fixture.accounts.create_key("far off").await.unwrap();
        let (_, other) = fixture.accounts.create_key("other").await.unwrap();
        let nonce = fixture.open(1, 4.0).await;
        for (idx, value) in others.into_iter().enumerate() {
            let key = if idx < 2 { &fixture.key } else { &other };
            assert_eq!(fixture.submit(key, Some(&idx.to_string()), value).await.0, 200);
        }
        assert_eq!(fixture.submit(&far_off, None, "1000000").await.0, 200);
        fixture.close(1, nonce, None).await;
        // The outlier affects the combined value, since it is from an operator's key, but not the
        // signed value.
        assert_near(fixture.combined().await, 200_002.0);
        assert_near(fixture.signed().await, 2.5);
    }
}

impl Fixture {
    /// Runs an epoch in which workers of three keys submit `values`. Returns the number of inferers in
    /// the outlier-resistant bundle.
    async fn resistant_inferers(&self, keys: &[ApiKey], values: &[&str]) -> usize {
        let nonce = self.open(1, 4.0).await;
        for (idx, value) in values.iter().enumerate() {
            let (status, body) = self.submit(&keys[idx / 3], Some(&idx.to_string()), value).await;
            assert_eq!(status, 200, "{body}");
        }
        self.close(1, nonce, None).await;
        let path = "/emissions/v10/latest_network_inferences_outlier_resistant/1";
        let (_, body) = self.get(path).await;
        body["network_inferences"]["inferer_values"].as_array().unwrap().len()
    }

    async fn three_keys(&self) -> Vec<ApiKey> {
        let mut keys = Vec::new();
        for name in ["x", "y", "z"] {
            keys.push(self.accounts.create_key(name).await.unwrap().1);
        }
        keys
    }
}

#[tokio::test]
async fn stale_worker_does_not_determine_the_signed_value() {
    let fixture = Fixture::new().await;
    let keys = fixture.three_keys().await;
    let calm = ["4.001", "4.002", "3.999", "4.0005", "4.00", "4.0015", "3.9985", "4.0007"];
    fixture.resistant_inferers(&keys, &calm).await;
    for price in 1..=5 {
        // The price moves by 2 % or more in each epoch. One worker repeats its first value.
        let price = 4.0 + 0.1 * f64::from(price);
        let mut values: Vec<String> =
            (0..7).map(|idx| format!("{}", price + 0.001 * f64::from(idx))).collect();
        values.push("4.00".to_owned());
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        assert_eq!(fixture.resistant_inferers(&keys, &values).await, 7, "at {price}");
        let signed = fixture.signed().await;
        assert!((signed - price).abs() < 0.01, "{signed} is near {price}");
    }
}

#[tokio::test]
async fn ordinary_values_after_an_epoch_of_equal_values_are_not_outliers() {
    let fixture = Fixture::new().await;
    let keys = fixture.three_keys().await;
    fixture.resistant_inferers(&keys, &["4"; 5]).await;
    for _ in 0..2 {
        let n_kept = fixture.resistant_inferers(&keys, &["3.99", "4", "4.01", "4.04", "4"]).await;
        assert_eq!(n_kept, 5);
    }
}

#[tokio::test]
async fn newcomer_with_a_value_near_the_other_values_is_active_and_scored() {
    let fixture = Fixture::new().await;
    let key = fixture.key_of(fixture.account("newcomer").await).await;
    let nonce = fixture.open(1, 4.0).await;
    let (status, accepted) = fixture.submit(&key, None, "4.5").await;
    assert_eq!(status, 200);
    for (model, value) in [("a", "4.2"), ("b", "4.3"), ("c", "4.4")] {
        fixture.submit(&fixture.key, Some(model), value).await;
    }
    fixture.close(1, nonce, None).await;
    assert!(fixture.inference.learn(topic(1), nonce, Some(4.5)).await.unwrap());
    let (_, body) = fixture.get("/emissions/v10/active_inferers/1").await;
    assert!(body["inferers"].as_array().unwrap().contains(&accepted["worker"]), "{body}");
    let worker = accepted["worker"].as_str().unwrap();
    let (_, ema) = fixture.get(&format!("/emissions/v10/inferer_score_ema/1/{worker}")).await;
    let (_, lowest) = fixture.get("/emissions/v10/current_lowest_inferer_score/1").await;
    assert!(number(&ema["score"]["score"]) > number(&lowest["score"]["score"]), "{ema} {lowest}");
}

#[tokio::test]
async fn only_listed_workers_can_submit_if_the_whitelist_is_enabled() {
    let fixture = Fixture::new().await;
    let listed = json!({"enable_worker_whitelist": true, "max_top_inferers_to_reward": 2});
    let (status, created) = create(&fixture, &listed).await;
    assert_eq!((status, &created["topic"]["id"]), (200, &json!("3")), "{created}");
    fixture.inference.open_epoch(topic(3), 1).await.unwrap();
    let path = "/api/v1/topics/3/submissions";
    let (status, refused) = fixture.put("POST", path, &json!({"value": "1"})).await;
    assert_eq!((status, &refused["code"]), (403, &json!(7)));
    let words = refused["message"].as_str().unwrap().split_whitespace();
    let worker = words.into_iter().find(|word| word.starts_with("allo1")).unwrap().to_owned();
    let whitelisted = format!("/api/v1/topics/3/whitelist/{worker}");
    let asks = async |query: &str, member: &str| {
        let (status, body) = fixture.get(&format!("/emissions/v10/{query}")).await;
        assert_eq!(status, 200, "{body}");
        body[member].as_bool().unwrap()
    };
    let window = format!("worker_submission_window_status/3?address={worker}");
    assert!(!asks(&window, "is_whitelisted").await);
    assert_eq!(fixture.put("PUT", &whitelisted, &json!({})).await.0, 200);
    assert!(asks(&window, "is_whitelisted").await);
    let enabled = "is_topic_worker_whitelist_enabled";
    assert!(
        asks(&format!("{enabled}/3"), enabled).await
            && !asks(&format!("{enabled}/1"), enabled).await
    );
    for query in ["is_whitelisted_topic_worker", "can_submit_worker_payload"] {
        assert!(asks(&format!("{query}/3/{worker}"), query).await);
    }
    assert_eq!(fixture.put("POST", path, &json!({"value": "1"})).await.0, 200);
    assert_eq!(fixture.put("DELETE", &whitelisted, &json!({})).await.0, 200);
    assert!(
        !asks(&format!("can_submit_worker_payload/3/{worker}"), "can_submit_worker_payload").await
    );
    let keys = fixture.accounts.list_keys(Scope::All).await.unwrap();
    assert_eq!(keys.len(), 1);
    let (_, others) = fixture.accounts.create_key("other").await.unwrap();
    let others = Some(("x-api-key", others.reveal()));
    assert_eq!(fixture.send("PUT", &whitelisted, others).await.0, 403);
}

#[tokio::test]
async fn inference_of_an_open_window_is_returned_only_to_its_key() {
    let fixture = Fixture::new().await;
    let (_, stranger) = fixture.accounts.create_key("stranger").await.unwrap();
    let first = fixture.open(1, 4.0).await;
    let (_, accepted) = fixture.submit(&fixture.key, Some("mine"), "4.1").await;
    let worker = accepted["worker"].as_str().unwrap();
    let path = format!("/emissions/v10/topics/1/workers/{worker}/latest_input_inference");
    let ask = async |key: &ApiKey| {
        let (_, body) = read(fixture.respond(&path, key).await).await;
        body["latest_input_inference"]["value"].clone()
    };
    assert_eq!((ask(&fixture.key).await, ask(&stranger).await), (json!("4.1"), Value::Null));
    fixture.close(1, first, None).await;
    assert_eq!(ask(&stranger).await, "4.1");
    let second = fixture.open(1, 4.0).await;
    fixture.submit(&fixture.key, Some("mine"), "4.2").await;
    assert_eq!((ask(&fixture.key).await, ask(&stranger).await), (json!("4.2"), json!("4.1")));
    let old = path.replace("v10", "v9").replace("latest_input_inference", "latest_inference");
    let (_, body) = read(fixture.respond(&old, &stranger).await).await;
    assert_eq!(body["latest_inference"]["value"], "4.1");
    fixture.close(1, second, None).await;
    assert_eq!(ask(&stranger).await, "4.2");
}
