//! `triptych doctor`: checks configurations, addresses, directories and ports.

use std::net::TcpListener;

use crate::support::command::{Home, Output};
use crate::support::datasets::Service;
use crate::support::server;
use crate::support::up::Up;

/// Path of the configuration file in a home directory.
const CONFIG: &str = ".config/triptych/config.toml";

/// Address at which no service listens.
const NOBODY: &str = "http://127.0.0.1:1";

/// Checks the exit code, and that a line of output begins with `state` and contains all of `parts`.
#[track_caller]
fn check(output: &Output, code: i32, state: &str, parts: &[&str]) {
    let lines = output.out.replace("\n         ", " ");
    let is_it = |line: &str| line.starts_with(state) && parts.iter().all(|it| line.contains(it));
    assert!(lines.lines().any(is_it), "{state} {parts:?}: {output:?}");
    assert_eq!(output.code, code, "{output:?}");
}

#[test]
fn doctor_finds_no_problem_without_configuration() {
    let output = Home::new().run(&["doctor"]);
    check(&output, 0, "ok", &["services", "starts its own"]);
    check(&output, 0, "ok", &["data directory", "the first service creates it"]);
}

#[test]
fn doctor_reports_invalid_settings_of_the_screen() {
    let home = Home::new();
    home.write(".config/triptych/keymap.toml", b"bogus = 1\n");
    check(&home.run(&["doctor"]), 1, "wrong", &["settings of the screen", "keymap.toml:1"]);
}

#[test]
fn doctor_reports_unreachable_services_with_a_hint() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_API_KEY", up.text("api_key"));
    let config = format!(
        "[profiles.near]\nhead = \"{}\"\ndatasets = \"{}\"\ninference = \"{}\"\n",
        up.text("head"),
        up.text("datasets"),
        up.text("inference")
    );
    home.write(CONFIG, config.as_bytes());
    let output = home.run(&["doctor"]);
    check(&output, 0, "ok", &["head of near", "3 workers"]);
    check(&output, 0, "ok", &["datasets of near", "accepts the key"]);
    check(&output, 0, "ok", &["inference of near", "topics"]);
    home.write(CONFIG, format!("{config}[profiles.far]\ndatasets = \"{NOBODY}/api\"\n").as_bytes());
    let output = home.run(&["doctor"]);
    check(&output, 1, "wrong", &["datasets of far", NOBODY, "check that the service runs"]);
    check(&output, 1, "ok", &["head of near"]);
    let output = Home::new().run(&["doctor", "--datasets", up.text("datasets")]);
    check(&output, 1, "wrong", &["datasets of this command", "401", "triptych keys create"]);
}

#[test]
fn doctor_reports_invalid_configuration_with_its_line() {
    let home = Home::new();
    home.write(CONFIG, b"[profiles.a]\nhed = \"x\"\n");
    check(&home.run(&["doctor"]), 1, "wrong", &["config.toml:2", "hed", "--print-config"]);
}

#[test]
fn doctor_opens_stores_unless_a_service_uses_them() {
    let home = Home::new();
    let folder = home.path("data");
    home.run_ok(&["keys", "create", "me", "--data-dir", &folder]);
    let doctor = ["doctor", "--data-dir", &folder];
    check(&home.run(&doctor), 0, "ok", &["accounts.db", "opens"]);
    let serve = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &folder];
    let service = home.start(&serve);
    assert!(service.wait_lines(1)[0].contains("dataset service listening"));
    check(&home.run(&doctor), 0, "ok", &["datasets.db", "in use"]);
    drop(service);
    home.write("data/inference.db", b"this is no database, and was never one; it is a text");
    check(&home.run(&doctor), 1, "wrong", &["inference.db", "restore a backup"]);
}

#[test]
fn doctor_reports_a_removed_store_of_a_running_service() {
    let (service, home) = Service::with_home();
    let store = format!("{}/datasets.db", service.data_dir());
    std::fs::rename(&store, format!("{store}.moved")).unwrap();
    let parts = ["datasets of this command", "database: replaced", "restart the service"];
    check(&home.run(&["doctor"]), 1, "wrong", &parts);
}

