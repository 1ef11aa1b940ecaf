use super::*;

/// Parses a program's response for a topic with these labels.
fn read(line: &str, labels: &[&str]) -> anyhow::Result<Option<SubmissionBody>> {
    let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
    submission(line, &labels)
}

#[track_caller]
fn check(line: &str, labels: &[&str], want: &str) {
    let got = read(line, labels).unwrap().unwrap();
    assert_eq!(serde_json::to_string(&got).unwrap(), want, "{line}");
}

#[test]
fn program_can_respond_with_nothing_or_a_value_or_labeled_values_or_a_forecast() {
    check(r#"{"value":42.50}"#, &["y"], r#"{"value":"42.50"}"#);
    check(
        r#"{"values":{"up":"0.5","down":0.5}}"#,
        &["up", "down"],
        r#"{"values":{"down":"0.5","up":"0.5"}}"#,
    );
    check(r#"{"forecast":{"allo1a":-2}}"#, &["y"], r#"{"forecast":{"allo1a":"-2"}}"#);
    assert_eq!(read(" {} ", &["y"]).unwrap(), None);
}

#[test]
fn invalid_response_is_reported_with_the_expected_format() {
    for line in [
        "",
        "42.5",
        "NaN",
        "[1]",
        "null",
        r#"{"value":null}"#,
        r#"{"value":NaN}"#,
        r#"{"value":"NaN"}"#,
        r#"{"value":"much"}"#,
        r#"{"value":[1]}"#,
        r#"{"value":1,"nonce":7}"#,
        r#"{"valeu":1}"#,
        r#"{"value":1,"values":{"up":1}}"#,
        r#"{"values":{}}"#,
    ] {
        let error = format!("{:#}", read(line, &["y"]).unwrap_err());
        let want = r#"expected {"value":42.5}, or {} for no submission"#;
        assert_eq!(error, format!("the program printed `{line}`, {want}"));
    }
    for line in [r#"{"value":1}"#, r#"{"values":{"up":null}}"#, r#"{"values":[0.5,0.5]}"#] {
        let error = format!("{:#}", read(line, &["up", "down"]).unwrap_err());
        let want = r#"expected {"values":{"up":0.5,"down":0.3}}, or {} for no submission"#;
        assert_eq!(error, format!("the program printed `{line}`, {want}"));
    }
}

#[test]
fn pause_after_a_failure_ends_no_later_than_the_next_window_opens() {
    let [short, wait, long] = [7, 20, 60].map(Duration::from_secs);
    assert_eq!(pause(wait, long), wait);
    assert_eq!(pause(wait, short), short);
    assert_eq!(pause(wait, Duration::ZERO), LOOK_EVERY_MIN);
}

#[test]
fn rows_hidden_from_the_key_are_reported_with_the_command_for_the_public_tag() {
    let refused = |status, message: &str| {
        let error = ClientError::Refused { status, message: message.to_owned() };
        unreadable("price", &error).to_string()
    };
    let hidden = refused(404, "dataset not found");
    assert!(hidden.contains("dataset not found; the key might lack"), "{hidden}");
    assert!(hidden.contains("`triptych datasets tags --acquire public`"), "{hidden}");
    let broken = refused(500, "disk is full");
    assert!(broken.ends_with("disk is full"), "{broken}");
}
