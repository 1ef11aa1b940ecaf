//! Cases: single epochs as files, to reckon with by hand.
//!
//! A file holds one case, or several as `{"cases":[…]}`. Numbers are decimal texts; JSON numbers
//! are taken, too, with the digits they were written with. Members beside those here are passed
//! over, so a case may carry notes and tolerances.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error as _},
};
use serde_json::value::RawValue;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Object, RefOr, Type, schema::SchemaType},
};

/// A decimal number, as the text it was written as.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Decimal(pub String);

/// A decimal for each actor, by its name.
pub type Decimals = BTreeMap<String, Decimal>;

/// The members of an object by name, where the names alone matter.
pub type Names = BTreeMap<String, serde_json::Value>;

/// One decimal for each label, for each actor.
pub type Lists = BTreeMap<String, Vec<Decimal>>;

impl PartialSchema for Decimal {
    fn schema() -> RefOr<utoipa::openapi::Schema> {
        let kinds = SchemaType::from_iter([Type::String, Type::Number]);
        let about = "A decimal number, as text or as a number, kept digit by digit.";
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

/// The settings of a case's weights.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct CaseParams {
    /// What keeps the scale of regrets from zero.
    pub epsilon_topic: Option<Decimal>,
    /// What keeps a sum of weights from zero.
    pub epsilon_safe_div: Option<Decimal>,
    /// How sharply the best are preferred.
    pub p_norm: Option<Decimal>,
    /// The center of the weights' potential.
    pub c_norm: Option<Decimal>,
    /// The scale stored with the regrets, if any.
    pub regret_scale: Option<Decimal>,
}

/// Regrets of every family.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CaseRegrets {
    /// The inferers', against the combined value.
    pub inferer: Decimals,
    /// The forecasters', against the combined value.
    pub forecaster: Decimals,
    /// The inferers', against the naive value.
    pub naive_inferer: Decimals,
    /// Everybody's, without the inferer that is the key.
    pub one_out_inferer: BTreeMap<String, Decimals>,
    /// Everybody's, without the forecaster that is the key.
    pub one_out_forecaster: BTreeMap<String, Decimals>,
    /// The inferers' and its own, with the forecaster that is the key alone.
    pub one_in_forecaster: BTreeMap<String, Decimals>,
}

/// One epoch to combine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct SynthesisCase {
    /// What it is called.
    pub name: String,
    /// `mad-v0.17` or `stdev-oct2024`; the first where it does not say.
    pub algorithm: Option<String>,
    /// The settings of the weights.
    pub params: CaseParams,
    /// The labels, in the order of each inference's numbers.
    pub labels: Vec<String>,
    /// Who infers; everybody who has an inference, where this is empty.
    pub inferers: Vec<String>,
    /// Who forecasts; everybody who has a forecast, where this is empty.
    pub forecasters: Vec<String>,
    /// The combined value's loss in the epoch before, if there was one.
    pub previous_network_loss_log10: Option<Decimal>,
    /// The regret of an actor that has none.
    pub default_regret: Option<Decimal>,
    /// Whether nobody has a regret yet.
    pub all_inferers_new: bool,
    /// The regrets of every actor before this epoch.
    pub regrets_after_previous_epoch: CaseRegrets,
    /// What each inferer submitted.
    pub inferences: Lists,
    /// The loss that each forecaster expects of each inferer.
    pub forecasted_losses_log10: BTreeMap<String, Decimals>,
    /// What somebody else computed: its members say what is asked for.
    pub expected: Option<Names>,
}

/// What a synthesis case comes to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SynthesisResult {
    /// What each forecaster implies.
    pub forecast_implied: Lists,
    /// Inferers and forecasters.
    pub combined: Vec<Decimal>,
    /// The values combined from inferers alone.
    pub naive: Vec<Decimal>,
    /// Combined without each inferer.
    pub one_out_inferer: Lists,
    /// Combined without each forecaster.
    pub one_out_forecaster: Lists,
    /// The inferers with each forecaster alone.
    pub one_in_forecaster: Lists,
    /// What each forecaster implies without each inferer.
    pub one_out_inferer_forecaster: BTreeMap<String, Lists>,
    /// The percentiles of the first label's values; empty without weights.
    pub confidence_interval_values: Vec<Decimal>,
}

/// Reads the cases in `text`: one, or several as `{"cases":[…]}`.
///
/// # Errors
/// If it is no JSON, or a case is not a `T`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Several {
        cases: Option<Vec<Box<RawValue>>>,
    }
    let several: Several = serde_json::from_str(text)?;
    match several.cases {
        Some(cases) => cases.iter().map(|case| serde_json::from_str(case.get())).collect(),
        None => Ok(vec![serde_json::from_str(text)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_digits_however_it_is_written() {
        let text = r#"{"inferences":{"a":["2605.50","1e-7"],"b":[0.10,-12345678901234567890.5]}}"#;
        let cases: Vec<SynthesisCase> = read(text).unwrap();
        let texts = |name: &str| -> Vec<&str> {
            cases[0].inferences[name].iter().map(|number| number.0.as_str()).collect()
        };
        assert_eq!(texts("a"), ["2605.50", "1e-7"]);
        assert_eq!(texts("b"), ["0.10", "-12345678901234567890.5"]);
        assert!(read::<SynthesisCase>(r#"{"inferences":{"a":[null]}}"#).is_err());
    }

    #[test]
    fn one_case_or_several_are_read() {
        let names = |text: &str| -> Vec<String> {
            read::<SynthesisCase>(text).unwrap().into_iter().map(|case| case.name).collect()
        };
        assert_eq!(names(r#"{"name":"one","tolerance":{}}"#), ["one"]);
        assert_eq!(names(r#"{"cases":[{"name":"a"},{"name":"b"}]}"#), ["a", "b"]);
        assert!(names(r#"{"cases":[]}"#).is_empty());
        assert!(read::<SynthesisCase>("[1").is_err());
    }
}
