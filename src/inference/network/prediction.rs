//! Predictions: what a predictor prints on its standard output.
//!
//! One JSON line: `{"value":"103.42"}`, or `{"values":{"up":"0.42","down":"0.31","flat":"0.27"}}`.
//! Numbers may be texts or numbers.

use serde_json::Value;

use model::topic::SINGLE_LABEL;

/// Why an output holds no prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionError {
    /// Nothing was printed.
    #[error("the output is empty")]
    Nothing,
    /// The last line is no JSON.
    #[error("the last line of the output is not JSON")]
    Json(#[source] serde_json::Error),
    /// The JSON is something else.
    #[error(
        "the last line of the output is not of the form {{\"value\":42.5}} or {{\"values\":{{…}}}}"
    )]
    Shape,
}

/// Returns the values by label in `stdout`, as their texts. The last line counts; a single value
/// has the label of topics with one output.
///
/// # Errors
/// A [`PredictionError`] if that line holds none.
pub fn parse(stdout: &str) -> Result<Vec<(String, String)>, PredictionError> {
    let line = stdout.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.ok_or(PredictionError::Nothing)?;
    let object: Value = serde_json::from_str(line).map_err(PredictionError::Json)?;
    if let Some(value) = object.get("value") {
        return Ok(vec![(SINGLE_LABEL.to_owned(), text(value)?)]);
    }
    let values = object.get("values").and_then(Value::as_object).ok_or(PredictionError::Shape)?;
    values.iter().map(|(label, value)| Ok((label.clone(), text(value)?))).collect()
}

fn text(value: &Value) -> Result<String, PredictionError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err(PredictionError::Shape),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stdout: &str, want: Option<&[(&str, &str)]>) {
        let owned = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
        let want = want.map(|pairs| pairs.iter().map(owned).collect::<Vec<_>>());
        assert_eq!(parse(stdout).ok(), want, "{stdout}");
    }

    #[test]
    fn the_last_line_counts() {
        check("{\"value\":\"103.420\"}\n", Some(&[("y", "103.420")]));
        check("loading\n{\"value\":2.5}\n\n", Some(&[("y", "2.5")]));
        check(r#"{"values":{"up":"0.4","down":0.6}}"#, Some(&[("down", "0.6"), ("up", "0.4")]));
    }

    #[test]
    fn anything_else_is_no_prediction() {
        for stdout in ["", "\n", "103.42", "{}", r#"{"value":null}"#, r#"{"values":[1]}"#, "{"] {
            check(stdout, None);
        }
    }
}
