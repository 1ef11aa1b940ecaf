//! What a shell is offered when it asks the program for completions, by services that run.

use std::time::Duration;

use crate::support::{command::Home, up::Up, wait};

/// How long a service may take to answer: a question gets less than a second, on a machine that other
/// tests share.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// What `words` complete to, the last of which is being typed.
fn offered(home: &Home, words: &[&str]) -> Vec<String> {
    let lines = home.run_ok(&[&["--", "triptych"], words].concat());
    let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    lines.lines().map(value).collect()
}

#[track_caller]
fn check(home: &Home, words: &[&str], want: &str) {
    wait::until(want, ANSWERS_WITHIN, || {
        let offered = offered(home, words);
        if offered.iter().any(|value| value == want) { Ok(()) } else { Err(offered) }
    });
}

#[test]
fn names_of_datasets_topics_and_functions_come_from_the_services() {
    let up = Up::shared();
    let home = Home::new()
        .with("TRIPTYCH_COMPLETE", "fish")
        .with("TRIPTYCH_HEAD", up.text("head"))
        .with("TRIPTYCH_DATASETS", up.text("datasets"))
        .with("TRIPTYCH_INFERENCE", up.text("inference"))
        .with("TRIPTYCH_API_KEY", up.text("api_key"));
    check(&home, &["datasets", "show", "machine"], "machine_cpu");
    check(&home, &["datasets", "columns", "syn"], "synthetic_btcusd");
    check(&home, &["inference", "show", ""], "1");
    check(&home, &["function", "run", "he"], "hello");
}

#[test]
fn a_theme_of_the_user_is_completed_and_nothing_where_no_service_runs() {
    let home = Home::new()
        .with("TRIPTYCH_COMPLETE", "fish")
        .with("TRIPTYCH_KEYRING", "off")
        .with("TRIPTYCH_HEAD", "http://127.0.0.1:1");
    home.write(".config/triptych/themes/dusk.toml", b"");
    assert_eq!(offered(&home, &["--theme", "d"]), ["dark", "dusk"]);
    let printable = offered(&home, &["--print-theme", "d"]);
    assert!(printable.contains(&"dark".to_owned()) && !printable.contains(&"dusk".to_owned()));
    assert_eq!(offered(&home, &["function", "show", "h"]), [] as [&str; 0]);
}
