//! Compares the results of whole epochs with recorded results. The results are computed by the same
//! function as in `triptych inference synthesize`.
//!
//! `tests/data/inference/generated.json` is part of the project. Test vectors of the chain are compared
//! only if their files exist.

mod regrets;
mod upstream_units;

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use wire::inference::cases::read;

use super::*;

/// Returns the content of a file with the chain's test vectors, if it exists.
fn upstream(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/vectors/inference/upstream")
        .join(name);
    let mut file: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).unwrap();
    // The numbers of the epochs are not part of a case.
    for case in file["cases"].as_array_mut().into_iter().flatten() {
        let case = case.as_object_mut().unwrap();
        case.retain(|member, _| !matches!(member.as_str(), "previous_epoch" | "current_epoch"));
    }
    Some(file.to_string())
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
            let names = |map: &serde_json::Map<String, Value>| -> Vec<String> {
                map.keys().cloned().collect()
            };
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

/// Synthesizes all cases in `text`, compares the results with the expected results, and returns the
/// count of compared numbers.
fn synthesize_all(text: &str) -> usize {
    let cases: Vec<SynthesisCase> = read(text).unwrap();
    let wanted = wanted(text);
    assert_eq!(cases.len(), wanted.len());
    let compared = cases.iter().zip(&wanted).map(|(case, want)| {
        check_members(want, &synthesized(case).unwrap().result, &want["expected"])
    });
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
    let text = r#"{"inferences":{"Nobody else":["2605.500000000000000000001"]}}"#;
    let case: Vec<SynthesisCase> = read(text).unwrap();
    let result = synthesized(&case[0]).unwrap().result;
    assert_eq!(result.combined[0].0, "2605.500000000000000000001");
    assert!(result.one_out_inferer.is_empty() && result.confidence_interval_values.is_empty());
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
    let cases: Vec<SynthesisCase> = read(text).unwrap();
    let implied: Vec<f64> = cases
        .iter()
        .flat_map(|case| synthesized(case).unwrap().result.forecast_implied.into_values())
        .map(|values| values[0].0.parse().unwrap())
        .collect();
    let wanted = [1.063_129_668_414_686, 1.317_025_398_914_865, 1.297_477_844_022_704];
    for (got, want) in implied.iter().zip(wanted) {
        assert!((got - want).abs() < 1e-4, "{got} {want}");
    }
    assert_eq!(implied.len(), wanted.len());
}

#[test]
fn invalid_synthesis_cases_are_rejected() {
    let error = |text: &str| {
        let cases: Vec<SynthesisCase> = read(text).unwrap();
        task::causes::chain(&synthesized(&cases[0]).unwrap_err())
    };
    assert_eq!(error("{}"), "no inferences found");
    assert!(error(r#"{"algorithm":"median"}"#).contains("`median`"));
    assert!(error(r#"{"inferences":{"a":["two"]}}"#).contains("inference of a `two`"));
    let uneven = r#"{"inferences":{"a":["1"],"b":["1","2"]}}"#;
    assert_eq!(error(uneven), "b has 2 values, expected 1");
    for (members, want) in [
        (r#""params":{"p_norm":"0"}"#, "p_norm must be above 0"),
        (r#""params":{"epsilon_topic":"0"}"#, "epsilon_topic must be above 0"),
        (r#""params":{"regret_scale":"-1"}"#, "regret_scale must be at least 0"),
        (r#""default_regret":"1e308""#, "expected a decimal number up to 1e40"),
        (r#""inferers":["a","b"]"#, "invalid inferers `b`"),
        (r#""inferers":["a","a"]"#, "invalid inferers `a`"),
        (r#""forecasters":["a"]"#, "invalid forecasters `a`"),
        (
            r#""labels":["up","down"]"#,
            "an inference has 1 values, expected one for each of 2 labels",
        ),
    ] {
        let text = format!(r#"{{"inferences":{{"a":["1"]}},{members}}}"#);
        assert!(error(&text).contains(want), "{}", error(&text));
    }
}

#[test]
fn inferer_and_forecaster_with_the_same_name_are_two_actors() {
    let text = r#"{"inferences":{"both":["1"],"b":["3"]}, "previous_network_loss_log10":"-1",
        "forecasted_losses_log10":{"both":{"both":"-3","b":"0"}},
        "regrets_after_previous_epoch":{
            "inferer":{"both":"0.5","b":"0.1"},"forecaster":{"both":"2"}}}"#;
    let cases: Vec<SynthesisCase> = read(text).unwrap();
    let result = synthesized(&cases[0]).unwrap();
    let roles: Vec<_> = result.actors.iter().map(|a| (a.name.as_str(), a.role, a.regret)).collect();
    let want = [
        ("b", Role::Inferer, Some(0.1)),
        ("both", Role::Inferer, Some(0.5)),
        ("both", Role::Forecaster, Some(2.0)),
    ];
    assert_eq!(roles, want);
    let sum: f64 = result.actors.iter().map(|actor| actor.share).sum();
    assert!((sum - 1.0).abs() < 1e-12);
}
