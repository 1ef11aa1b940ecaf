//! Loss functions of topics and their parameters.

use super::*;

/// Returns `changes` to the settings of a topic that predicts a probability.
fn probability(changes: &Value) -> Value {
    changed(json!({"built_in_forecasters": false, "value_min": 0, "value_max": 1}), changes)
}

async fn create(fixture: &Fixture, changes: &Value) -> (u16, Value) {
    super::create(fixture, &probability(changes)).await
}

/// Runs an epoch in which two workers submit `values`. Returns the losses in it, by worker.
async fn losses(fixture: &Fixture, values: [&str; 2], truth: f64) -> Vec<f64> {
    let nonce = fixture.inference.chain().height();
    fixture.epoch(3, [&[("y", values[0])], &[("y", values[1])]], truth).await;
    let (status, epoch) = fixture.get(&format!("/api/v1/topics/3/epochs/{nonce}")).await;
    assert_eq!(status, 200, "{epoch}");
    let losses = epoch["losses"]["inferer_values"].as_array().unwrap();
    let loss = |entry: &Value| entry["value"].as_str().unwrap().parse().unwrap();
    losses.iter().map(loss).collect()
}

#[track_caller]
fn check_losses(got: &[f64], want: [f64; 2]) {
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < 1e-9, "{got} is not {want}");
    }
    assert_eq!(got.len(), 2);
}

#[tokio::test]
async fn parameters_of_a_loss_are_stored_and_used() {
    let fixture = Fixture::new().await;
    let changes = json!({"loss_method": "zptae", "allow_negative": true,
        "loss_parameters": {"std": "2", "mean": 1, "alpha": 0.5, "beta": 1, "gamma": 2,
            "mse_norm": "0.1"}});
    let (status, created) = create(&fixture, &changes).await;
    assert_eq!((status, &created["topic"]["loss_method"]), (200, &json!("zptae")), "{created}");
    let (_, shown) = fixture.get("/api/v1/topics/3").await;
    let want = json!({"std": "2", "mean": "1", "alpha": "0.5", "beta": "1", "gamma": "2",
        "mse_norm": "0.1"});
    assert_eq!(shown["loss_parameters"], want);
    // The z-scores of 0, 1 and the truth 1 are −0.5, 0 and 0: 0.5 / 1.5^0.5 + (0.1 · 0.5)², and 0.
    let got = losses(&fixture, ["0", "1"], 1.0).await;
    check_losses(&got, [0.410_748_290_463_863, 0.0]);
    // Topic 1 uses a loss without parameters, so its response has no such field.
    let (_, shown) = fixture.get("/api/v1/topics/1").await;
    assert_eq!(shown.get("loss_parameters"), None);
}

#[tokio::test]
async fn losses_are_scaled_by_the_deviation_of_past_truths() {
    let fixture = Fixture::new().await;
    let changes = json!({"loss_method": "ztae", "allow_negative": true});
    assert_eq!(create(&fixture, &changes).await.0, 200);
    for truth in [0.0, 0.2].into_iter().cycle().take(9) {
        // tanh 1 − tanh 0, with a standard deviation of 1.
        let got = losses(&fixture, ["0", "1"], truth).await;
        let want = [truth.tanh(), 1.0_f64.tanh() - truth.tanh()];
        check_losses(&got, want);
    }
    // Five truths of 0 and five of 0.2 have a standard deviation of 0.1: tanh 2 − tanh 0, and
    // tanh 10 − tanh 2.
    let got = losses(&fixture, ["0", "1"], 0.2).await;
    check_losses(&got, [0.964_027_580_075_816_9, 0.035_972_415_801_875_54]);
    // The baseline of the leaderboard is the mean of the truths that are known at the opening. The
    // baseline has the same scale: the mean of three truths of 0 and two of 0.2 is 0.08, and its loss
    // tanh 2 − tanh 0.8.
    let (_, board) = fixture.get("/api/v1/topics/3/leaderboard").await;
    let last = board["epochs"].as_array().unwrap().last().unwrap().clone();
    let uninformed = last["uninformed"].as_f64().unwrap();
    assert!((uninformed - 0.299_990_809_807_968).abs() < 1e-9, "{last}");
}

