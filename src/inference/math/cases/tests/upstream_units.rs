//! Comparison of single formulas with the chain's test vectors.

use std::collections::BTreeMap;

use model::topic::Address;
use serde_json::{Value, json};

use super::{check, parsed, upstream};
use crate::math::regret::{ByActor, Crowd, Regrets, initial_regret};
use crate::math::statistics::{deviation, median, moving_average, quantile};
use crate::math::synthesis::interval::percentiles;
use crate::math::synthesis::weights::{Params, normalized, scale, weight_function};
use crate::math::synthesis::{Epoch, Newcomers, synthesize};

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(parsed).collect()
}

fn params(case: &Value) -> Params {
    let input = &case["input"];
    let or = |name: &str, default: f64| input.get(name).map_or(default, parsed);
    Params {
        generation: case["algorithm"].as_str().unwrap_or("mad-v0.17").parse().unwrap(),
        p_norm: or("p_norm", 3.0),
        c_norm: or("c_norm", 0.75),
        epsilon: or("epsilon", or("epsilon_topic", 0.01)),
        epsilon_safe_div: 1e-7,
        regret_scale: input.get("regret_scale").map(parsed),
    }
}

/// Returns our result for a case of `group`, or `None` if the tests of whole epochs cover the formula.
fn ours(group: &str, case: &Value) -> Option<Value> {
    let input = &case["input"];
    let number = |name: &str| parsed(&input[name]);
    let one = |number: f64| Some(json!(number.to_string()));
    let many = |numbers: Vec<f64>| {
        Some(json!(numbers.iter().map(ToString::to_string).collect::<Vec<_>>()))
    };
    match group {
        "weight_from_normalized_regret" => {
            one(weight_function(number("max"), 1.0, &params(case))(number("x")))
        }
        "regret_scale" => one(scale(&numbers(&input["regrets"]), &params(case))),
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
            one(initial_regret(crowd, &params(case)).unwrap())
        }
        "ema" => {
            let previous = (input["first"] != true).then(|| number("previous"));
            one(moving_average(previous, number("current"), number("alpha")))
        }
        "median" => one(median(&numbers(input)).unwrap_or_default()),
        "stdev" => one(deviation(&numbers(input))),
        "quantile" => one(quantile(&numbers(&input["data"]), number("q")).unwrap()),
        "forecast_implied" => Some(implied_values(input, &params(case))),
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
    let address = |name: &str| -> Address { format!("allo1{name}").parse().unwrap() };
    let members = |value: &Value| value.as_object().unwrap().clone();
    let inferences = members(&input["inferences"]);
    let inferences = inferences.iter().map(|(name, list)| (address(name), numbers(list))).collect();
    let forecast = |(name, losses): (&String, &Value)| {
        let losses = members(losses);
        let losses = losses.iter().map(|(name, loss)| (address(name), parsed(loss)));
        (address(name), losses.collect())
    };
    let forecasts: ByActor<ByActor<f64>> =
        members(&input["forecasts"]).iter().map(forecast).collect();
    let epoch = Epoch {
        params,
        inferences: &inferences,
        forecasts: &forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect(),
        previous_loss: Some(parsed(&input["network_loss"])),
        regrets: &Regrets::default(),
        newcomers: Newcomers::WithRegret(0.0),
    };
    let implied = synthesize(&epoch).unwrap().implied.into_iter();
    let texts = |values: Vec<f64>| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    let named = implied.map(|(name, values)| {
        (name.as_str().strip_prefix("allo1").unwrap().to_owned(), texts(values))
    });
    json!(named.collect::<BTreeMap<_, _>>())
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
