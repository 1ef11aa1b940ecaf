use super::*;

fn one(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[test]
fn only_allowed_variables_are_passed() {
    let allowed = ["COLOR".to_owned()].into();
    assert_eq!(check(&one("COLOR", "x"), &allowed), Ok(()));
    assert_eq!(check(&BTreeMap::new(), &BTreeSet::new()), Ok(()));
    for name in ["LD_PRELOAD", "BASH_ENV", "color", "COLORS"] {
        let error = check(&one(name, "x"), &allowed).unwrap_err();
        assert_eq!(error, VariableError::NotAllowed { name: name.to_owned() });
    }
}

#[test]
fn invalid_variable_name_is_rejected() {
    for name in [
        "",
        "A=B",
        "A;B",
        "A B",
        "1A",
        "A\n",
        "A\nLD_PRELOAD",
        "A\0",
        "BASH_FUNC_ls%%",
        "A.B",
        "A-B",
        "Ä",
        "A\u{202e}",
    ] {
        let error = check(&one(name, "x"), &[name.to_owned()].into()).unwrap_err();
        assert_eq!(error, VariableError::Name { name: name.to_owned() });
        // Names are escaped for terminals and logs.
        assert!(!error.to_string().contains(['\n', '\0', '\u{202e}']), "{error}");
    }
    let long = check(&one(&"-".repeat(1000), "x"), &BTreeSet::new()).unwrap_err();
    assert_eq!(long, VariableError::Name { name: "-".repeat(SHOWN_CHARS_MAX) });
}

#[test]
fn value_of_a_variable_can_contain_anything_but_nul() {
    let allowed = ["A".to_owned()].into();
    check(&one("A", "\u{1b}[2J\n$(id) `id` ;="), &allowed).unwrap();
    let error = check(&one("A", "a\0b"), &allowed).unwrap_err();
    assert_eq!(error, VariableError::Value { name: "A".to_owned() });
}

#[test]
fn allowed_variables_are_passed_and_listed() {
    let variables = ["PEER_ID", "COLOR", "_a", "env", "home", "A1", "HOMEPAGE", "PATHS", "LANGS"];
    let variables: BTreeMap<_, _> =
        variables.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
    check(&variables, &variables.keys().cloned().collect()).unwrap();
    let environment = with_listed(&variables);
    let listed = environment.get("BLS_LIST_VARS").map(String::as_str);
    assert_eq!(listed, Some("A1;COLOR;HOMEPAGE;LANGS;PATHS;PEER_ID;_a;env;home"));
    assert_eq!(environment.len(), variables.len() + FIXED.len() + 1);
}