#[tokio::test]
async fn uninformed_loss_of_an_epoch_does_not_depend_on_the_requested_epochs() {
    let fixture = Fixture::new().await;
    for outcome in [50.0, 51.0, 52.0, 54.0].into_iter().cycle().take(22) {
        fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], outcome).await;
    }
    let uninformed = async |query: &str| {
        let (_, body) = fixture.get(&format!("/api/v1/topics/1/leaderboard?{query}")).await;
        let epochs = body["epochs"].as_array().unwrap().iter();
        let losses = epochs.map(|epoch| (epoch["nonce"].clone(), epoch["uninformed"].clone()));
        losses.collect::<Vec<_>>()
    };
    let all = uninformed("period=all").await;
    assert_eq!((all.len(), all[4].1.is_null(), all[5].1.is_number()), (22, true, true));
    for (query, n_epochs) in [("epochs=3", 3), ("epochs=10", 10), ("actor=allo1a&epochs=4", 4)] {
        assert_eq!(uninformed(query).await, all[22 - n_epochs..], "{query}");
    }
}

#[tokio::test]
async fn epochs_with_losses_in_another_unit_do_not_count_until_they_are_relearned() {
    let fixture = Fixture::new().await;
    let of = |allow_negative| json!({"loss_method": "mae", "allow_negative": allow_negative});
    assert_eq!(create(&fixture, &of(true)).await.0, 200);
    losses(&fixture, ["0", "1"], 0.1).await;
    losses(&fixture, ["0", "1"], 0.1).await;
    let edit = settings(&probability(&of(false)));
    assert_eq!(fixture.put("PUT", "/api/v1/topics/3", &edit).await.0, 200);
    let board = async || fixture.get("/api/v1/topics/3/leaderboard").await.1;
    assert_eq!(board().await["epochs"], json!([]));
    // Without regrets, the combined value is the mean.
    check_losses(&losses(&fixture, ["0", "1"], 0.1).await, [-1.0, 0.9_f64.log10()]);
    let learned = board().await;
    let [epoch] = learned["epochs"].as_array().unwrap().as_slice() else { panic!("{learned}") };
    assert!((epoch["combined"].as_f64().unwrap() - 0.4).abs() < 1e-9, "{learned}");
    let regret = async || {
        let path = "/emissions/v10/inferer_network_regret/3/allo1a";
        let (_, body) = fixture.get(path).await;
        body["regret"]["value"].as_str().unwrap().parse::<f64>().unwrap()
    };
    // The moving average of the regret begins at 0.
    assert!((regret().await - 0.1 * (0.4_f64.log10() + 1.0)).abs() < 1e-9);
    let again = json!({"from_nonce": 1});
    let (_, relearned) = fixture.put("POST", "/api/v1/topics/3/relearn", &again).await;
    assert_eq!(relearned["n_epochs"], 3);
    let learned = board().await;
    assert_eq!(learned["epochs"].as_array().unwrap().len(), 3);
    let actors = learned["actors"].as_array().unwrap();
    let one = actors.iter().find(|actor| actor["worker"] == "allo1a").unwrap();
    assert!((one["mean_loss"].as_f64().unwrap() + 1.0).abs() < 1e-9, "{learned}");
}

#[tokio::test]
async fn loss_method_names_of_the_chain_are_accepted() {
    let fixture = Fixture::new().await;
    for (id, (name, shown)) in (3..).zip([("sqe", "mse"), ("abse", "mae"), ("czar", "czar")]) {
        let (status, created) = create(&fixture, &json!({"loss_method": name})).await;
        assert_eq!((status, &created["topic"]["loss_method"]), (200, &json!(shown)), "{created}");
        let (_, settings) = fixture.get(&format!("/api/v1/topics/{id}")).await;
        assert_eq!(settings["loss_method"], shown);
    }
}