#[test]
fn doctor_reports_an_address_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::new();
    let output = home.run(&["doctor", "--listen", &address]);
    check(&output, 1, "wrong", &["address 127.0.0.1:", "another address"]);
    check(&home.run(&["doctor", "--listen", "127.0.0.1:0"]), 0, "ok", &["is free"]);
}

#[test]
fn doctor_reports_an_unreachable_database_without_its_password() {
    let url = "postgres://me:secret@127.0.0.1:1/rows";
    let output = Home::new().run(&["doctor", "--store", url]);
    check(
        &output,
        1,
        "wrong",
        &["store at postgres://127.0.0.1:1/rows", "refused", "host and port"],
    );
    assert!(!format!("{output:?}").contains("secret"), "{output:?}");
}

#[test]
fn doctor_checks_the_addresses_of_collector_and_accounts() {
    let address = server::serve(|request| request.respond("200 OK", "text/plain", b""));
    let home = || Home::new().with("TRIPTYCH_ACCOUNTS_TOKEN", &"0123456789abcdef".repeat(4));
    let run = |variable: &str, value: &str| home().with(variable, value).run(&["doctor"]);
    let collector = format!("{address}?token=secret");
    check(&run("TRIPTYCH_OTLP", &collector), 0, "ok", &["collector", "accepts spans"]);
    check(&run("TRIPTYCH_OTLP", NOBODY), 1, "wrong", &["collector", "refused", "TRIPTYCH_OTLP"]);
    let output = run("TRIPTYCH_ACCOUNTS", NOBODY);
    check(&output, 1, "wrong", &["accounts at", NOBODY, "TRIPTYCH_ACCOUNTS_TOKEN"]);
    for output in [output, run("TRIPTYCH_OTLP", &collector)] {
        assert!(!format!("{output:?}").contains("secret"), "{output:?}");
    }
}

#[test]
fn doctor_prints_one_json_line_per_check() {
    let out = Home::new().run_ok(&["doctor", "--json"]);
    let lines: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line["state"] == "ok"), "{out}");
}

#[test]
fn doctor_warns_of_files_that_other_users_can_read() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    let home = Home::new();
    let folder = home.path("data");
    let key = home.run_ok(&["keys", "create", "me", "--data-dir", &folder]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let output = home.run(&["doctor", "--data-dir", &folder]);
    check(&output, 0, "warning", &["data directory", "mode is 0755", "chmod 700"]);
    home.write("key", key.as_bytes());
    fs::set_permissions(home.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = home.run(&["doctor", "--key-file", &home.path("key")]);
    assert!(
        output.err.contains("other users of this machine can read the API key in"),
        "{output:?}"
    );
}

#[test]
fn doctor_accepts_a_dataset_address_without_the_api_path() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_API_KEY", up.text("api_key"));
    let address = up.text("datasets").trim_end_matches("/api").to_owned();
    let output = home.run(&["doctor", "--datasets", &address]);
    check(&output, 0, "ok", &["datasets of this command", "accepts the key"]);
}

#[test]
fn doctor_reports_a_head_at_the_address_of_another_service() {
    let output = Home::new().run(&["doctor", "--inference", Up::shared().text("head")]);
    check(
        &output,
        1,
        "wrong",
        &["inference of this command", "another program", "that of the right service"],
    );
}

#[test]
fn doctor_reports_another_program_at_the_collector_address() {
    let up = Up::shared();
    let output = Home::new().run(&["doctor", "--otlp", up.text("head")]);
    check(&output, 1, "wrong", &["collector", "another program", "4318"]);
    // The dataset service requires a key, so it responds with 401, as some collectors do.
    let datasets = up.text("datasets").trim_end_matches("/api");
    let output = Home::new().run(&["doctor", "--otlp", datasets]);
    check(&output, 0, "warning", &["collector", "responds 401", "address of a collector"]);
}
