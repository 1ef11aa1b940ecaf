//! `triptych function` with a cluster, and with the function store of this machine.

use model::function::FunctionId;
use serde_json::{Value, json};

use crate::support::cluster::Node;
use crate::support::command::{Home, demo};
use crate::support::server;
use crate::support::up::Up;

/// The smallest module, which cannot be run, since it has no start function.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Writes `files` to a home directory, adds `name` and checks that the only line of output is the
/// expected id.
#[track_caller]
fn check_added(name: &str, files: &[(&str, &[u8])], want: &str) {
    let home = Home::new();
    for (path, content) in files {
        home.write(path, content);
    }
    assert_eq!(home.run_ok(&["function", "add", name]), format!("{want}\n"));
    let listed = home.run_ok(&["function", "list"]);
    assert!(listed.starts_with(want) && listed.lines().count() == 1, "{listed}");
}

/// Returns pseudorandom bytes that begin like a module.
fn content(seed: u32, n_bytes: usize) -> Vec<u8> {
    let mut x = seed;
    let mut next = || {
        x = x.wrapping_mul(1_103_515_245).wrapping_add(12345);
        x.to_be_bytes()[1]
    };
    let bytes: Vec<u8> = (0..n_bytes).map(|_| next()).collect();
    [MODULE, bytes.get(MODULE.len()..).unwrap()].concat()
}

/// The ids were computed by `ipfs-unixfs-importer` (npm), with `cidVersion` 1 and `rawLeaves`.
#[test]
fn add_command_prints_only_the_id_that_ipfs_tools_compute() {
    let module = "bafkreieturf3xfwhkeqy4taa2r46jqkdlajcuoe2zsqwebnr4tinyx4uoy";
    check_added("greeting.wasm", &[("greeting.wasm", MODULE)], module);
    let folder = "bafybeift75ow34lb4f5rxx4jrx2f3qyxxrkaw5ycepgji4ksikmqxii44i";
    let files: [(&str, &[u8]); 2] =
        [("greeting/greeting.wasm", MODULE), ("greeting/data/names.txt", b"Ada\nGrace\n")];
    check_added("greeting", &files, folder);
    let of_blocks = "bafybeiefgn7sz7g7ta5jmnrwdw4zwr26dvwjpi2nnksi46xzsujqqxy6km";
    check_added("big.wasm", &[("big.wasm", &content(307_200, 300 * 1024))], of_blocks);
}

#[test]
fn stored_functions_are_listed_shown_and_removed() {
    let home = Home::new();
    home.write("greeting/greeting.wasm", MODULE);
    home.write("greeting/data/names.txt", b"Ada\n");
    let added = home.run(&["function", "add", "greeting", "--name", "hi"]);
    let id = added.out.trim().to_owned();
    // The output names the directory.
    assert!(added.err.contains("added hi to the function store"), "{added:?}");
    assert!(added.err.contains("functions"), "{added:?}");

    let listed: Value =
        serde_json::from_str(&home.run_ok(&["function", "list", "--json"])).unwrap();
    let function = json!({"name": "hi", "function_id": id, "method": "greeting.wasm", "bytes": 12});
    assert_eq!(listed, json!({"functions": [function]}));
    let shown = home.run_ok(&["function", "show", &id]);
    for want in ["name    hi\n", "data/names.txt\n", "greeting.wasm  runs\n"] {
        assert!(shown.contains(want), "`{want}` is in {shown}");
    }

    home.run_ok(&["function", "remove", &id]);
    for command in ["show", "remove", "run"] {
        let why = home.run_err(&["function", command, &id]);
        assert!(why.contains(&format!("no function {id} in the function store")), "{why}");
    }
    let none = home.run(&["function", "list"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{none:?}");
    assert!(none.err.contains("no functions"), "{none:?}");
}

#[test]
fn simultaneous_function_commands_wait_for_each_other() {
    let home = Home::new();
    let paths: Vec<String> = (0..6_u8)
        .map(|n| home.write(&format!("m{n}.wasm"), &[MODULE, &[0, 2, 1, n]].concat()))
        .collect();
    std::thread::scope(|threads| {
        for path in &paths {
            threads.spawn(|| home.run_ok(&["function", "add", path]));
        }
    });
    assert_eq!(home.run_ok(&["function", "list"]).lines().count(), paths.len());
}

#[test]
fn adding_an_invalid_function_is_rejected() {
    let home = Home::new();
    home.write("page.html", b"<html>");
    home.write("empty/page.html", b"<html>");
    let cases = [
        ("page.html", "page.html is not a WebAssembly module"),
        ("empty", "no WebAssembly module among 1 files"),
        ("nowhere.wasm", "nowhere.wasm"),
    ];
    for (path, want) in cases {
        let why = home.run_err(&["function", "add", path]);
        assert!(why.contains(want), "{path}: {why}");
    }
    assert_eq!(home.run_ok(&["function", "list"]), "");
}

#[tokio::test]
async fn function_is_added_to_a_cluster_executed_and_removed() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_HEAD", up.text("head"));
    // A module that no other test runs, since an empty custom section is appended.
    let mut module = std::fs::read(demo("hello.wasm")).unwrap();
    module.extend([0, 5, 1, b'x', b'c', b'l', b'i']);
    let path = home.write("own.wasm", &module);
    let id = FunctionId::from_module(&module).to_string();
    assert_eq!(home.run_ok(&["function", "add", &path]), format!("{id}\n"));
    let listed = home.run_ok(&["function", "list"]);
    assert!(listed.lines().any(|line| line.starts_with(&id) && line.ends_with("own")), "{listed}");

    let all =
        home.run_ok(&["function", "run", &id, "--nodes", "3", "--env", "COLOR=blue", "--", "a"]);
    for want in [
        "code 200, request ",
        "result 1 of 1: 3 of 3 nodes (100.0 %), exit code 0\n",
        "standard output:\n  Hello from WebAssembly\n  argument 1: a\n",
        "  environment: COLOR=blue\n",
        "standard error: none\n",
    ] {
        assert!(all.contains(want), "`{want}` is in {all}");
    }
    for peer in up.workers(None) {
        assert!(all.contains(&format!("node {peer}\n")), "{peer} is in {all}");
    }

    let reply = home.run_with(&["function", "run", &id, "--json", "--stdin", "-"], b"rows");
    let reply: Value = serde_json::from_str(&reply.out).unwrap();
    assert_eq!(reply["code"], "200", "{reply}");
    let stdout = reply["results"][0]["result"]["stdout"].as_str().unwrap();
    assert!(stdout.contains("rows\n"), "{stdout}");

    let removed = home.run(&["function", "remove", &id]);
    assert!(removed.err.contains(&format!("the cluster of {}", up.text("head"))), "{removed:?}");
    let why = home.run_err(&["function", "show", &id]);
    assert!(why.contains(&format!("no function {id} in the cluster of")), "{why}");
}

#[tokio::test]
async fn local_module_runs_on_the_cluster_by_its_path() {
    let up = Up::shared();
    let home = Home::new();
    let mut module = std::fs::read(demo("hello.wasm")).unwrap();
    module.extend([0, 6, 1, b'x', b'p', b'a', b't', b'h']);
    let path = home.write("by path.wasm", &module);
    let arguments = ["function", "run", &path, "--head", up.text("head"), "--nodes", "2", "--raw"];
    assert_eq!(home.run_ok(&arguments), "Hello from WebAssembly\n");
}

#[tokio::test]
async fn failed_run_prints_the_reason_and_exits_with_1() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_HEAD", up.text("head"));
    let (hello, _) = up.function("hello");
    let too_many =
        ["function", "run", hello, "--subgroup", "gpu", "--nodes", "3", "--timeout", "1"];
    let why = home.run_err(&too_many);
    assert!(why.contains("code 408, "), "{why}");
    let json = home.run(&[&too_many[..], &["--json"]].concat());
    assert_eq!(json.code, 1, "{json:?}");
    let reply: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(reply["code"], "408");

    let unknown = FunctionId::from_module(b"nobody has this").to_string();
    let why = home.run_err(&["function", "run", &unknown]);
    assert!(why.contains("--method"), "{why}");
    let why = home.run_err(&["function", "run", "no-such-file.wasm"]);
    assert!(why.contains("neither a content id (CID) nor an existing path"), "{why}");
}