#[tokio::test]
async fn probabilities_outside_0_to_1_are_rejected() {
    let fixture = Fixture::new().await;
    let direction = json!({"direction_threshold": "0.1", "label_whitelist": ["up", "down", "flat"],
        "require_unity": true});
    for (id, changes) in (3..).zip([json!({"loss_method": "mse"}), json!({"loss_method": "ce"})]) {
        let changes = changed(direction.clone(), &changes);
        let (status, created) = super::create(&fixture, &changes).await;
        assert_eq!(status, 200, "{created}");
        fixture.open(id, 50.0).await;
        let values = json!({"values": {"up": 1, "down": 1, "flat": -1}});
        let refused =
            fixture.put("POST", &format!("/api/v1/topics/{id}/submissions"), &values).await;
        let message = "value -1 of label `flat` is outside the range 0 to 1";
        Fixture::check(refused, 400, 3, message);
    }
    assert_eq!(super::create(&fixture, &json!({"loss_method": "bce"})).await.0, 200);
    let (_, shown) = fixture.get("/api/v1/topics/5").await;
    // The default range is not shown, so that it does not remain if the loss changes.
    assert_eq!((&shown["value_min"], &shown["value_max"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn settings_that_do_not_apply_to_the_loss_method_are_rejected_by_name() {
    let fixture = Fixture::new().await;
    let prefix = "invalid topic settings: ";
    for (changes, message) in [
        (
            json!({"loss_method": "huber", "loss_parameters": {"delta": "-1"}}),
            format!("{prefix}loss_parameters.delta must be from 1e-12 to 1e40"),
        ),
        (
            json!({"loss_method": "huber", "loss_parameters": {"tau": "1"}}),
            format!("{prefix}loss_parameters.tau does not apply to huber, which has delta"),
        ),
        (
            json!({"loss_method": "huber", "loss_parameters": {"delta": "much"}}),
            "invalid loss_parameters.delta: expected a decimal number".to_owned(),
        ),
        (
            json!({"loss_method": "bce", "value_max": 2}),
            format!("{prefix}bce needs a value_min of at least 0 and a value_max of at most 1"),
        ),
        (
            json!({"direction_threshold": "0.1", "loss_method": "ce"}),
            format!(
                "{prefix}ce needs require_unity, since a probability of 1 for each label would \
                 have no loss; mse and bce do not"
            ),
        ),
        (
            json!({"direction_threshold": "0.1", "require_unity": true, "value_min": -1}),
            format!(
                "{prefix}require_unity needs a value_min of at least 0 and a value_max of at most 1"
            ),
        ),
        (
            json!({"loss_method": "poisson"}),
            format!(
                "{prefix}poisson needs a value_min of at least 0, and allow_negative, since its \
                 losses can be negative"
            ),
        ),
        (
            json!({"loss_method": "czar", "direction_threshold": "0.1"}),
            format!("{prefix}czar compares single numbers, not labels"),
        ),
    ] {
        Fixture::check(create(&fixture, &changes).await, 400, 3, &message);
    }
    let unknown = json!({"loss_method": "huber", "loss_parameters": {"colour": "1"}});
    let (status, refused) = create(&fixture, &unknown).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("unknown field `colour`, expected one of `delta`"), "{refused}");
    assert_eq!(status, 400);
}

#[tokio::test]
async fn true_label_that_is_not_submitted_has_the_default_value() {
    for (method, has_unity, want) in [
        // −ln 1e-9 and (1 − 0)² + (0 − 1)². For `bce`, the certainty of each of two labels is wrong, which
        // costs −ln 1e-15, where 1 − 1e-15 is rounded.
        ("ce", true, 20.723_265_836_946_414),
        ("mse", true, 2.0),
        ("bce", false, 69.077_552_789_821_37),
    ] {
        let fixture = Fixture::new().await;
        let changes = json!({"loss_method": method, "require_unity": has_unity,
            "direction_threshold": "0.1", "allow_negative": true});
        let (status, created) = create(&fixture, &changes).await;
        assert_eq!(status, 200, "{created}");
        // The value does not change, so the direction is `flat`.
        fixture.epoch(3, [&[("up", "1")], &[("up", "1")]], 50.0).await;
        let (_, epoch) = fixture.get("/api/v1/topics/3/epochs/1").await;
        let truth = json!([{"label_id": 1, "label_name": "up", "value": "0"},
            {"label_id": 2, "label_name": "down", "value": "0"},
            {"label_id": 3, "label_name": "flat", "value": "1"}]);
        assert_eq!(epoch["truth"], truth, "{method}");
        for loss in epoch["losses"]["inferer_values"].as_array().unwrap() {
            let loss: f64 = loss["value"].as_str().unwrap().parse().unwrap();
            assert!((loss - want).abs() < 1e-3, "{method}: {loss} is not {want}");
        }
    }
}

#[tokio::test]
async fn truth_without_a_loss_is_a_problem_of_the_topic() {
    for (method, allow_negative, truth) in
        [("bce", false, 115.0), ("bce", true, 115.0), ("poisson", true, -1.0)]
    {
        let fixture = Fixture::new().await;
        let changes = json!({"loss_method": method, "allow_negative": allow_negative});
        assert_eq!(create(&fixture, &changes).await.0, 200);
        fixture.epoch(3, [&[("y", "0.5")], &[("y", "0.6")]], truth).await;
        let (_, health) = fixture.get("/api/v1/topics/3/health").await;
        let reason = "nonce 1: loss of a value in the bundle is not a finite number";
        let problem = &health["problems"][0];
        assert_eq!((&health["state"], &problem["reason"]), (&json!("failing"), &json!(reason)));
        assert_eq!(problem["failing"], "learn from its epochs");
        let (_, board) = fixture.get("/api/v1/topics/3/leaderboard").await;
        assert_eq!(board["epochs"], json!([]), "{method}");
        fixture.epoch(3, [&[("y", "0.5")], &[("y", "0.6")]], 1.0).await;
        let (_, health) = fixture.get("/api/v1/topics/3/health").await;
        assert_eq!(health["state"], "working", "{health}");
    }
}
