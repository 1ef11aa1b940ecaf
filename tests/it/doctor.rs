//! `triptych doctor`: what it says of configurations, addresses, folders, ports and nodes.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    thread,
};

use crate::support::{
    command::{Home, Output},
    up::Up,
};

/// The configuration file in a home of Linux.
const CONFIG: &str = ".config/triptych/config.toml";

/// An address where nobody listens: port 1 is nobody's.
const NOBODY: &str = "http://127.0.0.1:1";

/// Checks that `said` has a line that begins with `state` and has all of `parts`, and ends with `code`.
#[track_caller]
fn check(said: &Output, code: i32, state: &str, parts: &[&str]) {
    let lines = said.out.replace("\n         ", " ");
    let is_it = |line: &str| line.starts_with(state) && parts.iter().all(|it| line.contains(it));
    assert!(lines.lines().any(is_it), "{state} {parts:?}: {said:?}");
    assert_eq!(said.code, code, "{said:?}");
}

#[test]
fn a_machine_without_configuration_is_well() {
    let said = Home::new().run(&["doctor"]);
    check(&said, 0, "ok", &["services", "starts its own"]);
    check(&said, 0, "ok", &["data folder", "the first service makes it"]);
}

#[test]
fn services_that_answer_are_well_and_those_that_do_not_are_named_with_what_to_do() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_API_KEY", up.text("api_key"));
    let config = format!(
        "[profiles.near]\nhead = \"{}\"\ndatasets = \"{}\"\ninference = \"{}\"\n",
        up.text("head"),
        up.text("datasets"),
        up.text("inference")
    );
    home.write(CONFIG, config.as_bytes());
    let said = home.run(&["doctor"]);
    check(&said, 0, "ok", &["head of near", "3 workers"]);
    check(&said, 0, "ok", &["datasets of near", "takes the key"]);
    check(&said, 0, "ok", &["inference of near", "topics"]);
    home.write(CONFIG, format!("{config}[profiles.far]\ndatasets = \"{NOBODY}/api\"\n").as_bytes());
    let said = home.run(&["doctor"]);
    check(&said, 1, "wrong", &["datasets of far", NOBODY, "check that the service runs"]);
    check(&said, 1, "ok", &["head of near"]);
    let said = Home::new().run(&["doctor", "--datasets", up.text("datasets")]);
    check(&said, 1, "wrong", &["datasets of this command", "401", "triptych keys create"]);
}

#[test]
fn a_faulty_configuration_is_named_by_its_line() {
    let home = Home::new();
    home.write(CONFIG, b"[profiles.a]\nhed = \"x\"\n");
    check(&home.run(&["doctor"]), 1, "wrong", &["config.toml:2", "hed", "--print-config"]);
}

#[test]
fn files_of_services_are_opened_unless_a_service_has_them() {
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
fn an_address_that_is_taken_is_wrong() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::new();
    let said = home.run(&["doctor", "--listen", &address]);
    check(&said, 1, "wrong", &["address 127.0.0.1:", "another address"]);
    check(&home.run(&["doctor", "--listen", "127.0.0.1:0"]), 0, "ok", &["is free"]);
}

#[test]
fn a_database_that_is_not_there_is_wrong_and_its_password_is_not_shown() {
    let url = "postgres://me:secret@127.0.0.1:1/rows";
    let said = Home::new().run(&["doctor", "--store", url]);
    check(&said, 1, "wrong", &["store at postgres://127.0.0.1:1/rows", "refused", "host and port"]);
    assert!(!format!("{said:?}").contains("secret"), "{said:?}");
}

/// Accepts any spans as a collector does.
fn serve_collector() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let lines = BufReader::new(connection.try_clone().unwrap()).lines();
            // One that only connects sends nothing.
            let n_read = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            if n_read > 0 {
                drop(write!(connection, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
            }
        }
    });
    address
}

