//! Cases: files that describe single epochs. A command computes their results without a service.
//!
//! A file contains one case, or several cases as `{"cases":[…]}`. Numbers are decimal texts, or JSON
//! numbers whose digits are preserved. Unknown fields are rejected.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Object, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

/// Decimal number as written in its file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Decimal(pub String);

/// A decimal for each actor.
pub type Decimals = BTreeMap<String, Decimal>;

/// For each actor, one decimal for each label.
pub type Lists = BTreeMap<String, Vec<Decimal>>;

impl PartialSchema for Decimal {
    fn schema() -> RefOr<utoipa::openapi::Schema> {
        let kinds = SchemaType::from_iter([Type::String, Type::Number]);
        let about = "Decimal number as text or number, whose digits are preserved.";
        Object::builder().schema_type(kinds).description(Some(about)).into()
    }
}

impl ToSchema for Decimal {}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = raw.get();
        match text.chars().next() {
            Some('"') => serde_json::from_str(text).map(Self).map_err(D::Error::custom),
            Some('-' | '0'..='9') => Ok(Self(text.to_owned())),
            _ => Err(D::Error::custom("expected a decimal number")),
        }
    }
}

/// Settings with which a case computes weights.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseParams {
    /// Number added to the scale of regrets.
    pub epsilon_topic: Option<Decimal>,
    /// Minimum divisor of a weighted mean.
    pub epsilon_safe_div: Option<Decimal>,
    /// Preference for the best actors.
    pub p_norm: Option<Decimal>,
    /// Regret, in units of the scale, above which weights increase steeply.
    pub c_norm: Option<Decimal>,
    /// Scale that was stored with the regrets, if any.
    pub regret_scale: Option<Decimal>,
}

/// Regrets of actors, grouped by the value against which they are measured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseRegrets {
    /// Regrets of inferers against the combined value.
    pub inferer: Decimals,
    /// Regrets of forecasters against the combined value.
    pub forecaster: Decimals,
    /// Regrets of inferers against the naive value.
    pub naive_inferer: Decimals,
    /// Keyed by inferer: the regrets of all actors if this inferer is left out.
    pub one_out_inferer: BTreeMap<String, Decimals>,
    /// Keyed by forecaster: the regrets of all actors if this forecaster is left out.
    pub one_out_forecaster: BTreeMap<String, Decimals>,
    /// Keyed by forecaster: the regrets of the inferers and of this forecaster if it is the only
    /// forecaster.
    pub one_in_forecaster: BTreeMap<String, Decimals>,
}

/// An epoch for which values are to be combined.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SynthesisCase {
    /// Name of the case.
    pub name: String,
    /// `mad-v0.17` (default) or `stdev-oct2024`.
    pub algorithm: Option<String>,
    /// Settings of the weights.
    pub params: CaseParams,
    /// Labels, in the order of the numbers in each inference.
    pub labels: Vec<String>,
    /// Addresses of the inferers. If empty, all actors that have an inference.
    pub inferers: Vec<String>,
    /// Addresses of the forecasters. If empty, all actors that have a forecast.
    pub forecasters: Vec<String>,
    /// Loss of the combined value in the previous epoch, if any, as a logarithm to base 10.
    pub previous_network_loss_log10: Option<Decimal>,
    /// Regret that is used for an actor without a regret.
    pub default_regret: Option<Decimal>,
    /// True if no actor has a regret yet.
    pub all_inferers_new: bool,
    /// Regrets of all actors before this epoch.
    pub regrets_after_previous_epoch: CaseRegrets,
    /// Inference of each inferer.
    pub inferences: Lists,
    /// Keyed by forecaster: the loss that it predicts for each inferer, as a logarithm to base 10.
    pub forecasted_losses_log10: BTreeMap<String, Decimals>,
    /// Expected results. If present, only results that have a field here are returned.
    pub expected: Option<BTreeMap<String, serde_json::Value>>,
    /// Tolerance for comparisons with the expected results. Not used here.
    pub tolerance: Option<serde_json::Value>,
}

/// Parses the cases in `text`: one case, or several cases as `{"cases":[…]}`.
///
/// # Errors
/// The error of serde if the text is not JSON or has an invalid case.
pub fn read(text: &str) -> Result<Vec<SynthesisCase>, serde_json::Error> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
    let Some(cases) = members.remove("cases") else { return Ok(vec![serde_json::from_str(text)?]) };
    if let Some(other) = members.keys().next() {
        return Err(serde_json::Error::custom(format!("unknown field `{other}` next to `cases`")));
    }
    let cases: Vec<Box<RawValue>> = serde_json::from_str(cases.get())?;
    cases.iter().map(|case| serde_json::from_str(case.get())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_cases_are_parsed_with_all_their_digits() {
        let text = r#"{"inferences":{"a":["2605.50","1e-7"],"b":[0.10,-12345678901234567890.5]}}"#;
        let cases = read(text).unwrap();
        let texts = |name: &str| -> Vec<&str> {
            cases[0].inferences[name].iter().map(|number| number.0.as_str()).collect()
        };
        assert_eq!(texts("a"), ["2605.50", "1e-7"]);
        assert_eq!(texts("b"), ["0.10", "-12345678901234567890.5"]);
        assert!(read(r#"{"inferences":{"a":[null]}}"#).is_err());
    }

    #[test]
    fn file_of_one_or_several_cases_is_parsed() {
        let names = |text: &str| -> Vec<String> {
            read(text).unwrap().into_iter().map(|case| case.name).collect()
        };
        assert_eq!(names(r#"{"name":"one","tolerance":{}}"#), ["one"]);
        assert_eq!(names(r#"{"cases":[{"name":"a"},{"name":"b"}]}"#), ["a", "b"]);
        assert!(names(r#"{"cases":[]}"#).is_empty());
        assert!(read("[1").is_err());
    }

    #[test]
    fn unknown_members_of_cases_are_rejected() {
        for text in [
            r#"{"inferences":{},"forcasts":{}}"#,
            r#"{"cases":[{"regrets":{}}]}"#,
            r#"{"cases":[],"inferences":{}}"#,
            r#"{"params":{"p":"3"}}"#,
            r#"{"regrets_after_previous_epoch":{"inferers":{}}}"#,
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with("unknown field"), "{error}");
        }
    }
}
