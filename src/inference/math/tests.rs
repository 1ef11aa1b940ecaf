//! Compares the results of whole epochs with recorded results.
//!
//! `tests/data/inference/generated.json` is part of the project. Test vectors of the chain are compared
//! only if their files exist.

mod regrets;
mod upstream_units;

use std::fs;
use std::path::PathBuf;

use model::topic::Address;
use serde_json::{Map, Value, json};

use crate::math::pair_values::PairValues;
use crate::math::regret::{ByActor, PairwiseRegrets, Regrets, RoleValues};
use crate::math::synthesis::weights::Params;
use crate::math::synthesis::{Epoch, Newcomers, Synthesis, Values, synthesize};

/// Start of the address of each name.
const ADDRESS_START: &str = "allo1";

/// Returns the content of a file with the chain's test vectors, if it exists.
fn upstream(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/vectors/inference/upstream")
        .join(name);
    fs::read_to_string(path).ok()
}

fn generated() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path.join("../../tests/data/inference/generated.json")).unwrap()
}

/// Returns the expected result and the tolerance of each case in `text`.
fn wanted(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    file["cases"].as_array().unwrap().clone()
}

fn parsed(value: &Value) -> f64 {
    value.as_str().unwrap_or_else(|| panic!("{value} is no decimal text")).parse().unwrap()
}

/// Compares each number in `want` with the number at the same place in `got`. Returns the count of
/// compared numbers.
#[track_caller]
fn check(what: &str, got: &Value, want: &Value, tolerance: &Value) -> usize {
    match (got, want) {
        (Value::Object(got), Value::Object(want)) => {
            let names = |map: &Map<String, Value>| -> Vec<String> { map.keys().cloned().collect() };
            assert_eq!(names(got), names(want), "{what}");
            want.iter().map(|(n, w)| check(&format!("{what} {n}"), &got[n], w, tolerance)).sum()
        }
        (Value::Array(got), Value::Array(want)) => {
            assert_eq!(got.len(), want.len(), "{what}: {got:?}");
            got.iter().zip(want).map(|(got, want)| check(what, got, want, tolerance)).sum()
        }
        _ => {
            let (got, want) = (parsed(got), parsed(want));
            let error = (got - want).abs();
            let is_relative = tolerance["kind"] == "relative" && want != 0.0;
            let error = if is_relative { error / want.abs() } else { error };
            let allowed = parsed(&tolerance["value"]);
            assert!(error <= allowed, "{what}: got {got}, want {want}, off by {error}");
            1
        }
    }
}

/// Compares the numbers in `want` with the numbers of the same names in `got`. Returns the count of
/// compared numbers.
#[track_caller]
fn check_members(case: &Value, got: &impl serde::Serialize, want: &Value) -> usize {
    let got = serde_json::to_value(got).unwrap();
    let members = want.as_object().unwrap().iter();
    let name = case["name"].as_str().unwrap();
    members.map(|(m, want)| check(&format!("{name} {m}"), &got[m], want, &case["tolerance"])).sum()
}

fn address(name: &str) -> Address {
    format!("{ADDRESS_START}{name}").parse().unwrap()
}

fn name(address: &Address) -> String {
    address.as_str().strip_prefix(ADDRESS_START).unwrap().to_owned()
}

/// Returns the members of `value` by address, converted by `read`. A missing value has no members.
fn members<T>(value: &Value, read: impl Fn(&Value) -> T) -> ByActor<T> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (address(name), read(value))).collect()
}

fn numbers(value: &Value) -> Values {
    value.as_array().unwrap().iter().map(parsed).collect()
}

fn pair_values(value: &Value) -> PairValues {
    PairValues::from_rows(&members(value, |row| members(row, parsed)))
}

/// Parses regrets. The rows of pairs do not say which role an actor has: each actor gets both.
fn read_regrets(value: &Value) -> Regrets {
    let pairwise = |value: &Value| {
        let pairs = pair_values(value);
        PairwiseRegrets { inferer: pairs.clone(), forecaster: pairs }
    };
    Regrets {
        ordinary: RoleValues {
            inferer: members(&value["inferer"], parsed),
            forecaster: members(&value["forecaster"], parsed),
        },
        naive: members(&value["naive_inferer"], parsed),
        one_out_inferer: pairwise(&value["one_out_inferer"]),
        one_out_forecaster: pairwise(&value["one_out_forecaster"]),
        one_in_forecaster: pairwise(&value["one_in_forecaster"]),
    }
}

fn params(algorithm: &Value, params: &Value) -> Params {
    let or = |name: &str, default: f64| params.get(name).map_or(default, parsed);
    Params {
        generation: algorithm.as_str().unwrap_or("mad-v0.17").parse().unwrap(),
        p_norm: or("p_norm", 3.0),
        c_norm: or("c_norm", 0.75),
        epsilon: or("epsilon", or("epsilon_topic", 0.01)),
        epsilon_safe_div: or("epsilon_safe_div", 1e-7),
        regret_scale: params.get("regret_scale").map(parsed),
    }
}

