//! Options of nodes, from the command line, from files and from the environment.

use serde_json::{Value, json};

use crate::support::cluster::Node;
use crate::support::command::Home;

/// A configuration file of a b7s node.
const FILE: &str = "
role: head
topics: [gpu]
concurrency: 3
log:
  level: debug
connectivity:
  address: 127.0.0.1
  port: 0
  websocket: true
head:
  rest-api: 127.0.0.1:0
";

#[test]
fn node_options_are_read_from_command_line_file_and_environment() {
    let home = Home::new();
    let file = home.write("node.yaml", FILE.as_bytes());
    let environment = [("B7S_Topics", "eu"), ("B7S_Worker_RuntimePath", "")];
    let head = Node::start_with(&["--config", &file], &environment);
    let line = |message: &str, name: &str| -> Value { head.wait_log(message)[name].clone() };
    assert_eq!(line("node starting", "role"), "head");
    assert_eq!(line("starting node main loop", "concurrency"), 3);
    let topics = json!(["gpu", "blockless/b7s/general"]);
    assert_eq!(line("topics node will subscribe to", "topics"), topics);
    let addresses = line("created host", "addresses");
    let n_addresses = addresses.as_array().unwrap().len();
    assert!(n_addresses == 2 && addresses.to_string().contains("/ws/p2p/"), "{addresses}");

    // An option on the command line takes precedence over the environment.
    let worker = Node::start_with(&["--topic", "us"], &environment);
    let topics = json!(["us", "blockless/b7s/general"]);
    assert_eq!(worker.wait_log("topics node will subscribe to")["topics"], topics);
    let worker = Node::start_with(&[], &environment);
    let topics = json!(["eu", "blockless/b7s/general"]);
    assert_eq!(worker.wait_log("topics node will subscribe to")["topics"], topics);
}

#[test]
fn invalid_node_options_are_rejected_with_a_reason() {
    let home = Home::new();
    let file = home.write("node.yaml", b"connectivity:\n  prot: 1\n");
    let wrong = home.write("wrong.toml", b"port = \"high\"\n");
    let cases: [(&[&str], &str); 5] = [
        (&["--config", &file], "unknown option `prot`"),
        (&["--config", &wrong], "invalid value 'high' for '--port <PORT>'"),
        (&["--config", "nowhere.yaml"], "read nowhere.yaml"),
        (&["--boot-nodes", "10.0.0.1:9527"], "/ip4/<address>/tcp/<port>/p2p/<peer id>"),
        (&["--runtime-cli", "x"], "--runtime-path"),
    ];
    for (options, want) in cases {
        let output = home.run(&[&["node"], options].concat());
        assert_eq!((output.code, output.out.as_str()), (2, ""), "{options:?}: {output:?}");
        assert!(output.err.contains(want), "`{want}` is in {output:?}");
    }
    let cases: [(&[&str], &str); 3] = [
        (&["--role", "head"], "--rest-api"),
        (&["--rest-api", ":0"], "--role head"),
        (&["--runtime-path", "/nowhere"], "/nowhere/bls-runtime"),
    ];
    for (options, want) in cases {
        let why = home.run_err(&[&["node", "--address", "127.0.0.1"], options].concat());
        assert!(why.contains(want), "`{want}` is in {why}");
    }
}
