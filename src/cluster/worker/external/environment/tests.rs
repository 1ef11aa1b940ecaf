use super::*;

fn one(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

#[track_caller]
fn refused(name: &str) {
    let error = check(&one(name, "x")).unwrap_err();
    assert_eq!(error, VariableError::Refused { name: name.to_owned() });
}

#[test]
fn names_of_options_folders_and_programs_are_refused() {
    for &suffix in REFUSED_SUFFIXES {
        refused(&format!("TOOL{suffix}"));
    }
    for name in ["TAR_OPTIONS", "MAKEFLAGS", "CARGO_HOME", "SSLKEYLOGFILE", "ASAN_OPTIONS"] {
        refused(name);
    }
}

#[test]
fn every_name_in_the_list_is_refused() {
    for name in REFUSED_NAMES.iter().flat_map(|names| names.split(' ')) {
        refused(name);
        // Another name, which nobody reads.
        check(&one(&format!("MY_{name}_X"), "x")).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn every_family_in_the_list_is_refused() {
    for prefix in REFUSED_PREFIXES.iter().flat_map(|all| all.split(' ')) {
        refused(prefix);
        refused(&format!("{prefix}X"));
    }
}

#[test]
fn variables_that_run_code_are_refused() {
    for name in [
        "BASH_ENV",
        "BASHOPTS",
        "BLS_LIST_VARS",
        "CLASSPATH",
        "DYLD_INSERT_LIBRARIES",
        "ENV",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "HOME",
        "IFS",
        "JAVA_TOOL_OPTIONS",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LOCPATH",
        "LUA_INIT",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "PHPRC",
        "PROMPT_COMMAND",
        "PS4",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYLIB",
        "RUBYOPT",
        "RUST_LOG",
        "SHELLOPTS",
        "TMPDIR",
        "TRIPTYCH_REST_TOKEN",
        "WASMTIME_BACKTRACE_DETAILS",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "ZDOTDIR",
        "_JAVA_OPTIONS",
        "https_proxy",
        "http_proxy",
    ] {
        refused(name);
    }
}

#[test]
fn a_name_that_is_no_identifier_is_refused() {
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
        let error = check(&one(name, "x")).unwrap_err();
        assert_eq!(error, VariableError::Name { name: name.to_owned() });
        // Nothing in a name reaches a terminal or a log as it is.
        assert!(!error.to_string().contains(['\n', '\0', '\u{202e}']), "{error}");
    }
    let long = check(&one(&"-".repeat(1000), "x")).unwrap_err();
    assert_eq!(long, VariableError::Name { name: "-".repeat(SHOWN_CHARS_MAX) });
}

#[test]
fn a_value_is_anything_but_nul() {
    check(&one("A", "\u{1b}[2J\n$(id) `id` ;=")).unwrap();
    let error = check(&one("A", "a\0b")).unwrap_err();
    assert_eq!(error, VariableError::Value { name: "A".to_owned() });
}

#[test]
fn variables_of_people_pass_and_are_listed() {
    let variables = ["PEER_ID", "COLOR", "_a", "env", "home", "A1", "HOMEPAGE", "PATHS", "LANGS"];
    let variables: BTreeMap<_, _> =
        variables.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
    check(&variables).unwrap();
    let environment = with_listed(&variables);
    let listed = environment.get("BLS_LIST_VARS").map(String::as_str);
    assert_eq!(listed, Some("A1;COLOR;HOMEPAGE;LANGS;PATHS;PEER_ID;_a;env;home"));
    assert_eq!(environment.len(), variables.len() + FIXED.len() + 1);
    assert_eq!(fixed().len(), FIXED.len());
}
