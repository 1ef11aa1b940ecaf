//! Starting in difficult environments, and the messages about them.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::support::TRIPTYCH;
use crate::support::cluster::Node;
use crate::support::command::{Home, demo};
use crate::support::http::Http;
use crate::support::process::{self, Signal};
use crate::support::running::Running;

/// Address at which no node listens.
const DEAD: &str = "/ip4/127.0.0.1/tcp/9";

/// Message that a service logs when it receives SIGHUP.
const HANGUP_IGNORED: &str = "ignored SIGHUP: options and files are read only at the start";

#[test]
fn proxy_variables_are_ignored_for_loopback_addresses() {
    let folder = TempDir::new().unwrap();
    let arguments = ["up", "--json", "--data-dir", &folder.path().display().to_string()];
    let proxy = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
    let environment = proxy.map(|name| (name, "http://127.0.0.1:9"));
    let up = Running::start_with(&arguments, &environment);
    assert!(up.wait_lines(1)[0].contains("\"head\":\"http://127.0.0.1:"));
}

#[tokio::test]
async fn sighup_does_not_stop_a_service() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let arguments = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &data_dir];
    for is_nohup in [true, false] {
        let mut service = if is_nohup {
            Running::start_after("trap '' HUP", &arguments)
        } else {
            Running::start_with_hangup(&arguments)
        };
        let address = service.wait_log_field("dataset service listening", "address");
        if is_nohup {
            process::signal(service.pid(), Signal::HangUp);
        } else {
            service.hang_up_until(HANGUP_IGNORED);
        }
        let http = Http::new(&format!("http://{address}"), None);
        assert_eq!(http.get("/health").await.0, 200);
        assert!(service.stop());
    }
}

#[test]
fn sighup_does_not_stop_a_node() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let arguments = ["node", "--role", "head", "--rest-api", "127.0.0.1:0", "--port", "0"];
    let arguments = [&arguments[..], &["--db", &data_dir]].concat();
    let mut node = Running::start_with_hangup(&arguments);
    node.wait_log("created host");
    node.hang_up_until(HANGUP_IGNORED);
    assert!(node.stop());
}

#[test]
fn unreachable_boot_node_is_logged_with_the_reason() {
    let head = Node::head(&[]);
    let dead = format!("{DEAD}/p2p/{}", head.id());
    let worker = Node::start_with(&["--boot-nodes", &dead], &[]);
    let reason = "Connection refused (os error 111)";
    worker.wait_log(&format!("cannot reach boot node {dead}: {reason}; trying again"));

    let other = worker.id();
    let address = head.address();
    let (host, id) = address.rsplit_once('/').unwrap();
    let wrong = format!("{host}/{other}");
    let worker = Node::start_with(&["--boot-nodes", &wrong], &[]);
    let reason = format!("the node there is {id}; correct the id at the end of the address");
    worker.wait_log(&format!("cannot reach boot node {wrong}: {reason}; trying again"));
}

#[test]
fn inference_service_without_a_key_logs_a_hint() {
    let home = Home::new();
    let (data_dir, datasets) = (home.path("data"), "http://127.0.0.1:9/api");
    let mut arguments = vec!["inference", "serve", "--listen", "127.0.0.1:0"];
    arguments.extend(["--data-dir", &data_dir, "--head", "http://127.0.0.1:9"]);
    arguments.extend(["--datasets", datasets]);
    let environment = [("HOME", home.path("")), ("TRIPTYCH_KEYRING", "off".to_owned())];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let service = Running::start_with(&arguments, &environment);
    service.wait_log(
        "no API key for the dataset service at http://127.0.0.1:9/api, so topics receive no rows: \
         set TRIPTYCH_API_KEY, or store a key with `triptych keys store`, and start again",
    );
}

#[test]
fn function_is_executed_in_a_limited_address_space() {
    let shell = Home::new().with_program(PathBuf::from("sh"));
    let limited = format!("ulimit -v 3000000; exec {TRIPTYCH} function run {}", demo("hello.wasm"));
    let output = shell.run(&["-c", &limited]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("Hello from WebAssembly"), "{output:?}");
}

#[test]
fn failed_start_is_reported_in_one_sentence() {
    let home = Home::new();
    home.write("junk/accounts.db", &b"this is not a database. ".repeat(50));
    let error = home.run_err(&["keys", "list", "--data-dir", &home.path("junk")]);
    assert!(error.ends_with("accounts file cannot be opened: file is not a database\n"), "{error}");

    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let output = home.run(&["datasets", "serve", "--listen", &address, "--data-dir", "services"]);
    let want = format!(
        "error: cannot start the dataset service: cannot listen on {address}: another program uses this \
         port; stop it, or choose another port\n"
    );
    assert_eq!((output.code, output.err), (1, want));

    home.write("empty.pem", b"");
    let mut head = vec!["node", "--role", "head", "--rest-api", "127.0.0.1:0", "--db", "db"];
    head.extend(["--tls-certificate", "empty.pem", "--tls-key", "empty.pem"]);
    let error = home.run_err(&head);
    assert!(error.contains("no certificate in empty.pem: the file has none"), "{error}");
}

#[test]
fn files_are_printed_if_the_environment_has_an_address() {
    let home = Home::new().with("TRIPTYCH_HEAD", "http://127.0.0.1:1");
    for flag in ["--print-config", "--print-keys", "--glyphs"] {
        assert!(!home.run_ok(&[flag]).is_empty(), "{flag}");
    }
    let output = home.run(&["--print-keys", "--glyphs"]);
    let want = "'--print-keys' cannot be used with '--glyphs'";
    assert!(output.code == 2 && output.err.contains(want), "{output:?}");
}