#[tokio::test]
async fn execution_is_started_and_its_result_fetched_later() {
    let up = Up::shared();
    let home = Home::new().with("TRIPTYCH_HEAD", up.text("head"));
    let (hello, _) = up.function("hello");
    let id =
        home.run_ok(&["function", "run", hello, "--nodes", "all", "--timeout", "5", "--async"]);
    let id = id.trim();
    let result = home.run_ok(&["function", "result", id, "--wait"]);
    assert!(result.starts_with(&format!("code 200, request {id}, 3 nodes\n")), "{result}");
    let canceled = home.run_ok(&["function", "cancel", id]);
    assert_eq!(canceled, format!("execution {id} is done\n"));
    let why = home.run_err(&["function", "result", "00000000-0000-4000-8000-000000000000"]);
    assert!(why.contains("the head has no execution"), "{why}");
}

#[test]
fn token_of_a_head_is_read_from_the_environment() {
    let token = "correct-horse-battery";
    let head = Node::head(&["--rest-token", token]);
    let elsewhere = server::forward_from_elsewhere(&head.rest_api());
    let stranger = Home::new().with("TRIPTYCH_HEAD", &elsewhere);
    let module = stranger.write("m.wasm", MODULE);
    for arguments in [&["function", "add", &module][..], &["function", "list"]] {
        let why = stranger.run_err(arguments);
        assert!(why.contains("401") && why.contains("set TRIPTYCH_REST_TOKEN"), "{why}");
    }
    let wrong =
        Home::new().with("TRIPTYCH_HEAD", &elsewhere).with("TRIPTYCH_REST_TOKEN", "guess-1");
    let why = wrong.run_err(&["function", "add", &module]);
    assert!(!why.contains("guess-1"), "{why}");

    let owner = Home::new().with("TRIPTYCH_HEAD", &elsewhere).with("TRIPTYCH_REST_TOKEN", token);
    let id = owner.run_ok(&["function", "add", &module]);
    assert!(owner.run_ok(&["function", "list"]).starts_with(id.trim()));
    owner.run_ok(&["function", "remove", id.trim()]);
    let near = Home::new().with("TRIPTYCH_HEAD", &head.rest_api());
    let why = near.run_err(&["function", "list"]);
    assert!(
        why.contains("set TRIPTYCH_REST_TOKEN"),
        "programs on this machine need the token, too: {why}"
    );
    near.with("TRIPTYCH_REST_TOKEN", token).run_ok(&["nodes"]);
    let trusting = Node::head(&["--rest-token", token, "--trust-loopback"]);
    Home::new().with("TRIPTYCH_HEAD", &trusting.rest_api()).run_ok(&["nodes"]);
    let none = owner.run(&["function", "list"]);
    assert!(none.out.is_empty() && !none.err.contains(token), "{none:?}");
}
