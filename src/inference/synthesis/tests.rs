//! The quantities of whole epochs against recorded ones.
//!
//! `tests/data/inference/generated.json` is always there. Upstream's own vectors lie beside the
//! project in its home, and are compared with where they are.

use std::{collections::BTreeMap, fs, path::PathBuf};

use serde_json::Value;

use super::*;

fn address(name: &str) -> Address {
    format!("allo1{name}").parse().unwrap()
}

fn name(address: &Address) -> &str {
    address.as_str().strip_prefix("allo1").unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

fn each(value: &Value) -> impl Iterator<Item = (Address, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (address(name), value))
}

fn family(value: &Value) -> BTreeMap<Address, f64> {
    each(value).map(|(name, value)| (name, number(value))).collect()
}

fn families(value: &Value) -> BTreeMap<Address, BTreeMap<Address, f64>> {
    each(value).map(|(name, value)| (name, family(value))).collect()
}

fn values(value: &Value) -> Values {
    value.as_array().unwrap().iter().map(number).collect()
}

fn standing(value: &Value) -> Standing {
    let (inferer, forecaster) =
        family(value).into_iter().partition(|(actor, _)| name(actor).starts_with("inferer"));
    Standing { inferer, forecaster }
}

fn standings(value: &Value) -> BTreeMap<Address, Standing> {
    each(value).map(|(name, value)| (name, standing(value))).collect()
}

fn params(case: &Value) -> Params {
    let params = &case["params"];
    Params {
        generation: case["algorithm"].as_str().unwrap().parse().unwrap(),
        p_norm: number(&params["p_norm"]),
        c_norm: number(&params["c_norm"]),
        epsilon: number(&params["epsilon_topic"]),
        epsilon_safe_div: number(&params["epsilon_safe_div"]),
        regret_scale: params.get("regret_scale").map(number),
    }
}

fn synthesize_case(case: &Value) -> Synthesis {
    let before = &case["regrets_after_previous_epoch"];
    let regrets = Regrets {
        ordinary: Standing {
            inferer: family(&before["inferer"]),
            forecaster: family(&before["forecaster"]),
        },
        naive: family(&before["naive_inferer"]),
        one_out_inferer: standings(&before["one_out_inferer"]),
        one_out_forecaster: standings(&before["one_out_forecaster"]),
        one_in_forecaster: standings(&before["one_in_forecaster"]),
    };
    let are_all_new = case["all_inferers_new"].as_bool().unwrap_or(false);
    let inferences: BTreeMap<Address, Values> =
        each(&case["inferences"]).map(|(name, value)| (name, values(value))).collect();
    let epoch = Epoch {
        params: &params(case),
        inferences: &inferences,
        forecasts: &families(&case["forecasted_losses_log10"]),
        previous_loss: case["previous_network_loss_log10"]
            .as_str()
            .map(|loss| loss.parse().unwrap()),
        regrets: &regrets,
        newcomers: if are_all_new {
            Newcomers::Everyone
        } else {
            Newcomers::WithRegret(
                case["default_regret"].as_str().map_or(0.0, |r| r.parse().unwrap()),
            )
        },
    };
    synthesize(&epoch).unwrap()
}

/// Compares `got` with the expectation, and returns how many numbers it compared.
#[track_caller]
fn check_values(what: &str, got: Option<&Values>, want: &Value, tolerance: f64) -> usize {
    let want = values(want);
    let got = got.unwrap_or_else(|| panic!("{what} is missing"));
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(&want) {
        let error = if *want == 0.0 { got.abs() } else { ((got - want) / want).abs() };
        assert!(error <= tolerance, "{what}: got {got}, want {want}, off by {error}");
    }
    want.len()
}

#[track_caller]
fn check_family(
    what: &str,
    got: &BTreeMap<Address, Values>,
    want: &Value,
    tolerance: f64,
) -> usize {
    assert_eq!(got.len(), each(want).count(), "{what}");
    each(want).map(|(name, want)| check_values(what, got.get(&name), want, tolerance)).sum()
}

#[track_caller]
fn check_case(case: &Value) -> usize {
    let got = synthesize_case(case);
    let tolerance = number(&case["tolerance"]["value"]);
    let mut n_compared = 0;
    for (quantity, want) in case["expected"].as_object().unwrap() {
        let what = format!("{} {quantity}", case["name"]);
        n_compared += match quantity.as_str() {
            "combined" => check_values(&what, Some(&got.combined), want, tolerance),
            "naive" => check_values(&what, Some(&got.naive), want, tolerance),
            "forecast_implied" => check_family(&what, &got.implied, want, tolerance),
            "one_out_inferer" => check_family(&what, &got.one_out_inferer, want, tolerance),
            "one_out_forecaster" => check_family(&what, &got.one_out_forecaster, want, tolerance),
            "one_in_forecaster" => check_family(&what, &got.one_in_forecaster, want, tolerance),
            "one_out_inferer_forecaster" => each(want)
                .map(|(forecaster, want)| {
                    let got = &got.one_out_inferer_forecaster[&forecaster];
                    check_family(&what, got, want, tolerance)
                })
                .sum(),
            "confidence_interval_values" => 0,
            other => panic!("{what}: unknown quantity {other}"),
        };
    }
    n_compared
}

fn cases(path: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file["cases"].as_array().unwrap().clone()
}

#[test]
fn forty_generated_epochs_are_reproduced() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/inference/generated.json");
    let cases = cases(&path);
    assert_eq!(cases.len(), 40);
    let n_compared: usize = cases.iter().map(check_case).sum();
    assert!(n_compared > 1000, "only {n_compared} numbers were compared");
}

#[test]
fn the_epochs_of_upstream_are_reproduced_where_they_lie() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/vectors/inference/upstream/synthesis_cases.json");
    if !path.exists() {
        return;
    }
    let n_compared: usize = cases(&path).iter().map(check_case).sum();
    assert!(n_compared > 100, "only {n_compared} numbers were compared");
}
