//! `triptych inference synthesize`: computes the results of cases.

use serde_json::{Value, json};

use crate::support::ROOT;
use crate::support::command::Home;

/// Returns the names of the members of `value`, in order.
fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn synthesize_command_prints_all_members_for_the_recorded_epochs() {
    let path = format!("{ROOT}/tests/data/inference/generated.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let told = Home::new().run_ok(&["inference", "synthesize", &path]);
    let told: Value = serde_json::from_str(&told).unwrap();
    let (got, want) = (told["cases"].as_array().unwrap(), recorded["cases"].as_array().unwrap());
    assert_eq!(got.len(), want.len());
    for (got, case) in got.iter().zip(want) {
        assert_eq!(got["name"], case["name"]);
        let mut wanted = members(&case["expected"]);
        wanted.push("name");
        wanted.sort_unstable();
        assert_eq!(members(got), wanted);
        let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
        let (combined, recorded) = (&got["combined"][0], &case["expected"]["combined"][0]);
        let error = (number(combined) - number(recorded)).abs() / number(recorded).abs();
        assert!(error < 1e-9, "{} is off by {error}", case["name"]);
    }
}

#[test]
fn synthesize_command_explains_a_case_from_standard_input() {
    let home = Home::new();
    let case = json!({"name": "by hand", "inferences": {"ann": ["1.50"], "ben": ["2.5"]},
        "regrets_after_previous_epoch": {"inferer": {"ann": "0.5", "ben": "0.5"}}});
    let text = case.to_string();
    let said = home.run_with(&["inference", "synthesize", "-"], text.as_bytes());
    let told: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(told["cases"][0]["combined"], json!(["2"]), "{said:?}");
    let said = home.run_with(&["inference", "synthesize", "--explain"], text.as_bytes());
    for want in ["by hand", "ann    inferer  0.500000", "50.00 %  1.50", "combined"] {
        assert!(said.out.contains(want), "`{want}` is in {}", said.out);
    }
}

#[test]
fn synthesize_command_rejects_an_invalid_case() {
    let home = Home::new();
    home.write("bad.json", br#"{"cases":[{"name":"bad","inferences":{"a":["much"]}}]}"#);
    let why = home.run_err(&["inference", "synthesize", "bad.json"]);
    assert!(why.contains("invalid case 1 `bad`: "), "{why}");
    home.write("typo.json", br#"{"inferences":{"ann":["1"]},"forcasts":{}}"#);
    let why = home.run_err(&["inference", "synthesize", "typo.json"]);
    assert!(why.contains("unknown field `forcasts`, expected one of `name`"), "{why}");
    assert!(
        home.run_err(&["inference", "synthesize", "none.json"]).contains("cannot read none.json")
    );
}
