//! Comparison of single formulas with the chain's test vectors.

use serde_json::{Value, json};

use super::{check, lists, members, numbers, params, parsed, texts, upstream};
use crate::math::regret::{Crowd, Regrets, initial_regret};
use crate::math::statistics::{deviation, median, moving_average, quantile};
use crate::math::synthesis::interval::percentiles;
use crate::math::synthesis::weights::{Params, normalized, scale, weight_function};
use crate::math::synthesis::{Epoch, Newcomers, synthesize};

/// Returns our result for a case of `group`, or `None` if the tests of whole epochs cover the formula.
fn ours(group: &str, case: &Value) -> Option<Value> {
    let input = &case["input"];
    let number = |name: &str| parsed(&input[name]);
    let one = |number: f64| Some(json!(number.to_string()));
    let many = |numbers: Vec<f64>| Some(texts(&numbers));
    match group {
        "weight_from_normalized_regret" => {
            one(weight_function(number("max"), 1.0, &params(&case["algorithm"], input))(number(
                "x",
            )))
        }
        "regret_scale" => {
            one(scale(&numbers(&input["regrets"]), &params(&case["algorithm"], input)))
        }
        "normalize_weights" => match normalized(&numbers(&input["weights"])) {
            Some(weights) => many(weights),
            None => Some(json!("error")),
        },
        "em_regret" => {
            let newest = number("loss_a") - number("loss_b");
            one(moving_average(Some(number("previous")), newest, number("alpha")))
        }
        "topic_initial_regret" => {
            let regrets = numbers(&input["regrets"]);
            let crowd = Crowd { experienced: &regrets, all: &regrets, n_min: 1 };
            one(initial_regret(crowd, &params(&case["algorithm"], input)).unwrap())
        }
        "ema" => {
            let previous = (input["first"] != true).then(|| number("previous"));
            one(moving_average(previous, number("current"), number("alpha")))
        }
        "median" => one(median(&numbers(input)).unwrap_or_default()),
        "stdev" => one(deviation(&numbers(input))),
        "quantile" => one(quantile(&numbers(&input["data"]), number("q")).unwrap()),
        "forecast_implied" => Some(implied_values(input, &params(&case["algorithm"], input))),
        "weighted_percentile" => many(percentiles(
            &numbers(&input["data"]),
            &numbers(&input["weights"]),
            &numbers(&input["percentiles"]),
        )),
        _ => None,
    }
}

/// Returns the value that each forecaster in `input` implies if no actor has a regret, by name.
fn implied_values(input: &Value, params: &Params) -> Value {
    let forecasts = members(&input["forecasts"], |losses| members(losses, parsed));
    let epoch = Epoch {
        params,
        inferences: &members(&input["inferences"], numbers),
        forecasts: &forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect(),
        previous_loss: Some(parsed(&input["network_loss"])),
        regrets: &Regrets::default(),
        newcomers: Newcomers::WithRegret(0.0),
    };
    lists(&synthesize(&epoch).unwrap().implied)
}

#[test]
fn formulas_return_the_results_of_upstream() {
    let Some(text) = upstream("unit_vectors.json") else { return };
    let file: Value = serde_json::from_str(&text).unwrap();
    let mut n_compared = 0;
    for (group, cases) in file["groups"].as_object().unwrap() {
        for case in cases.as_array().unwrap() {
            let Some(got) = ours(group, case) else { continue };
            let what = format!("{group} {}", case["name"]);
            if case["expected"] == "error" {
                assert_eq!(got, "error", "{what}");
                continue;
            }
            n_compared += check(&what, &got, &case["expected"], &case["tolerance"]);
        }
    }
    assert!(n_compared >= 47, "only {n_compared} numbers were compared");
}
