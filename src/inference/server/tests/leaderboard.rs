//! Leaderboards, and exports of a single actor.

use super::*;

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
    let both = fixture.get("/api/v1/topics/1/leaderboard?period=24h&epochs=5").await;
    assert_eq!((both.0, both.1["code"].as_u64()), (400, Some(3)));
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
    let nonce = &body["epochs"][0]["nonce"];
    let (_, epoch) = fixture.get(&format!("/api/v1/topics/1/epochs/{nonce}")).await;
    let losses = &epoch["losses"];
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    for actor in body["actors"].as_array().unwrap() {
        let role = actor["role"].as_str().unwrap();
        let without = losses[format!("one_out_{role}_values")].as_array().unwrap();
        let without = without.iter().find(|it| it["worker"] == actor["worker"]).unwrap();
        let increase = number(&without["value"]) - number(&losses["combined_value"]);
        assert!(near(&actor["contribution"], (10_f64.powf(increase) - 1.0) * 100.0), "{actor}");
    }
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
        let nonce = self.open(1, 50.0).await;
        for (name, error) in errors {
            let payload = payload(&[("y", &(50.0 + error).to_string())]);
            self.submit_as(&format!("allo1{name}"), Some(name), (1, nonce), payload).await;
        }
        self.close(1, nonce, Some(50.0)).await;
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
