//! Leaderboards and exports of a single actor.

use super::*;

#[tokio::test]
async fn leaderboard_of_an_actor_has_its_calibration() {
    let fixture = Fixture::new().await;
    let sure = &[("up", "0.75"), ("down", "0.25"), ("flat", "0")];
    for _ in 0..12 {
        fixture.epoch(2, [sure, &[("flat", "1")]], 51.0).await;
        fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], 51.0).await;
    }
    let all = ranked(&fixture, "2/leaderboard").await;
    let mut one = ranked(&fixture, "2/leaderboard?actor=allo1a").await;
    assert_eq!(one.len(), 1);
    let details = one[0].as_object_mut().unwrap();
    let calibration = details.remove("calibration").unwrap();
    assert!(details.remove("rank_history").is_some());
    let bins = calibration["bins"].as_array().unwrap();
    assert_eq!(bins.len(), 10);
    let n = &one[0]["n_counted_epochs"];
    // Probabilities of the label that came true, and of the others.
    assert_eq!(
        bins[7],
        json!({"from": 0.7, "to": 0.8, "n_predictions": n,
        "mean_probability": 0.75, "observed_frequency": 1.0})
    );
    assert_eq!(
        bins[2],
        json!({"from": 0.2, "to": 0.3, "n_predictions": n,
        "mean_probability": 0.25, "observed_frequency": 0.0})
    );
    assert_eq!((&bins[0]["n_predictions"], &bins[9]["n_predictions"]), (n, &json!(0)));
    assert_eq!(bins[9]["mean_probability"], json!(null));
    let error = calibration["expected_error"].as_f64().unwrap();
    assert!((error - 1.0 / 6.0).abs() < 1e-12, "{calibration}");
    assert!(all.contains(&one[0]), "only the response for an actor has details");

    assert_eq!(ranked(&fixture, "2/leaderboard?actor=nobody").await.len(), 0);
    let value = ranked(&fixture, "1/leaderboard?actor=allo1b").await;
    assert_eq!(value[0].get("calibration"), None, "values are no probabilities");
}

#[tokio::test]
async fn actor_is_selected_by_its_address_or_else_by_a_unique_name() {
    let fixture = Fixture::new().await;
    let values = [&[("y", "51")][..], &[("y", "55")]];
    // The name of the first actor is the address of the second.
    fixture.epoch_with_names(1, values, ["allo1b", "b"], 51.0).await;
    fixture.epoch_with_names(1, values, ["allo1b", "b"], 51.0).await;
    let workers = async |actor: &str| {
        let board = ranked(&fixture, &format!("1/leaderboard?actor={actor}")).await;
        let (_, rows) = fixture.get(&format!("/api/v1/topics/1/epochs/?actor={actor}")).await;
        [board, rows.as_array().unwrap().clone()].map(|rows| {
            let workers = rows.iter().map(|row| row["worker"].as_str().unwrap().to_owned());
            workers.collect::<Vec<_>>()
        })
    };
    assert_eq!(workers("allo1b").await, [vec!["allo1b"], vec!["allo1b"; 2]]);
    assert_eq!(workers("b").await, [vec!["allo1b"], vec!["allo1b"; 2]]);
    assert_eq!(workers("allo1a").await, [vec!["allo1a"], vec!["allo1a"; 2]]);
    assert_eq!(workers("nobody").await, [vec![""; 0], vec![]]);
    // The latest epoch with the name decides.
    fixture.epoch_with_names(1, values, ["b", "c"], 51.0).await;
    assert_eq!(workers("b").await, [vec!["allo1a"], vec!["allo1a"; 3]]);
    fixture.epoch_with_names(1, values, ["b", "b"], 51.0).await;
    for path in ["leaderboard", "epochs/"] {
        let refused = fixture.get(&format!("/api/v1/topics/1/{path}?actor=b")).await;
        let why = "actor name b is ambiguous; use an address: allo1a, allo1b";
        Fixture::check(refused, 400, 3, why);
    }
}
