use std::fs;

use clap::Args as _;
use tempfile::TempDir;

use super::*;
use crate::cli::node::NodeCommand;

fn command() -> Command {
    with_switches(NodeCommand::augment_args(Command::new("node")))
}

/// Returns the options that are appended to `line` from `file`, given as name and text, and from
/// `environment`. Returns the text of an error instead if there is one.
fn added_options(
    line: &[&str],
    file: Option<(&str, &str)>,
    environment: &[(&str, &str)],
) -> String {
    let folder = TempDir::new().unwrap();
    let mut arguments = vec![OsString::from("node")];
    arguments.extend(line.iter().map(OsString::from));
    if let Some((name, text)) = file {
        fs::write(folder.path().join(name), text).unwrap();
        arguments.push("--config".into());
        arguments.push(folder.path().join(name).into());
    }
    let mut command = command();
    let given = command.try_get_matches_from_mut(&arguments).unwrap();
    let n_given = arguments.len();
    let environment =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    match with_layers(arguments, &command, &given, environment) {
        Ok(arguments) => {
            command.clone().try_get_matches_from(&arguments).unwrap();
            let added = arguments.iter().skip(n_given).map(|added| added.to_str().unwrap());
            added.collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("{error:#}").replace(folder.path().to_str().unwrap(), ""),
    }
}

/// A configuration file in the form of b7s nodes.
const FILE: &str = "
role: head
concurrency: 3
boot-nodes:
  - /ip4/10.0.0.5/tcp/9527/p2p/12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5
topics: [gpu, eu]
log:
  level: debug
connectivity:
  port: 9527
  dialback-address: head.example
  websocket: true
  no-dialback-peers: false
head:
  rest-api: :8080
worker:
  runtime-path: ''
  memory-limit: 1000
telemetry:
  metrics: { enable: true, prometheus-address: 127.0.0.1:9999 }
  tracing: { enable: false, grpc: { endpoint: x } }
";

#[test]
fn configuration_file_of_a_b7s_node_is_read() {
    let added = added_options(&[], Some(("node.yaml", FILE)), &[]);
    let added: BTreeSet<_> = added.split(' ').collect();
    let peer = "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5";
    let boot_node = format!("--boot-nodes=/ip4/10.0.0.5/tcp/9527/p2p/{peer}");
    let want = [
        boot_node.as_str(),
        "--concurrency=3",
        "--dialback-address=head.example",
        "--enable-metrics=true",
        "--enable-tracing=false",
        "--log-level=debug",
        "--memory-limit=1000",
        "--no-dialback-peers=false",
        "--port=9527",
        "--prometheus-address=127.0.0.1:9999",
        "--rest-api=:8080",
        "--role=head",
        "--topic=gpu",
        "--topic=eu",
        "--tracing-grpc-endpoint=x",
        "--websocket=true",
    ];
    assert_eq!(added, BTreeSet::from(want));
}

#[test]
fn command_line_overrides_file_and_file_overrides_environment() {
    let file = Some(("node.toml", "concurrency = 3\ntopic = \"gpu\"\n"));
    let environment = [("B7S_Concurrency", "7"), ("B7S_Role", "head"), ("B7S_Topics", "eu,us")];
    assert_eq!(added_options(&[], file, &environment), "--concurrency=3 --topic=gpu --role=head");
    let line = ["-c", "1", "--topics", "mine", "--role", "worker"];
    assert_eq!(added_options(&line, file, &environment), "");
}

#[test]
fn environment_variables_have_the_names_that_b7s_uses() {
    let cases = [
        ("B7S_BootNodes", "--boot-nodes=x"),
        ("B7S_Connectivity_DialbackAddress", "--dialback-address=x"),
        ("B7S_Connectivity_Port", "--port=x"),
        ("B7S_Head_RestAPI", "--rest-api=x"),
        ("B7S_Log_Level", "--log-level=x"),
        ("B7S_Worker_RuntimePath", "--runtime-path=x"),
        ("B7S_DB", "--db=x"),
    ];
    for (variable, want) in cases {
        let environment = read_environment([(variable.to_owned(), "x".to_owned())].into_iter());
        let (name, values) = environment.first_key_value().unwrap();
        let command = command();
        let option = Options::new(&command).find(name).unwrap();
        assert_eq!(format!("--{}={}", option.get_long().unwrap(), values[0]), want);
    }
    assert_eq!(added_options(&[], None, &[("B7S_PBFT_BYZANTINE", "1"), ("HOME", "/x")]), "");
}

#[test]
fn unknown_option_is_rejected_by_name() {
    let error = |text| added_options(&[], Some(("node.yaml", text)), &[]);
    assert_eq!(
        error("connectivity: { prot: 1 }"),
        "unknown option `prot` in /node.yaml; see triptych node --help"
    );
    assert!(error("just text").contains("expected options"), "{}", error("just text"));
    assert!(error("port: [[1]]").contains("`port` is neither"), "{}", error("port: [[1]]"));
    assert!(error("port: [1").starts_with("cannot read /node.yaml: "), "{}", error("port: [1"));
    assert_eq!(error(""), "");
}

#[test]
fn switch_can_be_set_to_false() {
    let given = |line: &[&str]| {
        let line = ["node"].iter().chain(line);
        command().try_get_matches_from(line).map(|given| given.get_flag("websocket"))
    };
    assert!(!given(&[]).unwrap());
    assert!(given(&["--websocket"]).unwrap());
    assert!(given(&["-w", "--port", "1"]).unwrap());
    assert!(!given(&["--websocket=false"]).unwrap());
    assert!(given(&["--websocket", "false"]).is_err());
}
