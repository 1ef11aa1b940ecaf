//! Comparison of the regrets and scores of single epochs with the chain's test vectors.

use serde_json::{Value, json};

use super::{check_members, members, name, pair_values, parsed, read_regrets, upstream, wanted};
use crate::math::pair_values::PairValues;
use crate::math::regret::{ByActor, Losses, Pace, PairwiseRegrets, Regrets, Role};

fn losses(value: &Value) -> Losses {
    let losses = |name: &str| members(&value[name], parsed);
    Losses {
        combined: parsed(&value["combined"]),
        naive: parsed(&value["naive"]),
        inferer: losses("inferer"),
        forecaster: losses("forecaster"),
        one_out_inferer: losses("one_out_inferer"),
        one_out_forecaster: losses("one_out_forecaster"),
        one_in_forecaster: losses("one_in_forecaster"),
        one_out_inferer_forecaster: pair_values(&value["one_out_inferer_forecaster"]),
        std: None,
        unit: None,
    }
}

fn texts(by_actor: &ByActor<f64>) -> Value {
    let texts = by_actor.iter().map(|(address, number)| (name(address), json!(number.to_string())));
    Value::Object(texts.collect())
}

/// Returns regrets in the form of a case.
fn written(regrets: &Regrets) -> Value {
    let rows = |pairs: &PairValues| pairs.by_row();
    let by_key = |pairwise: &PairwiseRegrets| {
        let mut all = rows(&pairwise.inferer);
        for (key, row) in rows(&pairwise.forecaster) {
            all.entry(key).or_default().extend(row);
        }
        Value::Object(all.iter().map(|(key, row)| (name(key), texts(row))).collect())
    };
    json!({
        "inferer": texts(&regrets.ordinary.inferer),
        "forecaster": texts(&regrets.ordinary.forecaster),
        "naive_inferer": texts(&regrets.naive),
        "one_out_inferer": by_key(&regrets.one_out_inferer),
        "one_out_forecaster": by_key(&regrets.one_out_forecaster),
        "one_in_forecaster": by_key(&regrets.one_in_forecaster),
    })
}

#[test]
fn computation_reproduces_regrets_and_scores_of_upstream() {
    let Some(text) = upstream("regret_cases.json") else { return };
    let mut n_compared = 0;
    for case in wanted(&text) {
        let mut regrets = read_regrets(&case["previous"]);
        // The names of these actors begin with their role.
        regrets.retain(|role, address| name(address).starts_with(role.name()));
        let losses = losses(&case["network_losses"]);
        let initial = case.get("default_regret").map_or(0.0, parsed);
        regrets.learn(&losses, Pace { alpha: parsed(&case["alpha_regret"]), initial });
        let scores = json!({
            "inferer": texts(&losses.scores(Role::Inferer)),
            "forecaster": texts(&losses.scores(Role::Forecaster)),
        });
        n_compared += check_members(&case, &written(&regrets), &case["expected"]);
        n_compared += check_members(&case, &scores, &case["expected_scores"]);
    }
    assert!(n_compared > 100, "only {n_compared} numbers were compared");
}