#[test]
fn every_address_that_services_connect_to_is_checked() {
    let address = serve_collector();
    let home = || Home::new().with("TRIPTYCH_ACCOUNTS_TOKEN", &"0123456789abcdef".repeat(4));
    let run = |variable: &str, value: &str| home().with(variable, value).run(&["doctor"]);
    let collector = format!("http://{address}?token=secret");
    check(&run("TRIPTYCH_OTLP", &collector), 0, "ok", &["collector", "accepts spans"]);
    check(&run("TRIPTYCH_OTLP", NOBODY), 1, "wrong", &["collector", "refused", "TRIPTYCH_OTLP"]);
    let said = run("TRIPTYCH_ACCOUNTS", NOBODY);
    check(&said, 1, "wrong", &["accounts at", NOBODY, "TRIPTYCH_ACCOUNTS_TOKEN"]);
    for said in [said, run("TRIPTYCH_OTLP", &collector)] {
        assert!(!format!("{said:?}").contains("secret"), "{said:?}");
    }
}

#[test]
fn the_file_of_a_node_is_checked_with_what_it_names() {
    let boot = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = boot.local_addr().unwrap().port();
    let home = Home::new();
    let id = home.run_ok(&["keys", "node", "-o", "key"]);
    let node = |port: u16, key: &str| {
        let boot = format!("/ip4/127.0.0.1/tcp/{port}/p2p/{}", id.trim());
        let text = format!("boot-nodes: [{boot}]\nprivate-key: {key}\n");
        let path = home.write("node.yaml", text.as_bytes());
        home.run(&["doctor", "--node-config", &path])
    };
    let said = node(port, "key/priv.bin");
    check(&said, 0, "ok", &["boot node", "accepts connections"]);
    check(&said, 0, "ok", &["private key", id.trim()]);
    check(&node(1, "key/priv.bin"), 1, "wrong", &["boot node", "cannot connect"]);
    check(&node(port, "nothing.bin"), 1, "wrong", &["private key", "triptych keys node"]);
    for (option, parts) in [
        (format!("otlp: {NOBODY}"), ["collector", "refused"]),
        (
            format!("role: head\nrest-api: {}", boot.local_addr().unwrap()),
            ["address", "another address"],
        ),
        ("prometheus-address: 300.1.1.1:1".to_owned(), ["address 300.1.1.1:1", "cannot"]),
    ] {
        let path = home.write("node.yaml", format!("{option}\n").as_bytes());
        check(&home.run(&["doctor", "--node-config", &path]), 1, "wrong", &parts);
    }
    home.write("node.yaml", b"prot: 3\n");
    let said = home.run(&["doctor", "--node-config", "node.yaml"]);
    check(&said, 1, "wrong", &["node.yaml", "prot", "triptych node --help"]);
}

#[test]
fn each_check_is_a_line_of_json() {
    let out = Home::new().run_ok(&["doctor", "--json"]);
    let lines: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line["state"] == "ok"), "{out}");
}

#[cfg(unix)]
#[test]
fn data_directory_and_key_file_open_to_others_are_warned_of() {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    let home = Home::new();
    let folder = home.path("data");
    let key = home.run_ok(&["keys", "create", "me", "--data-dir", &folder]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let said = home.run(&["doctor", "--data-dir", &folder]);
    check(&said, 0, "warning", &["data folder", "mode is 0755", "chmod 700"]);
    home.write("key", key.as_bytes());
    fs::set_permissions(home.path("key"), fs::Permissions::from_mode(0o644)).unwrap();
    let said = home.run(&["doctor", "--key-file", &home.path("key")]);
    assert!(said.err.contains("other users of this machine can read the API key in"), "{said:?}");
}

#[test]
fn datasets_address_without_api_is_accepted() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_API_KEY", up.text("api_key"));
    let address = up.text("datasets").trim_end_matches("/api").to_owned();
    let said = home.run(&["doctor", "--datasets", &address]);
    check(&said, 0, "ok", &["datasets of this command", "takes the key"]);
}

#[test]
fn another_program_at_the_address_of_the_collector_is_reported() {
    let up = Up::shared();
    let said = Home::new().run(&["doctor", "--otlp", up.text("head")]);
    check(&said, 1, "wrong", &["collector", "another program", "4318"]);
    // It requires a key, as a collector may.
    let datasets = up.text("datasets").trim_end_matches("/api");
    let said = Home::new().run(&["doctor", "--otlp", datasets]);
    check(&said, 0, "warning", &["collector", "responds 401", "address of a collector"]);
}
