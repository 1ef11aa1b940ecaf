use std::collections::BTreeSet;

use clap::Parser;
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    node: NodeCommand,
}

fn node(line: &[&str]) -> NodeCommand {
    Line::try_parse_from(["node"].iter().chain(line)).unwrap().node
}

fn state() -> (TempDir, NodeState) {
    let folder = TempDir::new().unwrap();
    let db = folder.path().to_str().unwrap().to_owned();
    let flags = node(&["--db", &db]).state;
    let state = NodeState::choose(flags, false, Identity::random().peer_id()).unwrap();
    (folder, state)
}

#[test]
fn only_heads_have_a_rest_api() {
    let role = |line: &[&str]| {
        let node = node(line);
        role(node.role, &node.head).map_err(|error| error.to_string())
    };
    assert_eq!(role(&[]).unwrap(), RoleOptions::Worker);
    let head = RoleOptions::Head { rest_api: ":8080".to_owned() };
    assert_eq!(role(&["--role", "head", "--rest-api", ":8080"]).unwrap(), head);
    assert!(role(&["--role", "head"]).unwrap_err().contains("--rest-api"));
    assert!(role(&["--rest-api", ":8080"]).unwrap_err().contains("--role head"));
}

#[test]
fn dialback_address_is_advertised() {
    let addresses = |line: &[&str]| {
        let advertised = advertised(&node(line).network).map_err(|error| format!("{error:#}"))?;
        Ok::<_, String>(advertised.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(addresses(&[]).unwrap(), "");
    assert_eq!(addresses(&["--dialback-address", "0.0.0.0"]).unwrap(), "");
    let head = ["--dialback-address", "head.example", "--port", "9527"];
    assert_eq!(addresses(&head).unwrap(), "/dns/head.example/tcp/9527");
    let both = [&head[..], &["--websocket", "--websocket-dialback-port", "443"]].concat();
    let want = "/dns/head.example/tcp/9527 /dns/head.example/tcp/443/ws";
    assert_eq!(addresses(&both).unwrap(), want);
    assert!(
        addresses(&["--dialback-address", "head.example"]).unwrap_err().contains("--dialback-port")
    );
    assert!(addresses(&["--dialback-port", "1"]).unwrap_err().contains("--dialback-address"));
}

#[test]
fn port_in_use_by_another_node_is_rejected() {
    let local = IpAddr::from([127, 0, 0, 1]);
    let other = TcpListener::bind((local, 0)).unwrap();
    let port = other.local_addr().unwrap().port();
    let refused = format!("{:#}", check_port_free(local, port).unwrap_err());
    assert!(refused.starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")), "{refused}");
    drop(other);
    assert!(check_port_free(local, port).is_ok() && check_port_free(local, 0).is_ok());
}

#[test]
fn truncated_peer_ids_are_rejected() {
    let id = Identity::random().peer_id().to_string();
    let is_valid = |id: &str| Line::try_parse_from(["node", "--obey", id]).is_ok();
    assert!(is_valid(&id) && is_valid(&format!("{id},{id}")));
    let (short, _) = id.split_at(id.len() - 1);
    assert!(!is_valid(short) && !is_valid("xx"));
}

#[test]
fn connections_are_limited_by_default() {
    let (_folder, state) = state();
    let limits = |line: &[&str]| {
        connectivity(Role::Worker, &node(line).network, &state).unwrap().connections
    };
    assert_eq!(limits(&[]), Connectivity::for_role(Role::Worker).connections);
    assert_eq!(limits(&["--connection-count", "10"]), Some(ConnectionBounds::around(10)));
    assert_eq!(limits(&["--disable-connection-limits"]), None);
}

#[test]
fn allowed_peers_depend_on_the_role() {
    let peer = Identity::random().peer_id().to_string();
    let allowed = |line: &[&str]| {
        let node = node(line);
        let flags = allowed_peer_flags(node.role, &node.head, &node.runs);
        flags.and_then(allowed_peers::read).map_err(|error| format!("{error:#}"))
    };
    let only = Some(BTreeSet::from([peer.parse().unwrap()]));
    assert_eq!(allowed(&[]).unwrap(), None);
    assert_eq!(allowed(&["--obey", &peer]).unwrap(), only);
    assert_eq!(allowed(&["--role", "head", "--accept", &peer]).unwrap(), only);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heads.txt");
    let file = format!("@{}", path.display());
    assert!(allowed(&["--obey", &file]).unwrap_err().contains("heads.txt"), "there is no file");
    fs::write(&path, "# none yet\n\n").unwrap();
    assert_eq!(allowed(&["--obey", &file]).unwrap(), Some(BTreeSet::new()));
    fs::write(&path, format!("# ours\n{peer}\n")).unwrap();
    assert_eq!(allowed(&["--obey", &file]).unwrap(), only);
    fs::write(&path, "\n12D3KooWshort\n").unwrap();
    assert!(allowed(&["--obey", &file]).unwrap_err().contains("heads.txt:2"));
    for unlike_file in ["@-", "@/dev/null"] {
        let flag = unlike_file.parse::<allowed_peers::AllowedPeer>();
        let read = flag.and_then(|flag| allowed_peers::read(&[flag]).map_err(|it| it.to_string()));
        assert!(read.unwrap_err().contains("file"), "{unlike_file} cannot be read again");
    }
    assert!(allowed(&["--accept", &peer]).unwrap_err().contains("--obey"));
    assert!(allowed(&["--role", "head", "--obey", &peer]).unwrap_err().contains("--accept"));
}

#[test]
fn external_runtime_is_configured_by_directory_and_program_name() {
    let (_folder, state) = state();
    let external = |line: &[&str]| execution(&node(line).runs, &state).unwrap().external;
    let runtime = |program: &str, variables: &[&str]| {
        let variables = variables.iter().map(|&name| name.to_owned()).collect();
        Some(ExternalRuntime { program: program.into(), variables })
    };
    assert_eq!(external(&[]), None);
    assert_eq!(external(&["--runtime-path", "/opt"]), runtime("/opt/bls-runtime", &[]));
    let named = ["--runtime-path", "/opt", "--runtime-cli", "other", "--runtime-env", "COLOR,SIZE"];
    assert_eq!(external(&named), runtime("/opt/other", &["COLOR", "SIZE"]));
}

#[test]
fn limit_options_are_in_seconds_and_kilobytes() {
    assert_eq!(limits(&node(&[]).runs), LIMITS_DEFAULT);
    let limits = limits(&node(&["--run-limit", "3", "--memory-limit", "2048"]).runs);
    assert_eq!((limits.wall, limits.memory_bytes), (Duration::from_secs(3), 2 * 1024 * 1024));
}

#[test]
fn gateways_can_be_replaced_or_disabled() {
    let gateways = |line: &[&str]| sources(node(line).functions).gateways.len();
    assert_eq!(gateways(&[]), 3);
    assert_eq!(gateways(&["--gateways", "http://127.0.0.1:1"]), 1);
    assert_eq!(gateways(&["--gateways", "none"]), 0);
}

#[test]
fn state_directory_of_a_running_node_is_rejected() {
    let (folder, state) = state();
    let db = folder.path().to_str().unwrap();
    let again = NodeState::choose(node(&["--db", db]).state, false, Identity::random().peer_id());
    assert!(again.unwrap_err().to_string().contains("--db"));
    assert_eq!(state.functions, folder.path().join("functions"));
    drop(state);
    let functions = folder.path().join("own");
    let f = functions.to_str().unwrap();
    let own = ["--db", db, "--peer-db", "/p", "--function-db", f, "--workspace", "/w"];
    let choose = || NodeState::choose(node(&own).state, false, Identity::random().peer_id());
    let state = choose().unwrap();
    assert_eq!([&state.peers, &state.functions, &state.workspace], ["/p", f, "/w"].map(Path::new));
    assert!(choose().unwrap_err().to_string().contains("--function-db"));
}

#[test]
fn unsupported_options_are_reported() {
    let n_warnings = |line: &[&str]| node(line).unused.warnings().count();
    assert_eq!(n_warnings(&["--cpu-percentage-limit", "1.0", "--enable-metrics"]), 0);
    assert_eq!(
        n_warnings(&["--cpu-percentage-limit", "0.5", "--attributes", "--enable-tracing"]),
        3
    );
    assert_eq!(n_warnings(&["--must-reach-boot-nodes"]), 1);
}
