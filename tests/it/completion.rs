//! Shell completion of names that running services know.

use std::time::Duration;

use crate::support::command::Home;
use crate::support::up::Up;
use crate::support::wait;

/// Maximum time for a completion to appear. The program waits less than a second for a service, which
/// may not be enough while other tests run.
const COMPLETES_WITHIN: Duration = Duration::from_secs(30);

/// Returns the completions for the last of `words`.
fn complete(home: &Home, words: &[&str]) -> Vec<String> {
    let lines = home.run_ok(&[&["--", "triptych"], words].concat());
    let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    lines.lines().map(value).collect()
}

#[track_caller]
fn check(home: &Home, words: &[&str], want: &str) {
    wait::until(want, COMPLETES_WITHIN, || {
        let values = complete(home, words);
        if values.iter().any(|value| value == want) { Ok(()) } else { Err(values) }
    });
}

#[test]
fn names_of_datasets_topics_and_functions_are_completed() {
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
fn themes_are_completed_without_services() {
    let home = Home::new()
        .with("TRIPTYCH_COMPLETE", "fish")
        .with("TRIPTYCH_KEYRING", "off")
        .with("TRIPTYCH_HEAD", "http://127.0.0.1:1");
    home.write(".config/triptych/themes/dusk.toml", b"");
    assert_eq!(complete(&home, &["--theme", "d"]), ["dark", "dusk"]);
    let printable = complete(&home, &["--print-theme", "d"]);
    assert!(printable.contains(&"dark".to_owned()) && !printable.contains(&"dusk".to_owned()));
    assert_eq!(complete(&home, &["function", "show", "h"]), [] as [&str; 0]);
}
