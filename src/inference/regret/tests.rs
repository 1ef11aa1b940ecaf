//! Regrets against recorded ones, where upstream's vectors lie beside the project, and by hand.

use std::{fs, path::PathBuf};

use serde_json::Value;

use super::*;
use crate::{score, synthesis::weights::Generation};

const PARAMS: Params = Params {
    generation: Generation::MadV017,
    p_norm: 3.0,
    c_norm: 0.75,
    epsilon: 1e-4,
    epsilon_safe_div: 1e-7,
    regret_scale: None,
};

fn address(name: &str) -> Address {
    format!("allo1{name}").parse().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

fn family(value: &Value) -> Family {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (address(name), number(value))).collect()
}

fn standing(value: &Value) -> Standing {
    let (inferer, forecaster) =
        family(value).into_iter().partition(|(name, _)| name.as_str().contains("inferer"));
    Standing { inferer, forecaster }
}

fn standings(value: &Value) -> BTreeMap<Address, Standing> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (address(name), standing(value))).collect()
}

fn regrets(value: &Value) -> Regrets {
    Regrets {
        ordinary: Standing {
            inferer: family(&value["inferer"]),
            forecaster: family(&value["forecaster"]),
        },
        naive: family(&value["naive_inferer"]),
        one_out_inferer: standings(&value["one_out_inferer"]),
        one_out_forecaster: standings(&value["one_out_forecaster"]),
        one_in_forecaster: standings(&value["one_in_forecaster"]),
    }
}

fn losses(value: &Value) -> Losses {
    let nested = value["one_out_inferer_forecaster"].as_object().into_iter().flatten();
    Losses {
        combined: number(&value["combined"]),
        naive: number(&value["naive"]),
        inferer: family(&value["inferer"]),
        forecaster: family(&value["forecaster"]),
        one_out_inferer: family(&value["one_out_inferer"]),
        one_out_forecaster: family(&value["one_out_forecaster"]),
        one_in_forecaster: family(&value["one_in_forecaster"]),
        one_out_inferer_forecaster: nested.map(|(k, v)| (address(k), family(v))).collect(),
    }
}

/// Every regret under a name of its own.
fn flat(regrets: &Regrets) -> BTreeMap<String, f64> {
    let mut flat = BTreeMap::new();
    let mut add = |family: &str, standing: &Standing| {
        for (name, regret) in standing.inferer.iter().chain(&standing.forecaster) {
            flat.insert(format!("{family} {name}"), *regret);
        }
    };
    add("ordinary", &regrets.ordinary);
    add("naive", &Standing { inferer: regrets.naive.clone(), ..Standing::default() });
    for (family, standings) in [
        ("one out inferer", &regrets.one_out_inferer),
        ("one out forecaster", &regrets.one_out_forecaster),
        ("one in forecaster", &regrets.one_in_forecaster),
    ] {
        for (name, standing) in standings {
            add(&format!("{family} {name}"), standing);
        }
    }
    flat
}

#[track_caller]
fn check(what: &str, got: &BTreeMap<String, f64>, want: &BTreeMap<String, f64>, tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (name, want) in want {
        let got = got[name];
        let error = (got - want).abs() / want.abs().max(1e-12);
        assert!(error <= tolerance, "{what} {name}: got {got}, want {want}");
    }
}

#[test]
fn the_regrets_and_scores_of_upstream_are_reproduced_where_they_lie() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/vectors/inference/upstream/regret_cases.json");
    let Ok(text) = fs::read_to_string(path) else { return };
    let file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let what = case["name"].as_str().unwrap();
        let tolerance = number(&case["tolerance"]["value"]);
        let losses = losses(&case["network_losses"]);
        let mut got = regrets(&case["previous"]);
        got.learn(&losses, Pace { alpha: number(&case["alpha_regret"]), initial: 0.0 });
        check(what, &flat(&got), &flat(&regrets(&case["expected"])), tolerance);
        let scores = &case["expected_scores"];
        for (family, got) in
            [("inferer", score::inferers(&losses)), ("forecaster", score::forecasters(&losses))]
        {
            let named = |family: Family| -> BTreeMap<String, f64> {
                family.into_iter().map(|(name, score)| (name.to_string(), score)).collect()
            };
            check(what, &named(got), &named(self::family(&scores[family])), tolerance);
        }
    }
}

#[test]
fn a_regret_moves_a_part_of_the_way() {
    let mut regrets = Regrets::default();
    regrets.ordinary.inferer.insert(address("a"), 200.0);
    regrets.ordinary.inferer.insert(address("absent"), 3.0);
    let losses = Losses {
        combined: 500.0,
        inferer: Family::from([(address("a"), 200.0), (address("new"), 500.0)]),
        ..Losses::default()
    };
    regrets.learn(&losses, Pace { alpha: 0.1, initial: 7.0 });
    let of = |name: &str| regrets.ordinary.inferer[&address(name)];
    assert!((of("a") - 210.0).abs() < 1e-9);
    assert!((of("new") - 6.3).abs() < 1e-9);
    assert!((of("absent") - 3.0).abs() < 1e-9);
}

#[test]
fn a_newcomer_starts_low_among_the_experienced() {
    let experienced = [
        0.644_550_620_802_118_9,
        1.021_638_689_841_348_5,
        0.609_204_939_813_502_8,
        0.697_158_800_456_645_5,
        0.903_075_142_188_825_3,
        0.821_903_503_885_834_4,
    ];
    let crowd = Crowd { experienced: &experienced, all: &experienced, n_min: 6 };
    let got = initial_regret(crowd, &PARAMS).unwrap();
    assert!((got - 0.335_482_076_052_642_1).abs() < 1e-5, "{got}");
}

#[test]
fn with_few_experienced_a_newcomer_starts_at_the_lower_quartile_of_all() {
    let all = [4.0, 1.0, 2.0, 3.0, 5.0];
    let crowd = Crowd { experienced: &all[..2], all: &all, n_min: 5 };
    assert_eq!(initial_regret(crowd, &PARAMS), Some(2.0));
    assert_eq!(initial_regret(Crowd { n_min: 6, ..crowd }, &PARAMS), None);
}

#[test]
fn ten_epochs_make_experience_at_a_tenth() {
    assert!(is_experienced(10, 0.1));
    assert!(!is_experienced(9, 0.1));
}