/// Computes the values of the epoch that `case` describes.
fn synthesized(case: &Value) -> Synthesis {
    let forecasts = members(&case["forecasted_losses_log10"], |losses| members(losses, parsed));
    let previous_loss = &case["previous_network_loss_log10"];
    let newcomer = case.get("default_regret").map_or(0.0, parsed);
    let is_new = case["all_inferers_new"] == true;
    let epoch = Epoch {
        params: &params(&case["algorithm"], &case["params"]),
        inferences: &members(&case["inferences"], numbers),
        forecasts: &forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect(),
        previous_loss: previous_loss.is_string().then(|| parsed(previous_loss)),
        regrets: &read_regrets(&case["regrets_after_previous_epoch"]),
        newcomers: if is_new { Newcomers::Everyone } else { Newcomers::WithRegret(newcomer) },
    };
    synthesize(&epoch).unwrap()
}

fn texts(values: &[f64]) -> Value {
    json!(values.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn lists(by_actor: &ByActor<Values>) -> Value {
    let lists = by_actor.iter().map(|(address, values)| (name(address), texts(values)));
    Value::Object(lists.collect())
}

/// Returns the results in the form of a case.
fn result(synthesis: &Synthesis) -> Value {
    let pairs = &synthesis.one_out_inferer_forecaster;
    let row = |(idx, forecaster): (usize, &Address)| {
        let row = pairs.row(idx).map(|(inferer, values)| (name(inferer), texts(values)));
        (name(forecaster), Value::Object(row.collect()))
    };
    let by_pair: Map<String, Value> = pairs.rows().iter().enumerate().map(row).collect();
    json!({
        "forecast_implied": lists(&synthesis.implied),
        "combined": texts(&synthesis.combined),
        "naive": texts(&synthesis.naive),
        "one_out_inferer": lists(&synthesis.one_out_inferer),
        "one_out_forecaster": lists(&synthesis.one_out_forecaster),
        "one_in_forecaster": lists(&synthesis.one_in_forecaster),
        "one_out_inferer_forecaster": by_pair,
        "confidence_interval_values":
            texts(synthesis.confidence_interval.first().map_or(&[][..], Vec::as_slice)),
    })
}

/// Synthesizes all cases in `text`, compares the results with the expected results, and returns the
/// count of compared numbers.
fn synthesize_all(text: &str) -> usize {
    let cases = wanted(text);
    let compared = cases
        .iter()
        .map(|case| check_members(case, &result(&synthesized(case)), &case["expected"]));
    compared.sum()
}

#[test]
fn synthesis_reproduces_the_generated_epochs() {
    let text = generated();
    assert_eq!(wanted(&text).len(), 40);
    let n_compared = synthesize_all(&text);
    assert!(n_compared > 1000, "only {n_compared} numbers were compared");
}

#[test]
fn synthesis_reproduces_the_epochs_of_upstream() {
    let Some(text) = upstream("synthesis_cases.json") else { return };
    let n_compared = synthesize_all(&text);
    assert!(n_compared > 100, "only {n_compared} numbers were compared");
}

#[test]
fn synthesis_of_a_single_inference_returns_the_inference_exactly() {
    let synthesis = synthesized(&json!({"inferences": {"alone": ["2605.5"]}}));
    assert_eq!((synthesis.combined, synthesis.naive), (vec![2605.5], vec![2605.5]));
    assert!(synthesis.one_out_inferer.is_empty() && synthesis.confidence_interval.is_empty());
}

/// The numbers are from the chain's own test at v0.17.
#[test]
fn forecast_implied_values_use_the_scale_of_the_forecasted_losses_if_no_regrets_are_stored() {
    let text = r#"{"cases":[{"params":{"epsilon_topic":"1e-4","p_norm":"2.0"},
        "inferences":{"worker0":["1"],"worker1":["2"]}, "previous_network_loss_log10":"0.5",
        "forecasted_losses_log10":{"forecaster0":{"worker0":"3","worker1":"4"}}},
        {"params":{"epsilon_topic":"1e-4","p_norm":"2.0"},
        "inferences":{"worker0":["1"],"worker1":["2"],"worker2":["3"]},
        "previous_network_loss_log10":"0.5", "forecasted_losses_log10":{
            "worker0":{"worker0":"1","worker1":"2","worker2":"3"},
            "worker1":{"worker0":"4","worker1":"5","worker2":"6"}}}]}"#;
    let implied: Vec<f64> = wanted(text)
        .iter()
        .flat_map(|case| synthesized(case).implied.into_values().flatten())
        .collect();
    let wanted = [1.063_129_668_414_686, 1.317_025_398_914_865, 1.297_477_844_022_704];
    for (got, want) in implied.iter().zip(wanted) {
        assert!((got - want).abs() < 1e-4, "{got} {want}");
    }
    assert_eq!(implied.len(), wanted.len());
}

#[test]
fn inferer_and_forecaster_with_the_same_name_are_two_actors() {
    let synthesis = synthesized(&json!({
        "inferences": {"both": ["1"], "b": ["3"]},
        "previous_network_loss_log10": "-1",
        "forecasted_losses_log10": {"both": {"both": "-3", "b": "0"}},
        "regrets_after_previous_epoch": {
            "inferer": {"both": "0.5", "b": "0.1"}, "forecaster": {"both": "2"}},
    }));
    let names = |weights: &ByActor<f64>| weights.keys().map(name).collect::<Vec<_>>();
    assert_eq!(names(&synthesis.inferer_weights), ["b", "both"]);
    assert_eq!(names(&synthesis.forecaster_weights), ["both"]);
    let (inferers, forecasters) = (&synthesis.inferer_weights, &synthesis.forecaster_weights);
    let sum: f64 = inferers.values().chain(forecasters.values()).sum();
    assert!((sum - 1.0).abs() < 1e-12);
}
