//! Targets of topics.

use super::*;

#[tokio::test]
async fn target_of_a_topic_is_stored_and_returned() {
    let fixture = Fixture::new().await;
    for (id, (target, shown)) in (3..).zip([
        ("log_return", json!("log_return")),
        ("volatility", json!("volatility")),
        // The default is not shown.
        ("value", Value::Null),
    ]) {
        let (status, created) = create(&fixture, &json!({"target": target})).await;
        assert_eq!(status, 200, "{created}");
        let (_, settings) = fixture.get(&format!("/api/v1/topics/{id}")).await;
        assert_eq!(settings["target"], shown);
    }
}

#[tokio::test]
async fn baseline_of_a_log_return_is_zero() {
    let fixture = Fixture::new().await;
    let settings = json!({"target": "log_return", "loss_method": "mae", "allow_negative": true});
    assert_eq!(create(&fixture, &settings).await.0, 200);
    fixture.epoch(3, [&[("y", "0.01")], &[("y", "0.03")]], -0.02).await;
    let (_, board) = fixture.get("/api/v1/topics/3/leaderboard").await;
    // |0 − −0.02|, without earlier ground truths.
    assert_eq!(board["epochs"][0]["uninformed"], json!(0.02), "{board}");
    let actors = board["actors"].as_array().unwrap();
    let is_right = actors.iter().map(|actor| &actor["directional_accuracy"]);
    assert_eq!(is_right.collect::<Vec<_>>(), [&json!(0.0), &json!(0.0)], "{board}");
}

#[tokio::test]
async fn targets_that_cannot_be_computed_are_rejected() {
    let fixture = Fixture::new().await;
    let want =
        "invalid target: expected value, log_return or volatility, without a direction_threshold";
    for changes in
        [json!({"target": "price"}), json!({"target": "log_return", "direction_threshold": "0.1"})]
    {
        Fixture::check(create(&fixture, &changes).await, 400, 3, want);
    }
    let with_column = "rows with column load_percent";
    for (horizon, which, bound) in
        [(1, with_column, "at least 2"), (20_000, "rows", "at most 9998 for a volatility")]
    {
        let changes =
            json!({"target": "volatility", "horizon_seconds": horizon, "experimental": true});
        let message = format!(
            "horizon_seconds is {horizon}, but {which} of dataset machine_cpu are 1 seconds apart; \
             use {bound}"
        );
        Fixture::check(create(&fixture, &changes).await, 400, 3, &message);
    }
}
