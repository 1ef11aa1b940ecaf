use super::*;

#[track_caller]
fn check(line: &str, want: Option<&str>) {
    let got = submission(line, 12, Some("mine")).ok().flatten();
    let got = got.map(|body| serde_json::to_string(&body).unwrap());
    assert_eq!(got.as_deref(), want, "{line}");
}

#[test]
fn an_answer_is_a_value_values_a_forecast_or_nothing() {
    check(r#"{"value":42.50}"#, Some(r#"{"nonce":"12","model":"mine","value":"42.50"}"#));
    check(
        r#"{"values":{"up":"0.5","down":0.5}}"#,
        Some(r#"{"nonce":"12","model":"mine","values":{"down":"0.5","up":"0.5"}}"#),
    );
    check(
        r#"{"forecast":{"allo1a":-2}}"#,
        Some(r#"{"nonce":"12","model":"mine","forecast":{"allo1a":"-2"}}"#),
    );
    assert_eq!(submission("{}", 12, None).unwrap(), None);
}

#[test]
fn anything_else_is_refused_with_what_it_was() {
    for line in [
        "",
        "42.5",
        "NaN",
        r#"{"value":1,"nonce":7}"#,
        r#"{"valeu":1}"#,
        r#"{"value":1,"values":{"up":1}}"#,
    ] {
        let error = format!("{:#}", submission(line, 12, None).unwrap_err());
        assert!(error.starts_with("read the program's answer"), "{error}");
    }
}
